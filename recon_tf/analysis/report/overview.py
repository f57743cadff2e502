"""The table of results in the README of the repository, from results/summary.json."""

import pathlib

from recon_tf.analysis.report.style import label, task_name
from recon_tf.analysis.report.tables import Table
from recon_tf.common.marks import has_marks, replace_between

MARK = 'results'
METRICS = {'clean': 'calm', 'pushed': 'pushed', 'recovery': 'recovery'}
METHODS = ('bc_raw', 'bc', 'bc_equal', 'dadac', 'vmail', 'iqmpc', 'cmil', 'recon')
DIFFERENCE = 'recon-cmil'


def write_overview(page: pathlib.Path, summary: list[dict]) -> bool:
  """Writes the table into a page that has the marks for it; says whether it has."""
  if not has_marks(page, MARK):
    return False
  replace_between(page, MARK, overview(summary).markdown())
  return True


def overview(summary: list[dict]) -> Table:
  """A row per setting and evaluation that RECON has, a column per method that is in any."""
  found: dict[tuple, dict[str, dict]] = {}
  for entry in summary:
    if entry['metric'] in METRICS:
      key = entry['task'], entry['observations'], entry['variant'], entry['metric']
      found.setdefault(key, {})[entry['method']] = entry
  found = {k: v for k, v in found.items() if 'recon' in v}
  columns = [x for x in METHODS if any(x in row for row in found.values())]
  rows = [(*_setting(*key), *_cells(row, columns)) for key, row in found.items()]
  names = [f'`{x}`' if x.startswith('bc') else label(x) for x in columns]
  head = ('task', 'evaluation', 'seeds', *names, 'RECON − CMIL')
  seeds = [str(len(row['recon']['seeds'])) for row in found.values()]
  rows = [(*row[:2], count, *row[2:]) for row, count in zip(rows, seeds, strict=True)]
  return Table(MARK, 'Results', head, tuple(rows), missing='No runs yet.')


def _setting(task: str, observations: str, variant: str, metric: str) -> tuple[str, str]:
  return f'{task_name(task)}, {observations} (`{variant}`)', METRICS[metric]


def _cells(row: dict[str, dict], columns: list[str]) -> list[str]:
  return [_cell(row.get(x)) for x in (*columns, DIFFERENCE)]


def _cell(entry: dict | None) -> str:
  """Mean and interval: successes and recovery in %, returns as they are, differences with sign."""
  if entry is None:
    return '–'
  returns = entry['task'].startswith('dmc_') and entry['metric'] != 'recovery'
  sign = '+' if entry['method'] == DIFFERENCE else ''
  show = lambda x: f'{round(x * (1 if returns else 100)):{sign}d}'
  text = show(entry['mean'])
  return text if entry['low'] is None else f'{text} ({show(entry["low"])} to {show(entry["high"])})'
