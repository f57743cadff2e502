"""Checkpoints: one .npz of named arrays each, without pickle."""

import json
import pathlib

import numpy as np

from recon_tf.common.errors import UserError
from recon_tf.common.files import Fields, check_fields, remove_temporary
from recon_tf.common.npz import UNREADABLE, read_npz, write_npz

META = '__meta__'


class Checkpoint:
  """The last few states of a run; a kill while saving leaves the older ones whole.

  `fields` are what the dict of a usable state has, with their types.
  """

  def __init__(self, directory: str | pathlib.Path, keep: int = 2, fields: Fields | None = None):
    self.directory = pathlib.Path(directory)
    self.keep = max(1, int(keep))
    self.fields = fields or {}

  def save(self, step: int, arrays: dict[str, np.ndarray], meta: dict) -> pathlib.Path:
    """Writes arrays and a JSON-able dict under the number of the step."""
    path = write_state(self.directory, step, arrays, meta)
    for other in self.paths()[: -self.keep]:
      other.unlink()
    return path

  def load(self) -> tuple[dict[str, np.ndarray], dict] | None:
    """Arrays and dict of the newest readable checkpoint, None if there is none at all.

    Damaged newer ones are set aside; if all are damaged nothing is touched.
    """
    damaged = {}
    for path in reversed(self.paths()):
      try:
        found = load_checkpoint(path, self.fields)
      except (*UNREADABLE, UserError) as error:
        damaged[path] = error
        continue
      for other, error in damaged.items():
        print(f"The checkpoint '{other}' is unreadable ({error}); '{path.name}' is used instead.")
        other.replace(f'{other}.corrupt')
      return found
    if damaged:
      path, error = next(iter(damaged.items()))
      raise UserError(
        f"No checkpoint in '{self.directory}' can be read ('{path.name}': {error}); nothing was "
        'changed. Restore one from a copy, or remove the run folder to start anew.'
      )
    return None

  def paths(self) -> list[pathlib.Path]:
    """The checkpoint files, oldest first."""
    return state_paths(self.directory)


class Milestones:
  """States that are kept for good, the first after every `every` steps; none if that is 0."""

  def __init__(self, directory: str | pathlib.Path, every: int):
    self.directory = pathlib.Path(directory)
    self.every = int(every)

  def due(self, step: int) -> bool:
    """Told from the files alone, so that a resumed run neither repeats nor misses one."""
    if self.every <= 0:
      return False
    reached = [int(x.stem) // self.every for x in self.paths()]
    return int(step) // self.every > max(reached, default=-1)

  def forget_after(self, step: int) -> None:
    """A run that starts from here again replaces what it did later."""
    for path in [x for x in self.paths() if int(x.stem) > int(step)]:
      path.unlink()

  def save(self, step: int, arrays: dict[str, np.ndarray], meta: dict) -> pathlib.Path:
    """Writes arrays and a JSON-able dict under the number of the step."""
    return write_state(self.directory, step, arrays, meta)

  def paths(self) -> list[pathlib.Path]:
    """The files, oldest first."""
    return state_paths(self.directory)


def write_state(
  folder: pathlib.Path, step: int, arrays: dict[str, np.ndarray], meta: dict
) -> pathlib.Path:
  """Writes folder/<step>.npz whole or not at all."""
  text = json.dumps({'step': int(step), **meta}).encode()
  if META in arrays:
    raise ValueError(f"'{META}' is not free as the name of an array.")
  remove_temporary(folder)
  path = folder / f'{int(step):012d}.npz'
  write_npz(path, {**arrays, META: np.frombuffer(text, np.uint8)})
  # A run that went back to an older state leaves newer files: this one replaces them.
  for other in [x for x in state_paths(folder) if x.name > path.name]:
    other.unlink()
  return path


def state_paths(folder: pathlib.Path) -> list[pathlib.Path]:
  """States of a folder, oldest first; other files are left alone."""
  return sorted(x for x in folder.glob('*.npz') if x.stem.isdecimal() and x.stem.isascii())


def load_checkpoint(
  path: str | pathlib.Path, fields: Fields | None = None
) -> tuple[dict[str, np.ndarray], dict]:
  """Arrays and dict of one file; raises one of npz.UNREADABLE or a UserError if it is damaged."""
  arrays = read_npz(path)
  return arrays, _check_meta(path, arrays.pop(META), fields)


def read_meta(path: str | pathlib.Path) -> dict:
  """The dict of one file alone, which is quick."""
  return _check_meta(path, read_npz(path, META)[META])


def _check_meta(path, text: np.ndarray, fields: Fields | None = None) -> dict:
  return check_fields(json.loads(text.tobytes()), {'step': int, **(fields or {})}, f"'{path}'")
