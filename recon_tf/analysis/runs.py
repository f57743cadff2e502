"""Run folders as data: their config, metrics and evaluations, without TensorFlow."""

import dataclasses
import pathlib

import numpy as np

from recon_tf.common.config import Config, load_saved
from recon_tf.common.errors import UserError
from recon_tf.common.files import read_lines, try_json

EVALUATION = {'step': int, 'returns': [float]}


@dataclasses.dataclass(frozen=True)
class RunFolder:
  """One run: logdir/<task>/<method>/<seed>."""

  path: pathlib.Path
  config: Config

  @property
  def task(self) -> str:
    return self.config.task

  @property
  def method(self) -> str:
    return self.config.method

  @property
  def seed(self) -> int:
    return self.config.seed

  def metrics(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """(steps, values) of every scalar; a line cut short by a kill is left out."""
    found = {}
    for record in read_lines(self.path / 'metrics.jsonl', {'step': int}):
      for key, value in record.items():
        if key != 'step' and isinstance(value, (int, float)):
          found.setdefault(key, []).append((record['step'], value))
    return {k: tuple(np.array(v, float).T) for k, v in found.items()}

  def evaluations(self) -> list[dict]:
    """Every evaluation on the way, by step; each has its episodes' returns and successes."""
    paths = sorted((self.path / 'eval').glob('[0-9]*.json'))
    return [x for x in (try_json(path, EVALUATION) for path in paths) if x]

  def final(self) -> dict | None:
    """The evaluation of the last policy, None while the run is not finished."""
    return try_json(self.path / 'eval' / 'final.json', EVALUATION)

  def episodes(self) -> list[pathlib.Path]:
    """Files of the collected episodes, oldest first."""
    return sorted((self.path / 'train_episodes').glob('[!.]*.npz'))  # others are half-written


def open_run(path: str | pathlib.Path) -> RunFolder:
  """The run in this folder."""
  path = pathlib.Path(path)
  config = path / 'config.yaml'
  if not config.exists():
    raise UserError(
      f"'{path}' holds no run (no config.yaml in it); a run is a folder logdir/task/method/seed."
    )
  return RunFolder(path, load_saved(config))


def find_runs(logdir: str | pathlib.Path) -> list[RunFolder]:
  """All runs in or below a folder, sorted by task, method and seed."""
  logdir = pathlib.Path(logdir)
  if not logdir.is_dir():
    raise UserError(f"There is no folder '{logdir}'.")
  runs = [open_run(x.parent) for x in logdir.rglob('config.yaml')]
  if not runs:
    raise UserError(f"'{logdir}' holds no runs; a run is a folder logdir/task/method/seed.")
  return sorted(runs, key=lambda x: (x.task, x.method, x.seed, str(x.path)))
