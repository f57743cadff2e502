"""Errors that are part of the interface: one sentence, no traceback."""

import difflib
import sys
from collections.abc import Callable, Iterable


class UserError(Exception):
  """Bad input; the message names the file, key or flag and says what to do."""


def nearest(name: str, names: Iterable[str]) -> str:
  """' Did you mean ...?' for the closest valid name, or an empty string."""
  found = difflib.get_close_matches(str(name), [str(x) for x in names], 1, 0.5)
  return f" Did you mean '{found[0]}'?" if found else ''


def run(main: Callable[[], None]) -> None:
  """Runs a script; a UserError or Ctrl-C ends it with one line and a code."""
  try:
    main()
  except UserError as error:
    print(f'error: {error}', file=sys.stderr)
    sys.exit(1)
  except BrokenPipeError:  # the reader, such as head, has seen enough
    sys.stdout = None
  except KeyboardInterrupt:
    print('interrupted', file=sys.stderr)
    sys.exit(130)
