"""scripts/demos.py as a user runs it, good and bad input."""

import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
FAST = ('--task', 'maze_umaze', '--env.render', 'False')


def run(*args, **options):
  command = [sys.executable, str(ROOT / 'scripts' / 'demos.py'), *map(str, args)]
  return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def refused(result, *parts):
  """One sentence, a non-zero code and no traceback."""
  assert result.returncode == 1, result.stderr
  lines = [x for x in result.stderr.splitlines() if x.startswith('error: ')]
  assert len(lines) == 1, result.stderr
  assert 'Traceback' not in result.stderr
  for part in parts:
    assert str(part) in lines[0]


def save(folder, name='20230101T000000-a-5.npz', rows=6, size=64, **changes):
  folder.mkdir(exist_ok=True)
  action = np.zeros((rows, 2), np.float32)
  arrays = {'image': np.zeros((rows, size, size, 3), np.uint8), 'action': action}
  arrays['reward'] = np.ones(rows, np.float32)
  np.savez_compressed(folder / name, **{**arrays, **changes})
  return folder / name


def action_with(value, row=3):
  action = np.zeros((6, 2), np.float32)
  action[row, 1] = value
  return action


def test_makes_previews_checks_and_leaves_alone(tmp_path):
  out = tmp_path / 'out'
  command = (
    '--task',
    'maze_umaze',
    '--episodes',
    2,
    '--outdir',
    out,
    '--env.maze.start_noise',
    0.1,
  )
  made = run(*command, '--preview')
  assert made.returncode == 0, made.stderr
  assert '2/2' in made.stderr  # progress bar
  names = sorted(x.name.split('.')[-1] for x in out.iterdir())
  assert names == ['gif', 'json', 'npz', 'npz', 'png']
  meta = json.loads((out / 'meta.json').read_text())
  assert meta['env']['env.maze.start_noise'] == 0.1
  assert meta['successes'] == [True, True]
  checked = run('--check', out)
  assert checked.returncode == 0
  for part in ('episodes   2', 'lengths', 'returns    1.00', 'successes  2 of 2', '[64, 64, 3]'):
    assert part in checked.stdout
  again = run(*command)
  assert again.returncode == 0
  assert 'holds 2 demonstrations of maze_umaze already' in again.stdout
  refused(
    run('--task', 'maze_pointmaze', '--episodes', 1, '--outdir', out),
    'maze_umaze',
    'another folder',
  )


def test_evaluate_prints_the_expert(tmp_path):
  result = run('--task', 'maze_umaze', '--evaluate', 2)
  assert result.returncode == 0
  assert '100 %' in result.stdout.splitlines()[-1]


def test_pushed_experts_take_longer(tmp_path):
  steps = lambda *flags: int(
    run('--task', 'maze_umaze', '--evaluate', 3, *flags).stdout.split()[-1]
  )
  assert steps('--eval_kicks', 0.3) > steps()


def test_foreign_formats_are_imported_from_the_command_line(tmp_path):
  save(tmp_path / 'cmil')
  result = run('--import-npz', tmp_path / 'cmil', '--outdir', tmp_path / 'out', '--task', 'kitchen')
  assert result.returncode == 0, result.stderr
  assert 'task       kitchen' in result.stdout
  refused(run('--import-hdf5', tmp_path / 'no.hdf5', '--outdir', tmp_path / 'b'), 'no.hdf5')
  refused(run('--import-minari', 'no/such-v0', '--outdir', tmp_path / 'b'), 'no/such-v0')
  assert not (tmp_path / 'b').exists()


def test_wrong_flags_and_tasks(tmp_path):
  refused(run('--task', 'maze_umazy', '--outdir', tmp_path / 'x'), 'maze_umazy', "'maze_umaze'")
  refused(run('--task', 'metaworld_hamer', '--outdir', tmp_path / 'x'), 'metaworld_hammer')
  refused(run('--outdir', tmp_path / 'x'), '--task')
  refused(run('--task', 'maze_umaze'), '--outdir')
  refused(run('--task', 'maze_umaze', '--outdr', 'x'), '--outdr', 'outdir')
  refused(run('--check', tmp_path, '--evaluate', 3), '--check', '--evaluate')
  assert not (tmp_path / 'x').exists()


@pytest.mark.parametrize(
  ('change', 'parts'),
  [
    ({'action': action_with(1.5)}, ('bad.npz', 'row 3', '[-1, 1]')),
    ({'action': action_with(np.nan)}, ('bad.npz', 'row 3', 'NaN')),
    ({'action': np.zeros((6, 3), np.float32)}, ('bad.npz', 'action sizes')),
    ({'action': np.array([None] * 6)}, ('bad.npz', 'damaged')),
    ({'reward': np.zeros(4)}, ('bad.npz', "'reward'")),
  ],
)
def test_bad_arrays_are_named(tmp_path, change, parts):
  save(tmp_path / 'in')
  save(tmp_path / 'in', 'bad.npz', **change)
  refused(run('--check', tmp_path / 'in'), *parts)
  refused(run('--import-npz', tmp_path / 'in', '--outdir', tmp_path / 'out'), 'bad.npz')
  assert [x.name for x in tmp_path.iterdir()] == ['in']


