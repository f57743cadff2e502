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
    text = json.dumps({'step': int(step), **meta}).encode()
    if META in arrays:
      raise ValueError(f"'{META}' is not free as the name of an array.")
    remove_temporary(self.directory)
    path = self.directory / f'{int(step):012d}.npz'
    write_npz(path, {**arrays, META: np.frombuffer(text, np.uint8)})
    # A run that went back to an older checkpoint leaves newer files: this one replaces them.
    for other in [x for x in self.paths() if x.name > path.name]:
      other.unlink()
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
    return sorted(self.directory.glob('[0-9]*.npz'))


def load_checkpoint(path: str | pathlib.Path) -> tuple[dict[str, np.ndarray], dict]:
  """Arrays and dict of one file; raises one of npz.UNREADABLE if it is damaged."""
  arrays = read_npz(path)
  meta = json.loads(arrays.pop(META).tobytes())
  return arrays, meta
