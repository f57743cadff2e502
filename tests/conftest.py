"""TensorFlow and Mesa crash in one process: among others, TensorFlow's tests get their own."""

import os
import re
import subprocess
import sys

import pytest

CHILD = 'RECON_TENSORFLOW_TESTS'
USES = re.compile(
  r'^(import tensorflow|from recon_tf import loop|.*diagnose import .*stages'
  r'|.*agent_fixtures|.*policy_fixtures)',
  re.MULTILINE,
)


def uses_tensorflow(path) -> bool:
  return path.suffix == '.py' and bool(USES.search(path.read_text(encoding='utf-8')))


def pytest_pycollect_makemodule(module_path, parent):
  """A stand-in for a file with TensorFlow, unless this process is for nothing else."""
  config = parent.config
  paths = [config.invocation_params.dir / x.split('::')[0] for x in config.args]
  alone = os.environ.get(CHILD) or all(uses_tensorflow(x) for x in paths)
  if alone or not uses_tensorflow(module_path):
    return None
  return Elsewhere.from_parent(parent, path=module_path)


def pytest_collection_modifyitems(config, items):
  """One process for all of them, so that they share their agents."""
  others = [x for x in items if isinstance(x, Process)]
  if others:
    others[0].paths = [str(x.path) for x in others]
    items[:] = [x for x in items if x not in others[1:]]


class Elsewhere(pytest.File):
  def collect(self):
    yield Process.from_parent(self, name='tensorflow')


class Process(pytest.Item):
  def __init__(self, **kwargs):
    super().__init__(**kwargs)
    self.paths = []
    self.add_marker(pytest.mark.timeout(0))  # the tests inside have their own

  def runtest(self):
    option = self.config.getoption
    command = [sys.executable, '-m', 'pytest', *self.paths, '-p', 'no:cacheprovider']
    command += ['-k', option('keyword'), '-m', option('markexpr')]
    command += ['-x'] if option('maxfail') == 1 else []
    env = {**os.environ, CHILD: '1'}
    result = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    sys.stdout.write(result.stdout)
    if result.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
      pytest.fail(result.stdout[-20_000:] + result.stderr[-2000:], pytrace=False)
