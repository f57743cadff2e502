"""Tables of texts for terminal, Markdown and HTML, and the table of final scores."""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from recon_tf.analysis.paper import COLUMNS, PAIR, paper_number
from recon_tf.analysis.regions import demo_success
from recon_tf.analysis.runs import (
  PUSHED,
  Group,
  Run,
  expert_score,
  minutes_trace,
  reached_step,
  run_score,
  settings_of,
)
from recon_tf.analysis.stats import Interval, interval, iqm

NONE = '–'


@dataclasses.dataclass(frozen=True)
class Table:
  """Texts in rows; without rows there is a sentence on how to get them."""

  name: str
  title: str
  head: tuple[str, ...]
  rows: tuple[tuple[str, ...], ...]
  notes: tuple[str, ...] = ()
  missing: str = ''

  def markdown(self) -> str:
    """Rows and notes, or the sentence."""
    if not self.rows:
      return self.missing
    line = lambda cells: f'| {" | ".join(cells)} |'
    lines = [line(self.head), line(['---'] * len(self.head)), *map(line, self.rows)]
    return '\n'.join([*lines, '', *(f'- {x}' for x in self.notes)]).rstrip()

  def text(self) -> str:
    """For a terminal: the first two columns to the left, numbers to the right."""
    rows = [self.head, *self.rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(self.head))]
    place = lambda i, text: text.ljust(widths[i]) if i < 2 else text.rjust(widths[i])
    return '\n'.join('  '.join(place(i, x) for i, x in enumerate(row)).rstrip() for row in rows)


def digits(value: float | None) -> str:
  """Three digits that count."""
  return NONE if value is None else f'{value:.3g}'


def fixed(value: float | None, places: int = 3) -> str:
  return NONE if value is None else f'{value:.{places}f}'


def change(first: float | None, second: float | None) -> str:
  """In percent of the first."""
  known = first is not None and second is not None and first
  return f'{100 * (second / first - 1):+.1f} %' if known else NONE


def in_percent(value: float, score: str) -> float:
  return 100 * value if score == 'success' else value


# Final scores


@dataclasses.dataclass(frozen=True)
class Result:
  """The newest score of a run; success is in percent."""

  run: Run
  score: str  # success or return
  value: float
  episodes: int
  step: int
  minutes: float
  finished: bool


@dataclasses.dataclass(frozen=True)
class Row:
  """A line of the final table; groups without any evaluation yet have no results."""

  group: Group
  results: tuple[Result, ...]

  @property
  def values(self) -> list[float]:
    return [x.value for x in self.results]

  @property
  def iqm(self) -> float:
    return iqm(self.values)

  @functools.cached_property
  def interval(self) -> Interval:
    """None for a single seed."""
    return interval(self.values)

  @property
  def score(self) -> str:
    return self.results[0].score if self.results else 'success'

  @property
  def bounds(self) -> str:
    """The interval as a reader sees it."""
    return NONE if self.interval is None else f'{self.interval[0]:.1f} to {self.interval[1]:.1f}'

  @property
  def paper(self) -> float | None:
    """What the paper reports for this task and method: column Clean of its robust deployment."""
    return paper_number('robustness', self.group.task, 'Clean', self.group.method)

  @property
  def finished(self) -> bool:
    return len(self.results) == len(self.group.runs) and all(x.finished for x in self.results)


def run_result(run: Run) -> Result | None:
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
  """One row per group."""
  return [Row(x, tuple(filter(None, map(run_result, x.runs)))) for x in groups]


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
    tasks = [[x[seed] for seed in seeds] for x in scores]
    entry = {'variant': variant, 'method': method, 'tasks': len(mine), 'seeds': seeds}
    found.append({**entry, 'iqm': iqm(tasks), 'interval': interval(*tasks)})
  return found


def score_table(rows: list[Row]) -> Table:
  """The methods of one setting; the paper's figure stands beside ours."""
  lines = []
  for row in rows:
    paper = NONE if row.paper is None else f'{row.paper:.1f}'
    name = f'`{row.group.method}`'
    if not row.results:
      lines.append((name, 'not evaluated yet', '', '', '', paper))
      continue
    values = ', '.join(f'{x:.1f}' for x in row.values)
    mark = '' if row.finished else ' (unfinished)'
    seeds = str(len(row.results))
    lines.append((name, f'{row.iqm:.1f}{mark}', row.bounds, seeds, values, paper))
  head = ('method', 'ours, IQM', '95 % interval', 'seeds', 'each seed', 'paper')
  return Table('scores', 'Final scores', head, tuple(lines))


