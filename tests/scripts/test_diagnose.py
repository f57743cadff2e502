"""scripts/diagnose.py as a user runs it: all parts, twice, and bad input."""

import json
import shutil

import numpy as np
import pytest

from recon_tf.analysis.regions import REGIONS
from recon_tf.analysis.report.registry import FIGURES
from recon_tf.analysis.runs import FILES, group_runs, open_run
from tests.helpers.run_fixtures import digests, refused, script
from tests.helpers.written_measures import (
  write_acquisition,
  write_gap,
  write_imagination,
  write_recoverability,
)
from tests.helpers.written_runs import make_run


@pytest.fixture(scope='module')
def run(finished_run):
  return finished_run


def home(run):
  """Where the run was started, which is where its demonstrations are."""
  return run.parents[3]


def results(run):
  parts = ('gap', 'recoverability', 'acquisition')
  return {x: json.loads((run / 'diagnose' / f'{x}.json').read_text()) for x in parts}


@pytest.mark.slow
def test_all_parts_twice(run):
  before = digests(run)
  first = script('diagnose', run, cwd=home(run))
  assert first.returncode == 0, first.stderr
  assert 'left out' not in first.stdout
  numbers = results(run)
  second = script('diagnose', run, cwd=home(run))
  assert second.returncode == 0, second.stderr
  assert results(run) == numbers
  assert digests(run) == before
  for name in ('gap.png', 'recoverability.png'):
    assert (run / 'diagnose' / name).stat().st_size > 5000
  check_gap(numbers['gap'])
  check_recoverability(numbers['recoverability'])
  check_acquisition(numbers['acquisition'])
  check_figures(run, numbers)


def check_gap(found):
  assert (found['expert']['horizon'], found['replay']['horizon']) == (15, 5)
  assert found['expert']['episodes'] == 8
  assert found['replay']['starts'] == 3 * (61 - 5)
  assert found['expert']['gap'] > 0
  assert set(found['regions']) <= {'support', 'near', 'far'}
  assert sum(x['starts'] for x in found['regions'].values()) > found['expert']['starts']
  for name, x in found['regions'].items():
    assert found['deciles'][name]['starts'] == x['starts']
    assert np.all(np.diff(found['deciles'][name]['uncertainty']) >= 0)


def check_recoverability(found):
  assert found['candidates'] > 20
  assert len(found['auroc']) == len(found['oracle']) == 15
  assert found['recovered'] == pytest.approx(np.mean(found['label']))
  assert min(found['distance']) > found['tube'] == 0.1
  if 0 < found['recovered'] < 1:
    assert found['oracle'][-1] == 1  # it has seen what happened
    assert max(found['oracle']) == found['oracle'][-1] >= found['oracle'][0]
    assert all(0 <= x <= 1 for x in found['auroc'])
  for x in found['calibration'].values():
    assert sum(x['count']) == found['candidates']
  first, *wider = found['tubes']
  assert (first['tube'], first['candidates']) == (found['tube'], found['candidates'])
  assert first['auroc_5'] == found['auroc'][4]
  assert all(x['candidates'] < first['candidates'] for x in wider)


def check_acquisition(found):
  assert found['steps'] == [0, 60, 120, 180]
  assert found['online_steps'] == 180
  ends = found['uncertainty'][0] - found['uncertainty'][-1]
  assert found['gain'] == pytest.approx(ends)
  assert found['gain_per_step'] == pytest.approx(ends / 180)
  assert len(found['interval_gains']) == 3


def check_figures(run, numbers):
  """Figures come from these files, and written ones of other tests have no key beyond them."""
  (group,) = group_runs([open_run(run)])
  for name in ('mechanism', 'diagnostics', 'deciles', 'gap'):
    figure = FIGURES[name].figure([group])
    assert not any('No data yet' in x.get_text() for axes in figure.axes for x in axes.texts)
  other = make_run(home(run) / 'written')
  write_gap(other, 1.0, 1.0, 1.0)
  write_recoverability(other, [0.5] * 15)
  write_acquisition(other, {0: 2.0, 10: 1.0})
  for part, content in numbers.items():
    within(other.read(FILES[part]), content)


def within(written, real):
  """Every key of the first is in the second, where both are dicts; regions may be unvisited."""
  assert set(written) - set(REGIONS) <= set(real)
  for key in set(written) & set(real):
    if isinstance(written[key], dict):
      within(written[key], real[key])


