"""Commands in processes of their own: forked, so that TensorFlow is imported only once."""

import contextlib
import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from recon_tf.__main__ import start
from recon_tf.common import load_config
from recon_tf.common.config import documented


@dataclasses.dataclass
class Result:
  """How a process ended and what it said."""

  code: int  # negative for a signal
  text: str
  seconds: float
  orphans: list[int]

  @property
  def traceback(self) -> bool:
    return 'Traceback (most recent call last)' in self.text

  @property
  def sentence(self) -> str:
    """The one line of an error; empty if there is none or more than one."""
    lines = [x for x in self.text.splitlines() if x.startswith('error: ')]
    return lines[0] if len(lines) == 1 and not self.traceback else ''


class Child:
  """`recon-tf COMMAND ...`; `before` is called in the new process first.

  Its output goes through a process of its own into a file: a limit on the size of files that the
  command sets for itself must not silence it.
  """

  def __init__(self, command: str, argv: list[str], before: Callable | None = None):
    self.started = time.time()
    self.output = tempfile.TemporaryFile()  # noqa: SIM115, closed in wait()
    self._copy = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=self.output)
    self.pid = os.fork()
    if self.pid == 0:
      os.setsid()
      for number in (1, 2):
        os.dup2(self._copy.stdin.fileno(), number)
      self._copy.stdin.close()
      _run(command, argv, before)
    self._copy.stdin.close()

  def wait(self, limit: float = 600) -> Result:
    """Awaits the end, and then that of the environment processes."""
    while True:
      pid, status = os.waitpid(self.pid, os.WNOHANG)
      if pid:
        break
      if time.time() - self.started > limit:
        os.kill(self.pid, signal.SIGKILL)
      time.sleep(0.02)
    orphans = self._orphans()
    self._copy.wait()
    self.output.seek(0)
    text = self.output.read().decode(errors='replace')
    self.output.close()
    code = os.waitstatus_to_exitcode(status)
    return Result(code, text, time.time() - self.started, orphans)

  def said(self) -> str:
    """Its output so far."""
    size = os.fstat(self.output.fileno()).st_size
    return os.pread(self.output.fileno(), size, 0).decode(errors='replace')

  def members(self) -> list[int]:
    """The other processes of its session: the environments."""
    found = []
    for path in pathlib.Path('/proc').glob('[0-9]*/stat'):
      try:
        fields = path.read_text().rpartition(')')[2].split()
      except OSError:
        continue
      if int(fields[3]) == self.pid and fields[0] != 'Z' and int(path.parent.name) != self.pid:
        found.append(int(path.parent.name))
    return found

  def _orphans(self, limit: float = 10) -> list[int]:
    deadline = time.time() + limit
    while (left := self.members()) and time.time() < deadline:
      time.sleep(0.05)
    for pid in left:
      os.kill(pid, signal.SIGKILL)
    return left


def warm_up() -> None:
  """Imports and reads once what every forked process needs; TensorFlow must not run yet."""
  import tensorflow_probability  # noqa: F401

  import recon_tf.loop  # noqa: F401

  documented()
  load_config('maze', 'debug', 'state')


def run(command: str, argv: list[str], before: Callable | None = None) -> Result:
  return Child(command, argv, before).wait()


def _run(command: str, argv: list[str], before: Callable | None) -> None:
  """Never returns: the process ends here."""
  code = 0
  try:
    sys.argv = [f'recon-tf {command}', *argv]
    if before is not None:
      before()
    start(command)
  except SystemExit as error:
    code = error.code if isinstance(error.code, int) else int(error.code is not None)
  except BaseException:
    code = 1
    sys.excepthook(*sys.exc_info())
  finally:
    for output in (sys.stdout, sys.stderr):
      with contextlib.suppress(OSError, AttributeError):  # full, or None
        output.flush()
    os._exit(code)
