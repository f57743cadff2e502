"""The two calls of pytest in `make test`, with real ones on small parts."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
WITHOUT = {k: v for k, v in os.environ.items() if not k.startswith(('MAKE', 'ARGS', 'PYTEST'))}


@pytest.fixture
def checkout(tmp_path):
  """The project's own rules with one test in each part; a test fails where FAIL names it."""
  (tmp_path / 'scripts').mkdir()
  (tmp_path / 'scripts' / 'setup.sh').touch()
  (tmp_path / 'tests' / 'tensorflow').mkdir(parents=True)
  for name in ('Makefile', 'pyproject.toml', 'tests/conftest.py'):
    shutil.copy(ROOT / name, tmp_path / name)
  for path, name in (('test_a.py', 'outside'), ('tensorflow/test_b.py', 'inside')):
    code = f"import os\n\n\ndef test_{name}():\n  assert os.environ.get('FAIL') != '{name}'\n"
    (tmp_path / 'tests' / path).write_text(code)
  return tmp_path


def call(folder, *command, **env):
  env = {**WITHOUT, **env}
  return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
  ('fail', 'flags', 'status', 'closing'),
  [
    ('', '', 0, ['1 passed', '1 passed']),
    ('outside', '-x', 2, ['1 failed', '1 passed']),
    ('inside', '', 2, ['1 passed', '1 failed']),
    ('', '-k inside', 0, ['1 deselected', '1 passed']),
    ('', '-k outside', 0, ['1 passed', '1 deselected']),
    ('', '-k neither', 2, ['1 deselected', '1 deselected']),
  ],
)
def test_both_parts_run_and_either_can_fail(checkout, fail, flags, status, closing):
  options = ['-o', 'setup', '-o', 'lint', f'RUN={sys.executable}', f'ARGS={flags}']
  result = call(checkout, 'make', 'test', *options, FAIL=fail)
  assert result.returncode == status, result.stdout + result.stderr
  found = re.findall(r'^=* ?(\d \w+) in \d+\.\d+s', result.stdout, re.MULTILINE)
  assert found == closing


def test_tensorflow_outside_of_its_folder_is_refused(checkout):
  code = 'def test_import():\n  import tensorflow\n'
  (checkout / 'tests' / 'test_a.py').write_text(code)
  result = call(checkout, sys.executable, '-m', 'pytest', 'tests/test_a.py')
  assert result.returncode == 1
  assert 'ImportError: Tests outside of tests/tensorflow cannot import TensorFlow' in result.stdout


def test_parts_are_not_mixed(checkout):
  files = ['tests/test_a.py', 'tests/tensorflow/test_b.py']
  result = call(checkout, sys.executable, '-m', 'pytest', *files)
  assert result.returncode == pytest.ExitCode.USAGE_ERROR
  assert 'cannot share a process; call pytest once for each' in result.stderr
  for file in files:
    assert call(checkout, sys.executable, '-m', 'pytest', file).returncode == 0