@pytest.mark.slow
def test_windows_of_a_real_run(run):
  """Counted once more from the files: the first episode is random, then four windows of six."""
  before = digests(run)
  result = script('diagnose', run, '--what', 'windows', cwd=home(run))
  assert result.returncode == 0, result.stderr
  assert 'left out' not in result.stdout
  for title in ('distance', 'U before × 1000', 'median decisions'):
    assert title in result.stdout
  assert digests(run) == before
  assert (run / 'diagnose' / 'windows.png').stat().st_size > 5000
  found = json.loads((run / FILES['windows']).read_text())
  assert {k: v['steps'] for k, v in found['who'].items()} == {
    'windows': 48, 'main': 72, 'prefill': 60,
  }  # fmt: skip
  arrays = lambda folder: [np.load(x) for x in sorted(folder.glob('*.npz'))]
  (demos,) = (home(run) / 'demos').iterdir()
  way = np.concatenate([x['log_position'] for x in arrays(demos)])
  rows = [x['log_position'][1:] for x in arrays(run / 'train_episodes')]
  flags = [x['log_explorer'][1:] > 0 for x in arrays(run / 'train_episodes')]
  places = {'prefill': rows[0]}
  places['windows'], places['main'] = (
    np.concatenate([x[y == z] for x, y in zip(rows[1:], flags[1:], strict=True)])
    for z in (True, False)
  )
  for who, own in places.items():
    part, whole = found['who'][who], own.astype(float)
    away = np.linalg.norm(whole[:, None] - way[None], axis=2).min(1)
    assert part['distance'] == pytest.approx(away.mean(), rel=1e-5)
    assert part['distance_90'] == pytest.approx(np.percentile(away, 90), rel=1e-5)
    assert part['wall_share'] == pytest.approx(at_walls(whole).mean())
    assert part['removed'] == pytest.approx(part['before'] - part['after'], rel=1e-3, abs=1e-9)
    assert part['wall']['steps'] + part['free']['steps'] == part['steps']
    assert part['places'] == len({tuple(x) for x in np.floor(whole * 4)})
    assert 1 <= part['directions'] <= 8
  assert found['cells_off'] == 0  # the way leads through all of the U
  assert found['returns']['tube'] == 0.25
  assert 2 <= found['returns']['windows'] <= 8


def at_walls(places):
  """The U-maze is five cells wide around (0, 0): free are three rows but for two cells."""
  free = np.zeros((5, 5), bool)
  free[1, 1:4] = free[3, 1:4] = free[2, 3] = True
  near = np.zeros(len(places), bool)
  for shift in ([0.12, 0.12], [0.12, -0.12], [-0.12, 0.12], [-0.12, -0.12]):
    x, y = (places + shift).T
    near |= ~free[np.floor(2.5 - y).astype(int), np.floor(x + 2.5).astype(int)]
  return near


@pytest.mark.slow
def test_imagination_of_a_real_run(run):
  """Numbers of both ways, with the keys that tests write by hand."""
  before = digests(run)
  result = script('diagnose', run, '--what', 'imagination', cwd=home(run))
  assert result.returncode == 0, result.stderr
  assert 'D, imagined' in result.stdout
  assert digests(run) == before
  assert (run / 'diagnose' / 'imagination.png').stat().st_size > 5000
  found = json.loads((run / FILES['imagination']).read_text())
  outcomes = found['outcomes']
  assert sum(x['episodes'] for x in outcomes.values()) > 0
  for part in (x for x in outcomes.values() if x['episodes']):
    assert 0 < part['real_disc'] < 1
    assert 0 < part['imagined_disc'] < 1
    assert 0 <= part['walls'] <= 1
    assert part['imagined_distance'] > 0
  written = make_run(home(run) / 'written_imagination')
  write_imagination(written, 0.1, 0.6)
  known = written.read(FILES['imagination'])
  assert set(known) <= set(found)
  for part in (x for x in outcomes.values() if x['episodes']):
    assert set(part) == set(known['outcomes']['lost'])


