"""Kills this process at a chosen file operation, to the byte where a real kill could strike."""

import json
import os
import pathlib
import signal
import sys
import typing

# Python announces these before it does them.
WRITES = {'os.rename': 'rename', 'os.remove': 'unlink', 'os.mkdir': 'mkdir'}
# Where in an operation the kill comes; half a rename leaves a temporary file that is cut off.
MOMENTS = {
  'open': ('before', 'after'), 'append': ('before', 'half'), 'rename': ('before', 'half', 'after'),
  'unlink': ('before', 'after'), 'mkdir': ('before', 'after'),
}  # fmt: skip


class Point(typing.NamedTuple):
  """The `index`-th file operation below a folder, and when in it."""

  index: int
  moment: str


def watch(folder: pathlib.Path, log: pathlib.Path | None = None, kill: Point | None = None) -> None:
  """From now on, logs every file operation below the folder, or dies at one of them."""
  count, busy, root = 0, False, str(folder)

  def hook(event: str, args: tuple) -> None:
    nonlocal count, busy
    if busy or (event != 'open' and event not in WRITES):
      return
    kind = _kind(event, args)
    paths = [str(x) for x in args[: 2 if kind == 'rename' else 1]]
    if kind is None or not any(x.startswith(root) for x in paths):
      return
    if kind == 'mkdir' and not can_make(paths[0]):
      return
    busy = True  # what follows works with files too
    if log is not None:
      line = {'kind': kind, 'path': os.path.relpath(paths[-1], root)}
      with open(log, 'a') as file:
        file.write(json.dumps(line) + '\n')
    if kill is not None and count == kill.index:
      _strike(kind, paths, kill.moment)
    count += 1
    busy = False

  sys.addaudithook(hook)


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
