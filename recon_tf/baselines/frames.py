"""Frame stacks made from single frames when they are needed, and randomly shifted images."""

import tensorflow as tf

from recon_tf.nn.tfutils import Seeds


def stack_frames(images: tf.Tensor, is_first: tf.Tensor, count: int) -> tf.Tensor:
  """[B, T, ..., C] to [B, T, ..., C * count], the newest frame last.

  A stack never reaches into another episode: the first frame of its own is repeated instead.
  Row 0 counts as a first one, so the stacks of the first count - 1 rows of a sequence that
  begins inside of an episode are not what the policy saw there.

    is_first:  1    0    0    1    0
    stack:     000  001  012  333  334
  """
  rows, length = images.shape[:2]
  now = tf.tile(tf.range(length)[None], [rows, 1])
  begins = tf.logical_or(is_first, now == 0)
  index, stack = now, [images]
  for _ in range(count - 1):
    # What was k - 1 frames back a row earlier is k frames back now.
    index = tf.where(begins, now, tf.roll(index, 1, 1))
    stack.insert(0, tf.gather(images, index, batch_dims=1))
  return tf.concat(stack, -1)


def push_frame(
  stack: tf.Tensor | None, frame: tf.Tensor, is_first: tf.Tensor, count: int
) -> tf.Tensor:
  """The stack [B, ..., C * count] after one more frame [B, ..., C], for acting."""
  fresh = tf.concat([frame] * count, -1)
  if stack is None:
    return fresh
  moved = tf.concat([stack[..., frame.shape[-1] :], frame], -1)
  return tf.where(tf.reshape(is_first, [-1] + [1] * (len(frame.shape) - 1)), fresh, moved)


def draw_offsets(seeds: Seeds, count: int, pad: int) -> tf.Tensor:
  """Where random crops begin in padded images, uniform in 0 to 2 * pad on both axes."""
  return tf.random.stateless_uniform([count, 2], seeds(), 0, 2 * pad + 1, tf.int32)


def crop(images: tf.Tensor, offsets: tf.Tensor, pad: int) -> tf.Tensor:
  """Pads images [B, H, W, C] by repeating their border; crops at offsets [B, 2] to the old size.

  One offset for all frames of a stack. An offset of pad on both axes gives the image itself.
  """
  for axis in (0, 1):
    size = images.shape[1 + axis]
    index = tf.range(size)[None] + offsets[:, axis : axis + 1] - pad
    index = tf.clip_by_value(index, 0, size - 1)
    images = tf.gather(images, index, axis=1 + axis, batch_dims=1)
  return images
