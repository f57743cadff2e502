"""scripts/bench.py as a user runs it: parameter counts, and the update's benchmark when tiny."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
TINY = [
  '--encoder.cnn_depth=2',
  '--decoder.cnn_depth=2',
  *('--rssm.deter=8', '--rssm.stoch=4', '--rssm.hidden=8', '--rssm.ensemble=2'),
  *('--actor.layers=8', '--critic.layers=8', '--disc.layers=8', '--horizon=3'),
  *('--replay.batch=2', '--replay.expert_batch=2', '--replay.length=4', '--windows.full=20'),
  *('--rounds=2', '--seconds=0.05'),
]


def run(*args, **env):
  command = [sys.executable, str(ROOT / 'scripts' / 'bench.py'), *args]
  env = {**os.environ, **env}
  return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def number(output: str, name: str) -> float:
  return float(re.search(rf'^{name}\s+([\d.]+)', output, re.MULTILINE)[1])


def test_params_are_the_papers():
  result = run('params', '--configs', 'dmc')
  assert result.returncode == 0, result.stderr
  sizes = json.loads(result.stdout)
  assert sizes == {'world_model': 17390339, 'cmil': 21528156, 'recon': 25472172}


@pytest.mark.slow
def test_train_measures_and_recompiles_nothing(tmp_path):
  env = {'RECON_XLA_CACHE': str(tmp_path)}
  first = run('train', '--configs', 'maze', 'cpu', *TINY, **env)
  assert first.returncode == 0, first.stderr
  assert list(tmp_path.glob('*/bench/*')), 'no program was kept'
  for name in ('RECON updates/s', 'CMIL updates/s', 'GEMM', 'peak memory', 'RECON / CMIL'):
    assert number(first.stdout, name) > 0
  assert number(first.stdout, 'new compilations') == 0
  assert 'targets missed: ' in first.stdout


@pytest.mark.slow
def test_check_fails_where_a_target_is_missed():
  # With an update as small as this one, loading is not below 5 %.
  result = run('train', *TINY, '--jit=False', '--cold', '--check')
  assert result.returncode == 1
  assert 'error: bench train: targets missed: ' in result.stderr
  assert 'loading' in result.stderr
  assert 'Traceback' not in result.stderr


def test_bad_flags_are_refused():
  result = run('train', '--confgs', 'maze')
  assert result.returncode == 1
  assert "Did you mean 'configs'?" in result.stderr


def test_benchmark_of_environments_does_not_import_tensorflow():
  code = 'import sys, runpy; sys.argv = ["bench.py", "envs", "--help"]\n'
  code += f'try: runpy.run_path({str(ROOT / "scripts" / "bench.py")!r}, run_name="__main__")\n'
  code += 'except SystemExit: assert "tensorflow" not in sys.modules\n'
  result = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=False)
  assert result.returncode == 0, result.stderr
