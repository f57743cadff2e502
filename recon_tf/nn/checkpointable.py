"""What every agent can do with its variables: name them, hand them out, take them back."""

import pathlib

import numpy as np
import tensorflow as tf

from recon_tf.common.errors import UserError
from recon_tf.common.npz import read_npz, write_npz
from recon_tf.nn import tfutils


class Stored(tfutils.Module):
  """A module whose variables are kept in checkpoints as named arrays."""

  @property
  def named(self) -> dict[str, tf.Variable]:
    """Every variable by its dotted path: weights, optimizers, counters, delta."""
    return dict(tfutils.named_variables(self))

  def state(self) -> dict[str, np.ndarray]:
    return {k: v.numpy() for k, v in self.named.items()}

  def weights(self) -> dict[str, np.ndarray]:
    """All that acting and looking back need: the state without the optimizers."""
    return {k: v.numpy() for k, v in self.named.items() if not of_optimizer(k)}

  def restore(self, arrays: dict[str, np.ndarray]) -> None:
    self._assign(self.named, arrays)

  def restore_weights(self, arrays: dict[str, np.ndarray]) -> None:
    """Takes weights back from those or from a whole state; the optimizers stay as they are."""
    named = {k: v for k, v in self.named.items() if not of_optimizer(k)}
    self._assign(named, {k: v for k, v in arrays.items() if not of_optimizer(k)})

  def _assign(self, named: dict[str, tf.Variable], arrays: dict[str, np.ndarray]) -> None:
    # Checkpoints from before vectors were scaled lack the scaler; a fresh one changes nothing.
    if not any(of_scaler(k) for k in arrays):
      named = {k: v for k, v in named.items() if not of_scaler(k)}
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


def of_scaler(name: str) -> bool:
  return name.split('.')[0] == 'scaler'


def of_optimizer(name: str) -> bool:
  """Optimizers are attributes called *_opt, such as main.actor_opt.first.0."""
  return any(x.endswith('_opt') for x in name.split('.'))
