"""Demonstrations of one's own: a policy in an environment, kept as a folder to train from."""

import importlib
import os
import pathlib
import sys
from collections.abc import Callable

import numpy as np

from recon_tf.common.episodes import TOLERANCE, Episode, save_episode
from recon_tf.common.errors import UserError
from recon_tf.common.spaces import space_of
from recon_tf.demos.make import attempt_seed, sole_writer
from recon_tf.demos.meta import add_episode, new_meta, resume_meta, write_meta


def record(
  env,
  policy: Callable,
  episodes: int,
  outdir: str | pathlib.Path,
  seed: int = 0,
  size: tuple[int, int] = (64, 64),
) -> pathlib.Path:
  """Runs policy(observation) -> action and keeps whole episodes; failed ones are left out.

  env is a Gymnasium environment, or one of recon_tf.envs; observations and actions are its own.
  What counts as failed is what the environment says in info['success'] or info['is_success'].
  size: of the images of a Gymnasium environment, which should be that of training (env.size).
  """
  if episodes < 1:
    raise UserError(f'episodes is {episodes}; at least 1 is needed.')
  env, folder = wrapped(env, size), pathlib.Path(outdir)
  spaces = space_of(env)
  with sole_writer(folder):
    meta = resume_meta(folder, env.task, {})
    meta = meta or {**new_meta(env.task, 'recorded', seed, {}), 'spaces': spaces.to_dict()}
    write_meta(folder, meta)
    limit = meta['rejected'] + 20 + episodes
    while len(meta['returns']) < episodes:
      done = len(meta['returns'])
      episode = rollout(env, policy, spaces, attempt_seed(seed, done + meta['rejected']))
      if env.success_task and not episode['log_success'].max() > 0:
        meta = {**meta, 'rejected': meta['rejected'] + 1}
      else:
        save_episode(folder, episode, compress=True, number=done)
        meta = add_episode(meta, episode)
      write_meta(folder, meta)
      if meta['rejected'] >= limit:
        raise UserError(f'the policy failed {meta["rejected"]} times and succeeded {done} times.')
  return folder


def wrapped(env, size: tuple[int, int] = (64, 64)):
  """Our interface around a Gymnasium environment, with the images that it renders or observes."""
  if hasattr(env, 'obs_space'):
    return env
  from recon_tf.envs.gym import Gym, has_images

  name = env.spec.id if getattr(env, 'spec', None) else type(env).__name__
  drawn = getattr(env, 'render_mode', None) == 'rgb_array'
  space = getattr(env, 'observation_space', None)
  return Gym(f'gym_{name}', env=env, size=size, render=drawn or has_images(space))


def rollout(env, policy: Callable, spaces, seed: int) -> Episode:
  """One episode as arrays; row t holds the observation and the action that led to it."""
  obs = env.reset(seed=seed)
  rows = [{**obs, 'action': np.zeros(len(spaces.low), np.float32)}]
  while not obs['is_last']:
    action = spaces.scaled(policy(getattr(env, 'given', obs)))
    check_bounds(env, action)
    action = np.clip(action, -1, 1)
    obs = env.step({'action': action})
    rows.append({**obs, 'action': action})
  return {k: np.stack([row[k] for row in rows]) for k in rows[0]}


def check_bounds(env, action: np.ndarray) -> None:
  """Beyond its bounds an environment clips, and so do we; where it has none, that is not meant."""
  free = np.abs(action[getattr(env, 'unbounded', np.zeros(len(action), bool))])
  if (free > 1 + TOLERANCE).any():
    raise UserError(
      f'{env.task}: the policy gives {free.max():g} where action_space has no bounds, and actions '
      'there are learned from -1 to 1; give it finite bounds.'
    )


def find_function(name: str) -> Callable:
  """A policy by MODULE:FUNCTION; the working folder is searched too."""
  module, _, function = name.partition(':')
  if os.getcwd() not in sys.path:
    sys.path.append(os.getcwd())
  try:
    return getattr(importlib.import_module(module), function)
  except ModuleNotFoundError as error:
    raise UserError(f"--record: there is no module '{error.name}' here.") from error
  except (AttributeError, ValueError) as error:
    raise UserError(
      f"--record: '{name}' names no function; write MODULE:FUNCTION, such as my_robot:expert."
    ) from error
