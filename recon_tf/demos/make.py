"""Rolls out the expert of a task and keeps its episodes."""

import pathlib

import numpy as np
import tqdm

from recon_tf import envs, experts
from recon_tf.common.config import Config, load_config
from recon_tf.common.episodes import Episode, save_episode
from recon_tf.common.errors import UserError
from recon_tf.common.files import remove_temporary, sole_writer
from recon_tf.demos.meta import add_episode, env_settings, new_meta, resume_meta, write_meta


def make_demos(
  task: str,
  episodes: int,
  outdir: str | pathlib.Path,
  config: Config | None = None,
  seed: int = 0,
  progress: bool = True,
) -> dict:
  """Fills a folder up to a number of episodes, only successful ones where that is defined."""
  config = config or load_config()
  folder = pathlib.Path(outdir)
  if episodes < 1:
    raise UserError(f'--episodes is {episodes}; at least 1 is needed.')
  settings = env_settings(task, config)
  meta = _full_meta(folder, task, settings, episodes)
  if meta is None:
    with sole_writer(folder):
      # Whoever held the folder before may have filled it.
      meta = _full_meta(folder, task, settings, episodes)
      if meta is None:
        return _make(task, episodes, folder, config, seed, progress)
  print(f"'{folder}' holds {len(meta['returns'])} demonstrations of {task} already.")
  return meta


def _full_meta(folder: pathlib.Path, task: str, settings: dict, episodes: int) -> dict | None:
  meta = resume_meta(folder, task, settings)
  return meta if meta and len(meta['returns']) >= episodes else None


def _make(task, episodes, folder, config, seed, progress) -> dict:
  settings = env_settings(task, config)
  meta = resume_meta(folder, task, settings)
  if meta and meta['seed'] is None:
    raise UserError(
      f"The folder '{folder}' holds {len(meta['returns'])} imported demonstrations, fewer than "
      f'{episodes}; ask for fewer or choose another folder.'
    )
  seed = meta['seed'] if meta else seed  # a folder is continued with the seed it began with
  try:
    env = envs.make(task, config, seed)
  except OSError as error:  # the mazes write a temporary file, and that disk may be full
    raise UserError(f"Cannot start the environment of '{task}': {error}.") from error
  try:
    expert = experts.make_expert(task, env)
    meta = meta or new_meta(task, experts.NAMES[task.partition('_')[0]], seed, settings)
    write_meta(folder, meta)  # an unwritable folder shows before the work, not after it
    remove_temporary(folder)
    return _fill(env, expert, folder, meta, episodes, seed, progress)
  finally:
    env.close()


def rollout(env, expert: experts.Expert, seed: int) -> Episode:
  """One episode as arrays; row t holds the observation and the action that led to it."""
  obs = env.reset(seed=seed)
  action = np.zeros(env.act_space['action'].shape, np.float32)
  rows = [{**obs, 'action': action}]
  while not obs['is_last']:
    action = expert(obs)
    obs = env.step({'action': action})
    rows.append({**obs, 'action': action})
  return {k: np.stack([row[k] for row in rows]) for k in rows[0]}


def attempt_seed(seed: int, attempt: int) -> int:
  """The seed of one attempt, so that a continued folder equals an uninterrupted one."""
  return int(np.random.SeedSequence([seed, attempt]).generate_state(1)[0])


def _fill(env, expert, folder, meta, episodes, seed, progress) -> dict:
  limit = meta['rejected'] + 20 + episodes
  done = len(meta['returns'])
  with tqdm.tqdm(total=episodes, initial=done, desc=env.task, disable=not progress) as bar:
    while done < episodes:
      episode = rollout(env, expert, attempt_seed(seed, done + meta['rejected']))
      if env.success_task and not episode['log_success'].max() > 0:
        meta = {**meta, 'rejected': meta['rejected'] + 1}
      else:
        save_episode(folder, episode, compress=True, number=done)
        meta = add_episode(meta, episode)
        done += 1
        bar.update()
      bar.set_postfix(rejected=meta['rejected'])
      write_meta(folder, meta)
      if meta['rejected'] >= limit and done < episodes:
        raise UserError(
          f"The expert of '{env.task}' failed {meta['rejected']} times and succeeded {done} times; "
          'give the episode more steps (--env.length) or ease the task.'
        )
  return meta
