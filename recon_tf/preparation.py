"""What a run needs before its first update: a device, a folder of its own, demonstrations."""

import os
import pathlib

import numpy as np
import tensorflow as tf

from recon_tf import demos
from recon_tf.common import Config, Replay, UserError
from recon_tf.common.episodes import load_folder, load_meta
from recon_tf.common.files import read_lines, remove_temporary, warn_once
from recon_tf.common.folders import check_settings


def prepare_tensorflow(config: Config) -> None:
  """Threads, determinism, and one line on the device."""
  if config.threads:
    tf.config.threading.set_intra_op_parallelism_threads(config.threads)
  if config.deterministic:
    tf.config.experimental.enable_op_determinism()
    tf.random.set_seed(config.seed)
  gpus = tf.config.list_physical_devices('GPU')
  for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
  where = f'{len(gpus)} GPU(s)' if gpus else f'the CPU ({os.cpu_count()} cores), no GPU was found'
  print(f'TensorFlow {tf.__version__} runs on {where}.')


def prepare_folder(config: Config, folder: pathlib.Path) -> None:
  """Saves the config; a folder that holds a run with other settings is refused."""
  try:
    folder.mkdir(parents=True, exist_ok=True)
  except OSError as error:
    raise UserError(f"Cannot write to '{folder}': {error.strerror}; set --logdir.") from error
  check_settings(config, folder)
  for place in (folder, *(folder / x for x in ('eval', 'checkpoints', 'milestones'))):
    remove_temporary(place)
  config.save(folder / 'config.yaml')


def check_fresh(folder: pathlib.Path) -> None:
  """A folder without a checkpoint must not hold a run: starting anew would delete its work."""
  kinds = {'episodes': 'train_episodes/*.npz', 'milestones': 'milestones/*.npz'}
  found = {name: len(list(folder.glob(pattern))) for name, pattern in kinds.items()}
  later = [x for x in read_lines(folder / 'metrics.jsonl', {'step': int}) if x['step'] > 0]
  found['lines of metrics'] = len(later)
  for name, count in found.items():
    if count:
      raise UserError(
        f"'{folder}' holds {count} {name} of a run but no checkpoint to go on from; restore its "
        'folder checkpoints from a copy, or remove the run folder to start anew.'
      )


def episode_spec(env) -> dict:
  """What every stored episode of this task holds, key -> (dtype, shape of a row)."""
  spec = {}
  for key, space in {**env.obs_space, **env.act_space}.items():
    dtype = np.dtype(bool if key.startswith('is_') else np.float32)
    if space.dtype == np.uint8 and len(space.shape) == 3:
      dtype = np.dtype(np.uint8)
    if not key.startswith('log_'):
      spec[key] = (dtype, space.shape)
  return spec


def load_demos(config: Config) -> Replay:
  """The demonstrations as a replay in memory, made first if there are none."""
  folder = config.demos
  if config.offline and not folder:
    raise UserError('offline: name the demonstrations with --demos FOLDER.')
  if not folder:
    folder = demos.demo_folder('demos', config.task, config)
    demos.ensure_demos(config.task, config.demo_episodes, folder, config)
  task = (load_meta(folder) or {}).get('task')
  if task and task != config.task:
    warn_once(f"the demonstrations in '{folder}' are of {task}, not of {config.task}.")
  settings = config.replay
  expert = Replay(None, seed=config.seed, openings=settings.openings, absorb=settings.absorb)
  for episode in load_folder(folder, tuple(config.env.size), config.demo_episodes):
    expert.add_episode(demos.rename(episode, config.rename))
  print(f'{expert.episodes} demonstrations with {expert.steps} steps from {folder}.')
  return expert
