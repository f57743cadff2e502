"""The fault campaign in small: one kill of every kind must leave the run as if undisturbed."""

import pathlib
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest

from recon_tf.commands import bench_train
from recon_tf.common.files import read_json, write_json
from recon_tf.common.npz import write_npz
from recon_tf.faults import bits, limits
from recon_tf.faults.children import Child
from recon_tf.faults.compare import difference
from recon_tf.faults.points import Operation, Point
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


def test_what_an_earlier_campaign_left_is_not_used(tmp_path):
  (tmp_path / 'demos').mkdir()
  for folder in (tmp_path, pathlib.Path(__file__)):
    result = run('--only', 'kills', '--folder', folder)
    assert result.returncode == 1
    assert result.stderr == f"error: --folder: '{folder}' is not an empty folder; choose another.\n"


def test_every_bad_value_of_every_key_is_refused(capsys):
  table = Table()
  limits.check_flags(table, {'bench train': bench_train.EXTRA})
  assert table.failures == []
  said = capsys.readouterr().out
  assert said.count('ok   flags: below') > 100
  assert 'ok   flags: bench train: below --rounds=0' in said


def test_a_failure_is_counted_and_kept(capsys):
  table = Table()
  table.add('kill', 'before open x', '')
  table.add('kill', 'after open x', 'metrics differ')
  assert table.failures == ['kill: after open x: metrics differ']
  assert '| kill | 2 | 1 |' in table.text()
  assert 'FAIL kill: after open x' in capsys.readouterr().out


def test_flipped_bits_are_noticed_or_harmless_with_a_checksum(tmp_path):
  write_json(tmp_path / 'final.json', {'step': 20, 'success': 0.5})
  size = 8 * (tmp_path / 'final.json').stat().st_size
  counts = bits.flip(tmp_path / 'final.json', read_json, range(size))
  assert counts['silent'] == 0
  assert counts['noticed'] > 0.8 * size
  assert read_json(tmp_path / 'final.json') == {'step': 20, 'success': 0.5}


def test_flipped_bits_are_silent_without_a_checksum(tmp_path):
  (tmp_path / 'final.json').write_text('{"step": 20, "success": 0.5}')
  assert bits.flip(tmp_path / 'final.json', read_json, range(200))['silent'] > 10


def make_run(folder):
  for part in ('checkpoints', 'milestones'):
    write_npz(folder / part / '000000000020.npz', {'x': np.arange(3)})
  write_json(folder / 'eval' / 'final.json', {'step': 20})
  (folder / 'metrics.jsonl').write_text('{"step": 20, "time/minutes": 1}\n')
  return folder


def test_only_the_planted_file_may_be_more_than_the_undisturbed_run_has(tmp_path):
  first, second = make_run(tmp_path / 'a'), make_run(tmp_path / 'b')
  assert difference(first, second) == ''
  assert difference(first, second, '1x.npz') == '1x.npz is gone'
  write_npz(second / 'milestones' / '1x.npz', {'x': np.arange(3)})
  assert difference(first, second) == 'milestones: 1 and 2 files'
  assert difference(first, second, '1x.npz') == ''
  write_npz(second / 'milestones' / 'other.npz', {'x': np.arange(3)})
  assert difference(first, second, '1x.npz') == 'milestones: 1 and 2 files'
  (second / 'milestones' / 'other.npz').unlink()
  write_npz(second / 'milestones' / '000000000020.npz', {'x': np.arange(1, 4)})
  assert difference(first, second, '1x.npz') == 'milestones: x in 000000000020.npz'


def test_a_command_without_space_for_files_is_heard(capfd):
  def no_space():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

  with capfd.disabled():
    result = Child('nonsense', [], no_space).wait()
  assert (result.code, result.orphans) == (1, [])
  assert result.sentence.startswith("error: There is no command 'nonsense'.")


def test_a_point_is_met_by_its_operation_alone():
  saved = Operation('rename', 'checkpoints/3.npz', 2)
  assert Point(saved, 'half').meets(saved)
  assert not Point(saved, 'half').meets(saved._replace(lines=3))
  assert not Point(saved, 'half').meets(saved._replace(kind='open'))
  assert Point(saved._replace(lines=-1), 'half').meets(saved)
