"""Recoverability: the gate at many horizons, AUROC and calibration by hand, exact restarts."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from recon_tf import envs
from recon_tf.analysis import stats
from recon_tf.analysis.diagnose import episodes as probes
from recon_tf.analysis.diagnose import gap, recoverability
from recon_tf.analysis.regions import Way
from recon_tf.common import Config, UserError, load_config
from recon_tf.demos.make import attempt_seed
from recon_tf.explorer import open_gate, recovery_gate, tail_start
from tests.helpers import agent_fixtures as fixtures

PROTOCOL = pathlib.Path(__file__).parents[3] / 'analysis' / 'paper_protocol.yaml'


@pytest.fixture(scope='module')
def agent():
  made = fixtures.make_agent()
  fixtures.jitter_biases(made)
  return made


@pytest.mark.parametrize('aggregate', ['max', 'mean', 'last'])
def test_gates_of_one_imagination_are_the_explorers(agent, aggregate):
  state = {k: tf.constant(v) for k, v in fixtures.random_state(agent, 6).items()}
  settings = load_config().gate.update(aggregate=aggregate)
  agent.delta.assign(0.45)
  found = recoverability.gates(agent, state, settings)
  assert found.shape == (15, 6)
  for horizon in (1, 2, 5, 7, 15):
    args = (agent.main.policy, state, tf.constant(0.45), settings.update(horizon=horizon))
    expected = recovery_gate(agent.world_model.rssm, agent.disc, *args)
    np.testing.assert_allclose(found[horizon - 1], expected, rtol=1e-3)
  assert found.std() > 0


def test_the_tail_of_short_horizons_leaves_out_the_end_state():
  """D is high in the end state alone: a policy that leaves it does not recover."""
  scores = [tf.constant([x], tf.float64) for x in (0.9, 0.1, 0.2, 0.3)]
  settings = load_config().gate.update(tau=1.0)
  delta = tf.constant(0.5, tf.float64)
  tail = lambda h: scores[tail_start(h, settings) : h + 1]
  found = [open_gate(tail(h), delta, settings).numpy() for h in (1, 2, 3)]
  np.testing.assert_allclose(found, 1 / (1 + np.exp(0.5 - np.array([[0.1], [0.2], [0.3]]))))


def test_horizons_are_the_papers():
  protocol = Config.load(PROTOCOL)['protocol']
  assert protocol['recovery_steps'] == recoverability.STEPS
  assert tuple(protocol['gate_horizons']) == recoverability.SHOWN
  stated = [protocol['gap'][x] for x in ('discount', 'expert_horizon', 'replay_horizon')]
  assert stated == [gap.GAMMA, gap.EXPERT_HORIZON, gap.REPLAY_HORIZON]


def test_gates_keep_apart_what_float32_does_not():
  """D of 0.999 and 1 both open the gate to 1 in float32."""
  scores = [tf.constant([0.999, 1.0], tf.float64)]
  found = open_gate(scores, tf.constant(0.0, tf.float64), load_config().gate).numpy()
  assert np.float32(found[0]) == np.float32(found[1]) == 1
  assert found[0] < found[1] < 1


def test_auroc_by_hand():
  """Of six pairs 0.9 wins three, 0.4 wins one, ties one and loses one."""
  assert stats.auroc(np.array([0.9, 0.4]), np.array([0.5, 0.1, 0.4])) == pytest.approx(4.5 / 6)
  assert recoverability._rounded(stats.auroc(np.array([1.0]), np.array([]))) is None


def test_calibration_by_hand():
  predicted = np.array([0.02, 0.04, 0.55, 0.59, 1.0])
  found = stats.calibration(predicted, np.array([0, 1, 1, 1, 0], bool))
  assert found['count'] == [2, 2, 1]
  np.testing.assert_allclose(found['predicted'], [0.03, 0.57, 1.0])
  np.testing.assert_allclose(found['frequency'], [0.5, 1.0, 0.0])
  assert found['error'] == pytest.approx((2 * 0.47 + 2 * 0.43 + 1 * 1.0) / 5)


def test_a_wider_tube_takes_in_more_by_hand():
  """Four states; with 0.2 the second is inside from the start and the third comes back."""
  distances = np.array([[0.3, 0.14, 0.4, 0.6], [0.05, 0.15, 0.18, 0.5]])
  found = {'start': np.array([0.3, 0.15, 0.4, 0.6]), 'distances': distances}
  gate = np.tile([0.9, 0.1, 0.8, 0.2], (15, 1))
  oracle = -np.tile(distances.min(0), (15, 1))
  narrow = recoverability._in_tube(found, gate, oracle, 0.1)
  assert (narrow['candidates'], narrow['recovered']) == (4, 0.25)
  assert narrow['auroc_5'] == narrow['oracle_15'] == 1
  wide = recoverability._in_tube(found, gate, oracle, 0.2)
  assert (wide['candidates'], wide['recovered']) == (3, pytest.approx(2 / 3))
  assert wide['auroc_15'] == 1
  beyond = recoverability._in_tube(found, gate, oracle, 1.0)
  assert beyond['candidates'] == 0
  assert beyond['recovered'] is beyond['auroc_5'] is None


@pytest.fixture(scope='module')
def maze():
  config = load_config('maze', 'state').update({'env.length': 60, 'env.maze.repeat': 8})
  env = envs.Worker('maze_umaze', config, 3)
  yield env
  env.close()


def recorded(env, attempt, length=24):
  """An episode as the expert's are stored; what it does does not matter here."""
  rng = np.random.default_rng(attempt)
  obs = env.reset(attempt_seed(probes.SEED, attempt))
  rows = [{**obs, 'action': np.zeros(2, np.float32)}]
  for _ in range(length):
    action = rng.uniform(-1, 1, 2).astype(np.float32)
    rows.append({**env.step({'action': action}), 'action': action})
  return {k: np.stack([x[k] for x in rows]) for k in rows[0]}


