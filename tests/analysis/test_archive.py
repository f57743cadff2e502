"""Archives of runs: what is read from them is what the folders hold."""

import gzip
import json

import numpy as np
import pytest

from recon_tf.analysis import archive
from recon_tf.analysis.cost import run_cost
from recon_tf.analysis.regions import allocation
from recon_tf.analysis.report.results import summary
from recon_tf.analysis.runs import find_runs, group_runs, minutes_trace
from recon_tf.common import UserError
from tests.helpers.written_measures import write_gap, write_recovery, write_robust
from tests.helpers.written_runs import lines, make_run, walk


@pytest.fixture
def runs(tmp_path):
  """Two seeds of two methods; evaluations on the way differ from the final one."""
  walk(tmp_path / 'demos', [[0, 0], [1, 0], [2, 0]])
  for method, successes in (('cmil', (0.2, 0.4)), ('recon', (0.5, 0.9))):
    for seed, success in enumerate(successes):
      run = make_run(
        tmp_path / 'logs' / 'small', method, seed, evaluations={0: 0.0, 1000: success},
        final=(1000, success), metrics=lines({'disc/main': 0.123456789}, [0, 500, 1000]),
        demos=str(tmp_path / 'demos'), prefill=0,
      )  # fmt: skip
      walk(run.path / 'train_episodes', [[0, 0], [1, 0.01], [1, 0.05], [1, 3]], [0, 0, 1, 1])
      write_robust(run, {'Clean': success, 'Noise': 0.1, 'Delay': 0.25})
      write_gap(run, 2.0, 0.5, 0.004)
      write_recovery(run, [1.0, success])
  return find_runs(tmp_path / 'logs')


def test_what_is_read_is_what_the_folders_hold(runs, tmp_path):
  archive.archive_runs(runs, tmp_path / 'logs', tmp_path / 'results')
  kept = find_runs(tmp_path / 'results')
  assert [(x.task, x.method, x.seed) for x in kept] == [(x.task, x.method, x.seed) for x in runs]
  assert [x.variant for x in group_runs(kept)] == ['', '']  # one variant needs no name
  for old, new in zip(runs, kept, strict=True):
    assert new.final() == old.final()
    assert new.evaluations() == old.evaluations()
    assert new.read('diagnose/gap.json')['expert']['gap'] == 2.0
    assert new.read('diagnose/none.json') is None
    steps, values = new.metrics()['disc/main']
    assert steps.tolist() == [0, 500, 1000]
    assert values[0] == 0.1235
    np.testing.assert_array_equal(minutes_trace(new)[1], minutes_trace(old)[1])
    assert allocation(new) == allocation(old)
    assert allocation(new)['explorer']['far'] == 0.5
    assert run_cost(new) == run_cost(old)
    assert str(tmp_path) not in json.dumps(new.kept)
    assert '--logdir runs/small' in new.kept['command']


def test_runs_are_added_and_replaced(runs, tmp_path):
  folder = tmp_path / 'results'
  archive.archive_runs(runs[:3], tmp_path / 'logs', folder)
  archive.archive_runs(runs[2:], tmp_path / 'logs', folder)
  first = (folder / 'small.json.gz').read_bytes()
  assert len(find_runs(folder)) == 4
  archive.archive_runs(runs, tmp_path / 'logs', folder)
  assert (folder / 'small.json.gz').read_bytes() == first
  assert sorted(x.name for x in folder.iterdir()) == ['small.json.gz']


def test_long_metrics_are_thinned_but_for_the_clock(tmp_path):
  """Restarts and the last records stay, so that minutes and speed are as before."""
  clock = [*range(1, 900), *range(1, 400)]
  metrics = [{'step': 10 * i, 'time/minutes': float(x)} for i, x in enumerate(clock)]
  run = make_run(tmp_path / 'logs', metrics=metrics, prefill=0)
  archive.archive_runs([run], tmp_path / 'logs', tmp_path / 'results')
  (kept,) = find_runs(tmp_path / 'results')
  assert len(kept.metrics()['time/minutes'][0]) < 400
  assert minutes_trace(kept)[1][-1] == minutes_trace(run)[1][-1] == 899 + 399
  assert run_cost(kept).fps == pytest.approx(run_cost(run).fps)


