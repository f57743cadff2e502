import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

from recon_tf.common.config import load_config
from recon_tf.common.errors import UserError
from recon_tf.envs import TASKS, Worker, WorkerCrashed, make

ENV = {**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)}


@pytest.fixture
def worker():
  found = Worker('maze_umaze', seed=3)
  yield found
  found.close()


def assert_same(first, second):
  assert first.keys() == second.keys()
  for key, value in first.items():
    assert np.asarray(value).dtype == np.asarray(second[key]).dtype
    np.testing.assert_array_equal(value, second[key], err_msg=key)


def gone(pid, seconds):
  deadline = time.time() + seconds
  while time.time() < deadline:
    try:
      if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
        return True
    except psutil.NoSuchProcess:
      return True
    time.sleep(0.02)
  return False


def test_worker_is_the_environment_bit_for_bit(worker):
  env = make('maze_umaze', seed=3)
  assert worker.obs_space == env.obs_space
  assert worker.act_space == env.act_space
  assert (worker.length, worker.task, worker.success_task) == (300, 'maze_umaze', True)
  assert_same(worker.reset(), env.reset())
  assert_same(worker.reset(5), env.reset(5))
  rng = np.random.default_rng(0)
  for _ in range(10):
    action = {'action': rng.uniform(-1.5, 1.5, 2)}
    assert_same(worker.step(action), env.step(action))
  assert_same(worker.get_state(), env.get_state())


def test_state_and_calls_pass_exactly(worker):
  worker.reset(1)
  state = worker.get_state()
  action = {'action': np.array([0.3, -0.7])}
  first = [worker.step(action) for _ in range(3)]
  worker.set_state(state)
  second = [worker.step(action) for _ in range(3)]
  for before, after in zip(first, second, strict=True):
    assert_same(before, after)
  assert worker.call('steps') == 3


def test_observations_are_copies(worker):
  first = worker.reset(1)
  image = first['image'].copy()
  for _ in range(20):
    worker.step({'action': np.ones(2)})
  np.testing.assert_array_equal(first['image'], image)


def test_halves_overlap_and_an_unfetched_answer_does_no_harm(worker):
  worker.reset(1)
  expected = [worker.step({'action': np.ones(2)}) for _ in range(2)][1]
  worker.reset(1)
  worker.send_step({'action': np.ones(2)})
  worker.send_step({'action': np.ones(2)})
  assert_same(worker.receive(), expected)
  with pytest.raises(RuntimeError, match='without'):
    worker.receive()


def test_config_reaches_the_environment():
  config = load_config(env={'length': 7, 'render': False})
  worker = Worker('maze_umaze', config)
  assert worker.length == 7
  assert 'image' not in worker.obs_space
  worker.close()


def test_user_errors_arrive_as_the_same_sentence(worker):
  with pytest.raises(UserError) as here:
    make('maze_umze')
  with pytest.raises(UserError) as there:
    Worker('maze_umze')
  assert str(there.value) == str(here.value)
  with pytest.raises(UserError, match='noise'):
    worker.perturb('nois')
  worker.reset(0)
  with pytest.raises(UserError, match='finite'):
    worker.step({'action': np.array([np.nan, 0])})
  worker.step({'action': np.zeros(2)})  # and the worker lives on


def test_perturbations_reach_the_environment_and_survive_a_restart(worker):
  def final(env):
    env.reset(1)
    return [env.step({'action': np.ones(2)}) for _ in range(10)][-1]

  plain = final(worker)
  worker.perturb('scale', factor=0.5)
  scaled = final(worker)
  assert (scaled['position'] != plain['position']).any()
  worker.restart()
  assert_same(final(worker), scaled)
  assert_same(final(worker.restore()), plain)
  other = Worker('maze_umaze', perturb=[['scale', {'factor': 0.5}]])
  assert_same(final(other), scaled)
  other.close()


def test_killed_worker_is_reported_and_restarts(worker):
  before = worker.reset(1)
  pid = worker.pid
  os.kill(pid, signal.SIGKILL)
  with pytest.raises(WorkerCrashed, match=r'maze_umaze.*SIGKILL'):
    worker.step({'action': np.zeros(2)})
  with pytest.raises(WorkerCrashed):
    worker.reset()
  worker.restart()
  assert worker.pid != pid
  assert_same(worker.reset(1), before)


def test_exception_in_the_environment_is_a_crash_with_its_reason(capfd):
  worker = Worker('maze_umaze', load_config(env={'render': False}))
  with pytest.raises(WorkerCrashed, match=r'AttributeError: .*no_such_method'):
    worker.call('no_such_method')
  assert 'Traceback' in capfd.readouterr().err
  worker.restart()
  worker.reset(0)
  worker.close()


def test_close_ends_the_process_and_leaks_no_file():
  files = len(os.listdir('/proc/self/fd'))
  worker = Worker('maze_umaze', load_config(env={'render': False}))
  pid = worker.pid
  worker.reset()
  worker.close()
  assert gone(pid, 0.1)
  del worker
  assert len(os.listdir('/proc/self/fd')) <= files


PARENT = """
import sys, threading, time, numpy as np
from recon_tf.common.config import load_config
from recon_tf.envs import Worker
workers = []
config = load_config(env={'render': False})
thread = threading.Thread(target=lambda: workers.append(Worker('maze_umaze', config)))
thread.start()
thread.join()  # a worker outlives the thread that started it
worker = workers[0]
time.sleep(0.2)
worker.reset()
print(worker.pid, flush=True)
while sys.argv[1] == 'stepping':
  if worker.step({'action': np.zeros(2)})['is_last']:
    worker.reset()
time.sleep(60)
"""


@pytest.mark.parametrize('state', ['stepping', 'idle'])
@pytest.mark.parametrize('sent', [signal.SIGKILL, signal.SIGTERM])
def test_no_orphan_when_the_parent_is_killed(state, sent):
  command = [sys.executable, '-c', PARENT, state]
  with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENV) as parent:
    pid = int(parent.stdout.readline())
    assert not gone(pid, 0.1)
    parent.send_signal(sent)
    assert gone(pid, 2)


def test_child_has_one_thread_and_no_tensorflow(worker):
  maps = pathlib.Path(f'/proc/{worker.pid}/maps').read_text()
  assert 'tensorflow' not in maps
  environ = pathlib.Path(f'/proc/{worker.pid}/environ').read_text()
  assert 'OMP_NUM_THREADS=1\0' in environ


@pytest.mark.slow
def test_a_process_with_tensorflow_steps_and_renders_all_tasks():
  program = pathlib.Path(__file__).parents[1] / 'helpers' / 'tensorflow_program.py'
  result = subprocess.run([sys.executable, program], capture_output=True, text=True, env=ENV)
  assert result.returncode == 0, result.stderr
  assert result.stdout.split() == list(TASKS)


def test_overhead_is_small():
  config = load_config(env={'render': False})
  inside, outside = make('maze_umaze', config), Worker('maze_umaze', config)

  def microseconds(env):
    times = []
    for _ in range(5):
      env.reset(0)
      start = time.perf_counter()
      for _ in range(200):
        env.step({'action': np.zeros(2)})
      times.append((time.perf_counter() - start) / 200 * 1e6)
    return min(times)

  direct, remote = microseconds(inside), microseconds(outside)
  outside.close()
  print(f'step in this process {direct:.0f} us, through a worker {remote:.0f} us')
  assert remote - direct < 1000
