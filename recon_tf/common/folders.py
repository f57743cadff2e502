"""Run folders: where a run lies, whether it is finished, and whether its settings still hold."""

import pathlib
import re

from recon_tf.common.checkpoint import read_meta, state_paths
from recon_tf.common.config import Config, saved_values
from recon_tf.common.errors import UserError
from recon_tf.common.files import read_json
from recon_tf.common.npz import UNREADABLE

# Keys that may change when a run goes on: they steer how long it runs and what it shows.
FREE = (
  'logdir', 'tasks', 'steps', 'eval_every', 'eval_episodes', 'eval_final', 'video_every', 'keep',
  'keep_every', 'threads', 'piece', 'demos', 'replay.memory', 'offline', 'wandb',
)  # fmt: skip


def run_folder(config: Config) -> pathlib.Path:
  """logdir/<task>/<method>/<seed>."""
  task = re.sub('[/:]', '-', config.task)  # as in gym_package:Robot-v0
  return pathlib.Path(config.logdir) / task / config.method / str(config.seed)


def finished(config: Config, folder: pathlib.Path) -> dict | None:
  """The final evaluation of a run that has done all its steps, otherwise None."""
  path = folder / 'eval' / 'final.json'
  result = read_json(path, {'step': int})
  if not result or result['step'] < config.steps:
    return None
  _check_claim(result['step'], folder, path)
  return result


def _check_claim(step: int, folder: pathlib.Path, path: pathlib.Path) -> None:
  """A final evaluation of a step that no checkpoint has reached is not believed."""
  for state in reversed(state_paths(folder / 'checkpoints')):
    try:
      reached = read_meta(state)['step']
    except (*UNREADABLE, UserError):
      continue
    if reached < step:
      raise UserError(
        f"'{path}' says step {step}, but the newest checkpoint is of step {reached}; remove that "
        'file to go on from the checkpoint.'
      )
    return


def check_settings(config: Config, folder: pathlib.Path) -> None:
  """Refuses a folder that holds a run with other settings."""
  path = folder / 'config.yaml'
  if not path.exists():
    return
  old = saved_values(path)
  changed = [k for k, v in config.flat.items() if k not in FREE and k in old and old[k] != v]
  if changed:
    key = changed[0]
    raise UserError(
      f"'{folder}' holds a run with {key} = {old[key]}, not {config.flat[key]}; set another "
      f'--logdir, or remove that folder to start anew.'
    )
