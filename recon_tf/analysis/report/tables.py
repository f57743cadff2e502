"""Tables of texts for terminal, Markdown and HTML, and the table of final scores."""

import dataclasses
import functools
from collections.abc import Callable, Sequence

from recon_tf.analysis.paper import COLUMNS, PAIR, paper_number
from recon_tf.analysis.regions import demo_success
from recon_tf.analysis.runs import (
  Group,
  Run,
  expert_score,
  grouped,
  minutes_trace,
  reached_step,
  run_score,
  settings_of,
)
from recon_tf.analysis.stats import Interval, interval, iqm, mean_of

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


# Methods with their means over seeds, and CMIL/RECON pairs


def paired_rows(
  setting: str, methods: dict[str, list[dict]], columns: Sequence[str], show: Callable,
  compare: Callable,
) -> list[tuple[str, ...]]:  # fmt: skip
  """A row per method, each column over the runs that have it, and the pair with its differences."""
  means = {k: [mean_of(x.get(c) for x in own) for c in columns] for k, own in methods.items()}
  seeds = {k: str(len(own)) for k, own in methods.items()}
  rows = [(setting, k, seeds[k], *map(show, numbers)) for k, numbers in means.items()]
  if set(PAIR) <= set(means):
    difference = lambda a, b: '' if a is None or b is None else f' ({compare(a, b)})'
    pairs = zip(*(means[k] for k in PAIR), strict=True)
    cells = [f'{show(a)}/{show(b)}{difference(a, b)}' for a, b in pairs]
    rows.append((setting, '/'.join(PAIR), '/'.join(seeds[k] for k in PAIR), *cells))
  return rows


def robust_table(results: Sequence[dict], shown: Sequence[str] = COLUMNS) -> Table:
  """Robust deployment, as evaluate prints it; pairs as in the paper: 41.3/100.0 (+58.7 pp)."""
  rows = []
  for task, own in sorted(grouped(results, lambda x: x['task']).items()):
    factor, unit = (100, ' pp') if own[0]['measure'] == 'success' else (1, '')
    methods = grouped(sorted(own, key=lambda x: x['method']), lambda x: x['method'])
    columns = {k: [x['columns'] for x in v] for k, v in methods.items()}
    show = lambda x, factor=factor: fixed(None if x is None else factor * x, 1)
    compare = lambda a, b, factor=factor, unit=unit: f'{factor * (b - a):+.1f}{unit}'
    rows += paired_rows(task, columns, shown, show, compare)
  head = ('task', 'method', 'seeds', *shown)
  return Table('robustness', 'Robust deployment', head, tuple(rows))
