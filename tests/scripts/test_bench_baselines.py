"""The benchmark of the baselines: its targets, and a tiny run as a user starts it."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from recon_tf.commands import bench_baselines

SCRIPTS = pathlib.Path(__file__).parents[2] / 'scripts'
GOOD = {k: {'share': 0.5, 'rate': 25.0} for k in ('dadac', 'iqmpc', 'planner')}


@pytest.mark.parametrize(
  ('size', 'name', 'values', 'missed'),
  [
    ('paper', 'iqmpc', {'share': 0.5, 'rate': 0.1}, []),
    ('paper', 'iqmpc', {'share': 0.39, 'rate': 25.0}, ['iqmpc']),
    ('paper', 'planner', {'share': 0.39, 'rate': 2.0}, ['planner']),
    ('cpu', 'planner', {'share': 0.1, 'rate': 20.5}, []),
    ('cpu', 'planner', {'share': 0.5, 'rate': 19.5}, ['plans']),
    ('', 'planner', {'share': 0.0, 'rate': 0.0}, []),
  ],
)
def test_targets_depend_on_the_size(size, name, values, missed):
  found = bench_baselines.check(size, {**GOOD, name: values})
  assert [x.split()[0] for x in found] == missed


@pytest.mark.slow
def test_measures_updates_and_plans(tmp_path):
  flags = ['--configs', 'maze', 'cpu', 'debug', 'state', '--eager=False', '--jit=True']
  flags += ['--windows.full=20', '--rounds=1', '--seconds=0.05']
  command = [sys.executable, str(SCRIPTS / 'bench.py'), 'baselines', *flags]
  env = {**os.environ, 'RECON_XLA_CACHE': str(tmp_path)}
  result = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
  assert result.returncode == 0, result.stderr
  for name in ('GEMM', 'DA-DAC updates/s', 'IQ-MPC updates/s', 'IQ-MPC plans/s'):
    assert float(re.search(rf'^{name}\s+([\d.]+)', result.stdout, re.MULTILINE)[1]) > 0
  assert 'targets missed: none' in result.stdout
