"""meta.json of a demonstration folder: where its episodes come from."""

import importlib.metadata
import pathlib

from recon_tf.common.config import Config
from recon_tf.common.episodes import list_files, load_episode, load_meta
from recon_tf.common.errors import UserError
from recon_tf.common.files import write_json

PACKAGES = ('mujoco', 'dm_control', 'metaworld', 'gymnasium', 'gymnasium-robotics', 'numpy')
# Settings that change what a demonstration shows; other keys of env may differ freely.
SETTINGS = ('size', 'render', 'repeat', 'length')


def env_settings(task: str, config: Config) -> dict:
  """The env keys that shape this task's episodes, under their dotted names."""
  suite = task.partition('_')[0]
  flat = config.env.flat
  keys = [k for k in flat if k in SETTINGS or k.startswith(f'{suite}.')]
  as_json = lambda x: list(x) if isinstance(x, tuple) else x
  return {f'env.{k}': as_json(flat[k]) for k in keys}


def new_meta(task: str, expert: str, seed: int | None, settings: dict) -> dict:
  """A meta.json without episodes."""
  versions = {x: importlib.metadata.version(x) for x in PACKAGES}
  meta = {'task': task, 'expert': expert, 'seed': seed, 'env': settings, 'versions': versions}
  return {**meta, 'returns': [], 'successes': [], 'rejected': 0}


def add_episode(meta: dict, episode: dict) -> dict:
  """Meta with this episode's return, and its success where the task has one."""
  meta = {**meta, 'returns': [*meta['returns'], round(float(episode['reward'].sum()), 4)]}
  if 'log_success' in episode:
    success = bool(episode['log_success'].max() > 0)
    meta['successes'] = [*meta['successes'], success]
  return meta


def resume_meta(folder: pathlib.Path, task: str, settings: dict) -> dict | None:
  """Meta of a folder made for this task and these settings, None if it holds nothing."""
  meta = load_meta(folder) if folder.is_dir() else None
  files = list_files(folder) if folder.is_dir() else []
  if meta is None:
    if files:
      raise UserError(
        f"The folder '{folder}' holds episodes without a meta.json, so their task is unknown; "
        'choose another folder.'
      )
    return None
  meta = {'seed': None, 'returns': [], 'successes': [], 'rejected': 0, **meta}
  if meta.get('task') != task:
    raise UserError(
      f"The folder '{folder}' holds demonstrations of '{meta.get('task')}', not of '{task}'; "
      'choose another folder.'
    )
  for key, value in settings.items():
    made = meta.get('env', {}).get(key, value)
    if made != value:
      raise UserError(
        f"The demonstrations in '{folder}' were made with {key} {made}, not {value}; "
        'choose another folder or the same setting.'
      )
  if len(files) != len(meta['returns']):  # stopped between an episode and its entry
    meta = {**meta, 'returns': [], 'successes': []}
    for path in files:
      meta = add_episode(meta, load_episode(path, None))
  return meta


def write_meta(folder: pathlib.Path, meta: dict) -> None:
  """Writes meta.json whole or not at all."""
  write_json(folder / 'meta.json', meta, indent=2)
