"""Meta-World's scripted policies on our environments."""

import numpy as np
import pytest

from recon_tf import envs
from recon_tf.common import load_config
from recon_tf.experts import make_expert

TASKS = [x for x in envs.TASKS if x.startswith('metaworld_')]


@pytest.mark.parametrize('task', TASKS)
def test_solves_the_task_with_actions_inside_the_bounds(task):
  env = envs.make(task, load_config(env={'render': False}))
  expert = make_expert(task, env)
  solved = 0
  for seed in range(100, 105):
    obs = env.reset(seed=seed)
    while not obs['is_last'] and not obs['log_success']:
      action = expert(obs)
      assert action.dtype == np.float32
      assert np.abs(action).max() <= 1
      obs = env.step({'action': action})
    solved += int(obs['log_success'])
  assert solved == 5
