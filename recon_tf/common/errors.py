"""Errors that are part of the interface: one sentence, no traceback."""

import contextlib
import difflib
import signal
import sys
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
  for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, _interrupt)
  try:
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

  numbers = signal.SIGINT, signal.SIGTERM
  try:
    before = {x: signal.signal(x, note) for x in numbers}
  except ValueError:  # not the main thread, which alone gets signals
    yield lambda: False
    return
  try:
    yield lambda: bool(arrived)
  finally:
    for number, handler in before.items():
      signal.signal(number, handler)
  if arrived:
    raise Interrupted(arrived[0])


def _interrupt(number, frame) -> None:
  raise Interrupted(number)
