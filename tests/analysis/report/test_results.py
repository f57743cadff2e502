"""The tables in the README of the repository: what stands in them, and that they are fresh."""

import json
import pathlib

from recon_tf.analysis.report.results import MARK, overview, write_overview
from recon_tf.common.marks import marks

ROOT = pathlib.Path(__file__).parents[3]


def entry(method, metric, mean, low, high, task='maze_umaze', seeds=(0, 1, 2), variant='some'):
  known = {'variant': variant, 'task': task, 'observations': 'vectors', 'method': method}
  values = {'mean': mean, 'low': low, 'high': high}
  return {**known, 'metric': metric, 'seeds': list(seeds), **values}


def test_tasks_are_those_of_the_variant_that_has_most_of_them():
  walker = {'task': 'dmc_walker_run'}
  tasks, _ = overview([
    entry('recon', 'clean', 612.4, 575.2, 640.0, **walker),
    entry('bc_raw', 'clean', 503.0, None, None, **walker, seeds=[0]),
    entry('recon', 'clean', 0.92, 0.88, 0.96, task='metaworld_hammer'),
    entry('recon', 'clean', 1.0, 1.0, 1.0),
    entry('recon-bc_raw', 'clean', 109.0, None, None, **walker),
    entry('recon', 'recovery', 0.5, 0.4, 0.6, **walker),
    entry('recon', 'clean', 1.0, 1.0, 1.0, task='gym_own'),  # no task of the paper
    entry('cmil', 'clean', 0.5, 0.5, 0.5, variant='other'),
  ])  # fmt: skip
  assert tasks.title == 'The last policy, 3 seeds unless said otherwise'
  assert tasks.head == ('task', '`bc_raw`', 'RECON')
  assert tasks.rows == (
    ('Walker Run', '503, 1 seed', '612 (575 to 640)'),
    ('Hammer', '–', '92 (88 to 96)'),
    ('U-Maze', '–', '100'),
  )


def test_comparisons_have_several_seeds_of_both_and_a_difference():
  pair = lambda metric, seeds, **known: [
    entry('recon', metric, 0.793, 0.77, 0.81, seeds=seeds, **known),
    entry('cmil', metric, 0.787, 0.75, 0.84, seeds=seeds, **known),
    entry('recon-cmil', metric, 0.0067, -0.047, 0.05, seeds=seeds, **known),
  ]
  _, table = overview([
    *pair('recovery', range(5), task='dmc_walker_run'),
    entry('bc_equal', 'recovery', 0.7, None, None, task='dmc_walker_run', seeds=[0]),
    *pair('pushed', (0, 1, 2)),
    *pair('pushed', (0, 1), variant='two'),
    *pair('clean', (0, 1, 2), variant='tasks'),
    *pair('clean', (0, 1, 2), variant='tasks', task='metaworld_hammer'),
    *pair('clean', (0, 1, 2), variant='z'),
    *(entry(x, 'clean', 1.0, 1.0, 1.0, variant='all', task='gym_own') for x in ('cmil', 'recon')),
    entry('recon', 'recovery', 0.5, 0.4, 0.6, variant='alone'),
  ])  # fmt: skip
  assert table.head == (
    'setting',
    'evaluation',
    'seeds',
    '`bc_equal`',
    'CMIL',
    'RECON',
    'RECON − CMIL',
  )
  numbers = ('79 (75 to 84)', '79 (77 to 81)', '+1 (-5 to +5)')
  assert table.rows == (
    ('Walker Run, vectors (`some`)', 'recovery', '5', '70, 1 seed', *numbers),
    ('U-Maze, vectors (`some`)', 'pushed', '3', '–', *numbers),
    ('U-Maze, vectors (`z`)', 'calm', '3', '–', *numbers),
  )


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
  assert '| U-Maze | 100 | 100 |' in lines
  assert 'old' not in lines


def test_readme_has_the_tables_of_results():
  """`python scripts/results.py` writes both."""
  summary = json.loads((ROOT / 'results' / 'summary.json').read_text())
  page = (ROOT / 'README.md').read_text()
  for table in overview(summary):
    assert table.rows
    assert table.markdown() in page
