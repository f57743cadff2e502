"""Short slices of the sequences that the loop hands out."""

import math

import tensorflow as tf

from recon_tf.baselines.frames import stack_frames
from recon_tf.nn.tfutils import Seeds


def slice_rows(settings, context: int) -> int:
  """Rows of a slice: the horizon, one more, and the frames that the first stack needs."""
  return settings.horizon + 1 + context


def cut_slices(
  data: dict[str, tf.Tensor], settings, context: int, seeds: Seeds
) -> dict[str, tf.Tensor]:
  """Draws iqmpc.batch different slices, as evenly from the sequences [batch, time] as possible.

  row:     0 ... context   context + 1 ...     after `context` rows of older frames
  inputs:        x_0       x_1                 [slices, H + 1, ...]
  action:                  a_0                 [H, slices, ...], likewise the true reward;
  valid:                   1 while no episode begins at this row or before it in the slice
  """
  rows, length = data['is_first'].shape
  needed = slice_rows(settings, context)
  places = length - needed + 1
  each = min(math.ceil(settings.batch / rows), places)
  # Slices of different sequences come first, so that a small batch has one of each.
  starts = tf.transpose(tf.argsort(seeds.uniform([rows, places]))[:, :each])
  starts = tf.reshape(starts + length * tf.range(rows), [-1])[: settings.batch]
  index = starts[:, None] + tf.range(needed)
  take = lambda x: tf.gather(tf.reshape(x, [rows * length, *x.shape[2:]]), index)
  inputs, first = take(data['inputs']), take(data['is_first'])
  if context:
    inputs = stack_frames(inputs, first, context + 1)[:, context:]
  after = lambda x: tf.transpose(x[:, context + 1 :], [1, 0, *range(2, len(x.shape))])
  same = 1 - tf.cast(after(first), tf.float32)
  return {
    'inputs': inputs,
    'action': after(take(data['action'])),
    'reward': after(take(data['reward'])),
    'valid': tf.math.cumprod(same),
  }
