"""The table of the repository's README: what stands in it, and that it is that of results/."""

import json
import pathlib

from recon_tf.analysis.report.results import MARK, overview, write_overview
from recon_tf.common.marks import marks

ROOT = pathlib.Path(__file__).parents[3]


def entry(method, metric, mean, low, high, task='maze_umaze', seeds=(0, 1, 2), variant='some'):
  known = {'variant': variant, 'task': task, 'observations': 'vectors', 'method': method}
  values = {'mean': mean, 'low': low, 'high': high}
  return {**known, 'metric': metric, 'seeds': list(seeds), **values}


def test_methods_are_columns_and_evaluations_rows():
  table = overview([
    entry('recon', 'pushed', 0.793, 0.77, 0.81), entry('cmil', 'pushed', 0.787, 0.75, 0.84),
    entry('recon-cmil', 'pushed', 0.0067, -0.047, 0.05), entry('recon', 'auc', 0.6, 0.5, 0.7),
    entry('recon', 'clean', 612.4, 575.2, 640.0, task='dmc_walker_run'),
    entry('bc_raw', 'clean', 503.0, 490.0, 517.0, task='dmc_walker_run'),
    entry('recon', 'recovery', 0.5, None, None, task='dmc_walker_run', seeds=[0]),
    entry('bc_raw', 'recovery', 0.7, None, None, task='dmc_walker_run', seeds=[0]),
    entry('recon', 'clean', 0.9, 0.8, 1.0, task='metaworld_hammer'),  # alone: nothing to compare
    entry('vmail', 'clean', 1.0, 1.0, 1.0, task='maze_pointmaze'),
  ])  # fmt: skip
  assert table.head == ('task', 'evaluation', 'seeds', '`bc_raw`', 'CMIL', 'RECON', 'RECON − CMIL')
  assert table.rows == (
    ('U-Maze, vectors (`some`)', 'pushed', '3', '–', '79 (75 to 84)', '79 (77 to 81)',
     '+1 (-5 to +5)'),
    ('Walker Run, vectors (`some`)', 'calm', '3', '503 (490 to 517)', '–', '612 (575 to 640)', '–'),
    ('Walker Run, vectors (`some`)', 'recovery', '1', '70', '–', '50', '–'),
  )  # fmt: skip


def test_a_setting_gives_way_to_one_with_its_methods_and_more_seeds():
  def setting(variant, seeds, methods=('cmil', 'recon'), metric='clean'):
    known = {'seeds': seeds, 'variant': variant}
    return [entry(x, metric, 0.5, None, None, **known) for x in methods]

  table = overview([
    *setting('three', (0, 1, 2)), *setting('one', (0,)), *setting('as_many', (3, 4, 5)),
    *setting('other', (0,), ('bc_raw', 'recon')), *setting('one', (0,), metric='recovery'),
  ])  # fmt: skip
  assert [(x[0].split('`')[1], *x[1:3]) for x in table.rows] == [
    ('three', 'calm', '3'), ('as_many', 'calm', '3'), ('other', 'calm', '1'),
    ('one', 'recovery', '1'),
  ]  # fmt: skip


def test_only_the_part_between_the_marks_is_written(tmp_path):
  page = tmp_path / 'README.md'
  assert not write_overview(page, [])
  page.write_text('no marks')
  assert not write_overview(page, [])
  assert page.read_text() == 'no marks'
  begin, end = marks(MARK)
  page.write_text(f'before\n{begin}\nold\n{end}\nafter\n')
  assert write_overview(page, [entry(x, 'clean', 1.0, 1.0, 1.0) for x in ('cmil', 'recon')])
  lines = page.read_text().splitlines()
  assert lines[:2] == ['before', begin]
  assert lines[-2:] == [end, 'after']
  cells = ['U-Maze, vectors (`some`)', 'calm', '3', *2 * ['100 (100 to 100)'], '–']
  assert f'| {" | ".join(cells)} |' in lines
  assert 'old' not in lines


def test_readme_has_the_table_of_results():
  """`python scripts/results.py` writes both."""
  summary = json.loads((ROOT / 'results' / 'summary.json').read_text())
  assert overview(summary).markdown() in (ROOT / 'README.md').read_text()
