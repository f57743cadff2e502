"""Pieces of a batch against the whole: values and gradients in eager mode, graphs and XLA."""

import numpy as np
import pytest
import tensorflow as tf

from recon_tf.behavior import imagined_floats
from recon_tf.common import load_config
from recon_tf.nn import microbatch, nets, tfutils


@pytest.mark.parametrize(
  ('columns', 'rows', 'limit', 'count'),
  [(50, 64, 0, 1), (50, 64, 3200, 1), (50, 64, 3199, 2), (1600, 15, 3000, 8), (7, 9, 8, 7)],
)
def test_pieces_are_few_and_equal(columns, rows, limit, count):
  assert microbatch.count_pieces(columns, rows, limit) == count


@pytest.mark.parametrize('jit', [None, False, True], ids=['eager', 'graph', 'xla'])
def test_pieces_change_neither_results_nor_gradients(jit):
  rng = np.random.default_rng(0)
  nets_ = [nets.MLP(rng, 3, [5], 'elu', 2) for _ in range(2)]
  x, other = (tf.constant(rng.normal(size=(4, 6, 3)).astype(np.float32)) for _ in range(2))
  params = nets_[0].variables

  def loss(x, rest):
    y = nets_[1](tf.concat([nets_[0](x['a']), rest['b'][..., :1]], -1))
    return tf.reduce_mean(y**2), {'mean': tf.reduce_mean(y)}, {'y': y, 'ends': y[:1, :, 0]}

  def run(count):
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      tape.watch([x, params])
      value, means, rows = microbatch.loss_in_pieces(
        loss, count, params, {'a': 2 * x}, {'b': other}
      )
      total = 3 * value + tf.reduce_sum(params[0])  # a part of a larger loss
    return value, means, rows, tape.gradient(total, [x, *params])

  wrapped = run if jit is None else lambda n: tfutils.function(lambda: run(n), jit)()
  whole = tf.nest.flatten(wrapped(1))
  assert all(np.abs(v).max() > 1e-3 for v in whole)
  for count in (2, 6):
    for a, b in zip(whole, tf.nest.flatten(wrapped(count)), strict=True):
      np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize('jit', [None, False, True], ids=['eager', 'graph', 'xla'])
def test_outputs_in_pieces_are_the_same(jit):
  rng = np.random.default_rng(0)
  net = nets.MLP(rng, 3, [5], 'elu', 2)
  x, weight = (tf.constant(rng.normal(size=(6, 4, n)).astype(np.float32)) for n in (3, 2))

  def run(count):
    with tf.GradientTape() as tape:
      y = microbatch.outputs_in_pieces(lambda x: net(x['a']), count, net.variables, {'a': x})
      total = tf.reduce_sum(y * weight)
    return y, tape.gradient(total, net.variables)

  wrapped = run if jit is None else lambda n: tfutils.function(lambda: run(n), jit)()
  for a, b in zip(tf.nest.flatten(wrapped(1)), tf.nest.flatten(wrapped(3)), strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_automatic_pieces_follow_the_memory_of_a_gpu():
  auto = microbatch.AUTO
  assert microbatch.rows_at_once(1500, 10_000, memory=8 * 10**9) == 1500  # as it was set
  assert microbatch.rows_at_once(0, 10_000, memory=8 * 10**9) == 0
  assert microbatch.rows_at_once(auto, 10_000, memory=0) == microbatch.CPU_ROWS
  small, large = (microbatch.rows_at_once(auto, 10_000, x * 10**9) for x in (8, 80))
  assert 9.9 * small < large < 10.1 * small
  assert small * 10_000 * 4 * microbatch.KEPT <= 8e9
  # Imagination at the paper's size: one piece on a GPU with 24 GB, 16 on a CPU.
  floats = imagined_floats(load_config())
  on_gpu = microbatch.rows_at_once(auto, floats, 24 * 10**9)
  assert microbatch.count_pieces(32 * 50, 15, on_gpu) == 1
  assert microbatch.count_pieces(32 * 50, 15, microbatch.CPU_ROWS) == 16
