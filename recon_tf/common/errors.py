"""Errors that are part of the interface: one sentence, no traceback."""

import contextlib
import difflib
import errno
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

# What a system says that is full or does not permit; files of ours have sentences of their own.
REFUSALS = (
  errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO,
  errno.EMFILE, errno.ENFILE, errno.ENAMETOOLONG,
)  # fmt: skip


class UserError(Exception):
  """Bad input; the message names the file, key or flag and says what to do."""


class WorkerCrashed(RuntimeError):
  """The process of an environment is gone; its restart() brings it back."""


class Interrupted(KeyboardInterrupt):
  """SIGINT or SIGTERM; `number` is the signal's."""

  def __init__(self, number: int, message: str = ''):
    super().__init__(message)
    self.number = int(number)


def nearest(name: str, names: Iterable[str]) -> str:
  """' Did you mean ...?' for the closest valid name, or an empty string."""
  found = difflib.get_close_matches(str(name), [str(x) for x in names], 1, 0.5)
  return f" Did you mean '{found[0]}'?" if found else ''


def run(main: Callable[[], None]) -> None:
  """Runs a script; a UserError, Ctrl-C or SIGTERM ends it with one line and a code."""
  try:
    with _handled(_interrupt):
      main()
      if sys.stdout is not None:
        sys.stdout.flush()  # what cannot be written must be heard of here
  except UserError as error:
    _end(f'error: {error}', 1)
  except BrokenPipeError:  # the reader, such as head, has seen enough
    sys.stdout = None
  except OSError as error:
    if error.errno not in REFUSALS:
      raise
    sys.stdout = None  # it may be what cannot be written
    what = f"'{error.filename}'" if error.filename else 'the output'
    reason = f'{error.strerror}; check its space and permissions, or choose another'
    _end(f'error: Cannot use {what}: {reason}.', 1)
  except KeyboardInterrupt as error:
    _end(str(error) or 'interrupted', 128 + getattr(error, 'number', signal.SIGINT))


def _end(message: str, code: int) -> NoReturn:
  try:
    print(message, file=sys.stderr, flush=True)
  except OSError:  # a full disk too
    sys.stderr = None
  sys.exit(code)


@contextlib.contextmanager
def postponed() -> Iterator[Callable[[], bool]]:
  """Inside, the first signal only makes the yielded function true; it is raised at the end."""
  arrived = []

  def note(number, frame):
    if arrived:
      _interrupt(number, frame)
    arrived.append(number)

  with _handled(note):
    yield lambda: bool(arrived)
  if arrived:
    raise Interrupted(arrived[0])


@contextlib.contextmanager
def _handled(handler: Callable) -> Iterator[None]:
  """SIGINT and SIGTERM go to this handler inside; only the main thread gets signals at all."""
  if threading.current_thread() is not threading.main_thread():
    yield
    return
  before = {x: signal.signal(x, handler) for x in (signal.SIGINT, signal.SIGTERM)}
  try:
    yield
  finally:
    for number, old in before.items():
      signal.signal(number, old)


def _interrupt(number, frame) -> None:
  raise Interrupted(number)
