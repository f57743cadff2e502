"""What updates measured: it stays on the device until it is asked for, and is checked then."""

import pathlib

import numpy as np

from recon_tf.common import Logger, UserError

UNREAD = 100  # updates whose metrics may stay on the device


class Measured:
  """Metrics of updates on their way to the logger."""

  def __init__(self, folder: pathlib.Path, logger: Logger):
    self.folder, self.logger = folder, logger
    self._pending, self._histograms = [], {}

  def add(self, step: int, number: int, metrics: dict) -> None:
    """Of update `number` at this step; they are not read yet."""
    self._pending.append((step, number, metrics))
    if len(self._pending) == UNREAD:
      self.read()

  def read(self) -> None:
    """Only here does the host wait for the device; a loss that is not finite is a UserError."""
    pending, self._pending = self._pending, []
    for step, number, metrics in pending:
      metrics = {k: np.asarray(v) for k, v in metrics.items()}
      self._check_finite(metrics, step, number)
      for key, value in metrics.items():
        if value.ndim:
          self._histograms[key] = value
        else:
          self.logger.scalar(key, value)

  def hand_over(self) -> None:
    """Everything goes to the logger, for its next write."""
    self.read()
    for key, value in self._histograms.items():
      self.logger.histogram(key, value)
    self._histograms = {}

  def _check_finite(self, metrics: dict, step: int, number: int) -> None:
    for key, value in metrics.items():
      if key.endswith('_loss') and not np.isfinite(value):
        raise UserError(
          f"'{key}' became {value} at step {step} (update {number}); checkpoints in {self.folder} "
          'are from before and intact. Lower the learning rates, or look at the data.'
        )
