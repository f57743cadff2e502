"""The results page: tables as CSV and JSON, figures, and a README in Markdown, from archives."""

import csv
import json
import pathlib
from collections.abc import Iterable, Sequence

import numpy as np

from recon_tf.analysis import regions
from recon_tf.analysis.commands import group_commands
from recon_tf.analysis.paper import PAIR, paper_tasks
from recon_tf.analysis.report import curves, page, registry
from recon_tf.analysis.report.style import label, task_name
from recon_tf.analysis.report.tables import (
  Row,
  Table,
  final_table,
  over_tasks,
  run_result,
  score_notes,
  score_table,
)
from recon_tf.analysis.report.together import together_table
from recon_tf.analysis.runs import (
  Group,
  Run,
  group_runs,
  grouped,
  observations,
  run_score,
  settings_of,
)
from recon_tf.analysis.stats import difference_interval, mean_interval
from recon_tf.common.files import write_bytes
from recon_tf.common.marks import has_marks, replace_between

RUN_KEYS = (
  'variant', 'task', 'method', 'seed', 'observations', 'score', 'value', 'episodes', 'step',
  'minutes', 'finished', 'commit', 'explorer_support', 'explorer_near', 'explorer_far',
)  # fmt: skip
EVALUATION_KEYS = ('variant', 'task', 'method', 'seed', 'step', 'score', 'value')
ORIGIN = (
  'Made by `python scripts/results.py` from the archives of runs beside it (`VARIANT.json.gz`: '
  'configs, metrics, evaluations, diagnoses, where steps went; `videos/`) and the text of '
  '`notes.md`; change that file, not this one. `python scripts/results.py LOGDIR...` adds '
  'the runs of folders. `runs.csv` has one line per run, `evaluations.csv` one per evaluation, '
  '`table.json` the tables below, `summary.json` every score with its interval. '
  '`python scripts/report.py results` makes a page with wall-clock and traces of all of them.'
)
MARK = 'results'  # of the table in the README of the repository
COMPARED = {'clean': 'calm', 'recovery': 'recovery', 'pushed': 'pushed'}
SEVERAL = 3  # seeds of both for a comparison to stand in the README
MISSING = 'No runs yet.'
METHODS = (
  'bc_raw', 'bc', 'bc_equal', 'dadac', 'vmail', 'iqmpc', 'random_collect', 'no_recovery', 'cmil',
  'recon',
)  # fmt: skip
RECON = 'recon'
DIFFERENCE = 'recon-cmil'
ROBUST = {'robust_noise': 'Noise', 'robust_delay': 'Delay', 'robust_impulse': 'Impulse/scale'}


def write_results(runs: list[Run], folder: pathlib.Path) -> pathlib.Path:
  """Writes CSV, JSON, figures/ and README.md; returns the last."""
  groups = group_runs(runs)
  rows = final_table(groups)
  folder.mkdir(parents=True, exist_ok=True)
  write_csv(folder / 'runs.csv', RUN_KEYS, [run_record(g, x) for g in groups for x in g.runs])
  write_csv(folder / 'evaluations.csv', EVALUATION_KEYS, evaluation_records(groups))
  figures = folder / 'figures'
  for path in figures.glob('*.png'):
    path.unlink()  # of runs that are not here any more
  sections = registry.sections(groups, figures, vector=False)
  tables = [x for section in sections for x in section.tables if x.rows]
  content = {'rows': [row_record(x) for x in rows], 'over_tasks': over_tasks(rows)}
  content['measured'] = {x.name: [x.head, *x.rows] for x in tables}
  write_json(folder / 'table.json', content)
  entries = summary(groups)
  write_json(folder / 'summary.json', entries)
  drawn = draw_main(groups, figures)
  drawn |= page.draw_scores(rows, figures, ('curves', 'final'), vector=False)
  explored = {x.setting for x in groups if x.method == 'recon'}
  drawn |= page.draw_traces([x for x in groups if x.setting in explored], figures, vector=False)
  drawn |= curves.draw_predictions(groups, figures)
  path = folder / 'README.md'
  write_bytes(path, readme(groups, rows, sections, drawn, folder, together_table(entries)).encode())
  return path


