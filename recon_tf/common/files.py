"""Files that are written whole or not at all, JSON that is checked, folders with one writer."""

import contextlib
import fcntl
import json
import os
import pathlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from recon_tf.common.errors import UserError
from recon_tf.common.seals import seal, unseal

TEMPORARY = '.writing-'
KINDS = {
  int: 'a whole number', float: 'a number', str: 'a text', dict: 'an object', list: 'a list',
  bool: 'true or false',
}  # fmt: skip

Path = str | os.PathLike
# name -> int, float, str, dict, list, object for any, or [int] for a list; 'name?' may be missing
Fields = Mapping[str, Any]

warned = set()  # what warn_once has said already


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[BinaryIO]:
  """A file under a temporary name, synced and renamed at the end; a UserError if that fails."""
  path = pathlib.Path(path)
  temporary = path.parent / f'{TEMPORARY}{os.getpid()}-{path.name}'
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(temporary, 'wb') as file:
      yield file
      file.flush()
      os.fsync(file.fileno())
    os.replace(temporary, path)
    _sync_folder(path.parent)
  except BaseException as error:
    with contextlib.suppress(OSError):  # the folder itself may be missing or a file
      temporary.unlink()
    if not isinstance(error, OSError):
      raise
    raise UserError(
      f"Cannot write '{path}': {error.strerror or error}; free some space or choose another folder."
    ) from error


def write_bytes(path: Path, content: bytes) -> None:
  with atomic(path) as file:
    file.write(content)


def write_json(path: Path, value: Mapping, indent: int = 1) -> None:
  """With a checksum, which read_json compares and takes away."""
  write_bytes(path, f'{json.dumps(seal(value), indent=indent)}\n'.encode())


def remove_temporary(folder: Path) -> None:
  """Clears what a killed writer left; only the folder's one writer may call it."""
  for path in pathlib.Path(folder).glob(f'{TEMPORARY}*'):
    with contextlib.suppress(OSError):
      path.unlink()


def read_json(path: Path, fields: Fields | None = None) -> dict | None:
  """A JSON object with these fields, None if there is no file; a UserError names what is wrong."""
  try:
    content = json.loads(pathlib.Path(path).read_bytes())
  except FileNotFoundError:
    return None
  except (OSError, ValueError, RecursionError) as error:
    reason = getattr(error, 'strerror', None) or 'it is not JSON'
    raise UserError(f"Cannot read '{path}': {reason}; restore or remove the file.") from error
  source = f"'{path}'"
  return check_fields(unseal(content, source), fields or {}, source)


def try_json(path: Path, fields: Fields | None = None) -> dict | None:
  """As read_json, for readers that can go on without: a damaged file is named once and skipped."""
  try:
    return read_json(path, fields)
  except UserError as error:
    warn_once(str(error))
    return None


def check_fields(content: Any, fields: Fields, source: str, optional: bool = False) -> dict:
  """The content if it is an object with these fields, or those it has of them, in their types."""
  if not isinstance(content, dict):
    raise UserError(f'Cannot use {source}: it holds no JSON object; restore or remove it.')
  for entry, kind in fields.items():
    name = entry.removesuffix('?')
    if name not in content and (optional or name != entry):
      continue
    if name not in content:
      raise UserError(f"Cannot use {source}: the field '{name}' is missing; restore or remove it.")
    if not _is_kind(content[name], kind):
      plural = lambda x: f'a list of {x.partition(" ")[2]}s'
      wanted = plural(KINDS[kind[0]]) if isinstance(kind, list) else KINDS[kind]
      shown = f'{json.dumps(content[name]):.60}'
      raise UserError(
        f"Cannot use {source}: the field '{name}' is {shown}, not {wanted}; restore or remove it."
      )
  return content


def read_lines(path: Path, fields: Fields | None = None) -> list[dict]:
  """The objects of a .jsonl file; lines that are none are named once and skipped."""
  try:
    lines = pathlib.Path(path).read_bytes().splitlines()
  except OSError:
    return []
  records = []
  for number, line in enumerate(lines, 1):
    source = f"line {number} of '{path}'"
    try:
      records.append(check_fields(unseal(json.loads(line), source), fields or {}, source))
    except UserError as error:
      warn_once(f'{error} The line is skipped.')
    except (ValueError, RecursionError):
      what = 'damaged' if number < len(lines) else 'in the making, cut off or damaged'
      warn_once(f"Line {number} of '{path}' is {what}; it is skipped.")
  return records


def warn_once(text: str) -> None:
  """A line on stderr, the first time only."""
  if text not in warned:
    warned.add(text)
    print(f'Warning: {text}', file=sys.stderr, flush=True)


@contextlib.contextmanager
def sole_writer(folder: pathlib.Path, wait: bool = True) -> Iterator[None]:
  """Holds a folder while the block runs; the system lets go of it when a process dies.

  With wait, another writer's end is awaited, otherwise it is a UserError. The folder itself is
  the lock, so nothing is left behind; folders that were made for nothing are removed.
  """
  made = [x for x in (folder, *folder.parents) if not x.exists()]
  try:
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
  except OSError as error:
    raise UserError(
      f"Cannot write to the folder '{folder}': {error.strerror}; choose another."
    ) from error
  try:
    _lock(handle, folder, wait)
    yield
  finally:
    with contextlib.suppress(OSError):
      for path in made:
        path.rmdir()  # only if nothing came of it
    os.close(handle)


def _lock(handle: int, folder: pathlib.Path, wait: bool) -> None:
  try:
    fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
  except BlockingIOError as error:
    raise UserError(
      f"Another process is writing to the folder '{folder}'; wait for its end, or choose another."
    ) from error
  except OSError as error:  # some network drives cannot lock a folder
    warn_once(f"'{folder}' cannot be locked ({error.strerror}); start only one process there.")


def _is_kind(value: Any, kind: Any) -> bool:
  if isinstance(kind, list):
    return isinstance(value, list) and all(_is_kind(x, kind[0]) for x in value)
  if kind in (int, float):
    number = int if kind is int else (int, float)
    return isinstance(value, number) and not isinstance(value, bool) and value == value
  return isinstance(value, kind)


def _sync_folder(folder: pathlib.Path) -> None:
  handle = os.open(folder, os.O_RDONLY)
  try:
    os.fsync(handle)
  finally:
    os.close(handle)