def test_probes_leave_the_path_and_can_be_restored_exactly(maze):
  # Attempt 1 failed and left no episode.
  episodes = [recorded(maze, 0), recorded(maze, 2)]
  made = probes.make_probes(maze, episodes, each=3)
  assert len(made) == 6
  for number, probe in enumerate(made):
    own = episodes[number // 3]
    left, length = probe.left, len(probe.episode['action'])
    assert length <= left + 1 + probes.STEPS
    np.testing.assert_array_equal(
      probe.episode['position'][: left + 1], own['position'][: left + 1]
    )
    assert len(probe.states) == 4
    assert all(left < row <= left + probes.PUSH for row in probe.states)
  # From a restored state the same actions lead to the same states, bit for bit.
  row = min(made[0].states)
  obs = maze.set_state(made[0].states[row])
  for t in range(row, len(made[0].episode['action'])):
    for key in ('position', 'velocity', 'goal', 'log_position'):
      assert np.asarray(obs[key]).tobytes() == made[0].episode[key][t].tobytes()
    if t + 1 < len(made[0].episode['action']):
      obs = maze.step({'action': made[0].episode['action'][t + 1]})
  again = probes.make_probes(maze, episodes, each=3)
  for first, second in zip(made, again, strict=True):
    for key in first.episode:
      assert first.episode[key].tobytes() == second.episode[key].tobytes()


def test_episodes_of_another_simulator_are_refused(maze):
  episode = recorded(maze, 0)
  moved = {**episode, 'log_position': episode['log_position'] + np.float32(0.01)}
  with pytest.raises(UserError, match='does not repeat'):
    probes.make_probes(maze, [moved])
  with pytest.raises(UserError, match='do not belong'):
    probes.make_probes(maze, [{**episode, 'goal': episode['goal'] + 1}])


class Straight:
  """Always pushes one way, and keeps what it was asked."""

  def __init__(self):
    self.asked = []

  def policy(self, obs, state, mode):
    self.asked.append((obs['position'][0].copy(), mode))
    return {'action': np.array([[1.0, 0.0]], np.float32)}, state


def test_real_steps_start_at_the_saved_state(maze):
  (probe, *_) = probes.make_probes(maze, [recorded(maze, 0)], each=1)
  row = max(probe.states)
  belief = {k: np.zeros((len(probe.episode['action']), 3), np.float32) for k in ('deter', 'stoch')}
  here = probe.episode['log_position'][row].astype(np.float64)
  agent = Straight()
  way = Way([{'log_position': here[None]}])
  found = recoverability.real_distances(agent, maze, probe, row, belief, way)
  assert len(found) == len(agent.asked) == recoverability.STEPS
  assert agent.asked[0][0].tobytes() == probe.episode['position'][row].tobytes()
  assert {x[1] for x in agent.asked} == {'eval'}
  maze.set_state(probe.states[row])
  for step in range(3):
    obs = maze.step({'action': np.array([1.0, 0.0], np.float32)})
    assert found[step] == pytest.approx(np.linalg.norm(obs['log_position'] - here), abs=1e-6)