@pytest.mark.slow
def test_anchors_and_older_checkpoints_of_choice(run, tmp_path):
  copy = tmp_path / 'run'
  shutil.copytree(run, copy, ignore=shutil.ignore_patterns('diagnose', 'milestones'))
  (old, *_) = sorted((run / 'milestones').iterdir())
  alone = script('diagnose', copy, '--what', 'acquisition', cwd=home(run))
  refused(alone, copy, '--before')
  result = script('diagnose', copy, '--what', 'acquisition', '--before', old, cwd=home(run))
  assert result.returncode == 0, result.stderr
  found = json.loads((copy / 'diagnose' / 'acquisition.json').read_text())
  assert found['online_steps'] == 180
  # On the anchors of two runs, here one and the same twice, the means are as before.
  other = copy.with_name('other')
  shutil.copytree(copy, other)
  folders = [x / 'diagnose' / 'anchors' for x in (copy, other)]
  flags = ('--what', 'acquisition', '--before', old, '--anchors', *folders)
  result = script('diagnose', copy, *flags, cwd=home(run))
  assert result.returncode == 0, result.stderr
  both = json.loads((copy / 'diagnose' / 'acquisition.json').read_text())
  assert both['anchors'] == 2 * found['anchors']
  assert both['uncertainty'] == pytest.approx(found['uncertainty'], rel=1e-4)
  assert both['anchor_digest'] != found['anchor_digest']
  refused(
    script('diagnose', copy, '--what', 'acquisition', '--before', tmp_path, cwd=home(run)),
    '--before',
  )
  refused(
    script('diagnose', copy, '--what', 'acquisition', '--anchors', tmp_path, cwd=home(run)),
    '--anchors',
  )


def test_bad_input(tmp_path):
  refused(script('diagnose', tmp_path, cwd=tmp_path), tmp_path, 'no config.yaml')
  refused(script('diagnose', tmp_path, '--tube', -1, cwd=tmp_path), '--tube')
  refused(script('diagnose', tmp_path, '--stage', '6', cwd=tmp_path), '--stage', "'6'")


@pytest.mark.slow
def test_runs_without_checkpoints_of_other_tasks_and_versions(run, tmp_path):
  """What is wrong with each is said in a line of its own."""
  broken = {}
  for name in ('empty', 'half', 'other', 'older'):
    broken[name] = tmp_path / 'runs' / name
    shutil.copytree(run, broken[name], ignore=shutil.ignore_patterns('diagnose', 'milestones'))
  shutil.rmtree(broken['empty'] / 'checkpoints')
  for path in (broken['half'] / 'checkpoints').iterdir():
    path.write_bytes(path.read_bytes()[:5000])
  change(broken['other'], 'task: maze_umaze', 'task: dmc_hopper_stand')
  change(broken['older'], 'task: maze_umaze', 'task: maze_umaze\nold_key: 3')
  result = script('diagnose', tmp_path / 'runs', cwd=home(run))
  refused(result, 'none of 4 runs is usable')
  left = [x for x in result.stderr.splitlines() if x.startswith('left out: ')]
  assert len(left) == 4
  reasons = {
    'empty': 'has no readable checkpoint',
    'half': 'nothing was changed. Restore one',
    'other': 'the checkpoint does not fit this config',
    'older': "Unknown key 'old_key'",
  }
  for name, reason in reasons.items():
    (line,) = [x for x in left if str(broken[name]) in x]
    assert reason in line
  assert not list(tmp_path.rglob('diagnose'))


def change(run, old, new):
  """By hand: without the first line, which holds a checksum."""
  text = (run / 'config.yaml').read_text().partition('\n')[2]
  assert old in text
  (run / 'config.yaml').write_text(text.replace(old, new))


@pytest.mark.slow
def test_partial_data_give_partial_results(run, tmp_path):
  """Away from the demonstrations and without a replay, the held-out gap is still there."""
  copy = tmp_path / 'run'
  shutil.copytree(run, copy, ignore=shutil.ignore_patterns('train_episodes', 'diagnose'))
  result = script('diagnose', copy, '--what', 'gap', 'recoverability', cwd=tmp_path)
  assert result.returncode == 0, result.stderr
  found = json.loads((copy / 'diagnose' / 'gap.json').read_text())
  assert 'replay' not in found
  assert 'regions' not in found
  assert found['expert']['gap'] > 0
  assert 'left out: recoverability needs demonstrations' in result.stdout
  assert not (copy / 'diagnose' / 'recoverability.json').exists()
