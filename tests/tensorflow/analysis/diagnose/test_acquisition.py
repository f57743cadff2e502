"""The acquisition gain: U of fixed anchors under every state of a run, against plain NumPy."""

import shutil
import types

import numpy as np
import pytest

from recon_tf.analysis.diagnose import acquisition
from recon_tf.analysis.diagnose.loaded import Trained
from recon_tf.analysis.runs import Run, anchor_digest
from recon_tf.common import Checkpoint, Milestones, UserError, save_episode
from recon_tf.common.npz import read_npz
from tests.helpers import agent_fixtures as fixtures

STEPS = (0, 30, 80)


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
  """A run with milestones of three steps, whose weights differ, and a newer checkpoint."""
  folder = tmp_path_factory.mktemp('run')
  agent = fixtures.make_agent(eager=True)
  for step in STEPS:
    fixtures.jitter_biases(agent, seed=step)
    Milestones(folder / 'milestones', 1).save(step, agent.weights(), {})
  # The checkpoint is numbered by steps and updates, its dict has the steps alone.
  Checkpoint(folder / 'checkpoints').save(100, agent.state(), {'step': 80})
  fixtures.jitter_biases(agent, seed=1)
  Checkpoint(folder / 'checkpoints').save(125, agent.state(), {'step': 105})
  obs_space, act_space = fixtures.spaces()
  env = types.SimpleNamespace(obs_space=obs_space, act_space=act_space)
  return Trained(Run(folder, fixtures.tiny_config()), agent, {'step': 105}, env)


@pytest.fixture(scope='module')
def folders(tmp_path_factory):
  """Two folders of episodes; their lengths differ."""
  made = [tmp_path_factory.mktemp('anchors') for _ in range(2)]
  for seed, (folder, length) in enumerate(zip(made, (5, 9), strict=True)):
    rows = {k: v[0] for k, v in fixtures.batch(1, length, seed).items()}
    keys = ('position', 'velocity', 'action', 'reward')
    save_episode(folder, {k: rows[k] for k in keys})
  return made


def uncertainty(agent, folder):
  """U of every transition of a folder: belief means in NumPy, one step after the other."""
  (path,) = folder.glob('*.npz')
  data, model, found = read_npz(path), agent.world_model, []
  rssm = model.rssm
  state = {'deter': np.zeros(10), 'stoch': np.zeros(4)}
  for t, action in enumerate(data['action']):
    deter = fixtures.recur(rssm, state, action * (t > 0))
    if t:
      means = fixtures.head_means(rssm, deter)
      found.append(np.mean([np.std(means[:, i]) for i in range(4)]))
    seen = np.concatenate([data['position'][t], data['velocity'][t]])
    inputs = np.concatenate([deter, fixtures.mlp(model.encoder.mlp, seen)])
    hidden = fixtures.elu(fixtures.dense(rssm.obs_in, inputs))
    state = {'deter': deter, 'stoch': fixtures.dense(rssm.obs_out, hidden)[:4]}
  return found


def test_gain_of_milestones_against_numpy(trained, folders):
  agent, newest = trained.agent, trained.agent.state()
  found = acquisition.diagnose(trained, folders)
  assert fixtures.different(agent.state(), newest) == set()
  assert found['steps'] == [0, 30, 80, 105]
  expected = []
  for path in [*acquisition.run_states(trained.run.path)[:3], None]:
    agent.restore_weights(newest if path is None else without_meta(path))
    values = [x for folder in folders for x in uncertainty(agent, folder)]
    expected.append(np.mean(values))
  assert found['anchors'] == len(values) == 4 + 8
  assert len({round(x, 6) for x in expected}) == 4
  np.testing.assert_allclose(found['uncertainty'], expected, rtol=1e-4)
  fall = -np.diff(expected)
  np.testing.assert_allclose(found['interval_gains'], fall, rtol=1e-3)
  rates = [fall[0] / 30, fall[1] / 50, fall[2] / 25]
  np.testing.assert_allclose(found['interval_gains_per_step'], rates, rtol=1e-3)
  assert found['gain'] == pytest.approx(sum(fall), rel=1e-3)
  assert found['gain_per_step'] == pytest.approx(sum(fall) / 105, rel=1e-3)
  assert found['left_out'] == []


def without_meta(path):
  return {k: v for k, v in read_npz(path).items() if k != '__meta__'}


def test_unreadable_milestone_is_named_and_left_out(trained, folders):
  path = trained.run.path / 'milestones' / f'{30:012d}.npz'
  whole = path.read_bytes()
  path.write_bytes(whole[: len(whole) // 2])
  try:
    found = acquisition.diagnose(trained, folders)
  finally:
    path.write_bytes(whole)
  assert found['steps'] == [0, 80, 105]
  assert found['left_out'] == ['milestones/000000000030.npz']
  assert any('000000000030' in x for x in found['left_out'])


def test_anchors_of_another_task_are_refused(trained, folders, tmp_path):
  config = fixtures.tiny_config(task='maze_pointmaze')
  place = tmp_path / 'diagnose' / 'anchors'
  shutil.copytree(folders[0], place)
  config.save(tmp_path / 'config.yaml')
  with pytest.raises(UserError, match=r"--anchors: .* is of task 'maze_pointmaze', not ''"):
    acquisition.diagnose(trained, [place])
  wide = np.zeros((4, 5), np.float32)
  save_episode(tmp_path / 'wide', {'action': wide, 'reward': wide[:, 0], 'position': wide[:, :3]})
  with pytest.raises(UserError, match=r"--anchors: 'action' in .* has not the shape"):
    acquisition.diagnose(trained, [tmp_path / 'wide'])


def test_same_anchors_have_the_same_digest_wherever_they_lie(folders, tmp_path):
  first, second = (next(x.glob('*.npz')) for x in folders)
  copy = tmp_path / 'other.npz'
  copy.write_bytes(first.read_bytes())
  assert anchor_digest([first, second]) == anchor_digest([second, copy])
  assert anchor_digest([first, second]) != anchor_digest([first])


def test_gain_by_hand():
  found = acquisition.gain({300: 0.02, 100: 0.05, 200: 0.04})
  assert found['steps'] == [100, 200, 300]
  assert found['gain'] == pytest.approx(0.03)
  assert found['gain_per_step'] == pytest.approx(0.03 / 200)
  assert found['interval_gains'] == pytest.approx([0.01, 0.02])
  assert found['interval_gains_per_step'] == pytest.approx([1e-4, 2e-4])
  with pytest.raises(UserError, match='--keep_every'):
    acquisition.gain({300: 0.02})
