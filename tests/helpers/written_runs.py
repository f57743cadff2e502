"""Run folders with chosen contents, written by the same writers as a training run."""

import json
import pathlib

import numpy as np

from recon_tf.analysis.runs import Run, open_run
from recon_tf.common import load_config, save_episode
from recon_tf.common.logger import JSONLOutput


def make_run(
  logdir: pathlib.Path,
  method: str = 'recon',
  seed: int = 0,
  task: str = 'maze_pointmaze',
  evaluations: dict[int, float] | None = None,
  final: tuple[int, float] | None = None,
  metrics: list[dict] = (),
  presets: tuple[str, ...] = ('cpu', 'state'),
  **changes,
) -> Run:
  """evaluations and final are successes by step; metrics are lines with their step."""
  folder = pathlib.Path(logdir) / task / method / str(seed)
  (folder / 'eval').mkdir(parents=True)
  config = load_config('maze', *presets, method).update(changes)
  config.update(task=task, seed=seed, logdir=str(logdir)).save(folder / 'config.yaml')
  output = JSONLOutput(folder)
  for record in metrics:
    output(record['step'], {k: v for k, v in record.items() if k != 'step'}, [])
  for step, success in (evaluations or {}).items():
    write_evaluation(folder / 'eval' / f'{step:09d}.json', step, success)
  if final:
    write_evaluation(folder / 'eval' / 'final.json', *final)
  return open_run(folder)


def write_evaluation(path: pathlib.Path, step: int, success: float) -> None:
  content = {'step': step, 'success': success, 'return': success, 'returns': [success] * 20}
  path.write_text(json.dumps(content))


def walk(folder: pathlib.Path, positions: np.ndarray, explorer: np.ndarray | None = None) -> None:
  """An episode through these positions [rows, 2]; explorer says who acted."""
  rows = len(positions)
  episode = {
    'action': np.zeros((rows, 2), np.float32),
    'reward': np.zeros(rows, np.float32),
    'position': np.asarray(positions, np.float32),
    'log_position': np.asarray(positions, np.float32),
  }
  if explorer is not None:
    episode['log_explorer'] = np.asarray(explorer, np.float32)
  save_episode(folder, episode)


def lines(values: dict[str, float], steps: list[int], minutes: float = 1.0) -> list[dict]:
  """The same metrics at every step, with a clock."""
  return [{'step': x, **values, 'time/minutes': minutes * (i + 1)} for i, x in enumerate(steps)]
