"""An environment in a process of its own, which never imports TensorFlow."""

import os
import signal
import socket
import subprocess
import sys
import weakref

import numpy as np

from recon_tf.common.errors import UserError, WorkerCrashed
from recon_tf.envs import channel as ch

THREADS = ('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS')


class Worker:
  """Has the interface of the environment, plus halves of reset and step to overlap workers.

  `perturb` is a list of [name, kwargs]. With wait=False the constructor returns at once, so
  that several workers start side by side; errors then appear at the first use or in ready().
  """

  def __init__(self, task: str, config=None, seed: int = 0, perturb=None, wait: bool = True):
    self.task = task
    self._config = config
    self._seed = seed
    self._perturb = [(name, dict(kwargs)) for name, kwargs in perturb or ()]
    self._start()
    if wait:
      self.ready()

  def ready(self) -> 'Worker':
    """Waits until the environment exists; a UserError of its construction is raised here."""
    if self._description is None:
      self._check_alive()
      try:
        self._description = self._answer()
      except UserError:
        self.close()
        raise
      spaces = [ch.unpack_spaces(self._description[k]) for k in ('obs_space', 'act_space')]
      self._spaces = spaces
      self._arrays = ch.SharedArrays(self._memory, *spaces)
      os.close(self._memory)  # the mapping stays
      self._memory = None
    return self

  @property
  def obs_space(self) -> dict:
    return self.ready()._spaces[0]

  @property
  def act_space(self) -> dict:
    return self.ready()._spaces[1]

  @property
  def length(self) -> int:
    return self.ready()._description['length']

  @property
  def full(self) -> int:
    return self.ready()._description['full']

  @property
  def success_task(self) -> bool:
    return self.ready()._description['success_task']

  @property
  def pid(self) -> int:
    return self._process.pid

  def reset(self, seed: int | None = None) -> dict[str, np.ndarray]:
    self.send_reset(seed)
    return self.receive()

  def step(self, action: dict) -> dict[str, np.ndarray]:
    self.send_step(action)
    return self.receive()

  def send_reset(self, seed: int | None = None) -> None:
    """Starts a reset; receive() returns its observation."""
    self._prepare()
    self._arrays.seed[:] = (0, 0) if seed is None else (1, seed)
    self._send(ch.RESET)

  def send_step(self, action: dict) -> None:
    """Starts a step; receive() returns its observation."""
    self._prepare()
    self._arrays.write_action(action)
    self._send(ch.STEP)

  def receive(self) -> dict[str, np.ndarray]:
    """The observation of the reset or step that was started last."""
    if not self._pending:
      raise RuntimeError('receive() without send_reset() or send_step() before it.')
    self._answer()
    return self._arrays.read_observation()

  def call(self, name: str, *args, **kwargs):
    """Calls a method of the environment, or reads an attribute; arrays pass bit for bit."""
    self._prepare()
    self._send(ch.CALL, [name, args, kwargs])
    return self._answer()

  def get_state(self) -> dict[str, np.ndarray]:
    return self.call('get_state')

  def set_state(self, state: dict) -> dict[str, np.ndarray]:
    return self.call('set_state', state)

  def perturb(self, name: str, **kwargs) -> None:
    """Adds a perturbation, which a restart keeps."""
    self.call('perturb', name, **kwargs)
    self._perturb.append((name, kwargs))

  def restore(self) -> 'Worker':
    """Removes all perturbations."""
    self.call('restore')
    self._perturb.clear()
    return self

  def restart(self) -> None:
    """Replaces the process, whatever state it is in; the environment needs a reset."""
    self._process.kill()
    self.close()
    self._start()
    self.ready()

  def close(self) -> None:
    self._finalizer()
    if self._memory is not None:
      os.close(self._memory)
      self._memory = None

  def _start(self) -> None:
    self._pending = False
    self._description = self._arrays = None
    self._memory = ch.create_memory()
    self._channel, theirs = socket.socketpair()
    files = theirs.fileno(), self._memory
    command = [sys.executable, '-m', 'recon_tf.envs.worker', *map(str, files), str(os.getpid())]
    with theirs:
      self._process = subprocess.Popen(
        command, pass_fds=files, env=environment(), stdin=subprocess.DEVNULL
      )
    self._finalizer = weakref.finalize(self, _stop, self._process, self._channel)
    config = self._config.to_dict() if hasattr(self._config, 'to_dict') else self._config
    request = {'task': self.task, 'config': config, 'seed': self._seed, 'perturb': self._perturb}
    self._send(ch.CALL, request)

  def _prepare(self) -> None:
    self.ready()
    self._check_alive()
    if self._pending:  # its answer was never fetched, for example after Ctrl-C
      self._answer()

  def _send(self, kind: bytes, content=None) -> None:
    try:
      if kind == ch.CALL:
        ch.send_message(self._channel, kind, content)
      else:
        self._channel.sendall(kind)
    except OSError as error:
      raise self._crashed() from error
    self._pending = True

  def _answer(self):
    try:
      kind = ch.receive_exactly(self._channel, 1)
      content = None if kind == ch.OBSERVATION else ch.receive_content(self._channel)
    except (EOFError, OSError) as error:
      raise self._crashed() from error
    self._pending = False
    if kind != ch.ERROR:
      return content
    if content['user']:
      raise UserError(content['message'])
    raise self._crashed(content['message'])

  def _check_alive(self) -> None:
    if self._channel.fileno() < 0:
      raise WorkerCrashed(f"The worker of task '{self.task}' is closed.")

  def _crashed(self, reason: str = '') -> WorkerCrashed:
    self.close()
    reason = reason or _describe_end(self._process.returncode)
    return WorkerCrashed(f"The worker of task '{self.task}' (pid {self.pid}) crashed: {reason}.")


def environment() -> dict[str, str]:
  """For programs of our own that must not depend on the working folder."""
  # The parent's import path, so that modules of the user are found; nothing from the folder.
  path = os.pathsep.join(x or os.getcwd() for x in sys.path)
  threads = dict.fromkeys(THREADS, '1')
  return {**os.environ, **threads, 'PYTHONPATH': path, 'PYTHONSAFEPATH': '1'}


def _stop(process: subprocess.Popen, channel: socket.socket) -> None:
  channel.close()
  try:
    process.wait(2)
  except subprocess.TimeoutExpired:
    process.kill()
    process.wait()


def _describe_end(code: int) -> str:
  if code < 0:
    return f'it was ended by {signal.Signals(-code).name}'
  return f'it ended with code {code}'
