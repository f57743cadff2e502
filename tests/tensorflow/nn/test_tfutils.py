"""Seeds, scans, names and the optimizer."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from recon_tf.nn import nets, tfutils


def test_draws_differ_from_each_other_and_repeat_with_the_seed():
  def draws(seed):
    seeds = tfutils.Seeds(tf.constant(seed))
    return [seeds.normal([4]).numpy() for _ in range(3)]

  first = draws([1, 2])
  np.testing.assert_array_equal(first, draws([1, 2]))
  rows = [*first, *draws([1, 3]), *draws([2, 2])]
  assert len({x.tobytes() for x in rows}) == 9


def test_graphs_draw_what_eager_mode_draws():
  def draw(seed):
    seeds = tfutils.Seeds(seed)
    return seeds.normal([3, 4]), seeds.uniform([3]), seeds.onehot([5], 7), seeds.choice(9, 4)

  seed = tf.constant([3, 4])
  for a, b in zip(draw(seed), tf.function(draw)(seed), strict=True):
    np.testing.assert_array_equal(a, b)


def test_shapes_of_noise():
  seeds = tfutils.Seeds(tf.constant([0, 0]))
  onehot = seeds.onehot([1000], 4).numpy()
  assert set(onehot.ravel()) == {0.0, 1.0}
  np.testing.assert_array_equal(onehot.sum(-1), 1)
  assert onehot.sum(0).min() > 200
  choice = seeds.choice(50, 20).numpy()
  assert len(set(choice)) == 20
  assert 0 <= choice.min() <= choice.max() < 50
  np.testing.assert_allclose(seeds.normal([10_000]).numpy().std(), 1, atol=0.03)


def test_unrolled_scan_is_the_same():
  inputs = (np.float32([1, 2, 3]), np.float32([[1, 0], [0, 1], [2, 2]]))
  step = lambda state, x: {'a': state['a'] * 0.5 + x[0] * x[1]}
  start = {'a': tf.constant([4.0, 8.0])}
  for unroll in (False, True):
    out = tfutils.scan(step, start, tf.nest.map_structure(tf.constant, inputs), unroll)
    np.testing.assert_allclose(out['a'], [[3, 4], [1.5, 4], [6.75, 8]])


def test_a_direct_call_is_the_same_graph_for_every_shape_and_the_newest_weights():
  layer = nets.Linear(np.random.default_rng(0), 8, 8)

  def step(obs, state, seed):
    noise = tfutils.Seeds(seed).normal(state['belief'].shape)
    return tf.tanh(layer(obs['b'] + state['belief']) + noise), {'belief': noise, 'a': obs['a']}

  direct, plain = tfutils.direct(step), tfutils.function(step)
  for number in range(4):
    rows = 2 + number % 2
    values = np.random.default_rng(number).normal(size=(2, rows, 8)).astype(np.float32)
    layer.bias.assign(values[0, 0])
    inputs = {'b': values[0], 'a': np.arange(rows)}, {'belief': tf.constant(values[1])}
    args = *inputs, np.array([1, number], np.int32)
    first, second = direct(*args), plain(*args)
    tf.nest.assert_same_structure(first, second)
    for a, b in zip(tf.nest.flatten(first), tf.nest.flatten(second), strict=True):
      np.testing.assert_array_equal(a, b)
  assert len(direct.programs) == 2


def test_a_direct_call_needs_no_private_function_of_tensorflow(monkeypatch):
  layer, x = nets.Linear(np.random.default_rng(0), 8, 8), np.ones([2, 8], np.float32)
  step = lambda x, more: {'y': tf.tanh(layer(x['x'])) + more}
  short = tfutils.direct(step)({'x': x}, 1.0 + x)['y']
  assert tfutils.shortcut() is not None  # otherwise the two are the same way
  monkeypatch.setattr(tfutils, 'shortcut', lambda: None)
  np.testing.assert_array_equal(tfutils.direct(step)({'x': x}, 1.0 + x)['y'], short)


@pytest.mark.parametrize('methods', [{}, {'call_function': lambda self, name, inputs: inputs}])
def test_a_private_function_of_another_form_is_not_used(methods, monkeypatch):
  monkeypatch.setattr(context, 'context', type('Context', (), methods))
  assert tfutils.shortcut() is None


def test_names_are_attribute_paths():
  net = nets.MLP(np.random.default_rng(0), 2, [3], 'elu', 1)
  names = [name for name, _ in tfutils.named_variables(net)]
  assert names == ['hidden.0.kernel', 'hidden.0.bias', 'out.kernel', 'out.bias']
  assert [id(x) for x in net.variables] == [id(x) for _, x in tfutils.named_variables(net)]


def optimizer(start, clip=0.0, wd=0.0):
  x = tfutils.variable(np.float32(start))
  return x, tfutils.Optimizer('loss', [x], lr=0.1, eps=1e-5, clip=clip, wd=wd)


def step(x, opt, weights):
  with tf.GradientTape() as tape:
    loss = tf.reduce_sum(x * weights)
  return opt.step(tape, loss)


def test_optimizer_is_adam_with_clipping_and_decay():
  start, clip, wd = [1.0, -2.0], 2.0, 0.01
  x, opt = optimizer(start, clip, wd)
  value, m, v = np.array(start), np.zeros(2), np.zeros(2)
  for t, grad in enumerate(np.array([[0.3, 0.4], [30, -40], [-1, 2]]), 1):
    metrics = step(x, opt, grad.astype(np.float32))
    norm = np.linalg.norm(grad)
    np.testing.assert_allclose(metrics['loss_grad_norm'], norm, rtol=1e-5)
    grad = grad * min(1, clip / norm)
    m, v = 0.9 * m + 0.1 * grad, 0.999 * v + 0.001 * grad**2
    # The rate holds the bias correction, so that eps counts as in DreamerV2's Adam.
    rate = 0.1 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    value = value * (1 - wd) - rate * m / (np.sqrt(v) + 1e-5)
    np.testing.assert_allclose(x.numpy(), value, rtol=1e-4)


def test_the_rate_falls_to_a_tenth():
  """With a constant gradient every Adam step moves by the rate itself."""
  x = tf.Variable([0.0])
  opt = tfutils.Optimizer('loss', [x], 0.1, eps=0.0, decay=4)
  moves = []
  for _ in range(6):
    before = x.numpy()[0]
    step(x, opt, np.float32([1.0]))
    moves.append(before - x.numpy()[0])
  np.testing.assert_allclose(moves, 0.1 * np.array([0.775, 0.55, 0.325, 0.1, 0.1, 0.1]), rtol=1e-3)


def test_no_clipping_without_a_limit():
  x, opt = optimizer([0.0, 0.0])
  step(x, opt, np.float32([1e4, 0]))
  np.testing.assert_allclose(opt.first[0].numpy(), [1e3, 0], rtol=1e-5)


def test_plain_step_is_gradient_descent():
  x, opt = optimizer([1.0, -2.0])
  loss = opt.minimize_plainly(lambda: (tf.reduce_sum(x**2), ()), 0.1)
  assert float(loss) == 5.0
  np.testing.assert_allclose(x.numpy(), [0.8, -1.6], rtol=1e-6)
  assert int(opt.steps) == 0
