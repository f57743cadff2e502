"""scripts/evaluate.py as a user runs it: all configurations, twice, pairs, and bad input."""

import json
import shutil

import pytest

from tests.helpers.run_fixtures import digests, refused, script


@pytest.fixture(scope='module')
def run(finished_run):
  return finished_run


@pytest.mark.slow
def test_robust_evaluation_twice(run, tmp_path):
  """The same numbers both times, videos on request, and the training state untouched."""
  before = digests(run)
  assert {'config.yaml', 'metrics.jsonl'} < set(before)
  robust = run / 'eval' / 'robust.json'
  flags = ('--robust', '--episodes', 2, '--workers', 2)
  first = script('evaluate', run, *flags, '--video', tmp_path / 'videos', cwd=tmp_path)
  assert first.returncode == 0, first.stderr
  numbers = json.loads(robust.read_text())
  second = script('evaluate', run, *flags, cwd=tmp_path)
  assert second.returncode == 0, second.stderr
  assert json.loads(robust.read_text()) == numbers
  assert digests(run) == before
  assert len(numbers['configurations']) == 14
  assert all(len(x['returns']) == 2 for x in numbers['configurations'].values())
  assert list(numbers['columns']) == ['Clean', 'Noise', 'Delay', 'Impulse/scale']
  assert numbers['measure'] == 'success'
  assert numbers['step'] == 180
  assert len(list((tmp_path / 'videos').glob('maze_umaze-recon-0-*.mp4'))) == 14
  assert 'Impulse/scale' in first.stdout


@pytest.mark.slow
def test_clean_evaluation_repeats_the_runs_own(run, tmp_path):
  """Same starts, same weights, same workers: the final evaluation again, to the last digit."""
  result = script('evaluate', run, cwd=tmp_path)
  assert result.returncode == 0, result.stderr
  own = json.loads((run / 'eval' / 'final.json').read_text())
  found = json.loads((run / 'eval' / 'clean.json').read_text())['configurations']['clean']
  assert [found[k] for k in ('returns', 'lengths')] == [own[k] for k in ('returns', 'lengths')]
  result = script('evaluate', run, '--kicks', 0.5, '--episodes', 2, cwd=tmp_path)
  assert result.returncode == 0, result.stderr
  assert result.stdout.split('\n\n')[-1].splitlines()[1].split()[-1] == 'Pushed'
  pushed = json.loads((run / 'eval' / 'pushed.json').read_text())
  assert list(pushed['columns']) == ['Pushed']
  assert len(pushed['configurations']['kicks 0.5']['successes']) == 2


@pytest.mark.slow
def test_recovery_repeats_itself_and_has_a_curve(run, tmp_path):
  """From displaced states: the same numbers twice, the expert beside them, milestones too."""
  before = digests(run)
  flags = ('--recovery', '--episodes', 4, '--workers', 3)
  first = script('evaluate', run, *flags, '--milestones', cwd=tmp_path)
  assert first.returncode == 0, first.stderr
  assert 'all that count' in first.stdout
  assert 'recovery at step 180: ' in first.stdout
  found = json.loads((run / 'eval' / 'recovery.json').read_text())
  assert found['step'] == 180
  assert found['expert'] == 1
  assert 0 <= found['score'] <= 1
  assert [x['step'] for x in found['milestones']] == [0, 60, 120, 180]
  # The last milestone is the last policy.
  assert found['milestones'][-1]['by_difficulty'] == found['by_difficulty']
  assert {tuple(x['cell']) for x in found['cells']} == {
    (1, 2), (1, 3), (2, 3), (3, 1), (3, 2), (3, 3)
  }  # fmt: skip
  # The goal's cell is no start; what is missing from 180 steps was spent there.
  assert 0 < sum(x['steps'] for x in found['cells']) <= 180
  assert digests(run) == before
  second = script('evaluate', run, *flags, cwd=tmp_path)
  assert second.returncode == 0, second.stderr
  again = json.loads((run / 'eval' / 'recovery.json').read_text())
  del found['milestones'], found['crc32'], again['crc32']  # a checksum is of the whole file
  assert again == found
  assert second.stdout.splitlines()[-1].split()[:3] == ['maze_umaze', 'recon', '0']
  refused(script('evaluate', run, '--milestones', cwd=tmp_path), '--milestones')
  refused(script('evaluate', run, '--recovery', '--robust', cwd=tmp_path), '--recovery')


@pytest.mark.slow
def test_folder_of_runs_gives_pairs_and_leaves_out_what_is_broken(run, tmp_path):
  home = tmp_path / 'runs' / 'maze_umaze'
  for method in ('recon', 'cmil'):
    shutil.copytree(run, home / method / '0')
  text = (home / 'cmil' / '0' / 'config.yaml').read_text().partition('\n')[2]
  (home / 'cmil' / '0' / 'config.yaml').write_text(text.replace('method: recon', 'method: cmil'))
  shutil.copytree(run, home / 'recon' / '1')
  for path in (home / 'recon' / '1' / 'checkpoints').iterdir():
    path.write_bytes(path.read_bytes()[:50])
  result = script('evaluate', tmp_path / 'runs', '--episodes', 1, cwd=tmp_path)
  assert result.returncode == 0, result.stderr
  (line,) = [x for x in result.stdout.splitlines() if 'cmil/recon' in x]
  assert '(+0.0 pp)' in line
  (left,) = [x for x in result.stderr.splitlines() if x.startswith('left out: ')]
  assert str(home / 'recon' / '1') in left
  assert 'nothing was changed. Restore one' in left


def test_bad_input(tmp_path):
  refused(script('evaluate', tmp_path / 'nothing', cwd=tmp_path), 'nothing')
  refused(script('evaluate', tmp_path, cwd=tmp_path), tmp_path, 'no config.yaml')
  refused(script('evaluate', tmp_path, '--robust', '--kicks', 0.2, cwd=tmp_path), '--kicks')
  refused(script('evaluate', tmp_path, '--episodes', -1, cwd=tmp_path), '--episodes')
  config = tmp_path / 'config.yaml'
  config.write_text('task: maze_umaze\nold_key: 3\n')
  refused(script('evaluate', tmp_path, cwd=tmp_path), config, 'old_key')
  config.write_text('task: [maze_umaze\n')
  refused(script('evaluate', tmp_path, cwd=tmp_path), config)


@pytest.mark.slow
def test_run_without_checkpoints_and_of_an_unknown_task(run, tmp_path):
  broken = tmp_path / 'run'
  shutil.copytree(run, broken, ignore=shutil.ignore_patterns('checkpoints'))
  refused(script('evaluate', broken, cwd=tmp_path), broken, 'no readable checkpoint')
  other = tmp_path / 'other'
  shutil.copytree(run, other)
  text = (other / 'config.yaml').read_text().partition('\n')[2]
  for task, part in (('maze_umase', 'maze_umaze'), ('dmc_hopper_stand', 'does not fit')):
    (other / 'config.yaml').write_text(text.replace('task: maze_umaze', f'task: {task}'))
    refused(script('evaluate', other, cwd=tmp_path), other, part)
