"""Vector observations on a scale of their own: statistics of the demonstrations."""

from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from recon_tf.nn.tfutils import Module, variable

LINEAR = 3.0  # deviations up to which a value stays about as it is; far ones grow like logarithms
FLOOR = 0.1  # least deviation of an entry, as a share of what its key has on average


class Scaler(Module):
  """Standardises vectors; the statistics are variables, so checkpoints carry them.

  Without fit() it leaves vectors as they are. Far from the demonstrations values grow like a
  logarithm: a fall is twenty deviations from a walk, and must not drown all the rest.
  """

  def __init__(self, shapes: dict[str, tuple]):
    vectors = {k: v for k, v in sorted(shapes.items()) if len(v) == 1}
    keep = lambda value: variable(np.asarray(value, np.float32), trainable=False)
    self.mean = {k: keep(np.zeros(v)) for k, v in vectors.items()}
    self.std = {k: keep(np.ones(v)) for k, v in vectors.items()}
    self.fitted = keep(0.0)
    self.asinh = tf.asinh  # an export may put one here that its format knows

  def fit(self, episodes: Iterable[dict[str, np.ndarray]]) -> None:
    """Takes mean and deviation of every vector from whole episodes."""
    episodes = list(episodes)
    for key in self.mean:
      if all(key in x for x in episodes):
        values = np.concatenate([np.asarray(x[key], np.float64) for x in episodes])
        self.mean[key].assign(values.mean(0).astype(np.float32))
        self.std[key].assign(floored(values.std(0)).astype(np.float32))
    self.fitted.assign(1.0)

  def scale(self, key: str, x: tf.Tensor) -> tf.Tensor:
    """From the environment's units to deviations."""
    x = tf.cast(x, tf.float32)
    squashed = LINEAR * self.asinh((x - self.mean[key]) / (self.std[key] * LINEAR))
    return tf.where(self.fitted > 0, squashed, x)

  def unscale(self, key: str, y: tf.Tensor) -> tf.Tensor:
    """The inverse of scale."""
    raw = self.mean[key] + self.std[key] * LINEAR * tf.sinh(y / LINEAR)
    return tf.where(self.fitted > 0, raw, y)


def floored(std: np.ndarray) -> np.ndarray:
  """No entry below a share of its key's root mean square; a key that never moves keeps its unit."""
  typical = np.sqrt(np.mean(std**2))
  return np.maximum(std, FLOOR * typical) if typical > 1e-6 else np.ones_like(std)
