"""Environments; imports without TensorFlow, which must not share a process with Mesa."""

import importlib
import os
import sys

from recon_tf.common.errors import UserError, nearest

# MuJoCo and dm_control read the variable when they are imported.
if sys.platform == 'linux' and not os.environ.get('MUJOCO_GL'):
  os.environ['MUJOCO_GL'] = 'egl'

# The tasks of the paper; suites know more, and gym_<id> is any registered environment.
TASKS = (
  'dmc_hopper_stand',
  'dmc_walker_run',
  'maze_umaze',
  'maze_pointmaze',
  'metaworld_drawer-open',
  'metaworld_faucet-close',
  'metaworld_handle-press',
  'metaworld_hammer',
)
SUITES = {
  'dmc': ('recon_tf.envs.dmc', 'DMC'),
  'maze': ('recon_tf.envs.maze', 'Maze'),
  'metaworld': ('recon_tf.envs.metaworld', 'MetaWorld'),
  'gym': ('recon_tf.envs.gym', 'Gym'),
}
# Loaded on first use, so that a process pays only for what it needs.
LAZY = {
  'Worker': 'recon_tf.envs.process',
  'WorkerCrashed': 'recon_tf.common.errors',
  'perturb': 'recon_tf.envs.perturbations',
  'Environment': 'recon_tf.envs.base',
}
__all__ = ['TASKS', 'Environment', 'Worker', 'WorkerCrashed', 'make', 'perturb']


def make(task: str, config=None, seed: int = 0):
  """The environment of a task; config is a whole Config (its env part is used) or None."""
  suite, _, name = task.partition('_')
  if suite not in SUITES or not name:
    hint = nearest(task, TASKS) or f' Known tasks: {", ".join(TASKS)}, gym_<id>.'
    raise UserError(f"task: unknown task '{task}'.{hint}")
  module, attribute = SUITES[suite]
  cls = getattr(importlib.import_module(module), attribute)
  return cls(task, seed, **_options(suite, config))


def _options(suite: str, config) -> dict:
  """Keyword arguments of a suite: the shared keys of config.env and its own."""
  if config is None:
    return {}
  env = config.env
  size = tuple(int(x) for x in env.size)
  if len(size) != 2 or min(size) < 8:
    raise UserError(f'env.size: needs height and width of at least 8 pixels, not {list(env.size)}.')
  shared = {'size': size, 'render': env.render, 'repeat': env.repeat, 'length': env.length}
  own = dict(getattr(env, suite)) if suite in env else {}
  own['repeat'] = env.repeat or own.get('repeat', 0)
  return {**shared, **own}


def __getattr__(name: str):
  if name in LAZY:
    return getattr(importlib.import_module(LAZY[name]), name)
  raise AttributeError(f"module 'recon_tf.envs' has no attribute '{name}'")
