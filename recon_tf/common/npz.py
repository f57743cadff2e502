"""Named arrays in one .npz file, written so that a reader never sees half a file."""

import contextlib
import os
import pathlib
import zipfile
import zlib

import numpy as np

from recon_tf.common.errors import UserError

TEMPORARY = '.writing-'
UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)
UNREADABLE += (NotImplementedError, RuntimeError, SyntaxError)  # odd zips and odd headers


def write_npz(path: str | os.PathLike, arrays: dict, compress: bool = False) -> pathlib.Path:
  """Writes to a temporary name in the same folder, syncs it to the disk, then renames it."""
  path = pathlib.Path(path)
  temporary = path.parent / f'{TEMPORARY}{os.getpid()}-{path.name}'
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(temporary, 'wb') as file:
      _write_arrays(file, arrays, compress)
      file.flush()
      os.fsync(file.fileno())
    os.replace(temporary, path)
    _sync_folder(path.parent)
  except OSError as error:
    _remove(temporary)
    reason = error.strerror or str(error)
    raise UserError(
      f"Cannot write to the folder '{path.parent}': {reason}; free some space or choose another."
    ) from error
  except BaseException:
    _remove(temporary)
    raise
  return path


def read_npz(path: str | os.PathLike) -> dict[str, np.ndarray]:
  """All arrays of a file; raises one of UNREADABLE if it is damaged or holds objects."""
  if not zipfile.is_zipfile(path):
    raise ValueError('not an .npz archive, or cut off')
  with np.load(path, allow_pickle=False) as file:
    return {key: file[key] for key in file.files}


def remove_temporary(folder: str | os.PathLike) -> None:
  """Clears what a killed writer left; only the folder's one writer may call it."""
  for path in pathlib.Path(folder).glob(f'{TEMPORARY}*'):
    _remove(path)


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


def _sync_folder(folder: pathlib.Path) -> None:
  handle = os.open(folder, os.O_RDONLY)
  try:
    os.fsync(handle)
  finally:
    os.close(handle)


def _remove(path: pathlib.Path) -> None:
  # The folder itself may be missing or a file: then there is nothing to remove.
  with contextlib.suppress(OSError):
    path.unlink()
