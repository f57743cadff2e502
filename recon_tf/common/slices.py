"""Reads some rows of an episode file without reading the rest of it."""

import array
import ast
import collections
import functools
import math
import os
import pathlib
import struct
import typing
import zipfile
import zlib
from collections.abc import Iterable

import numpy as np

from recon_tf.common.episodes import ALIASES, FLAGS, TOLERANCE, Episode, load_episode
from recon_tf.common.npz import all_members

HEAD = 1024  # bytes that hold a zip header and an array header of usual size
FILES = 256  # files kept open


class Field(typing.NamedTuple):
  """One array of a file: where its rows start (None if compressed) and what a row is."""

  key: str
  offset: int | None
  dtype: np.dtype
  shape: tuple[int, ...]
  nbytes: int  # of a row


class Damaged(Exception):
  """A file that turned out to be unreadable or to hold something else."""


def read_fields(path: pathlib.Path) -> tuple[int, tuple[Field, ...], array.array]:
  """Rows, arrays and checksums (start, size, CRC32 of each array) of a file, from its headers."""
  fields, rows, sums = [], None, array.array('Q')
  with open(path, 'rb') as file, zipfile.ZipFile(file) as archive:
    size = os.fstat(file.fileno()).st_size
    for info in all_members(archive):
      key = info.filename.removesuffix('.npy')
      if any(key == x[0] for x in fields):
        raise ValueError(f"it has '{key}' twice")
      shape, dtype, offset = _read_header(file.fileno(), archive, info)
      end = 0 if offset is None else offset + dtype.itemsize * math.prod(shape)
      if end > size:
        raise ValueError(f"the data of '{key}' is cut off")
      if ALIASES.get(key, key) == 'action':
        rows = shape[0] if shape else 0
      fields.append((key, offset, dtype, shape))
      if offset is not None:
        header = info.file_size - dtype.itemsize * math.prod(shape)
        sums.extend((offset - header, info.file_size, info.CRC))
  if rows is None or rows < 2:
    raise ValueError("it has no 'action' of two rows or more")
  if any(shape[:1] != (rows,) for _, offset, _, shape in fields if offset is not None):
    fields = [(key, None, dtype, shape) for key, _, dtype, shape in fields]
  layout = tuple(
    Field(key, offset, dtype, shape[1:], dtype.itemsize * math.prod(shape[1:]))
    for key, offset, dtype, shape in fields
  )
  return rows, layout, sums


def is_plain(fields: tuple[Field, ...]) -> bool:
  """Whether rows can be used as they are on the disk, in our form and uncompressed."""
  keys = {x.key for x in fields}
  complete = {'action', 'reward', *FLAGS} <= keys and not keys & {*ALIASES, 'discount'}
  return complete and all(x.offset is not None and _is_ours(x) for x in fields)


class SliceReader:
  """Copies rows into given arrays; holds open files and, for compressed ones, a cache."""

  def __init__(self, memory: float):
    self.limit = int(memory * 2**30)
    self.used = 0
    self._files = collections.OrderedDict()
    self._decoded = collections.OrderedDict()
    self._verified = set()

  def trust(self, path: str) -> None:
    """Takes a file as good, because this process has just written it."""
    self._verified.add(path)

  def verify(self, path: str, fields: Iterable[Field], sums: array.array) -> None:
    """Compares checksums and looks for NaN, in the whole file, when it is first used."""
    if path in self._verified:
      return
    try:
      file = self._open(path)
      data = memoryview(os.pread(file, os.fstat(file).st_size, 0))
    except OSError as error:
      raise Damaged(str(error)) from error
    for field, start, size, crc in zip(fields, sums[::3], sums[1::3], sums[2::3], strict=True):
      if zlib.crc32(data[start : start + size]) != crc:
        raise Damaged('its data does not match its checksum')
      _check_values(field, data[field.offset : start + size])
    self._verified.add(path)

  def read(self, path: str, field: Field, start: int, out: np.ndarray) -> None:
    """Fills `out` with the rows of one array from `start` on."""
    try:
      count = os.preadv(self._open(path), [out], field.offset + start * field.nbytes)
    except OSError as error:
      raise Damaged(str(error)) from error
    if count != out.nbytes:
      raise Damaged('its data is cut off')

  def decode(self, path: str) -> Episode:
    """The whole episode; the ones used last are kept as far as the memory allows."""
    episode = self._decoded.pop(path, None)
    if episode is None:
      episode = load_episode(path, None)
      self.used += _nbytes(episode)
    self._decoded[path] = episode
    while self.used > self.limit and self._decoded:
      self.used -= _nbytes(self._decoded.popitem(last=False)[1])
    return episode

  def forget(self, path: str) -> None:
    """Lets go of a file that is about to be removed."""
    self._verified.discard(path)
    if path in self._files:
      os.close(self._files.pop(path))
    if path in self._decoded:
      self.used -= _nbytes(self._decoded.pop(path))

  def close(self) -> None:
    for path in [*self._files, *self._decoded]:
      self.forget(path)

  def _open(self, path: str) -> int:
    file = self._files.pop(path, None)
    if file is None:
      file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
      if len(self._files) >= FILES:
        os.close(self._files.popitem(last=False)[1])
    self._files[path] = file
    return file


