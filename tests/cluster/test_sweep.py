"""A sweep as a user runs it, on a cluster of two nodes of which one dies in the middle."""

import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import pytest

from recon_tf.cluster.progress import last_step
from recon_tf.cluster.work import read_attempt
from recon_tf.common.checkpoint import state_paths
from recon_tf.common.files import read_lines
from tests.helpers.run_fixtures import ROOT, refused, script

FLAGS = (
  '--configs', 'maze', 'cpu', 'debug', 'state', '--task', 'maze_umaze', '--env.length', '20',
  '--env.maze.repeat', '16', '--steps', '80', '--train_steps', '1', '--eval_every', '40',
  '--eval_final', '1', '--seeds', '0', '1',
)  # fmt: skip
RUNS = ('0', '1')


@pytest.fixture
def cluster():
  """A head that takes no runs, and two nodes with room for one each."""
  from ray.cluster_utils import Cluster

  # Nodes start their workers with these.
  os.environ.update(PYTHONPATH=str(ROOT), RAY_worker_niceness='0')
  cluster = Cluster(initialize_head=True, head_node_args={'num_cpus': 0})
  nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
  yield cluster, nodes
  cluster.shutdown()


def folder(logdir: pathlib.Path, seed: str) -> pathlib.Path:
  return logdir / 'maze_umaze' / 'recon' / seed


def wait_until(true, process, seconds=900):
  deadline = time.time() + seconds
  while not true():
    assert process.poll() is None, process.communicate()
    assert time.time() < deadline
    time.sleep(0.2)


def metrics(run: pathlib.Path) -> list[dict]:
  lines = read_lines(run / 'metrics.jsonl')
  clocks = ('time/', 'fps')
  return [{k: v for k, v in x.items() if not k.startswith(clocks)} for x in lines]


def arrays(run: pathlib.Path) -> dict[str, bytes]:
  newest = state_paths(run / 'checkpoints')[-1]
  with np.load(newest) as file:
    return {k: file[k].tobytes() for k in file.files if k != 'meta'}


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_a_lost_node_changes_nothing_but_the_time(tmp_path, cluster):
  ray_cluster, nodes = cluster
  logdir, calm = tmp_path / 'runs', tmp_path / 'calm'
  program = ROOT / 'scripts' / 'sweep.py'
  address = ('--address', ray_cluster.address)
  command = [sys.executable, str(program), *FLAGS, '--logdir', str(logdir), *address]
  sweep = subprocess.Popen(
    command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
  )
  logs = [logdir / 'sweep' / 'logs' / f'maze_umaze-recon-{x}.log' for x in RUNS]
  wait_until(lambda: (last_step(folder(logdir, '0')) or 0) >= 40, sweep)
  # A second sweep in this folder is refused meanwhile.
  refused(script('sweep', *FLAGS, '--logdir', logdir, cwd=tmp_path), 'another sweep', logdir)
  lost = read_attempt(logs[0])['node']
  (dead,) = [x for x in nodes if lost.endswith(x.node_id[:6])]
  ray_cluster.remove_node(dead, allow_graceful=False)
  out, errors = sweep.communicate()
  assert sweep.returncode == 0, errors
  attempts = [read_attempt(x) for x in logs]
  assert attempts[0]['attempt'] == 2
  assert attempts[0]['node'] != lost
  assert 'running, 2.' in out
  assert 'results.png written' in out
  assert (logdir / 'sweep' / 'report' / 'index.html').exists()
  # The same runs without a failure.
  result = script('sweep', *FLAGS, '--logdir', calm, '--workers', '1', cwd=tmp_path)
  assert result.returncode == 0, result.stderr
  for seed in RUNS:
    first, second = folder(logdir, seed), folder(calm, seed)
    final = (first / 'eval' / 'final.json').read_text()
    assert final == (second / 'eval' / 'final.json').read_text()
    assert arrays(first) == arrays(second)
    assert metrics(first)[-1] == metrics(second)[-1]
  # Nothing is trained twice.
  before = {x: x.stat().st_mtime_ns for x in folder(calm, '0').rglob('*')}
  again = script('sweep', *FLAGS, '--logdir', calm, '--workers', '1', cwd=tmp_path)
  assert again.returncode == 0, again.stderr
  assert before == {x: x.stat().st_mtime_ns for x in folder(calm, '0').rglob('*')}


@pytest.mark.slow
def test_a_run_that_fails_is_retried_and_named_and_the_rest_go_on(tmp_path):
  bad = tmp_path / 'runs' / 'maze_umaze' / 'recon' / '1'
  bad.mkdir(parents=True)
  (bad / 'checkpoints').write_text('no folder')
  flags = ('--workers', '2', '--retries', '1', '--steps', '20')
  result = script('sweep', *FLAGS, *flags, cwd=tmp_path)
  refused(result, 'one job failed')
  (failed,) = [x for x in result.stderr.splitlines() if x.startswith('failed: ')]
  log = tmp_path / 'runs' / 'sweep' / 'logs' / 'maze_umaze-recon-1.log'
  assert failed.startswith('failed: maze_umaze/recon/1: ')
  assert log.name in failed
  assert read_attempt(log)['attempt'] == 2
  assert (tmp_path / 'runs' / 'maze_umaze' / 'recon' / '0' / 'eval' / 'final.json').exists()


def test_no_cluster_at_the_address(tmp_path):
  result = script('sweep', *FLAGS, '--address', '127.0.0.1:1', cwd=tmp_path)
  refused(result, '--address', "'127.0.0.1:1'")