def test_missing_empty_truncated_and_foreign_files(tmp_path):
  refused(run('--check', tmp_path / 'none'), 'no folder', 'none')
  (tmp_path / 'in').mkdir()
  refused(run('--check', tmp_path / 'in'), 'no .npz')
  path = save(tmp_path / 'in')
  whole = path.read_bytes()
  path.write_bytes(whole[: len(whole) // 2])
  refused(run('--check', tmp_path / 'in'), path.name, 'damaged')
  path.unlink()
  np.savez(tmp_path / 'in' / 'foreign.npz', weights=np.zeros(3))
  refused(run('--check', tmp_path / 'in'), 'foreign.npz', 'not an episode')


def test_images_of_another_size_are_resized_and_said_once(tmp_path):
  for i in range(3):
    save(tmp_path / 'in', f'20230101T00000{i}-a-5.npz', size=128)
  result = run('--import-npz', tmp_path / 'in', '--outdir', tmp_path / 'out')
  assert result.returncode == 0, result.stderr
  assert result.stdout.count('128x128') == 1
  assert '[64, 64, 3]' in result.stdout


def test_unwritable_outdir(tmp_path):
  (tmp_path / 'file').write_text('')
  refused(run(*FAST, '--outdir', tmp_path / 'file' / 'demos'), 'file/demos', 'Cannot write')
  refused(run(*FAST, '--outdir', '/proc/demos'), '/proc/demos', 'Cannot write')
  save(tmp_path / 'in')
  refused(run('--import-npz', tmp_path / 'in', '--outdir', '/proc/demos'), '/proc/demos')


LIMIT = 16_384  # enough for meta.json and the maze's own file, not for images


def small_files():
  # Writing beyond the limit fails like a full disk, with an OSError instead of a signal.
  signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
  resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


def test_full_disk_leaves_no_half_written_file(tmp_path):
  environ = {**os.environ, 'PYTHONDONTWRITEBYTECODE': '1'}
  options = {'preexec_fn': small_files, 'env': environ}
  command = ('--task', 'maze_umaze', '--episodes', 1, '--outdir', tmp_path / 'out')
  refused(run(*command, **options), 'Cannot write', tmp_path / 'out')
  assert [x.name for x in (tmp_path / 'out').iterdir()] == ['meta.json']
  assert json.loads((tmp_path / 'out' / 'meta.json').read_text())['returns'] == []
  noise = np.random.default_rng(0).integers(0, 255, (6, 64, 64, 3)).astype(np.uint8)
  save(tmp_path / 'in', image=noise)
  imported = run('--import-npz', tmp_path / 'in', '--outdir', tmp_path / 'b', **options)
  refused(imported, 'Cannot write', tmp_path / 'b')
  assert sorted(x.name for x in tmp_path.iterdir()) == ['in', 'out']
  # With space again the same folder is filled.
  assert run(*command).returncode == 0


def test_interrupt_leaves_complete_files_that_are_continued(tmp_path):
  out = tmp_path / 'out'
  command = [sys.executable, str(ROOT / 'scripts' / 'demos.py'), *FAST, '--outdir', str(out)]
  # A shell that runs the tests in the background has Ctrl-C ignored, and children inherit that.
  restore = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
  command += ['--episodes', '1000']
  process = subprocess.Popen(command, stderr=subprocess.PIPE, preexec_fn=restore)
  limit = time.time() + 120
  while len(list(out.glob('*.npz'))) < 2 and time.time() < limit:
    time.sleep(0.05)
  process.send_signal(signal.SIGINT)
  errors = process.communicate(timeout=60)[1].decode()
  assert process.returncode == 130
  assert 'Traceback' not in errors
  assert not [x for x in out.iterdir() if x.name.startswith('.')]
  count = len(list(out.glob('*.npz')))
  checked = run('--check', out)
  assert checked.returncode == 0
  assert f'episodes   {count}' in checked.stdout
  assert run(*FAST, '--outdir', out, '--episodes', count + 1).returncode == 0
  assert len(list(out.glob('*.npz'))) == count + 1


def test_missing_gl_is_one_sentence(tmp_path):
  hidden = {'MUJOCO_GL': 'egl', '__EGL_VENDOR_LIBRARY_FILENAMES': str(tmp_path / 'none.json')}
  result = run('--task', 'maze_umaze', '--outdir', tmp_path / 'out', env={**os.environ, **hidden})
  assert result.returncode == 1
  assert [x for x in result.stderr.splitlines() if x.startswith('error: Cannot render images')]
  assert not (tmp_path / 'out').exists()


@pytest.mark.parametrize(
  ('flags', 'part'),
  [
    (('--import-hdf5', 'x', '--rescale', '1', '1'), "'--rescale' takes LOW below HIGH"),
    (('--import-hdf5', 'x', '--rescale', 'a', 'b'), "'rescale' is 'a'"),
    (('--import-npz', 'x', '--rescale', '0', '1'), "'--rescale' is not for --import-npz"),
    (('--import-npz', 'x', '--image-key', 'y'), "'--image-key' is not for --import-npz"),
  ],
)
def test_flags_that_an_import_cannot_use_are_refused(tmp_path, flags, part):
  refused(run(*flags, '--outdir', tmp_path / 'out'), part)
  assert not (tmp_path / 'out').exists()
