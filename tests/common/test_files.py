"""Files whole or not at all, JSON with the right fields, one writer per folder."""

import json
import subprocess
import sys

import pytest

from recon_tf.common.errors import UserError
from recon_tf.common.files import (
  atomic,
  check_fields,
  read_json,
  read_lines,
  remove_temporary,
  sole_writer,
  try_json,
  write_json,
)

FIELDS = {'step': int, 'returns': [float]}


def python(code, *args, **options):
  command = [sys.executable, '-c', code, *map(str, args)]
  return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_round_trip_leaves_one_file(tmp_path):
  path = tmp_path / 'new' / 'a.json'
  write_json(path, {'step': 3, 'returns': [1, 2.5]})
  assert read_json(path, FIELDS) == {'step': 3, 'returns': [1, 2.5]}
  assert [x.name for x in path.parent.iterdir()] == ['a.json']


def test_failed_write_keeps_the_old_file_and_no_other(tmp_path):
  path = tmp_path / 'a.json'
  write_json(path, {'old': 1})
  with pytest.raises(ZeroDivisionError), atomic(path) as file:
    file.write(b'half' * (1 // 0))
  with pytest.raises(TypeError):
    write_json(path, {'new': object()})
  assert read_json(path) == {'old': 1}
  assert [x.name for x in tmp_path.iterdir()] == ['a.json']


FULL = """
import resource, signal, sys, pathlib
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
from recon_tf.common.errors import run
from recon_tf.common.versions import record_meta
run(lambda: record_meta(pathlib.Path(sys.argv[1])))
"""


def test_full_disk_is_one_sentence_and_leaves_nothing(tmp_path):
  (tmp_path / 'meta.json').write_text('{"starts": []}')
  result = python(FULL, tmp_path)
  assert result.returncode == 1
  assert result.stderr.count('\n') == 1
  assert result.stderr.startswith(f"error: Cannot write '{tmp_path / 'meta.json'}'")
  assert [x.name for x in tmp_path.iterdir()] == ['meta.json']
  assert read_json(tmp_path / 'meta.json') == {'starts': []}


@pytest.mark.parametrize(
  ('text', 'message'),
  [
    ('', 'not JSON'),
    ('{"step": 3, "returns": [1', 'not JSON'),
    ('[1]', 'no JSON object'),
    ('{"returns": []}', "'step' is missing"),
    ('{"step": "abc", "returns": []}', '\'step\' is "abc", not a whole number'),
    ('{"step": true, "returns": []}', "'step' is true, not a whole number"),
    ('{"step": 1.5, "returns": []}', "'step' is 1.5, not a whole number"),
    ('{"step": 1, "returns": ["x"]}', 'not a list of numbers'),
    ('{"step": 1, "returns": {}}', 'not a list of numbers'),
  ],
)
def test_damaged_json_is_named_with_its_field(tmp_path, text, message, capsys):
  path = tmp_path / 'a.json'
  path.write_text(text)
  with pytest.raises(UserError) as error:
    read_json(path, FIELDS)
  assert str(path) in str(error.value)
  assert message in str(error.value)
  assert [try_json(path, FIELDS), try_json(path, FIELDS)] == [None, None]
  assert capsys.readouterr().err.count(str(path)) == 1  # said once


def test_bytes_that_are_no_text(tmp_path):
  path = tmp_path / 'a.json'
  path.write_bytes(b'{"step": 1, "a": "\xff"}')
  with pytest.raises(UserError, match='not JSON'):
    read_json(path)
  assert read_json(tmp_path / 'none.json') is None


def test_fields_with_a_question_mark_may_be_missing_but_not_wrong():
  fields = {'step': int, 'parts?': [dict], 'any?': object}
  assert check_fields({'step': 1}, fields, 'it') == {'step': 1}
  assert check_fields({'step': 1, 'any': None}, fields, 'it')
  with pytest.raises(UserError, match=r"'parts' is \[1\], not a list of objects"):
    check_fields({'step': 1, 'parts': [1]}, fields, 'it')
  with pytest.raises(UserError, match="'step' is missing"):
    check_fields({}, fields, 'it')


def test_optional_fields_may_be_missing_but_not_wrong():
  assert check_fields({'a': 1}, FIELDS, 'it', optional=True) == {'a': 1}
  with pytest.raises(UserError, match="'step'"):
    check_fields({'step': []}, FIELDS, 'it', optional=True)


def test_damaged_lines_are_named_and_skipped(tmp_path, capsys):
  path = tmp_path / 'metrics.jsonl'
  good = json.dumps({'step': 1}).encode()
  path.write_bytes(b'\n'.join([good, b'{"step": \xff}', b'{"step": "abc"}', b'[1]', good, b'{"st']))
  assert read_lines(path, {'step': int}) == [{'step': 1}, {'step': 1}]
  said = capsys.readouterr().err
  for number in (2, 3, 4, 6):
    assert f'ine {number} of' in said
  assert 'in the making' in said  # a run that goes on beside its report
  assert read_lines(tmp_path / 'none.jsonl') == []


def test_temporary_files_of_a_killed_writer_go(tmp_path):
  (tmp_path / '.writing-123-a.json').write_text('half')
  (tmp_path / 'a.json').write_text('{}')
  remove_temporary(tmp_path)
  assert [x.name for x in tmp_path.iterdir()] == ['a.json']


HOLD = """
import pathlib, sys, time
from recon_tf.common.files import sole_writer
with sole_writer(pathlib.Path(sys.argv[1]), wait=False):
  print('held', flush=True)
  time.sleep(100)
"""


def test_second_writer_is_refused_and_a_killed_one_lets_go(tmp_path):
  folder = tmp_path / 'run'
  with subprocess.Popen([sys.executable, '-c', HOLD, folder], stdout=subprocess.PIPE) as holder:
    assert holder.stdout.readline() == b'held\n'
    with pytest.raises(UserError, match='Another process is writing'), sole_writer(folder, False):
      pass
    assert folder.exists()
    holder.kill()
  with sole_writer(folder, wait=False):
    (folder / 'file').write_text('')
  assert [x.name for x in folder.iterdir()] == ['file']  # the folder itself is the lock


def test_folders_made_for_nothing_go(tmp_path):
  with sole_writer(tmp_path / 'a' / 'b'):
    pass
  assert list(tmp_path.iterdir()) == []
