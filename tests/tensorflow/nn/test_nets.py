"""Layers against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from recon_tf.common.errors import UserError
from recon_tf.nn import nets
from recon_tf.nn.scaler import Scaler
from tests.helpers import agent_fixtures as fixtures


def rng():
  return np.random.default_rng(0)


def normal(*shape, seed=1):
  return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def stacked_layer():
  layer = nets.Linear(rng(), 4, 6, heads=3)
  layer.bias.assign(normal(3, 6))
  return layer, layer.kernel.numpy(), layer.bias.numpy()


def test_stacked_heads_are_separate_layers():
  layer, kernel, bias = stacked_layer()
  x = normal(5, 4)
  expected = np.stack([x @ kernel[k] + bias[k] for k in range(3)])
  np.testing.assert_allclose(layer.fan_out(x), expected, atol=1e-5)
  x = normal(3, 5, 4)
  expected = np.stack([x[k] @ kernel[k] + bias[k] for k in range(3)])
  np.testing.assert_allclose(layer.stacked(x, 6), expected, atol=1e-5)
  np.testing.assert_allclose(layer.stacked(x, 2), expected[..., :2], atol=1e-5)


def test_one_head_is_chosen_per_time_step():
  layer, kernel, bias = stacked_layer()
  x, picks = normal(4, 5, 4), [2, 0, 0, 1]
  expected = np.stack([x[t] @ kernel[k] + bias[k] for t, k in enumerate(picks)])
  np.testing.assert_allclose(layer.chosen(x, tf.one_hot(picks, 3)), expected, atol=1e-5)


def test_initial_weights_are_glorot_uniform():
  kernel = nets.Linear(rng(), 300, 500, heads=2).kernel.numpy()
  limit = np.sqrt(6 / 800)
  assert limit * 0.99 < np.abs(kernel).max() <= limit
  np.testing.assert_allclose(kernel.std(), limit / np.sqrt(3), rtol=0.01)


def test_gru_and_mlp():
  cell = nets.GRU(rng(), 3, 5)
  cell.norm.scale.assign(1 + normal(15) / 3)
  cell.norm.offset.assign(normal(15, seed=2))
  x, state = normal(4, 3), normal(4, 5, seed=3)
  np.testing.assert_allclose(cell(x, state), fixtures.gru(cell, x, state), atol=1e-5)
  net = nets.MLP(rng(), 3, [7, 5], 'elu', 2)
  x = normal(2, 6, 3)
  np.testing.assert_allclose(net(tf.constant(x)), fixtures.mlp(net, x), atol=1e-5)


@pytest.mark.parametrize('jit', [False, True])
def test_composed_elu_is_tensorflows(jit):
  """Values to a rounding of 1, slopes likewise, at zero and far away from it too."""
  x = tf.constant([-200.0, -90.0, -3.0, -1.0, -1e-4, -1e-9, 0.0, 1e-9, 0.5, 3.0, 1e30])

  def both(fn):
    with tf.GradientTape() as tape:
      tape.watch(x)
      y = fn(x)
    return y, tape.gradient(y, x)

  value, slope = tf.function(lambda: both(nets.elu), jit_compile=jit)()
  expected, slopes = both(tf.nn.elu)
  np.testing.assert_allclose(value, expected, rtol=1e-7, atol=1.2e-7)
  np.testing.assert_allclose(slope, slopes, rtol=1e-6, atol=1.2e-7)


def test_a_one_hot_picks_one_of_several_networks():
  networks = [nets.MLP(np.random.default_rng(i), 3, [7, 5], 'elu', 2) for i in range(2)]
  networks[1].out.bias.assign([0.5, -0.5])
  x = tf.constant(normal(2, 6, 3))
  for i, net in enumerate(networks):
    picked = nets.chosen(networks, tf.one_hot(i, 2))
    np.testing.assert_array_equal(picked(x), net(x))
  assert isinstance(networks[0].out.kernel, tf.Variable)  # the networks themselves stay


def test_convolution():
  conv = nets.Conv(rng(), 2, 3, 4)
  conv.bias.assign(normal(3))
  x, kernel = normal(1, 10, 10, 2), conv.kernel.numpy()
  patch = lambda i, j: x[0, 2 * i : 2 * i + 4, 2 * j : 2 * j + 4, :, None]
  out = [[(patch(i, j) * kernel).sum((0, 1, 2)) for j in range(4)] for i in range(4)]
  np.testing.assert_allclose(conv(tf.constant(x))[0], out + conv.bias.numpy(), atol=1e-4)


@pytest.mark.parametrize('size', [1, 3])
def test_transposed_convolution(size):
  """Every input pixel paints a kernel at twice its position; one pixel takes a short cut."""
  conv = nets.Conv(rng(), 2, 3, 5, transpose=True)
  x, kernel = normal(1, size, size, 2), conv.kernel.numpy()
  expected = np.zeros((2 * size + 3, 2 * size + 3, 3))
  for i in range(size):
    for j in range(size):
      expected[2 * i : 2 * i + 5, 2 * j : 2 * j + 5] += kernel @ x[0, i, j]
  np.testing.assert_allclose(conv(tf.constant(x))[0], expected, atol=1e-5)


SHAPES = {'image': (64, 64, 3), 'b': (2,), 'a': (3,)}


def test_encoder_joins_what_the_patterns_choose():
  options = dict(cnn_depth=2, cnn_kernels=[4, 4, 4, 4], mlp_layers=[5], act='elu', dtype=tf.float32)
  both = nets.Encoder(rng(), SHAPES, Scaler(SHAPES), 'image', '.*', **options)
  assert both.keys == ['image', 'a', 'b']
  assert both.units == 2 * 2 * 16 + 5
  obs = {'image': np.full((2, 4, 64, 64, 3), 255, np.uint8), 'a': normal(2, 4, 3)}
  obs['b'] = normal(2, 4, 2, seed=2)
  embed = both(obs)
  assert embed.shape == (2, 4, both.units)
  vectors = np.concatenate([obs['a'], obs['b']], -1)
  np.testing.assert_allclose(embed[..., -5:], fixtures.mlp(both.mlp, vectors), atol=1e-5)
  # White is 0.5 after scaling: the first layer on a constant picture is a sum of weights.
  first = both.convs[0](tf.fill([1, 64, 64, 3], 0.5))[0, 0, 0]
  np.testing.assert_allclose(first, 0.5 * both.convs[0].kernel.numpy().sum((0, 1, 2)), atol=1e-5)
  only = nets.Encoder(rng(), SHAPES, Scaler(SHAPES), '$^', 'b', **options)
  assert only.keys == ['b']
  assert only({'b': obs['b']}).shape == (2, 4, 5)


def test_decoder_has_the_shapes_of_its_targets():
  options = dict(cnn_depth=2, cnn_kernels=[5, 5, 6, 6], mlp_layers=[5], act='elu', dtype=tf.float32)
  decoder = nets.Decoder(rng(), 7, SHAPES, 'image', '.*', **options)
  x = normal(2, 4, 7)
  means = decoder(tf.constant(x))
  assert {k: tuple(v.shape[2:]) for k, v in means.items()} == SHAPES
  vectors = np.concatenate([means['a'], means['b']], -1)
  np.testing.assert_allclose(vectors, fixtures.mlp(decoder.mlp, x), atol=1e-5)


def test_decoder_without_hidden_layers_is_linear():
  shapes = {'a': (3,), 'b': (2,)}
  options = dict(cnn_depth=2, cnn_kernels=[5], mlp_layers=(), act='elu', dtype=tf.float32)
  decoder = nets.Decoder(rng(), 7, shapes, '$^', '.*', **options)
  decoder.mlp.out.bias.assign(normal(5))
  x, out = normal(2, 4, 7), decoder.mlp.out
  means = decoder(tf.constant(x))
  expected = x @ out.kernel.numpy() + out.bias.numpy()
  np.testing.assert_allclose(np.concatenate([means['a'], means['b']], -1), expected, atol=1e-5)


def test_kernels_that_do_not_fit_the_images_are_refused():
  options = dict(cnn_depth=2, mlp_layers=[5], act='elu', dtype=tf.float32)
  small = {'image': (32, 32, 3)}
  args = (rng(), 7, small, 'image', '.*')
  assert nets.Decoder(*args, cnn_kernels=[5, 5, 8], **options)(normal(1, 7))['image'].shape[1:] == (
    32, 32, 3,
  )  # fmt: skip
  with pytest.raises(UserError, match=r'64x64.*32x32.*env\.size'):
    nets.Decoder(*args, cnn_kernels=[5, 5, 6, 6], **options)
  tiny = {'image': (16, 16, 3)}
  with pytest.raises(UserError, match=r'encoder\.cnn_kernels.*too small'):
    nets.Encoder(rng(), tiny, Scaler(tiny), 'image', '.*', cnn_kernels=[4, 4, 4, 4], **options)


def test_half_precision_computes_in_bfloat16_and_returns_float32():
  full, half = (nets.Linear(rng(), 64, 8, dtype=x) for x in (tf.float32, tf.bfloat16))
  x = normal(16, 64)
  assert half(tf.constant(x)).dtype == tf.float32
  assert half.kernel.dtype == tf.float32
  error = np.abs(full(tf.constant(x)) - half(tf.constant(x))).max()
  assert 1e-4 < error < 0.1
