"""The fault campaign in small: one kill of every kind must leave the run as if undisturbed."""

import pathlib
import subprocess
import sys

import pytest

from recon_tf.faults import limits
from recon_tf.faults.table import Table

ROOT = pathlib.Path(__file__).parents[2]
COMMAND = [sys.executable, str(ROOT / 'scripts' / 'faults.py')]


def run(*args):
  command = [*COMMAND, *map(str, args)]
  return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_kill_of_every_kind_is_survived_to_the_bit(tmp_path):
  result = run('--only', 'kills', '--each', '--folder', tmp_path)
  assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
  assert 'FAIL' not in result.stdout
  for kind in ('mkdir', 'open', 'append', 'rename', 'unlink'):
    assert f' {kind} ' in result.stdout
  for moment in ('before', 'half', 'after'):
    assert f'ok   kill: {moment} ' in result.stdout


def test_every_bad_value_of_every_key_is_refused(capsys):
  table = Table()
  limits.check_flags(table)
  assert table.failures == []
  assert capsys.readouterr().out.count('ok   flags: below') > 100


def test_a_failure_is_counted_and_kept(capsys):
  table = Table()
  table.add('kill', 'before open x', '')
  table.add('kill', 'after open x', 'metrics differ')
  assert table.failures == ['kill: after open x: metrics differ']
  assert '| kill | 2 | 1 |' in table.text()
  assert 'FAIL kill: after open x' in capsys.readouterr().out
