"""What every agent can do with its variables: name them, hand them out, take them back."""

import pathlib

import numpy as np
import tensorflow as tf

from recon_tf.common import tfutils
from recon_tf.common.errors import UserError
from recon_tf.common.npz import read_npz, write_npz


class Stored(tfutils.Module):
  """A module whose variables are kept in checkpoints as named arrays."""

  @property
  def named(self) -> dict[str, tf.Variable]:
    """Every variable by its dotted path: weights, optimizers, counters, delta."""
    return dict(tfutils.named_variables(self))

  def state(self) -> dict[str, np.ndarray]:
    return {k: v.numpy() for k, v in self.named.items()}

  def restore(self, arrays: dict[str, np.ndarray]) -> None:
    named = self.named
    wrong = sorted(set(named) ^ set(arrays))
    wrong = wrong or [k for k in named if tuple(named[k].shape) != arrays[k].shape]
    if wrong:
      raise UserError(
        f"the checkpoint does not fit this config (first difference: '{wrong[0]}'); use the "
        'config.yaml of its run.'
      )
    for key, value in named.items():
      value.assign(arrays[key])

  def save(self, path: str | pathlib.Path) -> None:
    write_npz(path, self.state())

  def load(self, path: str | pathlib.Path) -> None:
    self.restore(read_npz(path))
