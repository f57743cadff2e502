"""Final table: interquartile mean and its interval against independent versions."""

import json

import numpy as np
import pytest

from recon_tf.analysis import stats
from recon_tf.analysis.report import tables
from recon_tf.analysis.runs import differing_keys, find_runs, group_runs
from tests.helpers.written_runs import lines, make_run


def test_iqm_is_the_mean_of_the_middle_half():
  scores = np.array([100, 3, 1, 2, 4, 5, -50, 6.0])
  assert stats.iqm(scores) == np.mean([2, 3, 4, 5])
  assert stats.iqm(scores.reshape(4, 2)) == np.mean([2, 3, 4, 5])
  assert stats.iqm(np.array([0, 1, 5.0])) == 2  # nothing is cut off three


def test_interval_agrees_with_a_bootstrap_of_its_own():
  scores = np.random.default_rng(0).uniform(0, 100, 6)
  rng = np.random.default_rng(1)
  drawn = np.sort(scores[rng.integers(0, 6, (20_000, 6))], 1)
  expected = np.quantile(drawn[:, 1:5].mean(1), [0.025, 0.975])
  np.testing.assert_allclose(stats.interval(scores), expected, atol=3)


def test_interval_is_stratified_by_task():
  # Without strata a draw would mix the tasks, and the interval would be wide.
  assert stats.interval([0.0] * 3, [100.0] * 3) == (50.0, 50.0)


def test_interval_repeats_and_leaves_numpy_alone():
  scores = np.array([10.0, 50.0, 60.0, 90.0])
  np.random.seed(7)  # noqa: NPY002
  before = np.random.get_state()[1].copy()  # noqa: NPY002
  assert stats.interval(scores) == stats.interval(scores)
  np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_rows_from_run_folders(tmp_path):
  for seed, success in enumerate([0.2, 0.4, 0.9]):
    make_run(tmp_path, 'cmil', seed, final=(6000, success))
  make_run(tmp_path, 'recon', 0, evaluations={0: 0.1, 1000: 0.7}, metrics=lines({}, [500, 1100]))
  make_run(tmp_path, 'bc', 0)
  groups = group_runs(find_runs(tmp_path))
  assert [x.method for x in groups] == ['bc', 'cmil', 'recon']
  bc, cmil, recon = tables.final_table(groups)
  assert bc.results == ()
  assert not bc.finished
  assert cmil.finished
  assert [x.value for x in cmil.results] == pytest.approx([20, 40, 90])
  assert cmil.iqm == pytest.approx(50)
  assert 20 <= cmil.interval[0] < 50 < cmil.interval[1] <= 90
  # An unfinished run counts with its newest evaluation, and one seed has no interval.
  assert not recon.finished
  assert recon.iqm == pytest.approx(70)
  assert recon.interval is None
  assert recon.results[0].step == 1100
  assert recon.results[0].minutes == 2
  assert recon.results[0].episodes == 20


def test_a_final_evaluation_counts_even_if_it_is_worse(tmp_path):
  run = make_run(tmp_path, evaluations={0: 1.0}, final=(6000, 0.3))
  assert tables.run_result(run).value == pytest.approx(30)


def test_half_written_evaluations_are_left_out(tmp_path):
  run = make_run(tmp_path, evaluations={0: 0.5, 1000: 0.8})
  (run.path / 'eval' / '000001000.json').write_text('{"step": 10')
  assert tables.run_result(run).value == pytest.approx(50)


def test_over_tasks_takes_the_seeds_that_all_tasks_have(tmp_path):
  for seed in range(3):
    make_run(tmp_path, 'recon', seed, final=(10, 0.5))
  for seed in range(2):
    make_run(tmp_path, 'recon', seed, 'maze_umaze', final=(10, 1.0))
  (entry,) = tables.over_tasks(tables.final_table(group_runs(find_runs(tmp_path))))
  assert entry['seeds'] == [0, 1]
  assert entry['iqm'] == pytest.approx(75)
  json.dumps(entry)


def test_variants_are_never_mixed(tmp_path):
  make_run(tmp_path / 'pixels', final=(10, 0.5), presets=('cpu',))
  make_run(tmp_path / 'state', final=(10, 1.0))
  groups = group_runs(find_runs(tmp_path))
  assert [(x.variant, len(x.runs)) for x in groups] == [('pixels', 1), ('state', 1)]


def test_seeds_with_other_settings_are_noticed(tmp_path):
  make_run(tmp_path, seed=0)
  make_run(tmp_path, seed=1, horizon=7)
  (group,) = group_runs(find_runs(tmp_path))
  assert differing_keys(group) == ['horizon']
