"""Named arrays in one .npz file, written so that a reader never sees half a file."""

import math
import os
import pathlib
import struct
import tokenize
import zipfile
import zlib

import numpy as np

from recon_tf.common.files import atomic

UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)
# Odd zips and odd headers, such as one that claims more rows than any memory holds.
UNREADABLE += (NotImplementedError, RuntimeError, SyntaxError, TypeError, MemoryError)
UNREADABLE += (tokenize.TokenError, AttributeError)


def write_npz(path: str | os.PathLike, arrays: dict, compress: bool = False) -> pathlib.Path:
  """Writes to a temporary name in the same folder, syncs it to the disk, then renames it."""
  with atomic(path) as file:
    _write_arrays(file, arrays, compress)
  return pathlib.Path(path)


def read_npz(path: str | os.PathLike, only: str = '') -> dict[str, np.ndarray]:
  """All arrays of a file, or one, checksums compared; raises one of UNREADABLE if damaged."""
  if not zipfile.is_zipfile(path):
    raise ValueError('not an .npz archive, or cut off')
  with zipfile.ZipFile(path) as archive:
    members = {x.filename.removesuffix('.npy'): x for x in all_members(archive)}
    names = [only] if only else members
    return {name: _read_array(archive, members[name]) for name in names}


def all_members(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
  """The members of an archive, as many as it says at its end; zipfile does not compare that."""
  members, file = archive.infolist(), archive.fp
  file.seek(-22, os.SEEK_END)
  end = file.read()
  count = struct.unpack('<H', end[10:12])[0]
  # Without the mark a comment follows; 65535 stands for more than this field can hold.
  if end[:4] == b'PK\x05\x06' and count != 0xFFFF and count != len(members):
    raise ValueError(f'it lists {len(members)} of {count} arrays')
  return members


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
  # Before any memory is asked for: a header that claims other sizes than the file is damaged.
  if info.file_size > 1100 * info.compress_size + 1000:  # more than zip can press together
    raise ValueError(f"the size of '{info.filename}' is wrong")
  with archive.open(info) as member:
    version = np.lib.format.read_magic(member)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else None
    shape, _, dtype = (read or np.lib.format.read_array_header_2_0)(member)
    if dtype.hasobject:
      raise ValueError(f"'{info.filename}' holds objects, which are never read")
    if member.tell() + dtype.itemsize * math.prod(shape) != info.file_size:
      raise ValueError(f"the header of '{info.filename}' does not fit its data")
  with archive.open(info) as member:
    return np.lib.format.read_array(member, allow_pickle=False)


def _write_arrays(file, arrays: dict, compress: bool) -> None:
  # Not np.savez, whose own argument names cannot be used as array names.
  kind = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
  with zipfile.ZipFile(file, 'w', kind, allowZip64=True) as archive:
    for key, value in arrays.items():
      value = np.asarray(value)
      if value.dtype.kind not in 'biufcSU':
        raise TypeError(f"Array '{key}' has dtype {value.dtype}, which is not stored.")
      with archive.open(f'{key}.npy', 'w', force_zip64=True) as member:
        np.lib.format.write_array(member, value, allow_pickle=False)
