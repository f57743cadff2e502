"""Kills this process at a chosen file operation, to the byte where a real kill could strike."""

import json
import os
import pathlib
import re
import signal
import sys
import typing

from recon_tf.common.files import TEMPORARY
from recon_tf.faults import runs

# Python announces these before it does them.
WRITES = {'os.rename': 'rename', 'os.remove': 'unlink', 'os.mkdir': 'mkdir'}
# Where in an operation the kill comes; half a rename leaves a temporary file that is cut off.
MOMENTS = {
  'open': ('before', 'after'), 'append': ('before', 'half'), 'rename': ('before', 'half', 'after'),
  'unlink': ('before', 'after'), 'mkdir': ('before', 'after'),
}  # fmt: skip


class Operation(typing.NamedTuple):
  """A file operation, told apart by what it does and how far the run is."""

  kind: str
  path: str  # below logdir, without what differs between two runs
  lines: int  # of metrics so far


class Point(typing.NamedTuple):
  """A file operation and when in it; its `lines` are any if negative."""

  operation: Operation
  moment: str

  def __str__(self) -> str:
    kind, path, lines = self.operation
    return f'{self.moment} {kind} {path}' + (f' after line {lines}' if lines >= 0 else '')

  def meets(self, operation: Operation) -> bool:
    """Whether this is the operation."""
    lines = operation.lines if self.operation.lines < 0 else self.operation.lines
    return operation == self.operation._replace(lines=lines)


def watch(logdir: pathlib.Path, log: pathlib.Path | None = None, kill: Point | None = None) -> None:
  """From now on, logs every file operation below logdir, or dies at one of them."""
  busy, root = False, str(logdir)

  def hook(event: str, args: tuple) -> None:
    nonlocal busy
    if busy or (event != 'open' and event not in WRITES):
      return
    kind = _kind(event, args)
    paths = [str(x) for x in args[: 2 if kind == 'rename' else 1]]
    if kind is None or not any(x.startswith(root) for x in paths):
      return
    if kind == 'mkdir' and not can_make(paths[0]):
      return
    busy = True  # what follows works with files too
    operation = Operation(kind, _name(os.path.relpath(paths[-1], root)), _count_lines(logdir))
    if log is not None:
      with open(log, 'a') as file:
        file.write(json.dumps(operation) + '\n')
    if kill is not None and kill.meets(operation):
      _strike(kind, paths, kill.moment)
    busy = False

  sys.addaudithook(hook)


def read_log(path: pathlib.Path) -> list[Operation]:
  """What watch() wrote, every operation once."""
  found = [Operation(*json.loads(x)) for x in path.read_text().splitlines()]
  return list(dict.fromkeys(found))


def _name(path: str) -> str:
  """Without the number of the process and the time, which are in the names of some files."""
  path = re.sub(rf'{re.escape(TEMPORARY)}\d+-', TEMPORARY, path)
  return re.sub(r'(train_episodes/\D*)\d+T\d+F\d+-', r'\1', path)


def _count_lines(logdir: pathlib.Path) -> int:
  try:
    return (runs.folder(logdir) / 'metrics.jsonl').read_bytes().count(b'\n')
  except OSError:
    return 0


def can_make(folder: str) -> bool:
  """Whether making it does anything: it is new and lies in a folder that exists."""
  return not os.path.exists(folder) and os.path.isdir(os.path.dirname(folder))


def _kind(event: str, args: tuple) -> str | None:
  if event != 'open':
    return WRITES[event]
  _, mode, flags = args
  if not isinstance(flags, int) or not flags & (os.O_WRONLY | os.O_RDWR):
    return None
  return 'append' if flags & os.O_APPEND or (mode and 'a' in mode) else 'open'


def _strike(kind: str, paths: list[str], moment: str) -> None:
  if moment == 'half' and kind == 'append':
    with open(paths[0], 'a') as file:
      file.write('{"step": 10, "model/mod')
  elif moment == 'half':
    os.truncate(paths[0], os.path.getsize(paths[0]) // 2)
  elif moment == 'after':
    actions = {'rename': os.rename, 'unlink': os.remove, 'mkdir': os.mkdir}
    actions['open'] = lambda path: open(path, 'w').close()
    actions[kind](*paths)
  os.kill(os.getpid(), signal.SIGKILL)
