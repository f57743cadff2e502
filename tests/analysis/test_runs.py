"""Reading runs: what is not what its name says is named and left out."""

import gzip
import json
import pathlib

import pytest

from recon_tf.analysis.runs import ARCHIVE, CONTENTS, Run, open_archive
from recon_tf.common import UserError, load_config
from recon_tf.common.files import warned

ROOT = pathlib.Path(__file__).parents[2]
ARCHIVES = sorted((ROOT / 'results').glob(f'*{ARCHIVE}'))


@pytest.fixture
def run(tmp_path):
  warned.clear()
  return Run(tmp_path / 'maze_umaze' / 'recon' / '0', load_config('maze', task='maze_umaze'))


def write(run, name, content):
  path = run.path / name
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(json.dumps(content))
  return path


@pytest.mark.parametrize('name', [k for k, v in CONTENTS.items() if not all('?' in x for x in v)])
def test_measurement_without_its_fields_is_named_and_left_out(run, name, capsys):
  path = write(run, name, {'other': 1})
  assert run.read(name) is None
  assert f"Warning: Cannot use '{path}': the field " in capsys.readouterr().err


def test_evaluation_with_a_text_as_score_is_named_and_left_out(run, capsys):
  write(run, 'eval/final.json', {'step': 40, 'returns': [1.0], 'success': 'y'})
  assert run.final() is None
  assert '\'success\' is "y", not a number' in capsys.readouterr().err


def test_start_with_a_number_as_commit_is_named_and_left_out(run, capsys):
  write(run, 'meta.json', {'starts': [{'commit': 3}]})
  assert run.starts() == []
  assert "'commit' is 3, not a text" in capsys.readouterr().err


def test_gif_under_a_foreign_name_is_left_alone(run):
  for name in ('video-000000020.gif', 'video-x.gif', 'other.gif'):
    path = run.path / 'videos' / 'eval' / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b'GIF89a')
  assert run.gifs() == {'eval/video': {20: b'GIF89a'}}


@pytest.mark.parametrize(
  ('change', 'named'),
  [
    ({'metrics': {'a': [1]}}, "'step' is missing"),
    ({'metrics': {'step': [1], 'a': ['x']}}, "metric 'a' is damaged"),
    ({'metrics': {'step': [1], 'a': [1, 2]}}, "metric 'a' is damaged"),
    ({'files': {'eval/final.json': 3}}, "'eval/final.json' in .* holds no JSON object"),
    ({'starts': [{'versions': 3}]}, "'versions' is 3"),
    ({'cost': None}, "'cost' is null"),
  ],
)
def test_damaged_entries_of_an_archive_are_named(tmp_path, change, named):
  content = json.loads(gzip.decompress(ARCHIVES[0].read_bytes()))
  path = tmp_path / f'odd{ARCHIVE}'
  path.write_bytes(gzip.compress(json.dumps({'runs': [content['runs'][0] | change]}).encode()))
  with pytest.raises(UserError, match=named):
    open_archive(path)


@pytest.mark.parametrize('path', ARCHIVES, ids=lambda x: x.name)
def test_the_archives_that_come_along_can_be_opened(path):
  assert open_archive(path)
