"""Frame stacks and crops against plain NumPy loops."""

import numpy as np
import pytest
import tensorflow as tf

from recon_tf.baselines import frames
from recon_tf.nn.tfutils import Seeds


def numbered(rows, length, channels=2):
  """Images whose every pixel says which row and step it is from."""
  label = 100 * np.arange(rows)[:, None] + np.arange(length)
  image = np.broadcast_to(label[:, :, None, None, None], (rows, length, 3, 3, channels))
  return (1000 * np.arange(channels) + image).astype(np.float32)


def firsts(rows, length, seed):
  is_first = np.random.default_rng(seed).random((rows, length)) < 0.25
  is_first[:, 0] = True
  return is_first


@pytest.mark.parametrize('count', [1, 2, 3, 5])
def test_stacks_equal_a_loop_and_never_cross_episodes(count):
  images, is_first = numbered(6, 12), firsts(6, 12, count)
  stacks = frames.stack_frames(tf.constant(images), tf.constant(is_first), count).numpy()
  assert stacks.shape == (6, 12, 3, 3, 2 * count)
  for row in range(6):
    for step in range(12):
      start = max(i for i in range(step + 1) if is_first[row, i])
      sources = [max(step - back, start) for back in reversed(range(count))]
      expected = np.concatenate([images[row, i] for i in sources], -1)
      np.testing.assert_array_equal(stacks[row, step], expected)


def test_a_sequence_without_a_first_row_does_not_wrap_around():
  images, is_first = numbered(1, 5), np.zeros((1, 5), bool)
  stacks = frames.stack_frames(tf.constant(images), tf.constant(is_first), 3).numpy()
  assert stacks[0, :, 0, 0, ::2].tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4]]


def test_bytes_stay_bytes_and_vectors_work():
  images = np.random.default_rng(0).integers(0, 256, (2, 4, 5, 5, 3), dtype=np.uint8)
  stacks = frames.stack_frames(tf.constant(images), tf.zeros([2, 4], bool), 3)
  assert stacks.dtype == tf.uint8
  vectors = frames.stack_frames(tf.constant(images[..., 0, 0, :]), tf.zeros([2, 4], bool), 3)
  np.testing.assert_array_equal(vectors, stacks[:, :, 0, 0])


def test_acting_sees_what_sampling_makes():
  """Frames pushed one by one give the stacks of the whole sequence, episodes included."""
  images, is_first = numbered(4, 10), firsts(4, 10, 7)
  whole = frames.stack_frames(tf.constant(images), tf.constant(is_first), 3).numpy()
  stack = None
  for step in range(10):
    frame = tf.constant(images[:, step])
    stack = frames.push_frame(stack, frame, tf.constant(is_first[:, step]), 3)
    np.testing.assert_array_equal(stack, whole[:, step])


def test_crops_equal_padding_and_slicing():
  rng, pad = np.random.default_rng(0), 4
  images = rng.integers(0, 256, (81, 10, 12, 9), dtype=np.uint8)
  offsets = np.stack(np.meshgrid(range(9), range(9)), -1).reshape(-1, 2).astype(np.int32)
  crops = frames.crop(tf.constant(images), tf.constant(offsets), pad)
  assert crops.dtype == tf.uint8
  padded = np.pad(images, [(0, 0), (pad, pad), (pad, pad), (0, 0)], mode='edge')
  for i, (top, left) in enumerate(offsets):
    np.testing.assert_array_equal(crops[i], padded[i, top : top + 10, left : left + 12])
  middle = np.full((81, 2), pad, np.int32)
  np.testing.assert_array_equal(frames.crop(tf.constant(images), middle, pad), images)


def test_offsets_are_uniform_and_independent():
  seeds = Seeds(tf.constant([3, 5]))
  offsets = frames.draw_offsets(seeds, 9000, 4).numpy()
  counts = np.zeros((9, 9))
  np.add.at(counts, tuple(offsets.T), 1)
  assert counts.min() > 70  # 111 expected in each of the 81 cells, standard deviation 10.5
  assert counts.max() < 160
  again = frames.draw_offsets(seeds, 9000, 4).numpy()
  assert (offsets == again).mean() < 0.15