def score_notes(rows: list[Row]) -> list[str]:
  """What a reader must know to read the final table."""
  rated = [x for x in rows if x.results]
  notes = ['Result: interquartile mean over seeds, success in percent or return (DMC, Gymnasium).']
  if any(len(x.results) < 4 for x in rated):
    notes[0] += ' Below four seeds nothing is cut off: it is the mean.'
  episodes = sorted({r.episodes for x in rated for r in x.results})
  if episodes:
    span = f'{episodes[0]} to {episodes[-1]}' if len(episodes) > 1 else f'{episodes[0]}'
    notes.append(f'Each score is the mean over {span} episodes of the deterministic main policy.')
  if any(not x.finished for x in rated):
    notes.append('* Not all runs are finished: the newest evaluation of each counts.')
  if any(len(x.results) == 1 for x in rated):
    notes.append('A single seed has no interval.')
  return notes + _expert_notes(rows)


def _expert_notes(rows: list[Row]) -> list[str]:
  """Settings with the same record share a sentence."""
  made, reached = {}, []
  for setting, groups in settings_of([x.group for x in rows]).items():
    score = expert_score(groups)
    if score is not None:
      kind = run_score(groups[0].runs[0])
      value = in_percent(score, kind)
      reached.append(f'{value:.1f}{" %" if kind == "success" else ""} ({setting})')
    found = demo_success(groups[0].runs[0])
    if found:
      made.setdefault(found, []).append(setting)
  notes = []
  if reached:
    notes.append(f'The expert, evaluated as the runs are, failures included: {", ".join(reached)}.')
  words = 'The expert succeeded in {} of {} attempts while it demonstrated ({}).'
  return notes + [words.format(*found, ', '.join(settings)) for found, settings in made.items()]


# Robust deployment, for tables and for the terminal


def robust_rows(results: Sequence[dict], shown: Sequence[str] = COLUMNS) -> list[tuple[str, ...]]:
  """Every method's mean over its seeds in these columns, and CMIL/RECON pairs with deltas."""
  rows = []
  for task in sorted({x['task'] for x in results}):
    own = [x for x in results if x['task'] == task]
    percent = own[0]['measure'] == 'success'
    means, seeds = {}, {}
    for method in sorted({x['method'] for x in own}):
      columns = [x['columns'] for x in own if x['method'] == method]
      means[method], seeds[method] = seed_means(columns), str(len(columns))
      cells = [_number(means[method].get(x), percent) for x in shown]
      rows.append((task, method, seeds[method], *cells))
    if set(PAIR) <= set(means):
      first, second = (means[x] for x in PAIR)
      cells = [_pair(first.get(x), second.get(x), percent) for x in shown]
      rows.append((task, '/'.join(PAIR), '/'.join(seeds[x] for x in PAIR), *cells))
  return rows


def robust_table(results: Sequence[dict], shown: Sequence[str] = COLUMNS) -> Table:
  """As evaluate prints it."""
  head = ('task', 'method', 'seeds', *shown)
  return Table('robustness', 'Robust deployment', head, tuple(robust_rows(results, shown)))


def seed_means(runs: Sequence[dict[str, float]]) -> dict[str, float]:
  """Columns averaged over seeds, each over the runs that have it."""
  values = {x: [run[x] for run in runs if x in run] for x in (*COLUMNS, PUSHED)}
  return {x: float(np.mean(v)) for x, v in values.items() if v}


def _number(value: float | None, percent: bool) -> str:
  return NONE if value is None else f'{100 * value if percent else value:.1f}'


def _pair(first: float | None, second: float | None, percent: bool) -> str:
  """As in the paper: 41.3/100.0 (+58.7 pp), and returns without a unit."""
  text = f'{_number(first, percent)}/{_number(second, percent)}'
  if first is None or second is None:
    return text
  delta = (second - first) * (100 if percent else 1)
  return f'{text} ({delta:+.1f}{" pp" if percent else ""})'
