"""Parses recon-tf commands, one per line of the input as JSON, as recon-tf would, and runs none.

Prints a JSON list with what each was refused for, or null. A process of its own, because some
commands import TensorFlow before they read their flags.
"""

import argparse
import contextlib
import io
import json
import sys

from recon_tf import envs
from recon_tf.__main__ import load
from recon_tf.common import Flags, UserError

PLANNERS = ('reproduce', 'sweep')  # --dry checks what they would hand to train


class Parsed(Exception):
  """The command has read its flags and would begin to work."""


def stop_after(function):
  def stopping(self, *args, **options):
    result = function(self, *args, **options)
    for config in result if isinstance(result, list) else ():
      if config.task not in envs.TASKS and not config.task.startswith('gym_'):
        raise UserError(f"There is no task '{config.task}'.")
    raise Parsed

  return stopping


def refusal(words: list[str]) -> str | None:
  """What is wrong with the command."""
  dry = ['--dry'] if words[0] in PLANNERS and '--list' not in words else []
  sys.argv = [f'recon-tf {words[0]}', *words[1:], *dry]
  errors = io.StringIO()
  try:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
      load(words[0]).main()
  except Parsed:
    return None
  except UserError as error:
    return str(error)
  except SystemExit as error:
    return errors.getvalue() or f'exit code {error.code}' if error.code else None
  return None if words[0] in PLANNERS else 'it ran without reading its flags'


if __name__ == '__main__':
  argparse.ArgumentParser.parse_args = stop_after(argparse.ArgumentParser.parse_args)
  Flags.parse, Flags.parse_tasks = stop_after(Flags.parse), stop_after(Flags.parse_tasks)
  print(json.dumps([refusal(json.loads(line)) for line in sys.stdin]))
