"""Learning curves from run folders, in cases with known answers."""

import json

import numpy as np
import pytest

from recon_tf.analysis.report import curves
from recon_tf.analysis.runs import expert_line, find_runs, group_runs, minutes_trace
from tests.helpers.written_runs import lines, make_run


def test_final_evaluation_replaces_one_of_its_step(tmp_path):
  run = make_run(tmp_path, evaluations={0: 0.1, 500: 0.2, 1000: 0.3}, final=(1000, 0.9))
  steps, values = curves.evaluation_line(run)
  assert steps.tolist() == [0, 500, 1000]
  assert values == pytest.approx([10, 20, 90])


def test_center_of_lines_that_were_evaluated_at_other_steps(tmp_path):
  # Both are straight, so that interpolation is exact: 10 and 30 % a thousand steps.
  make_run(tmp_path, seed=0, evaluations={0: 0.0, 1000: 0.1, 2000: 0.2})
  make_run(tmp_path, seed=1, evaluations={0: 0.0, 500: 0.15, 1500: 0.45, 2000: 0.6})
  (group,) = group_runs(find_runs(tmp_path))
  curve = curves.learning_curve(group)
  assert curve.steps[0] == 0
  assert curve.steps[-1] == 2000
  np.testing.assert_allclose(curve.center, 0.02 * curve.steps, atol=1e-9)
  np.testing.assert_allclose(curve.low, 0.01 * curve.steps, atol=1e-9)
  np.testing.assert_allclose(curve.high, 0.03 * curve.steps, atol=1e-9)


def test_center_ends_where_the_shortest_run_is(tmp_path):
  make_run(tmp_path, seed=0, evaluations={0: 0.0, 1000: 0.5, 2000: 1.0})
  make_run(tmp_path, seed=1, evaluations={0: 0.0, 1000: 0.1})
  make_run(tmp_path, seed=2)
  (group,) = group_runs(find_runs(tmp_path))
  curve = curves.learning_curve(group)
  assert curve.steps.tolist() == [0, 1000]
  assert curve.center == pytest.approx([0, 30])
  assert [x[0][-1] for x in curve.lines] == [2000, 1000]


def test_a_single_seed_is_its_own_center(tmp_path):
  make_run(tmp_path, evaluations={0: 0.0, 300: 0.7, 1000: 0.5})
  (group,) = group_runs(find_runs(tmp_path))
  curve = curves.learning_curve(group)
  assert curve.steps.tolist() == [0, 300, 1000]
  assert curve.center == pytest.approx([0, 70, 50])
  np.testing.assert_array_equal(curve.low, curve.high)


def test_without_evaluations_the_curve_is_empty(tmp_path):
  make_run(tmp_path)
  (group,) = group_runs(find_runs(tmp_path))
  assert curves.learning_curve(group).center.size == 0


def test_clock_of_a_resumed_run_adds_up(tmp_path):
  clock = [(0, 2.0), (100, 3.0), (200, 5.0), (300, 1.0), (400, 4.0)]
  metrics = [{'step': step, 'time/minutes': minutes} for step, minutes in clock]
  run = make_run(tmp_path, evaluations={0: 0.0, 250: 0.5, 400: 1.0}, metrics=metrics)
  assert minutes_trace(run)[1].tolist() == [2, 3, 5, 6, 9]
  minutes, values = curves.clock_line(run)
  assert minutes.tolist() == [2, 5, 9]
  assert values.tolist() == [0, 50, 100]


def test_the_clock_shows_the_slowest_method_too(tmp_path):
  for method, minutes in (('bc', 2.0), ('recon', 10.0)):
    clock = lines({'disc/main': 0.5}, [0, 1000], minutes)
    make_run(tmp_path, method, evaluations={0: 0.0, 1000: 1.0}, metrics=clock)
  groups = group_runs(find_runs(tmp_path))
  figure = curves.clock_figure(groups)
  low, high = figure.axes[0].get_xlim()
  assert low == 0
  assert high >= 20


def test_long_metrics_are_averaged_in_bins(tmp_path):
  steps = list(range(0, 1000))
  metrics = [{'step': x, 'disc/main': float(x % 2)} for x in steps]
  run = make_run(tmp_path, metrics=metrics)
  places, values = curves.metric_line(run, 'disc/main', points=10)
  assert len(places) == 10
  assert np.all(np.diff(places) > 0)
  np.testing.assert_allclose(values, 0.5, atol=0.01)
  assert curves.metric_line(run, 'gate/mean')[0].size == 0


def test_a_line_that_a_kill_cut_off_is_left_out(tmp_path):
  run = make_run(tmp_path, metrics=lines({'disc/main': 0.5}, [0, 100]))
  with (run.path / 'metrics.jsonl').open('a') as file:
    file.write('{"step": 200, "disc/ma')
  assert curves.metric_line(run, 'disc/main')[0].tolist() == [0, 100]


def test_own_tasks_have_the_line_of_who_showed_them(tmp_path):
  meta = {'expert': 'recorded', 'returns': [1.0, 2.0, 3.0], 'successes': [True] * 3, 'rejected': 1}
  (tmp_path / 'shown').mkdir()
  (tmp_path / 'shown' / 'meta.json').write_text(json.dumps(meta))
  shown = {'demos': str(tmp_path / 'shown'), 'evaluations': {0: 0.1, 500: 0.2}}
  make_run(tmp_path / 'runs', **shown)
  groups = group_runs(find_runs(tmp_path / 'runs'))
  assert expert_line(groups) == 0.75  # failed attempts count
  (axes,) = [x for x in curves.curves_figure(groups).axes if x.lines]
  assert [x.get_ydata()[0] for x in axes.lines if x.get_label() == 'expert'] == [75]
  make_run(tmp_path / 'pushed', eval_kicks=0.1, **shown)
  assert expert_line(group_runs(find_runs(tmp_path / 'pushed'))) is None  # not shown under pushes
  (tmp_path / 'shown' / 'meta.json').write_text(json.dumps({**meta, 'expert': 'somewhere'}))
  assert expert_line(groups) is None
