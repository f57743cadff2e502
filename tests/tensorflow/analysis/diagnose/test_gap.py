"""The prediction gap: closed forms of linear models, real lengths, uncertainty, deciles."""

import numpy as np
import pytest
import tensorflow as tf

from recon_tf.analysis.diagnose import gap
from recon_tf.analysis.runs import Run
from recon_tf.common import UserError, load_config, save_episode
from tests.helpers import agent_fixtures as fixtures


def linear_gap(matrix, states, actions, horizon):
  """E_H of the model x' = matrix x + a, whose state is its feature."""
  step = lambda state, action: {'x': state['x'] @ tf.constant(matrix.T) + action}
  return gap.open_loop_gap(step, lambda s: s['x'], {'x': states}, actions, horizon).numpy()


def test_drift_that_the_model_does_not_know():
  """x' = x + a + c against x' = x + a: the error after h steps is h c, whatever was done."""
  rng = np.random.default_rng(0)
  actions = tf.constant(rng.normal(size=(3, 12, 2)))
  drift = np.array([0.3, -0.1])
  states = tf.cumsum(actions + drift, 1)
  found = linear_gap(np.eye(2), states, actions, 4)
  expected = sum(0.99 ** (h - 1) * h**2 * (0.09 + 0.01) / 2 for h in (1, 2, 3, 4))
  assert found.shape == (3, 8)
  np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_linear_gaussian_model_has_the_closed_form():
  """With the true matrix only noise is left: tr(sum of A^k Q A^k') / d, discounted."""
  rng = np.random.default_rng(1)
  matrix = np.array([[0.9, 0.2], [-0.1, 0.7]])
  noise = np.array([[0.5, 0.0], [0.3, 0.2]])
  # The mean of 4,000 rows has a standard error of 1.1 %, that of ten times as many 0.35 %.
  horizon, rows, length = 5, 40_000, 12
  state = np.zeros((rows, 2))
  states = []
  for _ in range(length):
    state = state @ matrix.T + rng.normal(size=(rows, 2)) @ noise.T
    states.append(state)
  states = tf.constant(np.stack(states, 1))
  found = linear_gap(matrix, states, tf.zeros_like(states), horizon)
  expected, covariance = 0.0, np.zeros((2, 2))
  for h in range(1, horizon + 1):
    covariance = matrix @ covariance @ matrix.T + noise @ noise.T
    expected += 0.99 ** (h - 1) * np.trace(covariance) / 2
  assert found.mean() == pytest.approx(expected, rel=0.02)


def episode(length, seed):
  data = fixtures.batch(1, length, seed)
  row = {k: v[0] for k, v in data.items()}
  first = np.arange(length) == 0
  return {**row, 'is_first': first, 'is_last': first[::-1], 'is_terminal': first & False}


@pytest.fixture(scope='module')
def model():
  agent = fixtures.make_agent()
  fixtures.jitter_biases(agent)
  return gap.Model(agent), agent


def test_padding_does_not_matter(model):
  """Episodes of uneven length in one batch have the numbers that each has alone."""
  model, _ = model
  episodes = [episode(9, 0), episode(14, 1), episode(4, 2)]
  together = model.gaps(episodes, 5)
  assert [len(x['gap']) for x in together] == [4, 9, 0]
  for own, found in zip(episodes, together, strict=True):
    (alone,) = model.gaps([own], 5)
    for key in ('gap', 'uncertainty'):
      np.testing.assert_allclose(found[key], alone[key], rtol=1e-4, atol=1e-7)


def test_gap_and_uncertainty_against_numpy(model):
  """From the posterior at t, actions t + 1 and on; U belongs to the start's own transition."""
  model, agent = model
  rssm, data = agent.world_model.rssm, episode(7, 3)
  (post,), (found,) = model.filter([data]), model.gaps([data], 2)
  feature = lambda s: np.concatenate([s['stoch'], s['deter']], -1)
  for t in range(5):
    state, total = {k: post[k][t].astype(np.float64) for k in ('deter', 'stoch')}, 0.0
    for h in (1, 2):
      deter = fixtures.recur(rssm, state, data['action'][t + h])
      means = fixtures.head_means(rssm, deter)
      if h == 1:
        assert found['uncertainty'][t] == pytest.approx(means.std(0).mean(), rel=1e-4)
      state = {'deter': deter, 'stoch': means.mean(0)}
      target = feature({k: post[k][t + h] for k in ('deter', 'stoch')})
      total += 0.99 ** (h - 1) * np.square(feature(state) - target).mean()
    assert found['gap'][t] == pytest.approx(total, rel=1e-3)


def test_belief_is_that_of_the_deployed_policy(model):
  model, agent = model
  data, state = episode(6, 4), None
  (post,) = model.filter([data])
  for t in range(6):
    obs = {k: data[k][t][None] for k in ('position', 'velocity', 'is_first')}
    if state is not None:
      state['action'] = tf.constant(data['action'][t][None])
    _, state = agent.policy(obs, state, 'eval')
    for key in ('deter', 'stoch'):
      np.testing.assert_allclose(state[key][0], post[key][t], rtol=1e-4, atol=1e-5)


def test_deciles_by_hand():
  uncertainty = np.arange(20)[::-1] / 10.0
  found = gap.deciles(uncertainty**2, uncertainty)
  assert found['starts'] == 20
  np.testing.assert_allclose(found['uncertainty'], np.arange(10) / 5 + 0.05)
  pairs = [(0.1 * 2 * i) ** 2 / 2 + (0.1 * (2 * i + 1)) ** 2 / 2 for i in range(10)]
  np.testing.assert_allclose(found['gap'], pairs)
  assert found['rank_correlation'] == pytest.approx(1)
  assert gap.rank_correlation(np.array([1.0, 2, 3, 4]), np.array([2.0, 1, 4, 3])) == pytest.approx(
    0.6
  )
  assert gap.rank_correlation(np.ones(4), np.arange(4)) is None


def test_missing_keys_and_other_agents(model):
  lacking = {k: v for k, v in episode(6, 0).items() if k != 'velocity'}
  with pytest.raises(UserError, match='velocity'):
    model[0].filter([lacking])
  with pytest.raises(UserError, match='no ensemble world model'):
    gap.Model(object())


def test_damaged_replay_files_are_named_and_left(tmp_path, capsys):
  folder = tmp_path / 'train_episodes'
  for number in range(3):
    save_episode(folder, episode(5, number), number=number)
  run = Run(tmp_path, load_config())
  path = run.episodes()[1]
  path.write_bytes(path.read_bytes()[:100])
  before = {x: x.read_bytes() for x in folder.iterdir()}
  assert len(gap.replay_episodes(run)) == 2
  assert path.name in capsys.readouterr().out
  assert before == {x: x.read_bytes() for x in folder.iterdir()}
