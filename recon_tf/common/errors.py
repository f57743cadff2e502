"""Errors that are part of the interface: one sentence, no traceback."""

import contextlib
import difflib
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator


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
  except UserError as error:
    print(f'error: {error}', file=sys.stderr)
    sys.exit(1)
  except BrokenPipeError:  # the reader, such as head, has seen enough
    sys.stdout = None
  except KeyboardInterrupt as error:
    print(str(error) or 'interrupted', file=sys.stderr)
    sys.exit(128 + getattr(error, 'number', signal.SIGINT))


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
