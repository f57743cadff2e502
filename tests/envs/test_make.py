"""The interface that every task keeps: names, keys, seeds, limits, states."""

import subprocess
import sys

import numpy as np
import pytest

from recon_tf import envs
from recon_tf.common import UserError, load_config

SUITE_SAMPLE = ('dmc_hopper_stand', 'maze_pointmaze', 'metaworld_hammer', 'gym_Hopper-v5')


@pytest.fixture(scope='module', params=[*envs.TASKS, 'gym_HalfCheetah-v5'])
def env(request):
  env = envs.make(request.param)
  yield env
  env.close()


def rollout(env, steps, seed=0):
  rng = np.random.default_rng(seed)
  shape = env.act_space['action'].shape
  return [env.step({'action': rng.uniform(-1, 1, shape)}) for _ in range(steps)]


def assert_same(first, second, skip=()):
  assert first.keys() == second.keys()
  for key in first.keys() - set(skip):
    np.testing.assert_array_equal(first[key], second[key], key)


def test_observation_has_the_promised_form(env):
  obs = env.reset(0)
  assert obs['image'].shape == (64, 64, 3)
  assert obs['image'].dtype == np.uint8
  assert obs['is_first']
  assert not obs['is_last']
  assert obs['reward'] == 0
  vectors = [k for k in obs if not k.startswith(('log_', 'is_')) and k not in ('image', 'reward')]
  assert vectors
  second = env.step({'action': np.zeros(env.act_space['action'].shape)})
  for row in (obs, second):
    assert row.keys() == env.obs_space.keys()
    for key, space in env.obs_space.items():
      assert np.asarray(row[key]).dtype == space.dtype, key
      assert np.asarray(row[key]).shape == space.shape, key
  assert not second['is_first']
  assert env.act_space['action'].low.min() == -1
  assert env.act_space['action'].high.max() == 1
  assert ('log_success' in obs) == env.success_task


def test_same_seed_same_episode_bit_for_bit(env):
  first = [env.reset(5), *rollout(env, 15)]
  # What came before must not matter.
  env.reset(6)
  rollout(env, 7, seed=3)
  second = [env.reset(5), *rollout(env, 15)]
  for x, y in zip(first, second, strict=True):
    assert_same(x, y)


def test_other_seed_other_start(env):
  first, second = env.reset(1), env.reset(2)
  assert any(not np.array_equal(first[k], second[k]) for k in first)


def test_saved_state_continues_bit_for_bit(env):
  env.reset(3)
  before = rollout(env, 12)[-1]
  state = env.get_state()
  assert all(x.dtype == np.float64 for x in state.values())
  expected = rollout(env, 20, seed=1)
  env.reset(4)
  rollout(env, 5, seed=2)
  assert_same(before, env.set_state(state), skip=('reward', 'log_action'))
  for x, y in zip(expected, rollout(env, 20, seed=1), strict=True):
    assert_same(x, y)


def test_actions_are_clipped(env):
  shape = env.act_space['action'].shape
  env.reset(0)
  inside = env.step({'action': np.ones(shape)})
  env.reset(0)
  outside = env.step({'action': np.full(shape, 7.0)})
  assert_same(inside, outside)
  np.testing.assert_array_equal(outside['log_action'], np.ones(shape))


def test_bad_actions_are_refused(env):
  env.reset(0)
  with pytest.raises(UserError, match='shape'):
    env.step({'action': np.zeros(99)})
  with pytest.raises(UserError, match='not finite'):
    env.step({'action': np.full(env.act_space['action'].shape, np.nan)})


@pytest.mark.parametrize('task', SUITE_SAMPLE)
def test_length_render_and_repeat_come_from_config(task):
  config = load_config().update({'env.length': 3, 'env.render': False, 'env.repeat': 2})
  env = envs.make(task, config)
  assert env.length == 3
  obs = env.reset(0)
  assert 'image' not in obs
  assert 'image' not in env.obs_space
  flags = [bool(x['is_last']) for x in rollout(env, 3)]
  assert flags == [False, False, True]
  with pytest.raises(RuntimeError, match='reset'):
    env.step({'action': np.zeros(env.act_space['action'].shape)})


@pytest.mark.parametrize('task', SUITE_SAMPLE)
def test_image_size_comes_from_config(task):
  env = envs.make(task, load_config().update({'env.size': [48, 80]}))
  assert env.reset(0)['image'].shape == (48, 80, 3)
  env.close()


@pytest.mark.parametrize('task', SUITE_SAMPLE[:3])
def test_defaults_without_config_are_those_of_the_config(task):
  first = envs.make(task)
  second = envs.make(task, load_config())
  assert first.length == second.length
  assert first.repeat == second.repeat
  assert_same(first.reset(9), second.reset(9))


def test_unseeded_episodes_follow_env_seed_and_number():
  first, second = envs.make('maze_umaze', seed=1), envs.make('maze_umaze', seed=1)
  starts = [first.reset()['position'] for _ in range(3)]
  second.reset()
  # A seeded episode in between does not count.
  second.reset(0)
  np.testing.assert_array_equal(second.reset()['position'], starts[1])
  assert len({tuple(x) for x in starts}) == 3
  assert tuple(envs.make('maze_umaze', seed=2).reset()['position']) != tuple(starts[0])


def test_lengths_of_the_paper():
  config = load_config().update({'env.render': False})
  lengths = {task: envs.make(task, config).length for task in envs.TASKS}
  assert lengths.pop('maze_umaze') == 300
  assert set(lengths.values()) == {500}


@pytest.mark.parametrize(
  ('task', 'hint'),
  [
    ('dmc_hoper_stand', 'dmc_hopper_stand'),
    ('metaworld_drawer_open', 'metaworld_drawer-open'),
    ('maze_umase', 'maze_umaze'),
    ('mase_umaze', 'maze_umaze'),
    ('gym_Hoper-v5', 'gym_Hopper-v5'),
  ],
)
def test_unknown_task_suggests_the_nearest(task, hint):
  with pytest.raises(UserError, match=f"Did you mean '{hint}'"):
    envs.make(task)


@pytest.mark.parametrize('task', ['', 'dmc', 'nothing', 'maze_'])
def test_nonsense_task_is_refused(task):
  with pytest.raises(UserError, match='task'):
    envs.make(task)


@pytest.mark.parametrize('seed', [-1, 1.5, True])
def test_bad_seed_is_refused(seed):
  with pytest.raises(UserError, match='seed'):
    envs.make('maze_umaze', seed=seed)


@pytest.mark.parametrize('key', ['env.length', 'env.repeat'])
def test_negative_length_and_repeat_are_refused(key):
  with pytest.raises(UserError, match=key):
    envs.make('maze_umaze', load_config().update({key: -1}))


@pytest.mark.parametrize('size', [[64], [64, 4]])
def test_bad_size_is_refused(size):
  with pytest.raises(UserError, match=r'env\.size'):
    envs.make('maze_umaze', load_config().update({'env.size': size}))


def test_tensorflow_is_never_imported_and_nothing_is_printed():
  program = (
    'import sys\n'
    'from recon_tf import envs\n'
    "for task in ('dmc_walker_run', 'maze_umaze', 'metaworld_hammer', 'gym_Hopper-v5'):\n"
    '  env = envs.make(task)\n'
    '  env.reset()\n'
    "envs.perturb(env, 'noise')\n"
    "assert 'tensorflow' not in sys.modules\n"
  )
  done = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True)
  assert done.returncode == 0, done.stderr
  assert done.stdout + done.stderr == ''
