"""load_policy on run folders of every method: the evaluated policy, in the environment's units."""

import json
import subprocess
import sys
import time

import numpy as np
import pytest

import recon_tf
from recon_tf.common import UserError, load_config
from recon_tf.common.episodes import save_episode
from recon_tf.common.spaces import FILE
from recon_tf.policy import (
  demonstrations,
  load_policy,
  make_agent,
  policy_of,
  run_config,
  run_score,
)
from tests.helpers import policy_fixtures as fixtures


@pytest.fixture(scope='module', params=fixtures.METHODS)
def run(request, tmp_path_factory):
  folder = tmp_path_factory.mktemp('runs') / request.param
  return fixtures.write_run(folder, 'cpu', 'debug', request.param)


def test_acts_as_evaluations_do(run):
  policy = load_policy(run)
  agent = fixtures.agent_of(run, run_config(run), policy.spaces)
  if policy.info['method'] == 'iqmpc':
    agent.acts.assign(0)  # what its noise depends on
  state = None
  for step, obs in enumerate(fixtures.observations(policy.spaces, 12)):
    batch = {k: np.asarray(v, np.float32)[None] for k, v in obs.items()}
    batch['is_first'] = np.array([step == 0])
    outputs, state = agent.policy(batch, state, 'eval')
    expected = policy.spaces.middle + policy.spaces.half * outputs['action'][0]
    action = policy.act(obs)
    assert (action.shape, action.dtype) == ((2,), np.float64)
    np.testing.assert_allclose(action, expected, atol=1e-5)


def test_batches_are_rows_and_single_rows_begin_anew(run):
  policy, single = load_policy(run), load_policy(run)
  first, second = (fixtures.observations(policy.spaces, 6, seed) for seed in (1, 2))
  expected = [[single.act(x) for x in first], (single.reset(), [single.act(x) for x in second])[1]]
  for t in range(6):
    both = {k: np.stack([first[t][k], second[t][k]]) for k in first[t]}
    np.testing.assert_allclose(policy.act(both), [x[t] for x in expected], atol=1e-5)
  with pytest.raises(UserError, match='2 rows before, 1 now'):
    policy.act(first[0])
  with pytest.raises(UserError, match='there are 2 rows'):
    policy.reset([2])
  policy.reset([1])
  both = {k: np.stack([first[0][k], second[0][k]]) for k in first[0]}
  np.testing.assert_allclose(policy.act(both)[1], expected[1][0], atol=1e-5)


def test_info(run):
  info = load_policy(run).info
  assert (info['task'], info['method'], info['seed']) == ('gym_Robot-v0', run.name, 3)
  assert (info['commit'], info['step']) == ('abc', 60)
  assert info['score'] == {'success': 0.5, 'return': 3.0, 'length': 9.0, 'step': 60, 'episodes': 2}


def test_score_of_what_was_evaluated_later(tmp_path):
  (tmp_path / 'eval').mkdir()
  assert run_score(tmp_path) is None
  found = {'returns': [1.0, 2.0], 'successes': [0.0, 1.0], 'last_successes': [], 'lengths': [3, 5]}
  clean = {'step': 7, 'configurations': {'clean': found}}
  (tmp_path / 'eval' / 'clean.json').write_text(json.dumps(clean))
  expected = {'success': 0.5, 'return': 1.5, 'length': 4.0, 'step': 7, 'episodes': 2}
  assert run_score(tmp_path) == expected


def test_counts_the_demonstrations_that_there_were(tmp_path):
  config = load_config().update(demos=str(tmp_path), demo_episodes=4)
  assert demonstrations(config) == 4  # the folder is elsewhere now, or empty
  rows = {'place': np.zeros((3, 1), np.float32), 'action': np.zeros((3, 1), np.float32)}
  for number, expected in enumerate([1, 2, 3, 4, 4]):
    save_episode(tmp_path, rows, number=number)
    assert demonstrations(config) == expected


@pytest.mark.parametrize('method', ['recon', 'dadac', 'iqmpc'])
def test_images_of_any_size(tmp_path, method):
  run = fixtures.write_run(tmp_path / method, 'cpu', method, image=32)
  policy = load_policy(run)
  for size in (48, 32, 100):
    policy.reset()
    actions = [policy.act(x) for x in fixtures.observations(policy.spaces, 3, size=size)]
    assert np.isfinite(actions).all()
  assert (np.array(actions) >= [-2, 0]).all()
  assert (np.array(actions) <= [4, 1]).all()


def test_runs_without_spaces_say_so(tmp_path):
  run = fixtures.write_run(tmp_path / 'old', 'cpu', 'debug', 'recon')
  (run / FILE).unlink()
  with pytest.raises(UserError, match=r'neither spaces\.json nor collected episodes'):
    load_policy(run)


def test_older_runs_are_read_off_their_episodes(tmp_path):
  run = fixtures.write_run(tmp_path / 'old', 'cpu', 'debug', 'recon')
  new = load_policy(run)
  (run / FILE).unlink()
  rows = {k: np.zeros((3, *v), np.float32) for k, v in new.spaces.observations.items()}
  save_episode(run / 'train_episodes', {**rows, 'action': np.zeros((3, 2), np.float32)})
  old = load_policy(run)
  assert not old.spaces.bounds_known
  obs = fixtures.observations(new.spaces, 1)[0]
  scaled = new.spaces.scaled(new.act(obs))
  np.testing.assert_allclose(old.act(obs), scaled, atol=1e-6)


def test_foreign_folders_are_one_sentence(tmp_path):
  with pytest.raises(UserError, match='holds neither a run'):
    load_policy(tmp_path)
  with pytest.raises(UserError, match="no policy of the gallery called 'nobody'"):
    load_policy('nobody')
  run = fixtures.write_run(tmp_path / 'run', 'cpu', 'debug', 'recon')
  load_config('cpu', 'debug', 'state').update({'rssm.deter': 7}).save(run / 'config.yaml')
  with pytest.raises(UserError, match='does not fit this config'):
    load_policy(run)


def test_loads_without_simulator_and_training_loop(run):
  code = 'import sys, recon_tf; p = recon_tf.load_policy(sys.argv[1]); print(p.info["task"])\n'
  code += 'bad = {"mujoco", "dm_control", "recon_tf.loop", "recon_tf.envs"} & set(sys.modules)\n'
  code += 'assert not bad, bad'
  command = [sys.executable, '-c', code, str(run)]
  result = subprocess.run(command, capture_output=True, text=True, check=False)
  assert result.returncode == 0, result.stderr
  assert result.stderr == ''  # TensorFlow's start-up notes are left out
  assert recon_tf.load_policy is load_policy


def test_fast_at_cpu_size(tmp_path):
  """CPU time of all threads, so that other programs on the machine do not count."""
  policy = load_policy(fixtures.write_run(tmp_path / 'fast', 'cpu', 'recon', image=32))
  times = []
  for obs in fixtures.observations(policy.spaces, 60):
    start = time.process_time()
    policy.act(obs)
    times.append(time.process_time() - start)
  assert np.median(times) < 0.003


def test_fast_at_paper_size():
  """Untrained weights cost the same; planning is not part of it."""
  spaces = fixtures.own_spaces(image=64, source=64)
  policy, times = policy_of(make_agent(load_config('dmc'), spaces), spaces, {}), []
  for obs in fixtures.observations(spaces, 30):
    start = time.process_time()
    policy.act(obs)
    times.append(time.process_time() - start)
  assert np.median(times) < 0.03
