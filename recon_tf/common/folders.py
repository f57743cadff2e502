"""Run folders: where a run lies, whether it is finished, and whether its settings still hold."""

import json
import pathlib
import re

from recon_tf.common.config import Config
from recon_tf.common.errors import UserError

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
  result = read_json(folder / 'eval' / 'final.json')
  return result if result and result.get('step', -1) >= config.steps else None


def check_settings(config: Config, folder: pathlib.Path) -> None:
  """Refuses a folder that holds a run with other settings."""
  path = folder / 'config.yaml'
  if not path.exists():
    return
  old = Config.load(path).flat
  changed = [k for k, v in config.flat.items() if k not in FREE and k in old and old[k] != v]
  if changed:
    key = changed[0]
    raise UserError(
      f"'{folder}' holds a run with {key} = {old[key]}, not {config.flat[key]}; set another "
      f'--logdir, or remove that folder to start anew.'
    )


def read_json(path: pathlib.Path) -> dict | None:
  """A JSON object, None if it is missing or half-written."""
  try:
    content = json.loads(path.read_text())
  except (OSError, ValueError):
    return None
  return content if isinstance(content, dict) else None