def draw_main(groups: list[Group], folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """The paper's eight panels, of the variant that has most of its tasks, if it has several."""
  tasks = lambda variant: {x.task for x in groups if x.variant == variant} & {*paper_tasks()}
  fullest = max((x.variant for x in groups), key=lambda x: len(tasks(x)), default='')
  chosen = [x for x in groups if x.variant == fullest]
  return (
    registry.draw_variants('main', chosen, folder, vector=False) if len(tasks(fullest)) > 1 else {}
  )


# Records


def run_record(group: Group, run: Run) -> dict:
  """A run in one line; fields without a value are empty."""
  result, found = run_result(run), regions.allocation(run) or {}
  shares = {k: v for k, v in found.get('explorer', {}).items() if k in regions.REGIONS}
  record = {**_identity(group), 'seed': run.seed, 'observations': observations(run)}
  if result:
    record |= {'score': result.score, 'value': round(result.value, 4)}
    record |= {'episodes': result.episodes, 'minutes': round(result.minutes, 1)}
    record |= {'step': result.step, 'finished': result.finished}
  starts = run.starts()
  record['commit'] = starts[-1].get('commit', '') if starts else ''
  return record | {f'explorer_{k}': round(v, 4) for k, v in shares.items()}


def evaluation_records(groups: list[Group]) -> list[dict]:
  """Every evaluation of every run, the final one included."""
  records = []
  for group in groups:
    for run in group.runs:
      for step, value in zip(*curves.evaluation_line(run), strict=True):
        known = {'step': int(step), 'score': run_score(run), 'value': round(float(value), 4)}
        records.append({**_identity(group), 'seed': run.seed, **known})
  return records


def row_record(row: Row) -> dict:
  record = _identity(row.group)
  if not row.results:
    return record | {'seeds': [], 'finished': False}
  digits = lambda x: round(float(x), 2)
  return record | {
    'score': row.score,
    'seeds': [x.run.seed for x in row.results],
    'values': [digits(x) for x in row.values],
    'iqm': digits(row.iqm),
    'interval': None if row.interval is None else [digits(x) for x in row.interval],
    'mean': digits(np.mean(row.values)),
    'std': digits(np.std(row.values, ddof=1) if len(row.values) > 1 else 0),
    'finished': row.finished,
    'paper': row.paper,
  }


def _identity(group: Group) -> dict:
  return {'variant': group.variant, 'task': group.task, 'method': group.method}


def write_csv(path: pathlib.Path, keys: tuple[str, ...], records: list[dict]) -> None:
  with path.open('w', newline='', encoding='utf-8') as file:
    writer = csv.DictWriter(file, keys, restval='', lineterminator='\n')
    writer.writeheader()
    writer.writerows(records)


def write_json(path: pathlib.Path, content) -> None:
  write_bytes(path, f'{json.dumps(content, indent=1)}\n'.encode())


# Summary


def summary(groups: list[Group]) -> list[dict]:
  """Every score of every method with its interval over seeds, and RECON minus each other one."""
  rows = []
  for own in settings_of(groups).values():
    metrics = {x.method: group_metrics(x) for x in own}
    for group in own:
      for metric, values in metrics[group.method].items():
        rows.append(_summary_row(group, group.method, metric, values))
    others = [x.method for x in own if x.method != RECON and RECON in metrics]
    rows += [_difference(own[0], x, k, metrics) for x in others for k in _shared(metrics, x)]
  return rows


def group_metrics(group: Group) -> dict[str, dict[int, float]]:
  """Values by metric and seed; successes from 0 to 1, returns as they are."""
  found = {}
  for run in group.runs:
    for metric, value in run_metrics(run).items():
      if value is not None:
        found.setdefault(metric, {})[run.seed] = value
  return found


def run_metrics(run: Run) -> dict[str, float | None]:
  """The last policy with and without pushes, recovery, robust columns, area under the curve."""
  score = run_score(run)
  final = (run.final() or {}).get(score)
  read = lambda name, column: (run.read(f'eval/{name}.json') or {}).get('columns', {}).get(column)
  clean, pushed = read('clean', 'Clean'), read('pushed', 'Pushed')
  clean = read('robust', 'Clean') if clean is None else clean
  if run.config.eval_kicks:
    pushed = final
  else:
    clean = clean if final is None else final
  area = curves.area(run)
  area = area / 100 if area is not None and score == 'success' else area
  robust = {k: read('robust', v) for k, v in ROBUST.items()}
  recovery = run.read('eval/recovery.json') or {}
  kinds = {f'recovery_{k}': v for k, v in recovery.get('scores', {}).items()}
  kinds = {'recovery': recovery.get('score'), **(kinds if len(kinds) > 1 else {})}
  return {'clean': clean, 'pushed': pushed, **kinds, **robust, 'auc': area}


def _shared(metrics: dict[str, dict], other: str) -> list[str]:
  return [x for x in metrics[RECON] if x in metrics[other]]


def _summary_row(group: Group, method: str, metric: str, values: dict[int, float]) -> dict:
  numbers = list(values.values())
  low, high = mean_interval(numbers) or (None, None)
  return _entry(group, method, metric, [*values], numbers, float(np.mean(numbers)), low, high)


def _difference(group: Group, method: str, metric: str, metrics: dict) -> dict:
  """`values` are those of the seeds that both have; mean and interval are of all seeds."""
  recon, other = metrics[RECON][metric], metrics[method][metric]
  seeds = [x for x in recon if x in other]
  first, second = list(recon.values()), list(other.values())
  low, high = difference_interval(first, second) or (None, None)
  values = [recon[x] - other[x] for x in seeds]
  mean = float(np.mean(first) - np.mean(second))
  return _entry(group, f'{RECON}-{method}', metric, seeds, values, mean, low, high)


def _entry(group: Group, method, metric, seeds: Sequence, values, mean, low, high) -> dict:
  short = lambda x: None if x is None else round(x, 5)
  return {
    'variant': group.variant,
    'task': group.task,
    'observations': observations(group.runs[0]),
    'method': method,
    'metric': metric,
    'seeds': list(seeds),
    'values': [short(x) for x in values],
    'mean': short(mean),
    'low': short(low),
    'high': short(high),
  }


# README


def readme(groups, rows, sections, figures, folder: pathlib.Path, together: Table) -> str:
  """The page; what a person wrote in notes.md stands in it as it is."""
  notes = folder / 'notes.md'
  own = notes.read_text(encoding='utf-8').strip() if notes.exists() else ''
  parts = ['# Results', ORIGIN]
  parts += [own] if own else []
  for setting in settings_of(groups):
    table = score_table([x for x in rows if x.group.setting == setting])
    parts += [f'## {setting}', table.markdown()]
  parts += ['\n'.join(f'- {x}' for x in score_notes(rows))]
  parts += [f'## {together.title}\n\n{together.markdown()}'] if together.rows else []
  for section in sections:
    parts += [f'## {x.title}\n\n{x.markdown()}' for x in section.tables if x.rows]
    parts += [_figures(section.figures, folder)] if section.figures else []
  parts += [f'## Figures\n\n{_figures(figures, folder)}'] if figures else []
  commands = '\n'.join(f'    {x}' for x in group_commands(groups))
  parts += [f'## Commands\n\n{commands}', f'## Versions\n\n{_versions(groups)}']
  return '\n\n'.join(parts) + '\n'


def _figures(figures: dict[str, pathlib.Path], folder: pathlib.Path) -> str:
  return '\n\n'.join(f'![{k}]({v.relative_to(folder).as_posix()})' for k, v in figures.items())


def _versions(groups: list[Group]) -> str:
  starts = [start for group in groups for run in group.runs for start in run.starts()]
  found = dict.fromkeys(page.version_cells(x) for x in starts)
  lines = [f'- commit {commit}; Python {python}; {packages}; {machine}'
           for commit, python, packages, machine in found]  # fmt: skip
  return '\n'.join(lines) or 'The runs did not record their versions.'


# The tables in the README of the repository, from summary.json


def write_overview(page: pathlib.Path, summary: list[dict]) -> bool:
  """Writes the tables into a page that has the marks for them; says whether it has."""
  if not has_marks(page, MARK):
    return False
  replace_between(page, MARK, '\n\n'.join(map(_overview_part, overview(summary))))
  return True


def _overview_part(table: Table) -> str:
  return f'**{table.title}**\n\n{table.markdown()}'


def overview(summary: list[dict]) -> tuple[Table, Table]:
  """The paper's tasks in the variant that has most of them, and the comparisons that count."""
  own = [x for x in summary if x['metric'] == 'clean' and x['task'] in paper_tasks()]
  tasks = lambda variant: {x['task'] for x in own if x['variant'] == variant}
  fullest = max((x['variant'] for x in own), key=lambda x: len(tasks(x)), default='')
  scores = [x for x in own if x['variant'] == fullest and x['method'] in METHODS]
  compared = [x for x in summary if x['metric'] in COMPARED and x not in scores]
  return _tasks_overview(scores), _comparisons_overview(compared)


def _tasks_overview(scores: list[dict]) -> Table:
  """A row per task, a column per method; cells of fewer than all seeds say how many."""
  found = {k: {x['method']: x for x in v} for k, v in grouped(scores, lambda x: x['task']).items()}
  columns, seeds = _columns(found.values()), max((len(x['seeds']) for x in scores), default=0)
  rows = [
    (task_name(task), *(_cell(found[task].get(x), seeds) for x in columns))
    for task in paper_tasks()
    if task in found
  ]
  title = f'The last policy, {_seeds(seeds)} unless said otherwise'
  return Table('tasks', title, ('task', *map(_column, columns)), tuple(rows), missing=MISSING)


def _comparisons_overview(compared: list[dict]) -> Table:
  """A row per setting and evaluation in which RECON and CMIL have several seeds and differ."""
  place = lambda x: (x['variant'], x['task'], x['observations'], [*COMPARED].index(x['metric']))
  found = {k: {x['method']: x for x in v} for k, v in grouped(compared, place).items()}
  several = lambda row: min(len(row[x]['seeds']) if x in row else 0 for x in PAIR)
  found = {k: v for k, v in found.items() if several(v) >= SEVERAL and _differ(v)}
  columns = _columns(found.values())
  rows = []
  for (variant, task, seen, metric), row in sorted(found.items()):
    cells = [_cell(row.get(x), several(row)) for x in (*columns, DIFFERENCE)]
    names = (f'{task_name(task)}, {seen} (`{variant}`)', [*COMPARED.values()][metric])
    rows.append((*names, str(several(row)), *cells))
  head = ('setting', 'evaluation', 'seeds', *map(_column, columns), 'RECON − CMIL')
  title = f'Comparisons with at least {SEVERAL} seeds'
  return Table('comparisons', title, head, tuple(rows), missing=MISSING)


def _differ(row: dict[str, dict]) -> bool:
  """Not where every method has the same score."""
  return len({_cell(x, len(x['seeds'])) for k, x in row.items() if k in METHODS}) > 1


def _columns(rows: Iterable[dict]) -> list[str]:
  """The methods that some row has, in the order of METHODS."""
  return [x for x in METHODS if any(x in row for row in rows)]


def _column(method: str) -> str:
  return f'`{method}`' if method.startswith('bc') else label(method)


def _seeds(count: int) -> str:
  return f'{count} seed{"s" if count > 1 else ""}'


def _cell(entry: dict | None, seeds: int) -> str:
  """Mean and interval: successes and recovery in %, returns as they are, differences with sign.

  Says how many seeds it has where that is not the usual number.
  """
  if entry is None:
    return '–'
  returns = entry['task'].startswith('dmc_') and entry['metric'] != 'recovery'
  sign = '+' if entry['method'] == DIFFERENCE else ''
  show = lambda x: f'{round(x * (1 if returns else 100)):{sign}d}'
  text, count = show(entry['mean']), len(entry['seeds'])
  bounds = [show(entry[x]) for x in ('low', 'high') if entry[x] is not None]
  if {*bounds} - {text}:
    text = f'{text} ({" to ".join(bounds)})'
  return text if count == seeds else f'{text}, {_seeds(count)}'
