"""Products of graphs by shape, each called alone."""

import pytest
import tensorflow as tf

from recon_tf.perf.products import call, products, seconds


def network(x, images, kernel, filters):
  """Every kind of product, with gradients; one of them twice."""
  with tf.GradientTape() as tape:
    tape.watch([x, images, kernel, filters])
    y = tf.tanh(x @ kernel[0]) + tf.tanh(x @ kernel[0])
    many = tf.einsum('bi,kio->kbo', y, kernel)
    many = tf.linalg.matmul(many, kernel, transpose_b=True)
    conv = tf.nn.conv2d(images, filters, 2, 'VALID')
    loss = tf.reduce_sum(many**2) + tf.reduce_sum(conv**2)
  return tape.gradient(loss, [x, images, kernel, filters])


SHAPES = [5, 4], [2, 8, 8, 3], [3, 4, 4], [4, 4, 3, 6]


def test_products_of_a_graph_are_those_that_can_be_called_alone():
  found = products(network, tuple(map(tf.ones, SHAPES)))
  kinds = {x.kind for x in found}
  assert {'MatMul', 'BatchMatMulV2', 'Einsum', 'Conv2D'} < kinds
  assert {'Conv2DBackpropInput', 'Conv2DBackpropFilter'} < kinds
  for product in found:
    result = call(product, tf.ones(product.first), tf.ones(product.second))
    assert tuple(result.shape) == product.result
  (forward,) = [x for x in found if x.kind == 'MatMul' and x.options == (False, False)]
  assert (forward.first, forward.second, found[forward]) == ((5, 4), (4, 4), 1)
  assert forward.flops == 2 * 5 * 4 * 4
  assert 0 < seconds(forward, rounds=1) < 0.01


def test_products_in_loops_are_not_missed_in_silence():
  steps = lambda x: tf.scan(lambda state, _: state @ x, tf.range(3), x)
  with pytest.raises(ValueError, match='While'):
    products(steps, (tf.ones([2, 2]),))
