"""The program of an environment process: `python -m recon_tf.envs.worker`; see process.py."""

import contextlib
import ctypes
import os
import signal
import socket
import sys
import traceback

import recon_tf.envs
from recon_tf.common.config import Config
from recon_tf.common.errors import UserError
from recon_tf.envs import channel as ch

PR_SET_PDEATHSIG = 1


def main(channel_file: int, memory_file: int, parent: int) -> None:
  """Serves one environment until the parent closes the channel or dies."""
  signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then closes
  _end_with(parent)
  channel = socket.socket(fileno=channel_file)
  env = None
  # The parent is gone, or has closed the channel: nobody is left to tell.
  with contextlib.suppress(EOFError, ConnectionError):
    env = _serve(channel, memory_file)
  if env is not None:
    with contextlib.suppress(Exception):
      env.close()
  # Without the interpreter's teardown, which can take long or crash in GL libraries.
  sys.stdout.flush()
  sys.stderr.flush()
  os._exit(0)


class Server:
  """The environment and what can be asked of it."""

  def __init__(self, channel: socket.socket, memory: int, request: dict):
    self.channel = channel
    config = request['config']
    config = config if config is None else Config(config)
    self.env = recon_tf.envs.make(request['task'], config, request['seed'])
    for name, kwargs in request['perturb']:
      self.perturb(name, **kwargs)
    self.arrays = ch.SharedArrays(memory, self.env.obs_space, self.env.act_space)

  def describe(self) -> dict:
    return {
      'obs_space': ch.pack_spaces(self.env.obs_space),
      'act_space': ch.pack_spaces(self.env.act_space),
      'length': int(self.env.length),
      'full': int(self.env.full),
      'success_task': bool(self.env.success_task),
    }

  def answer(self, command: bytes) -> None:
    if command == ch.STEP:
      self._show(self.env.step({k: v.copy() for k, v in self.arrays.actions.items()}))
    elif command == ch.RESET:
      given, seed = self.arrays.seed
      self._show(self.env.reset(int(seed) if given else None))
    elif command == ch.CALL:
      name, args, kwargs = ch.receive_content(self.channel)
      ch.send_message(self.channel, ch.ANSWER, self._call(name, args, kwargs))

  def perturb(self, name: str, **kwargs) -> None:
    self.env = recon_tf.envs.perturb(self.env, name, **kwargs)

  def restore(self) -> None:
    self.env = self.env.restore()

  def _call(self, name: str, args: list, kwargs: dict):
    if name in ('perturb', 'restore'):
      return getattr(self, name)(*args, **kwargs)
    value = getattr(self.env, name)
    return value(*args, **kwargs) if callable(value) else value

  def _show(self, obs: dict) -> None:
    self.arrays.write_observation(obs)
    self.channel.sendall(ch.OBSERVATION)


def _serve(channel: socket.socket, memory: int):
  server = None
  while True:
    command = ch.receive_exactly(channel, 1)
    try:
      if server is None:
        server = Server(channel, memory, ch.receive_content(channel))
        ch.send_message(channel, ch.ANSWER, server.describe())
      else:
        server.answer(command)
    except (EOFError, ConnectionError):
      return server.env if server else None
    except UserError as error:
      ch.send_message(channel, ch.ERROR, {'user': True, 'message': str(error)})
    except Exception as error:
      if server is None and isinstance(error, OSError):  # such as a full disk: mazes write a file
        message = f'Cannot start the environment: {error}; free some space or set TMPDIR.'
        ch.send_message(channel, ch.ERROR, {'user': True, 'message': message})
        continue
      traceback.print_exc()
      message = f'{type(error).__name__}: {error}'
      ch.send_message(channel, ch.ERROR, {'user': False, 'message': message})
      return server.env if server else None


def _end_with(parent: int) -> None:
  """Ends this process when the parent dies, even if someone else holds its end of the channel."""

  def check(*_):
    # The signal also comes when only the thread ends that had started this process.
    if os.getppid() != parent:
      os._exit(1)

  signal.signal(signal.SIGUSR1, check)
  if sys.platform == 'linux':
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGUSR1, 0, 0, 0)
  check()


if __name__ == '__main__':
  main(*(int(x) for x in sys.argv[1:]))