def test_keys_of_other_versions_do_not_close_an_archive(runs, tmp_path):
  path = archive.add_runs(runs[:1], tmp_path / 'old.json.gz')
  (kept,) = find_runs(path)
  entry = {**kept.kept, 'config': {**kept.kept['config'], 'gone.key': 3}}
  archive.write_gzip(path, {'variant': 'old', 'runs': [entry]})
  (again,) = find_runs(path)
  assert again.config['gone.key'] == 3
  assert again.final() == kept.final()


def test_a_damaged_archive_is_named(tmp_path):
  (tmp_path / 'half.json.gz').write_bytes(b'\x1f\x8b')
  with pytest.raises(UserError, match=r'half\.json\.gz'):
    find_runs(tmp_path)


def test_the_clearest_prediction_moves_without_a_break():
  frames = np.zeros((10, 12, 18, 3), np.uint8)  # three predictions of 6 x 4, rows in threes
  for t in range(10):
    frames[t, 0, 6 + t % 6] = 255  # moves all the time
    frames[t, :4, 12:18] = 255 if t > 5 else 0  # jumps once
  chosen = archive.clearest(frames, 6)
  np.testing.assert_array_equal(chosen, frames[:, :, 6:12])


def test_summary_has_every_score_with_its_interval(runs):
  rows = {(x['method'], x['metric']): x for x in summary(group_runs(runs))}
  clean = rows['recon', 'clean']
  assert (clean['seeds'], clean['values']) == ([0, 1], [0.5, 0.9])
  assert clean['mean'] == pytest.approx(0.7)
  assert (clean['low'], clean['high']) == (0.5, 0.9)
  assert clean['observations'] == 'vectors'
  assert rows['cmil', 'auc']['values'] == pytest.approx([0.1, 0.2])
  assert rows['recon', 'robust_delay']['mean'] == 0.25
  assert rows['recon', 'recovery']['values'] == pytest.approx([0.75, 0.95])
  both = rows['recon-cmil', 'clean']
  assert both['values'] == pytest.approx([0.3, 0.5])
  assert both['mean'] == pytest.approx(0.4)
  assert both['low'] < 0.4 < both['high']
  assert 'robust_impulse' not in {x for _, x in rows}
  json.dumps(list(rows.values()), allow_nan=False)


def test_summary_compares_recon_with_every_method_and_tells_kinds_of_recovery(tmp_path):
  for method, cells in (('random_collect', 0.25), ('recon', 0.75), ('vmail', 0.5)):
    run = make_run(tmp_path / 'logs', method, 3, final=(1000, 1.0))
    write_recovery(run, [1.0, 0.5])
    path = run.path / 'eval' / 'recovery.json'
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, 'scores': {'cells': cells, 'distance': 0.5}}))
  rows = {(x['method'], x['metric']): x for x in summary(group_runs(find_runs(tmp_path / 'logs')))}
  assert rows['recon', 'recovery_cells']['values'] == [0.75]
  assert rows['recon-random_collect', 'recovery_cells']['values'] == [0.5]
  assert rows['recon-vmail', 'recovery_cells']['mean'] == 0.25
  assert rows['recon-vmail', 'recovery_distance']['low'] is None
  assert not [x for x in rows if x[0] == 'recon-recon']


@pytest.mark.parametrize(
  'content', [[1], {'other': 1}, {'runs': [1]}, {'runs': [{'path': 'a/b/0'}]}]
)
def test_archive_of_something_else_is_named(tmp_path, content):
  path = tmp_path / 'pixels.json.gz'
  path.write_bytes(gzip.compress(json.dumps(content).encode()))
  with pytest.raises(UserError, match=r'pixels\.json\.gz'):
    find_runs(path)
