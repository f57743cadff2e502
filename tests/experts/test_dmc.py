"""The NumPy actor of the DMC experts, and the shipped weights."""

import types

import numpy as np
import pytest

from recon_tf import envs
from recon_tf.common import UserError, load_config
from recon_tf.demos.make import rollout
from recon_tf.experts import dmc, make_expert

SCORES = {'dmc_hopper_stand': 850, 'dmc_walker_run': 600}


def save_actor(folder, task, inputs, actions):
  rng = np.random.default_rng(0)
  sizes = [(inputs, 16), (16,), (16, 16), (16,), (16, 2 * actions), (2 * actions,)]
  arrays = [rng.normal(0, 0.2, x).astype(np.float32) for x in sizes]
  np.savez(folder / f'{task}.npz', **{f'actor_{i}': x for i, x in enumerate(arrays)})
  return arrays


def test_mode_is_the_tanh_of_a_two_layer_network(tmp_path):
  arrays = save_actor(tmp_path, 'task', 3, 2)
  params = dmc.load_weights(tmp_path / 'task.npz')
  obs = np.array([0.3, -1.0, 2.0], np.float32)
  hidden = np.maximum(obs @ arrays[0] + arrays[1], 0)
  hidden = np.maximum(hidden @ arrays[2] + arrays[3], 0)
  expected = np.tanh((hidden @ arrays[4] + arrays[5])[:2])
  np.testing.assert_allclose(dmc.act(params, obs, None), expected, rtol=1e-6)
  samples = [dmc.act(params, obs, np.random.default_rng(i)) for i in range(2)]
  assert not np.allclose(samples[0], samples[1])


def test_state_is_the_suites_observation_in_sorted_order(tmp_path):
  env = envs.make('dmc_hopper_stand', load_config(env={'render': False}))
  size = sum(env.obs_space[k].shape[0] for k in ('position', 'touch', 'velocity'))
  params = save_actor(tmp_path, 'dmc_hopper_stand', size, env.act_space['action'].shape[0])
  expert = dmc.DMCExpert(env, tmp_path)
  obs = env.reset(seed=1)
  state = np.concatenate([obs['position'], obs['touch'], obs['velocity']])
  np.testing.assert_allclose(expert(obs), dmc.act(params, state, None), rtol=1e-6)


def test_bad_weights_are_refused(tmp_path):
  env = envs.make('dmc_hopper_stand', load_config(env={'render': False}))
  with pytest.raises(UserError, match='train_expert'):
    dmc.DMCExpert(env, tmp_path)
  save_actor(tmp_path, 'dmc_hopper_stand', 3, 4)
  with pytest.raises(UserError, match='expect 3 state entries'):
    dmc.DMCExpert(env, tmp_path)


def test_task_without_expert_is_refused():
  with pytest.raises(UserError, match=r'no expert .* --import-npz'):
    make_expert('gym_Pendulum-v1', types.SimpleNamespace())


@pytest.mark.slow
@pytest.mark.parametrize('task', sorted(SCORES))
def test_shipped_actor_reaches_its_score(task):
  env = envs.make(task, load_config(env={'render': False}))
  expert = make_expert(task, env)
  returns = [rollout(env, expert, seed)['reward'].sum() for seed in range(40_000, 40_050)]
  assert np.mean(returns) >= SCORES[task]
