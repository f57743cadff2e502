"""Learning curves of run folders: every seed, and their interquartile mean with a band."""

import dataclasses

import numpy as np
from scipy import stats

from recon_tf.analysis.groups import Group, minutes_trace, run_score
from recon_tf.analysis.runs import RunFolder
from recon_tf.analysis.tables import bootstrap, in_percent

Line = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Curve:
  """Seeds as they are; center and band only over what all of them have reached."""

  group: Group
  score: str  # success in percent, or return
  lines: tuple[Line, ...]
  steps: np.ndarray
  center: np.ndarray
  low: np.ndarray
  high: np.ndarray


def evaluation_line(run: RunFolder) -> Line:
  """(steps, scores) of all evaluations; the final one replaces another of the same step."""
  score = run_score(run)
  records = [*run.evaluations(), *([run.final()] if run.final() else [])]
  found = {x['step']: in_percent(x[score], score) for x in records if score in x}
  steps = sorted(found)
  return np.array(steps, float), np.array([found[x] for x in steps], float)


def clock_line(run: RunFolder) -> Line:
  """(minutes, scores) of all evaluations, by the clock of the last line before each."""
  steps, scores = evaluation_line(run)
  known, minutes = minutes_trace(run)
  if not len(known):
    return np.zeros(0), np.zeros(0)
  index = np.searchsorted(known, steps, side='right') - 1
  return minutes[np.maximum(index, 0)], scores


def metric_line(run: RunFolder, key: str, points: int = 80) -> Line:
  """(steps, values) of a logged metric, averaged in equal bins of steps."""
  steps, values = run.metrics().get(key, (np.zeros(0), np.zeros(0)))
  if len(steps) <= points:
    return steps, values
  bins = np.linspace(steps.min(), steps.max(), points + 1)[1:-1]
  place = np.digitize(steps, bins)
  used = np.unique(place)
  mean = lambda x: np.array([x[place == i].mean() for i in used])
  return mean(steps), mean(values)


def learning_curve(group: Group) -> Curve:
  """The evaluations of a group's runs, together."""
  lines = [x for x in map(evaluation_line, group.runs) if len(x[0])]
  steps, values = common_grid(lines)
  scores = {run_score(x) for x in group.runs}
  score = 'success' if 'success' in scores else 'return'
  return Curve(group, score, tuple(lines), steps, *center_and_band(values))


def common_grid(lines: list[Line]) -> tuple[np.ndarray, np.ndarray]:
  """Steps that all lines span, and the values there [lines, steps], by linear interpolation."""
  if not lines:
    return np.zeros(0), np.zeros((0, 0))
  start, end = max(x[0] for x, _ in lines), min(x[-1] for x, _ in lines)
  if end < start:
    return np.zeros(0), np.zeros((len(lines), 0))
  points = max(np.sum((start <= x) & (x <= end)) for x, _ in lines)
  if points < 2 or start == end:
    grid = np.array([end])
  elif len(lines) == 1:
    grid = lines[0][0]
  else:
    grid = np.linspace(start, end, points)
  return grid, np.array([np.interp(grid, *line) for line in lines])


def center_and_band(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Interquartile mean over lines and its 95 % interval; without one the band has no width."""
  if not values.size:
    empty = np.zeros(0)
    return empty, empty, empty
  middle = lambda x: stats.trim_mean(x.reshape(-1, x.shape[-1]), 0.25, axis=0)
  center = middle(values)
  bounds = bootstrap(values[:, None], middle)
  return (center, center, center) if bounds is None else (center, bounds[0], bounds[1])
