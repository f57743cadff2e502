"""The command line as a whole: help at once, every command found, and bad names refused."""

import pathlib
import subprocess
import sys

import pytest

from recon_tf import __version__
from recon_tf.__main__ import COMMANDS, load

ROOT = pathlib.Path(__file__).parents[2]


def recon(*args, cwd=None):
  env = {'PYTHONPATH': str(ROOT), 'PATH': '/usr/bin:/bin', 'MUJOCO_GL': 'egl', 'COLUMNS': '80'}
  command = [sys.executable, '-X', 'importtime', '-m', 'recon_tf', *map(str, args)]
  return subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd=cwd)


def imported(result) -> set[str]:
  lines = [x for x in result.stderr.splitlines() if x.startswith('import time:')]
  return {x.rpartition('|')[2].strip().split('.')[0] for x in lines}


@pytest.mark.parametrize('flags', [(), ('--help',), ('--version',)])
def test_help_imports_nothing_heavy(tmp_path, flags):
  result = recon(*flags, cwd=tmp_path)
  assert result.returncode == 0
  assert not {'tensorflow', 'mujoco', 'gymnasium', 'matplotlib'} & imported(result)
  assert max(map(len, result.stdout.splitlines())) <= 80
  if '--version' in flags:
    assert result.stdout == f'recon_tf {__version__}\n'
  else:
    assert all(f'\n  {name} ' in result.stdout for name in COMMANDS)


@pytest.mark.parametrize('name', COMMANDS)
def test_every_command_answers_help_without_tensorflow(tmp_path, name):
  result = recon(name, '--help', cwd=tmp_path)
  assert result.returncode == 0, result.stderr[-500:]
  assert result.stdout.startswith(f'usage: recon-tf {name} ')
  assert [x for x in result.stdout.splitlines() if len(x) > 80] == []
  assert 'tensorflow' not in imported(result)


def test_help_may_be_cut_short(tmp_path):
  command = f'{sys.executable} -m recon_tf | true'
  env = {'PYTHONPATH': str(ROOT), 'PATH': '/usr/bin:/bin'}
  options = {'capture_output': True, 'text': True, 'check': False, 'cwd': tmp_path, 'env': env}
  for _ in range(5):
    assert subprocess.run(command, shell=True, **options).stderr == ''


@pytest.mark.parametrize('name', ['--help', '--version', 'gallery'])
@pytest.mark.skipif(not pathlib.Path('/dev/full').exists(), reason='a device of Linux')
def test_output_to_a_full_disk_is_one_sentence(tmp_path, name):
  command = [sys.executable, '-m', 'recon_tf', name]
  env = {'PYTHONPATH': str(ROOT), 'PATH': '/usr/bin:/bin'}
  with open('/dev/full', 'w') as full:
    options = {'text': True, 'check': False, 'cwd': tmp_path, 'env': env, 'stdout': full}
    result = subprocess.run(command, stderr=subprocess.PIPE, **options)
    silent = subprocess.run(command, stderr=full, **options)
  assert result.stderr.startswith('error: Cannot use the output: No space left on device;')
  assert result.stderr.count('\n') == 1
  assert result.returncode == silent.returncode == 1


def test_unknown_command_is_one_sentence(tmp_path):
  result = recon('trian', cwd=tmp_path)
  assert result.returncode == 1
  errors = [x for x in result.stderr.splitlines() if not x.startswith('import time:')]
  assert errors == ["error: There is no command 'trian'. Did you mean 'train'?"]


def test_every_script_is_a_door_to_a_command():
  doors = {x.stem for x in (ROOT / 'scripts').glob('*.py')} - {'check_gl', 'faults'}
  assert doors <= set(COMMANDS)
  assert all(callable(load(name).main) for name in ('train', 'demos', 'report'))


@pytest.mark.parametrize(
  'flags',
  [('export',), ('play', 'x', '--episodes=0'), ('play', 'x', '--seed=-1'), ('gallery', '--x')],
)
def test_bad_flags_are_one_sentence(tmp_path, flags):
  result = recon(*flags, cwd=tmp_path)
  assert result.returncode == 1
  errors = [x for x in result.stderr.splitlines() if not x.startswith('import time:')]
  assert len(errors) == 1
  assert errors[0].startswith('error: ')
  assert errors[0].endswith(f'recon-tf {flags[0]} --help lists the flags.')
