"""Several comparisons put together: which count, what is averaged, how wide the interval is."""

import numpy as np
import pytest

from recon_tf.analysis.report.together import together_table
from recon_tf.analysis.stats import differences_interval

FIRST = {'recon': [0.9, 0.8, 1.0, 0.7, 0.9], 'cmil': [0.7, 0.6, 0.9, 0.8, 0.5]}
SECOND = {'recon': [0.5, 0.6, 0.4, 0.7, 0.3], 'cmil': [0.2, 0.4, 0.3, 0.1, 0.5]}


def entries(variant, methods, task='maze_pointmaze', metric='recovery'):
  place = {'variant': variant, 'task': task, 'observations': 'vectors', 'metric': metric}
  return [{**place, 'method': k, 'values': v} for k, v in methods.items()]


def test_mean_of_the_differences_and_an_independent_bootstrap():
  pairs = [(x['recon'], x['cmil']) for x in (FIRST, SECOND)]
  mean, (low, high) = differences_interval(pairs)
  assert mean == pytest.approx((0.86 - 0.70 + 0.50 - 0.30) / 2)
  rng = np.random.default_rng(3)
  redrawn = lambda x: rng.choice(x, (20_000, len(x))).mean(1)
  means = np.mean([redrawn(a) - redrawn(b) for a, b in pairs], 0)
  np.testing.assert_allclose((low, high), np.percentile(means, [2.5, 97.5]), atol=0.01)


def test_a_row_needs_two_comparisons_with_five_seeds():
  few = {'recon': [0.1] * 5, 'cmil': [0.9] * 4}
  summary = [*entries('a', FIRST), *entries('b', few)]
  assert not together_table(summary).rows
  row, *more = together_table([*summary, *entries('c', SECOND)]).rows
  assert not more
  assert row[:5] == ('PointMaze', 'recovery', '`cmil`', '`a`, `c`', '10')
  assert row[5] == '+18.0'


def test_rows_by_task_and_over_all_tasks():
  mazes = [*entries('a', FIRST), *entries('b', SECOND)]
  drawer = entries('c', FIRST, 'metaworld_drawer-open')
  rows = together_table([*mazes, *drawer]).rows
  assert [x[0] for x in rows] == ['PointMaze', 'all']
  assert rows[1][4:6] == ('15', f'{100 * (0.16 + 0.20 + 0.16) / 3:+.1f}')


def test_differences_of_the_summary_are_no_methods():
  summary = [*entries('a', FIRST), *entries('b', SECOND)]
  differences = [x for v in 'ab' for x in entries(v, {'recon-cmil': [0.1] * 5})]
  assert together_table([*summary, *differences]).rows == together_table(summary).rows
