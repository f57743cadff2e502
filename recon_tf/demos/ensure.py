"""Makes missing demonstrations from a process that must not render, such as a training run."""

import hashlib
import io
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterable

from recon_tf.common.config import Config, default_config
from recon_tf.common.errors import UserError
from recon_tf.demos.meta import env_settings, resume_meta

PACKAGE_ROOT = pathlib.Path(__file__).parents[2]


def demo_folder(root: str | pathlib.Path, task: str, config: Config) -> pathlib.Path:
  """root/<task>, or with unusual env settings root/<task>-<hash>, so that none are mixed."""
  usual = env_settings(task, default_config())
  unusual = {k: v for k, v in env_settings(task, config).items() if v != usual[k]}
  if not unusual:
    return pathlib.Path(root) / task
  # Of these alone, so that a setting that is new in the code leaves old folders where they are.
  digest = hashlib.sha256(json.dumps(unusual, sort_keys=True).encode()).hexdigest()[:8]
  return pathlib.Path(root) / f'{task}-{digest}'


def ensure_demos(
  task: str, episodes: int, folder: str | pathlib.Path, config: Config, seed: int = 0
) -> pathlib.Path:
  """Fills the folder in a process of its own, with its progress bar; no work if it is full."""
  folder = pathlib.Path(folder)
  meta = resume_meta(folder, task, env_settings(task, config))
  if meta is None or len(meta['returns']) < episodes:
    command = [sys.executable, '-m', 'recon_tf', 'demos', f'--task={task}', f'--seed={seed}']
    command += [f'--episodes={episodes}', f'--outdir={folder}', *_env_flags(config)]
    _run(command)
  return folder


def ensure_for(configs: Iterable[Config]) -> None:
  """Before runs that would otherwise all make the same ones at the same time."""
  for config in [x for x in configs if not x.demos]:
    try:
      ensure_demos(
        config.task, config.demo_episodes, demo_folder('demos', config.task, config), config
      )
    except UserError as error:
      print(f'{config.task}: {error}', file=sys.stderr)  # its runs will fail and say so


def _env_flags(config: Config) -> list[str]:
  usual = default_config().env.flat
  text = lambda x: f'[{",".join(map(str, x))}]' if isinstance(x, tuple) else str(x)
  return [f'--env.{k}={text(v)}' for k, v in config.env.flat.items() if v != usual[k]]


def _run(command: list[str]) -> None:
  """Runs the command, passes its progress on, and turns its error line into a UserError."""
  paths = [str(PACKAGE_ROOT), os.environ.get('PYTHONPATH', '')]
  environ = {**os.environ, 'PYTHONPATH': os.pathsep.join(x for x in paths if x)}
  message = ''
  with subprocess.Popen(command, stderr=subprocess.PIPE, env=environ) as process:
    try:
      # newline='' ends lines at \r too, which is what a progress bar writes.
      for line in io.TextIOWrapper(process.stderr, errors='replace', newline=''):
        if line.startswith('error: '):
          message = line.removeprefix('error: ').strip()
        else:
          sys.stderr.write(line)
          sys.stderr.flush()
    except BaseException:
      process.terminate()  # a signal came to us alone; what is made so far stays
      raise
  if process.returncode:
    raise UserError(message or f'Making demonstrations ended with code {process.returncode}.')
