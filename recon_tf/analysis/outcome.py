"""The outcome of a comparison in small files: tables as CSV and JSON, and a README in Markdown."""

import csv
import json
import pathlib

from recon_tf.analysis.commands import group_commands
from recon_tf.analysis.curves import evaluation_line
from recon_tf.analysis.figures import draw_predictions, draw_regions, draw_scores, draw_traces
from recon_tf.analysis.groups import Group, group_runs, observations, run_score, settings_of
from recon_tf.analysis.regions import real_steps
from recon_tf.analysis.report import table_notes, version_cells
from recon_tf.analysis.runs import RunFolder
from recon_tf.analysis.sections import measured_sections
from recon_tf.analysis.tables import Row, final_table, over_tasks, run_result
from recon_tf.common.versions import read_starts

RUN_KEYS = (
  'variant', 'task', 'method', 'seed', 'observations', 'score', 'value', 'episodes', 'step',
  'minutes', 'finished', 'commit', 'explorer_support', 'explorer_near', 'explorer_far',
)  # fmt: skip
ORIGIN = (
  'Made by `python scripts/results.py` from the small copies of run folders in `runs/` and the '
  'text of `notes.md`; change that file, not this one. `python scripts/results.py LOGDIR` adds the '
  'runs of a folder. `runs.csv` has one line a run, `evaluations.csv` one an evaluation, '
  '`table.json` the tables below.'
)
EVALUATION_KEYS = ('variant', 'task', 'method', 'seed', 'step', 'score', 'value')


def write_outcome(runs: list[RunFolder], folder: pathlib.Path) -> pathlib.Path:
  """Writes runs.csv, evaluations.csv, table.json, figures/ and README.md; returns the last."""
  groups = group_runs(runs)
  rows = final_table(groups)
  folder.mkdir(parents=True, exist_ok=True)
  write_csv(folder / 'runs.csv', RUN_KEYS, [run_record(g, x) for g in groups for x in g.runs])
  write_csv(folder / 'evaluations.csv', EVALUATION_KEYS, evaluation_records(groups))
  sections = [x for x in measured_sections(runs, folder / 'figures') if x.table.rows]
  table = {'rows': [row_record(x) for x in rows], 'over_tasks': over_tasks(rows)}
  table['measured'] = {x.table.name: [x.table.head, *x.table.rows] for x in sections}
  (folder / 'table.json').write_text(json.dumps(table, indent=1) + '\n')
  figures = draw_scores(rows, folder / 'figures')
  figures |= draw_traces(groups, folder / 'figures')
  figures |= draw_regions(groups, folder / 'figures')
  figures |= draw_predictions(groups, folder / 'figures')
  path = folder / 'README.md'
  text = readme(groups, rows, sections, figures, folder)
  path.write_text(text, encoding='utf-8')
  return path


# Records


def run_record(group: Group, run: RunFolder) -> dict:
  """A run in one line; fields without a value are empty."""
  result, steps = run_result(run), real_steps(run)
  shares = steps.shares(True) if steps else None
  record = {**_identity(group, run), 'observations': observations(run)}
  if result:
    record |= {'score': result.score, 'value': round(result.value, 4)}
    record |= {'episodes': result.episodes, 'minutes': round(result.minutes, 1)}
    record |= {'step': result.step, 'finished': result.finished}
  starts = read_starts(run.path)
  record['commit'] = starts[-1].get('commit', '') if starts else ''
  return record | {f'explorer_{k}': round(v, 4) for k, v in (shares or {}).items()}


def evaluation_records(groups: list[Group]) -> list[dict]:
  """Every evaluation of every run, the final one included."""
  records = []
  for group in groups:
    for run in group.runs:
      for step, value in zip(*evaluation_line(run), strict=True):
        known = {'step': int(step), 'score': run_score(run), 'value': round(float(value), 4)}
        records.append(_identity(group, run) | known)
  return records


def row_record(row: Row) -> dict:
  group = row.group
  record = {'variant': group.variant, 'task': group.task, 'method': group.method}
  if not row.results:
    return record | {'seeds': [], 'finished': False}
  digits = lambda x: round(float(x), 2)
  return record | {
    'score': row.score,
    'seeds': [x.run.seed for x in row.results],
    'values': [digits(x.value) for x in row.results],
    'iqm': digits(row.iqm),
    'interval': None if row.interval is None else [digits(x) for x in row.interval],
    'mean': digits(row.mean),
    'std': digits(row.spread),
    'finished': row.finished,
    'paper': row.paper,
  }


def write_csv(path: pathlib.Path, keys: tuple[str, ...], records: list[dict]) -> None:
  with path.open('w', newline='', encoding='utf-8') as file:
    writer = csv.DictWriter(file, keys, restval='', lineterminator='\n')
    writer.writeheader()
    writer.writerows(records)


def _identity(group: Group, run: RunFolder) -> dict:
  place = {'variant': group.variant, 'task': group.task, 'method': group.method}
  return {**place, 'seed': run.seed}


# README


def readme(groups, rows, sections, figures, folder: pathlib.Path) -> str:
  """The page; what a person wrote in notes.md stands in it as it is."""
  notes = folder / 'notes.md'
  own = notes.read_text(encoding='utf-8').strip() if notes.exists() else ''
  parts = ['# Results', ORIGIN]
  parts += [own] if own else []
  for setting in settings_of(groups):
    parts += [f'## {setting}', table([x for x in rows if x.group.setting == setting])]
  parts += ['\n'.join(f'- {x}' for x in table_notes(rows))]
  for section in sections:
    parts += [f'## {section.table.title}', section.table.markdown()]
    parts += [_figures(section.figures, folder)] if section.figures else []
  parts += [f'## Figures\n\n{_figures(figures, folder)}'] if figures else []
  commands = '\n'.join(f'    {x}' for x in group_commands(groups))
  parts += [f'## Commands\n\n{commands}', f'## Versions\n\n{_versions(groups)}']
  return '\n\n'.join(parts) + '\n'


def table(rows: list[Row]) -> str:
  """A Markdown table of methods; the paper's figure stands beside ours."""
  head = '| method | ours, IQM | 95 % interval | seeds | each seed | paper |'
  lines = [head, '|---|---|---|---|---|---|']
  for row in rows:
    paper = '–' if row.paper is None else f'{row.paper:.1f}'
    if not row.results:
      lines.append(f'| `{row.group.method}` | not evaluated yet | | | | {paper} |')
      continue
    values = ', '.join(f'{x.value:.1f}' for x in row.results)
    mark = '' if row.finished else ' (unfinished)'
    cells = [f'`{row.group.method}`', f'{row.iqm:.1f}{mark}', row.bounds]
    cells += [str(len(row.results)), values, paper]
    lines.append(f'| {" | ".join(cells)} |')
  return '\n'.join(lines)


def _figures(figures: dict[str, pathlib.Path], folder: pathlib.Path) -> str:
  return '\n\n'.join(f'![{k}]({v.relative_to(folder).as_posix()})' for k, v in figures.items())


def _versions(groups: list[Group]) -> str:
  starts = [start for group in groups for run in group.runs for start in read_starts(run.path)]
  found = dict.fromkeys(version_cells(x) for x in starts)
  lines = [f'- commit {commit}; Python {python}; {packages}; {machine}'
           for commit, python, packages, machine in found]  # fmt: skip
  return '\n'.join(lines) or 'The runs did not record their versions.'