def _read_header(file: int, archive, info) -> tuple[tuple, np.dtype, int | None]:
  """Shape, dtype and, if the rows lie in the file as they are, their offset."""
  if info.compress_type != zipfile.ZIP_STORED:
    with archive.open(info) as member:
      return *_parse_array_header(member.read(HEAD))[:2], None
  head = os.pread(file, HEAD, info.header_offset)
  if len(head) < 30 or head[:4] != b'PK\x03\x04':
    raise ValueError('a header is missing')
  if info.file_size != info.compress_size:
    raise ValueError(f"the size of '{info.filename}' is wrong")
  name, extra = struct.unpack('<HH', head[26:30])
  if head[30 : 30 + name].decode('latin1') != info.orig_filename:
    raise ValueError(f"'{info.filename}' has two names")
  start = 30 + name + extra
  shape, dtype, ordered, size = _parse_array_header(head[start:])
  if size + dtype.itemsize * math.prod(shape) != info.file_size:
    raise ValueError(f"the header of '{info.filename}' does not fit its data")
  return shape, dtype, info.header_offset + start + size if ordered else None


def _parse_array_header(data: bytes) -> tuple[tuple, np.dtype, bool, int]:
  if data[:6] != b'\x93NUMPY' or data[6] not in (1, 2, 3):
    raise ValueError('an entry is not a NumPy array')
  form, begin = ('<H', 10) if data[6] == 1 else ('<I', 12)
  end = begin + struct.unpack(form, data[8:begin])[0]
  if end > len(data):
    raise ValueError('an array header is too long')
  return *_parse_description(data[begin:end]), end


@functools.lru_cache(maxsize=4096)
def _parse_description(text: bytes) -> tuple[tuple, np.dtype, bool]:
  # Cached because thousands of files share a few headers.
  header = ast.literal_eval(text.decode('latin1').strip())
  return tuple(header['shape']), np.dtype(header['descr']), not header['fortran_order']


def _is_ours(field: Field) -> bool:
  if field.key in FLAGS:
    return field.dtype == bool and field.shape == ()
  if field.key == 'reward':
    return field.dtype == np.float32 and field.shape == ()
  if field.key == 'action':
    return field.dtype == np.float32 and len(field.shape) == 1
  if field.key.startswith('log_'):
    return field.dtype.kind in 'biuf'
  return field.dtype == np.float32 or (field.dtype == np.uint8 and len(field.shape) == 3)


def _check_values(field: Field, data: memoryview) -> None:
  if field.dtype.kind != 'f' or field.key.startswith('log_'):
    return
  values = np.frombuffer(data, field.dtype)
  if not np.isfinite(values).all():
    raise Damaged(f"it has a NaN or infinite '{field.key}'")
  if field.key == 'action' and np.abs(values).max() > 1 + TOLERANCE:
    raise Damaged("it has an 'action' beyond [-1, 1]")


def _nbytes(episode: Episode) -> int:
  return sum(x.nbytes for x in episode.values())
