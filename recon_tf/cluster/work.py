"""What a Ray task does on its node: one command, as a user would start it there."""

import json
import pathlib
import socket
import time
from collections.abc import Sequence

from recon_tf.common.jobs import failure_reason, run_command

BUSY = 'Another process is writing'  # the run of a node that Ray gave up before it was gone
PATIENCE = 180  # seconds; network drives hold the locks of a dead machine for about 90


class CommandError(Exception):
  """A command that failed, with the last of its words; Ray starts it again."""


def execute(script: str, flags: Sequence[str], log: str, cwd: str, node: str = '') -> None:
  """Runs a command; a training resumes by itself where an earlier attempt was."""
  path, deadline = pathlib.Path(log), time.monotonic() + PATIENCE
  note_attempt(path, node or node_name())
  while True:
    code = run_command(script, flags, path, cwd)
    if not code:
      return
    reason = failure_reason(code, path)
    if not reason.startswith(BUSY) or time.monotonic() > deadline:
      raise CommandError(reason)
    time.sleep(2)


def node_name() -> str:
  """Several nodes may share a machine, so its name alone does not tell them apart."""
  import ray

  return f'{socket.gethostname()}:{ray.get_runtime_context().get_node_id()[:6]}'


def note_attempt(log: pathlib.Path, node: str) -> None:
  """Beside the log, for the table of all runs: where this attempt runs."""
  number = read_attempt(log).get('attempt', 0) + 1
  temporary = log.with_suffix('.writing')
  temporary.write_text(json.dumps({'node': node, 'attempt': number}))
  temporary.replace(log.with_suffix('.json'))


def read_attempt(log: pathlib.Path) -> dict:
  try:
    return json.loads(log.with_suffix('.json').read_text())
  except (OSError, ValueError):
    return {}
