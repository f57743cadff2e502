"""Checksums inside text files: a changed value is refused, a changed layout is not."""

import json

import pytest

from recon_tf.common import Config, UserError
from recon_tf.common.files import read_json, read_lines, write_json
from recon_tf.common.logger import JSONLOutput
from recon_tf.common.seals import check_text, seal, seal_text, unseal

VALUE = {'step': 20, 'returns': [0.5, float('inf')], 'deep': {3: 'ü', 'none': None}}


def test_a_sealed_object_is_read_as_it_was_written():
  text = json.dumps(seal(VALUE))
  assert unseal(json.loads(text), 'it') == {**VALUE, 'deep': {'3': 'ü', 'none': None}}


def test_another_digit_is_refused_with_the_file_and_a_way_out(tmp_path):
  path = tmp_path / 'final.json'
  write_json(path, VALUE)
  path.write_text(path.read_text().replace('0.5', '0.7'))
  with pytest.raises(UserError, match=r"final\.json'.* damaged or edited .*'crc32'"):
    read_json(path)
  lines = [x for x in path.read_text().splitlines() if 'crc32' not in x]
  path.write_text('\n'.join(lines).replace('},\n}', '}\n}').replace(' },', ' }'))
  assert read_json(path)['returns'][0] == 0.7


def test_layout_and_order_of_keys_do_not_count(tmp_path):
  path = tmp_path / 'a.json'
  write_json(path, VALUE)
  content = json.loads(path.read_text())
  path.write_text(json.dumps(dict(reversed(content.items())), indent=7))
  assert read_json(path)['step'] == 20


def test_files_without_a_checksum_are_read(tmp_path):
  (tmp_path / 'a.json').write_text('{"step": 1}')
  assert read_json(tmp_path / 'a.json') == {'step': 1}
  assert unseal([1], 'it') == [1]


def test_changed_line_of_metrics_is_named_and_skipped(tmp_path, capsys):
  output = JSONLOutput(tmp_path)
  for step in (1, 2, 3):
    output(step, {'loss': 0.25 * step}, [])
  path = tmp_path / 'metrics.jsonl'
  path.write_text(path.read_text().replace('"loss": 0.5', '"loss": 0.4'))
  assert read_lines(path) == [{'step': 1, 'loss': 0.25}, {'step': 3, 'loss': 0.75}]
  assert 'line 2 of' in capsys.readouterr().err
  JSONLOutput(tmp_path, resume=3, lines=3)  # a run that goes on says so too
  assert 'line 2 of' in capsys.readouterr().err


@pytest.mark.parametrize('old', ['seed: 3', 'seed', 'a: 1, '])
def test_changed_config_is_refused(tmp_path, old):
  path = tmp_path / 'config.yaml'
  Config(a=1, seed=3).save(path)
  text = path.read_text()
  path.write_text(text.replace(old, old.replace('3', '7') if '3' in old else ''))
  with pytest.raises(UserError, match=r"config\.yaml' was damaged or edited"):
    Config.load(path)


def test_config_without_its_first_line_is_taken_as_it_is(tmp_path):
  path = tmp_path / 'config.yaml'
  Config(seed=3).save(path)
  path.write_text(path.read_text().partition('\n')[2].replace('3', '7'))
  assert Config.load(path).seed == 7


def test_first_line_itself_may_be_damaged():
  text = seal_text('a: 1\n')
  check_text(text, 'it')
  for damaged in (text.replace(': ', ':', 1), text.replace('\n', '\v', 1), text[:12]):
    with pytest.raises(UserError, match='it was damaged'):
      check_text(damaged, 'it')
