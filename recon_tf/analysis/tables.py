"""Final scores: interquartile mean over seeds with stratified bootstrap intervals (rliable)."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator

import numpy as np
from scipy import stats

from recon_tf.analysis.groups import Group, minutes_trace, reached_step, run_score
from recon_tf.analysis.paper import paper_number
from recon_tf.analysis.runs import RunFolder

REPETITIONS = 2000
CONFIDENCE = 0.95


@dataclasses.dataclass(frozen=True)
class Result:
  """The newest score of a run; success is in percent."""

  run: RunFolder
  score: str  # success or return
  value: float
  episodes: int
  step: int
  minutes: float
  finished: bool


@dataclasses.dataclass(frozen=True)
class Row:
  """A line of the final table; the interval is None for a single seed."""

  group: Group
  results: tuple[Result, ...]
  iqm: float
  interval: tuple[float, float] | None
  mean: float
  spread: float  # standard deviation over seeds, 0 for one

  @property
  def score(self) -> str:
    return self.results[0].score if self.results else 'success'

  @property
  def bounds(self) -> str:
    """The interval as a reader sees it."""
    return '–' if self.interval is None else f'{self.interval[0]:.1f} to {self.interval[1]:.1f}'

  @property
  def paper(self) -> float | None:
    """What the paper reports for this task and method: column Clean of its robust deployment."""
    return paper_number('robustness', self.group.task, 'Clean', self.group.method)

  @property
  def finished(self) -> bool:
    return len(self.results) == len(self.group.runs) and all(x.finished for x in self.results)


def in_percent(value: float, score: str) -> float:
  return 100 * value if score == 'success' else value


def run_result(run: RunFolder) -> Result | None:
  """The final evaluation, or the newest one of an unfinished run; None before the first."""
  final, way = run.final(), run.evaluations()
  score = run_score(run)
  known = [x for x in ([final] if final else way) if score in x]
  if not known:
    return None
  newest = known[-1]
  value = in_percent(newest[score], score)
  _, minutes = minutes_trace(run)
  spent = float(minutes[-1]) if len(minutes) else float('nan')
  episodes = len(newest.get('returns', ())) or (run.config.eval_final if final else 0)
  return Result(run, score, value, episodes, reached_step(run), spent, final is not None)


def final_table(groups: list[Group]) -> list[Row]:
  """One row a group; groups without any evaluation yet have an empty one."""
  rows = []
  for group in groups:
    results = [x for x in map(run_result, group.runs) if x]
    values = np.array([x.value for x in results])
    if not len(values):
      rows.append(Row(group, (), float('nan'), None, float('nan'), float('nan')))
      continue
    spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    rows.append(
      Row(group, tuple(results), iqm(values), interval(values), float(values.mean()), spread)
    )
  return rows


def iqm(scores: np.ndarray) -> float:
  """Mean of the middle half, as rliable takes it: below four runs nothing is cut off."""
  return float(stats.trim_mean(np.asarray(scores), 0.25, axis=None))


def interval(scores: np.ndarray) -> tuple[float, float] | None:
  """95 % interval of the interquartile mean; scores are [seeds] or [seeds, tasks]."""
  scores = np.asarray(scores, float)
  matrix = scores.reshape(len(scores), -1)
  bounds = bootstrap(matrix, lambda x: np.array([iqm(x)]))
  return None if bounds is None else (float(bounds[0, 0]), float(bounds[1, 0]))


def bootstrap(scores: np.ndarray, statistic: Callable) -> np.ndarray | None:
  """rliable's stratified bootstrap of [seeds, tasks, ...]: [2, ...], None if it cannot be."""
  library = load_rliable() if len(scores) > 1 else None
  if library is None:
    return None
  with _fixed_randomness():
    _, bounds = library.get_interval_estimates(
      {'scores': scores}, statistic, reps=REPETITIONS, confidence_interval_size=CONFIDENCE
    )
  return bounds['scores']


@functools.cache
def load_rliable():
  """rliable's library, None where the extra `sweeps` is not installed or does not fit."""
  try:
    from rliable import library
  except (ImportError, TypeError):  # its arch 7 beside pandas 3 raises a TypeError
    return None
  return library


@contextlib.contextmanager
def _fixed_randomness() -> Iterator[None]:
  """rliable draws from NumPy's global generator, so the same table needs the same state."""
  state = np.random.get_state()  # noqa: NPY002
  np.random.seed(0)  # noqa: NPY002
  try:
    yield
  finally:
    np.random.set_state(state)  # noqa: NPY002


def over_tasks(rows: list[Row]) -> list[dict]:
  """Methods over all tasks with a success, by the seeds that each task has, two tasks or more."""
  found = []
  rated = [x for x in rows if x.results and x.score == 'success']
  for variant, method in dict.fromkeys((x.group.variant, x.group.method) for x in rated):
    mine = [x for x in rated if (x.group.variant, x.group.method) == (variant, method)]
    scores = [{r.run.seed: r.value for r in x.results} for x in mine]
    seeds = sorted(set.intersection(*map(set, scores)))
    if len(mine) < 2 or not seeds:
      continue
    matrix = np.array([[x[seed] for x in scores] for seed in seeds])
    entry = {'variant': variant, 'method': method, 'tasks': len(mine), 'seeds': seeds}
    found.append({**entry, 'iqm': iqm(matrix), 'interval': interval(matrix)})
  return found
