"""The Dockerfile without an engine: every copied path exists and gets there, and names agree."""

import json
import pathlib
import re
import tomllib

from recon_tf import __version__
from recon_tf.__main__ import COMMANDS

ROOT = pathlib.Path(__file__).parents[1]
TEXT = (ROOT / 'Dockerfile').read_text()
LINES = [x for x in TEXT.replace('\\\n', ' ').splitlines() if x and not x.startswith('#')]


def of(kind: str) -> list[str]:
  return [x.removeprefix(kind).strip() for x in LINES if x.startswith(f'{kind} ')]


def test_stages_build_on_each_other_and_the_default_needs_no_gpu():
  names = ['debian:bookworm-slim']
  for stage in of('FROM'):
    base, _, name = stage.partition(' AS ')
    assert base in names
    names.append(name)
  assert names[-1] == 'cpu'
  assert 'gpu' in names
  for copy in of('COPY'):
    if '--from=' in copy:
      assert re.search('--from=(\\S+)', copy)[1] in names


def test_copied_paths_exist_and_are_not_ignored():
  allowed = [x[1:] for x in (ROOT / '.dockerignore').read_text().splitlines() if x.startswith('!')]
  paths = [x for copy in of('COPY') if '--from' not in copy for x in copy.split()[:-1]]
  assert paths
  for path in paths:
    assert (ROOT / path).exists(), path
    assert path in allowed, path
  assert not {'results', 'runs', 'tests', 'docs'} & set(allowed)


def test_entry_point_is_the_command_of_the_wheel():
  project = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']
  for entry in of('ENTRYPOINT'):
    assert json.loads(entry)[0] in project['scripts']
  for command in of('CMD'):
    assert json.loads(command)[0] in COMMANDS
  assert len(of('ENTRYPOINT')) == len(of('CMD')) == 1
  assert of('USER') == ['recon', 'recon']  # of each image, last
  assert TEXT.count(f'image.version={__version__}') == 1


def test_volumes_are_where_the_command_writes():
  """Runs and demonstrations are relative to the working folder; the cache has its variable."""
  volumes = json.loads(of('VOLUME')[0])
  assert of('WORKDIR')[-1] == '/data'
  assert {'/data/runs', '/data/demos'} <= set(volumes)
  assert re.search(r'RECON_XLA_CACHE=(\S+)', TEXT)[1] in volumes


def test_requirements_are_read_from_pyproject(capsys, monkeypatch):
  """The one-liners of the RUN steps, as Python runs them."""
  monkeypatch.chdir(ROOT)
  programs = re.findall(r'python -c "(.*?)" >', TEXT.replace('\\\n', ''), re.S)
  assert len(programs) == 2
  for program in programs:
    exec(program, {})
  printed = capsys.readouterr().out
  assert 'tensorflow==' in printed
  assert 'tensorflow[and-cuda]==' in printed


def test_version_is_the_same_everywhere():
  project = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']
  cited = re.search(r'^version: (\S+)$', (ROOT / 'CITATION.cff').read_text(), re.MULTILINE)[1]
  newest = re.search(r'^## (\S+)$', (ROOT / 'CHANGELOG.md').read_text(), re.MULTILINE)[1]
  assert project['version'] == cited == newest == __version__
