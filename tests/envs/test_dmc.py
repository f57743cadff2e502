"""DMC: the suite's own numbers, seen through our interface."""

import numpy as np
import pytest
from dm_control import suite

from recon_tf.common import UserError, load_config
from recon_tf.envs.dmc import DMC


@pytest.mark.parametrize('task', ['dmc_hopper_stand', 'dmc_walker_run'])
def test_rewards_and_observations_are_the_suites(task):
  env = DMC(task, render=False)
  env.reset(0)
  reference = suite.load(*task.split('_')[1:])
  reference.reset()
  with reference.physics.reset_context():
    reference.physics.data.qpos[:] = env.data.qpos
  rng = np.random.default_rng(0)
  for _ in range(30):
    action = rng.uniform(-1, 1, env.act_space['action'].shape)
    obs = env.step({'action': action})
    steps = [reference.step(action) for _ in range(2)]
    assert obs['reward'] == pytest.approx(sum(x.reward for x in steps), abs=1e-6)
    for key, value in steps[-1].observation.items():
      np.testing.assert_allclose(obs[key], np.reshape(value, -1), atol=1e-4)


def test_keys_and_episode_end():
  env = DMC('dmc_walker_run', render=False, length=4)
  obs = env.reset(0)
  assert {'orientations', 'height', 'velocity'} <= obs.keys()
  assert obs['height'].shape == (1,)
  assert 'log_success' not in obs
  last = [env.step({'action': np.zeros(6)}) for _ in range(4)][-1]
  assert last['is_last']
  # A time limit is no terminal state.
  assert not last['is_terminal']


def test_repeat_keeps_the_simulated_time():
  assert DMC('dmc_walker_run', render=False, repeat=4).length == 250


def test_domains_with_underscores_and_scaled_actions():
  env = DMC('dmc_ball_in_cup_catch', render=False)
  assert env.act_space['action'].shape == (2,)
  env.reset(0)
  env.step({'action': np.array([1.0, -1.0])})
  low, high = env.model.actuator_ctrlrange.T
  np.testing.assert_allclose(env.data.ctrl, [high[0], low[1]])


def test_unknown_camera_is_refused():
  with pytest.raises(UserError, match=r'env\.dmc\.camera'):
    DMC('dmc_walker_run', camera=9)


def test_camera_comes_from_config():
  from recon_tf import envs

  other = envs.make('dmc_walker_run', load_config().update({'env.dmc.camera': 1})).reset(0)
  usual = envs.make('dmc_walker_run').reset(0)
  assert (other['image'] != usual['image']).any()
