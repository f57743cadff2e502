"""The set-up as a user meets it: wheel, make targets, and the sentences of scripts/setup.sh."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tomllib
import zipfile

import pytest

import recon_tf

ROOT = pathlib.Path(recon_tf.__file__).parents[1]
TOOLS = ('bash', 'cat', 'cut', 'dirname', 'flock', 'grep', 'id', 'sha256sum', 'tail', 'touch')


@pytest.fixture
def checkout(tmp_path):
  """A folder with what the set-up needs, and nothing set up."""
  folder = tmp_path / 'checkout'
  (folder / 'scripts').mkdir(parents=True)
  shutil.copy(ROOT / 'pyproject.toml', folder)
  for name in ('setup.sh', 'check_gl.py'):
    shutil.copy(ROOT / 'scripts' / name, folder / 'scripts')
  return folder


@pytest.fixture
def tools(tmp_path):
  """A PATH of basic tools only: no Python, and no apt-get that could repair anything."""
  folder = tmp_path / 'tools'
  folder.mkdir()
  for name in TOOLS:
    (folder / name).symlink_to(shutil.which(name))
  return folder


def setup(checkout, tools, **env):
  command = ['bash', str(checkout / 'scripts' / 'setup.sh')]
  env = {'PATH': str(tools), **env}
  return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)


def pretend_installed(checkout, gl):
  """A .venv whose stamps say that all is done, with this test's own Python in it."""
  python = checkout / '.venv' / 'bin' / 'python'
  python.parent.mkdir(parents=True)
  python.write_text(f'#!{shutil.which("bash")}\nexec {sys.executable} "$@"\n')
  python.chmod(0o755)
  content = (checkout / 'pyproject.toml').read_bytes() + f'{checkout}\n'.encode()
  key = hashlib.sha256(content).hexdigest()
  (checkout / '.venv' / '.packages').write_text(f'{key}\n')
  if gl:
    (checkout / '.venv' / '.gl').touch()


def test_wheel_carries_the_configs(tmp_path):
  command = [sys.executable, '-m', 'hatchling', 'build', '-t', 'wheel', '-d', str(tmp_path)]
  subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
  (wheel,) = tmp_path.glob('*.whl')
  with zipfile.ZipFile(wheel) as file:
    names = file.namelist()
    file.extractall(tmp_path / 'site')
  assert names.count('recon_tf/configs.yaml') == 1
  assert names.count('recon_tf/analysis/paper.yaml') == 1
  # hatchling leaves out what .gitignore names, which has hidden a package folder before.
  modules = {str(path.relative_to(ROOT)) for path in ROOT.glob('recon_tf/**/*.py')}
  assert modules <= set(names)
  assert not [name for name in names if name.startswith(('tests/', 'scripts/'))]
  code = 'import recon_tf, recon_tf.common as c; print(recon_tf.__file__); c.load_config("cpu")'
  env = {**os.environ, 'PYTHONPATH': str(tmp_path / 'site')}
  result = subprocess.run(
    [sys.executable, '-c', code], cwd=tmp_path, env=env, check=True, capture_output=True, text=True
  )
  assert result.stdout.startswith(str(tmp_path / 'site'))


def test_versions_agree():
  project = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']
  assert project['version'] == recon_tf.__version__


def test_all_packages_are_pinned():
  project = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']
  extras = project['optional-dependencies']
  for package in [*project['dependencies'], *(p for extra in extras.values() for p in extra)]:
    assert '==' in package, package


def test_ci_runs_style_checks_and_tests(tmp_path):
  env = {**os.environ, 'MAKEFLAGS': 'n'}
  result = subprocess.run(
    [ROOT / '.ci' / 'run'], cwd=tmp_path, env=env, check=True, capture_output=True, text=True
  )
  order = ['scripts/setup.sh', 'ruff check', 'ruff format --check']
  places = [result.stdout.find(part) for part in order]
  assert -1 not in places
  assert places == sorted(places)
  for part in ('-m pytest tests ', '-m pytest tests/tensorflow '):  # side by side, after those
    assert result.stdout.find(part) > places[-1]


def test_make_train_passes_flags_on():
  command = ['make', '-n', 'train', 'TASK=maze_umaze', 'ARGS=--seed 3']
  env = {k: v for k, v in os.environ.items() if not k.startswith('MAKE')}
  result = subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True, text=True)
  flags = '--configs maze clear_maze cpu --task maze_umaze --seed 3'
  assert f'scripts/train.py {flags}' in result.stdout


def test_missing_python_is_one_sentence(checkout, tools):
  result = setup(checkout, tools)
  assert result.returncode == 1
  assert result.stderr.startswith('error: Python 3.11 was not found; install it (sudo apt-get')
  assert result.stderr.count('\n') == 1
  assert not (checkout / '.venv').exists()


def test_wrong_python_is_named(checkout, tools):
  result = setup(checkout, tools, PYTHON='/nowhere/python')
  assert result.returncode == 1
  assert result.stderr.startswith('error: PYTHON=/nowhere/python is not a Python 3.11')


def test_missing_venv_module_is_one_sentence(checkout, tools, tmp_path):
  (tmp_path / 'ensurepip.py').write_text('raise ImportError')
  result = setup(checkout, tools, PYTHON=sys.executable, PYTHONPATH=str(tmp_path))
  assert result.returncode == 1
  assert "'sudo apt-get install python3.11-venv'" in result.stderr
  assert result.stderr.count('\n') == 1
  assert not (checkout / '.venv').exists()


def test_second_run_does_nothing(checkout, tools):
  pretend_installed(checkout, gl=True)
  result = setup(checkout, tools)
  assert (result.returncode, result.stdout, result.stderr) == (0, '', '')


def test_changed_packages_are_installed_again(checkout, tools):
  pretend_installed(checkout, gl=True)
  with (checkout / 'pyproject.toml').open('a') as file:
    file.write('# another pin\n')
  assert 'Python 3.11 was not found' in setup(checkout, tools).stderr


def test_rendering_is_tried_for_real(checkout, tools, tmp_path):
  pretend_installed(checkout, gl=False)
  stamp = checkout / '.venv' / '.gl'
  hidden = {'__EGL_VENDOR_LIBRARY_FILENAMES': str(tmp_path / 'none.json')}
  result = setup(checkout, tools, **hidden)
  assert result.returncode == 1
  assert result.stderr.startswith('error: Rendering with MUJOCO_GL=egl does not work')
  assert result.stderr.count('\n') == 1
  assert not stamp.exists()
  result = setup(checkout, tools)
  assert (result.returncode, result.stdout) == (0, 'setup: ready\n')
  assert stamp.exists()
