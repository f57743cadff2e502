"""scripts/bench.py as a user runs it: parameter counts, and the update's benchmark when tiny."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from recon_tf.commands import bench_train
from recon_tf.common import UserError, load_config

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


def test_policies_are_timed():
  result = run('policies', 'maze_pointmaze', '--actions', '3', '--check')
  assert result.returncode == 0, result.stderr
  assert re.search(r'^maze_pointmaze +bc_raw +\d+\.\d\d +\d+\.\d\d$', result.stdout, re.MULTILINE)
  result = run('policies', 'maze_pointmaze', '--untrained')
  assert result.returncode == 1
  assert result.stderr.startswith('error: --untrained: none of RECON, vectors, cpu; ')
  assert result.stderr.endswith('has maze_pointmaze.\n')


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
def test_parts_are_measured_against_their_products(tmp_path):
  flags = [*TINY, '--shapes=3', '--threads=1']
  result = run('parts', '--configs', 'maze', 'cpu', 'state', *flags, RECON_XLA_CACHE=str(tmp_path))
  assert result.returncode == 0, result.stderr
  names = ('world model', 'main', 'discriminator', 'explorer and gate', 'gate alone', 'cloning')
  for name in (*names, 'whole update'):
    (line,) = [x for x in result.stdout.splitlines() if x.startswith(f'{name:20}')]
    _, milliseconds, _, alone, ratio = (float(x) for x in line[20:].split())
    assert alone > 0
    assert ratio == pytest.approx(milliseconds / alone, rel=0.2)  # of rounded numbers
  assert sum(x.startswith(('MatMul', 'BatchMatMul', 'Einsum')) for x in result.stdout.split()) == 3


@pytest.mark.slow
def test_loop_accounts_for_all_seconds_of_a_run(tmp_path):
  flags = ('--env.length=20', '--env.maze.repeat=16', '--steps=40', '--train_steps=1')
  flags += ('--threads=1', '--eval_final=1')
  configs = ('--configs', 'maze', 'cpu', 'debug', 'state', '--task', 'maze_umaze')
  command = [sys.executable, str(ROOT / 'scripts' / 'bench.py'), 'loop', *configs, *flags]
  result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
  assert result.returncode == 0, result.stderr
  found = re.findall(r'^(\S.{27}) +([\d.]+) s', result.stdout, re.MULTILINE)
  seconds = {k.strip(): float(v) for k, v in found}
  whole = seconds.pop('all')
  assert sum(seconds.values()) == pytest.approx(whole, abs=0.1)
  assert seconds['updates'] > seconds['waiting for batches']
  assert {'evaluation, acting', 'evaluation, simulators', 'writing checkpoints'} < {*seconds}
  assert not (tmp_path / 'runs').exists()


GOOD = {'ratio': 1.5, 'loading': 0.01, 'new_programs': 0, 'updates': 3.5, 'memory_gb': 2.0}
GOOD.update(compile_s=50.0, cold=True, gemm_share=0.6)


@pytest.mark.parametrize(
  ('presets', 'changes', 'missed'),
  [
    (('maze', 'cpu'), {}, []),
    (('maze', 'cpu'), {'updates': 2.9, 'memory_gb': 2.6}, ['updates', 'memory_gb']),
    (('maze', 'cpu'), {'compile_s': 61.0}, ['compile_s']),
    (('maze', 'cpu'), {'compile_s': 61.0, 'cold': False}, []),
    ((), {'updates': 0.01, 'memory_gb': 5.9}, []),
    ((), {'gemm_share': 0.49, 'memory_gb': 6.1}, ['gemm_share', 'memory_gb']),
    (('cpu', 'state'), {'updates': 0.1, 'ratio': 1.71}, ['ratio']),
    (('cpu',), {'loading': 0.06, 'new_programs': 1}, ['loading', 'new_programs']),
  ],
)
def test_targets_depend_on_the_size(presets, changes, missed):
  found = bench_train.check(load_config(*presets), {**GOOD, **changes})
  assert [x.split()[0] for x in found] == missed
  bench_train.conclude(found, strict=False)
  with pytest.raises(UserError) if missed else contextlib.nullcontext():
    bench_train.conclude(found, strict=True)


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


def test_policies_act_fast_enough():
  result = run('policies', 'maze_pointmaze', 'metaworld_hammer', '--actions', '50', '--check')
  assert result.returncode == 0, result.stderr
  assert re.search(r'^maze_pointmaze +bc_raw +\d\.\d\d ', result.stdout, re.MULTILINE)
  assert re.search(r'^metaworld_hammer +recon +\d\.\d\d ', result.stdout, re.MULTILINE)
