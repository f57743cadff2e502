"""What is refused about a cluster, in one sentence each."""

import os
import socket

import pytest

from recon_tf.cluster import nodes
from recon_tf.cluster.pool import sole
from recon_tf.cluster.settings import Settings
from recon_tf.common.errors import UserError

NODES = [{'CPU': 4.0, 'memory': 8e9}, {'CPU': 8.0, 'GPU': 1.0, 'memory': 4e9}]


@pytest.mark.parametrize(
  'wanted', [{'cpus': 8}, {'gpus': 0.25, 'cpus': 2}, {'memory': 8}, {'cpus': 0, 'gpus': 1}]
)
def test_runs_that_fit_on_a_node(wanted):
  nodes.check_resources(Settings(**wanted), NODES)


@pytest.mark.parametrize(
  ('wanted', 'parts'),
  [
    ({'cpus': 9}, ('--cpus', '9', '8')),
    ({'gpus': 2}, ('--gpus', '2', '1')),
    ({'memory': 16}, ('--memory', '16', '8')),
    ({'cpus': 8, 'memory': 8}, ('no node has all',)),  # each on one node, both on none
  ],
)
def test_too_few_resources_for_one_run(wanted, parts):
  with pytest.raises(UserError) as error:
    nodes.check_resources(Settings(**wanted), NODES)
  assert all(x in str(error.value) for x in parts)


def test_a_run_that_takes_more_than_this_machine_has(tmp_path):
  """Whatever --workers says, and before Ray is started."""
  pytest.importorskip('ray')
  for workers in (0, 2):
    settings = Settings(workers=workers, cpus=2 * os.cpu_count())
    with pytest.raises(UserError, match=f'--cpus: .* this machine has {os.cpu_count()}'):
      nodes.connected(settings, tmp_path).__enter__()


def test_a_folder_that_a_node_does_not_see(tmp_path):
  seen = {'--logdir': str(tmp_path / 'probe'), 'working folder': os.getcwd()}
  (tmp_path / 'probe').touch()
  own = nodes.look(seen)
  nodes.check_answer('a', own, own)
  (tmp_path / 'probe').unlink()
  with pytest.raises(UserError, match='--logdir') as error:
    nodes.check_answer('node-7', nodes.look(seen), own)
  assert "'node-7'" in str(error.value)
  assert f"'{tmp_path}'" in str(error.value)


def test_versions_that_differ():
  own = nodes.look({})
  other = {**own, 'versions': {**own['versions'], 'tensorflow': '2.20.0'}}
  with pytest.raises(UserError, match=r"'node-7' has tensorflow 2\.20\.0"):
    nodes.check_answer('node-7', other, own)
  del other['versions']['tensorflow']
  with pytest.raises(UserError, match='has tensorflow nowhere'):
    nodes.check_answer('node-7', other, own)


def test_something_has_to_listen_at_the_address():
  with socket.create_server(('127.0.0.1', 0)) as server:
    port = server.getsockname()[1]
    assert nodes.reachable(f'127.0.0.1:{port}')
    assert nodes.reachable(f'ray://127.0.0.1:{port}')
  assert not nodes.reachable(f'127.0.0.1:{port}')
  assert not nodes.reachable('127.0.0.1:port')


def test_two_sweeps_in_one_folder(tmp_path):
  with sole(tmp_path), pytest.raises(UserError, match='another sweep'), sole(tmp_path):
    pass
  with sole(tmp_path):  # and it is free again
    pass
