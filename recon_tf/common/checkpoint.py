"""Checkpoints: one .npz of named arrays each, without pickle."""

import json
import pathlib

import numpy as np

from recon_tf.common.npz import UNREADABLE, read_npz, remove_temporary, write_npz

META = '__meta__'


class Checkpoint:
  """The last few states of a run; a kill while saving leaves the older ones whole."""

  def __init__(self, directory: str | pathlib.Path, keep: int = 2):
    self.directory = pathlib.Path(directory)
    self.keep = max(1, int(keep))

  def save(self, step: int, arrays: dict[str, np.ndarray], meta: dict) -> pathlib.Path:
    """Writes arrays and a JSON-able dict under the number of the step."""
    path = write_state(self.directory, step, arrays, meta)
    for other in self.paths()[: -self.keep]:
      other.unlink()
    return path

  def load(self) -> tuple[dict[str, np.ndarray], dict] | None:
    """Arrays and dict of the newest readable checkpoint, None if there is none."""
    for path in reversed(self.paths()):
      try:
        return load_checkpoint(path)
      except UNREADABLE as error:
        print(f"The checkpoint '{path}' is unreadable ({error}); the one before it is used.")
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
  return sorted(folder.glob('[0-9]*.npz'))


def load_checkpoint(path: str | pathlib.Path) -> tuple[dict[str, np.ndarray], dict]:
  """Arrays and dict of one file; raises one of npz.UNREADABLE if it is damaged."""
  arrays = read_npz(path)
  meta = json.loads(arrays.pop(META).tobytes())
  return arrays, meta
