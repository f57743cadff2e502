"""The wheel in a venv elsewhere: record, train, load, export; then act where recon_tf is absent."""

import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import venv

import pytest

ROOT = pathlib.Path(__file__).parents[1]
TASK = 'gym_my_robot:Robot-v0'
LOAD = """
import recon_tf
assert 'site' in recon_tf.__file__, recon_tf.__file__
policy = recon_tf.load_policy('runs/gym_my_robot-Robot-v0/recon/0')
print([float(x) for x in policy.act([0.5, -0.5, 0, 0])])
"""
ACT = """
import importlib.util
import tensorflow as tf
found = importlib.util.find_spec('recon_tf')
assert found is None or found.origin is None, found  # an editable install leaves an empty folder
model = tf.saved_model.load('exported/saved_model')
act, memory = model.signatures['act'], model.signatures['initial'](tf.constant(1))
result = act(**memory, vector=tf.constant([[0.5, -0.5, 0, 0]]))
print([float(x) for x in result['action'][0]])
"""


def make_venv(folder: pathlib.Path) -> pathlib.Path:
  """A venv that sees the packages of this Python, but not what is installed from a checkout."""
  venv.create(folder, with_pip=False)
  (site,) = folder.glob('lib/python*/site-packages')
  # Packages are found there, but its own .pth files, an editable install among them, are not read.
  (site / 'packages.pth').write_text(sysconfig.get_path('purelib') + '\n')
  return folder / 'bin'


def install_wheel(scripts: pathlib.Path, folder: pathlib.Path) -> None:
  build = [sys.executable, '-m', 'hatchling', 'build', '-t', 'wheel', '-d', str(folder)]
  subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
  (wheel,) = folder.glob('*.whl')
  pip = [sys.executable, '-m', 'pip', '--python', str(scripts / 'python'), 'install', '-q']
  pip += ['--no-deps', '--no-index', '--disable-pip-version-check', str(wheel)]
  subprocess.run(pip, check=True, capture_output=True)


def own_environment() -> str:
  page = (ROOT / 'docs' / 'own_task.md').read_text()
  return re.search(r'```python file=my_robot\.py\n(.*?)```', page, re.S)[1]


@pytest.mark.slow
def test_wheel_elsewhere_from_demonstrations_to_an_export(tmp_path):
  scripts, plain = make_venv(tmp_path / 'env'), make_venv(tmp_path / 'plain')
  install_wheel(scripts, tmp_path / 'dist')
  home = tmp_path / 'home'
  home.mkdir()
  (home / 'my_robot.py').write_text(own_environment())
  env = {k: v for k, v in os.environ.items() if k != 'PYTHONPATH'}

  def run(*command):
    options = {'capture_output': True, 'text': True, 'check': False, 'cwd': home, 'env': env}
    result = subprocess.run([str(x) for x in command], **options)
    assert result.returncode == 0, f'{command}\n{result.stdout[-900:]}\n{result.stderr[-1500:]}'
    return result.stdout

  recon = scripts / 'recon-tf'
  assert 'export' in run(recon, '--help')
  run(recon, 'demos', '--record', 'my_robot:expert', '--task', TASK, '--episodes', 2,
      '--env.render', 'False', '--outdir', 'shown')  # fmt: skip
  text = run(recon, 'train', '--configs', 'debug', 'state', '--task', TASK, '--demos', 'shown',
             '--steps', 80, '--eval_every', 80)  # fmt: skip
  assert 'What recon will learn from' in text
  run(recon, 'report', 'runs')
  page = (home / 'runs' / 'report' / 'index.html').read_text()
  assert 'recon-tf train --configs' in page  # a wheel has no scripts
  assert 'scripts/' not in page
  loaded = run(scripts / 'python', '-c', LOAD)
  run(recon, 'export', 'runs/gym_my_robot-Robot-v0/recon/0', 'exported')
  acted = run(plain / 'python', '-c', ACT)
  assert eval(acted) == pytest.approx(eval(loaded), abs=1e-6)
