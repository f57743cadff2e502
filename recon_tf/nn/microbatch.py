"""Large batches in pieces, one after the other: less memory, the same gradients."""

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator

import tensorflow as tf
from tensorflow.python.client import device_lib

from recon_tf.nn.tfutils import function


def count_pieces(columns: int, rows: int, limit: int) -> int:
  """The fewest equal pieces of so many columns, each of rows, with at most limit rows; 0: one."""
  if not limit:
    return 1
  fits = lambda count: columns % count == 0 and columns // count * rows <= limit
  return next((n for n in range(1, columns + 1) if fits(n)), columns)


AUTO = -1
CPU_ROWS = 1500  # more make no product faster on a CPU, and the paper's size fits into 5 GB
GPU_SHARE = 0.6  # of a GPU's memory for activations; weights, their moments and XLA take some
KEPT = 3  # copies of an activation at once: before and after its nonlinearity, and its gradient
ASSUMED = contextvars.ContextVar('memory', default=None)


@contextlib.contextmanager
def on_gpu(memory: int) -> Iterator[None]:
  """Graphs made in here are those of a GPU with so many bytes, to be looked at without one."""
  token = ASSUMED.set(memory)
  try:
    yield
  finally:
    ASSUMED.reset(token)


def rows_at_once(piece: int, floats: int, memory: int | None = None) -> int:
  """The limit for count_pieces: as set, or by device and memory for rows of so many activations.

  Each piece repeats every sequential step, which a GPU pays in launches: it takes as few pieces
  as its memory allows.
  """
  if piece != AUTO:
    return piece
  memory = next(x for x in (memory, ASSUMED.get(), gpu_memory()) if x is not None)
  return max(1, int(GPU_SHARE * memory / (4 * KEPT * floats))) if memory else CPU_ROWS


@functools.cache
def gpu_memory() -> int:
  """Bytes that TensorFlow may use on a GPU, 0 without one; the least if there are several."""
  if not tf.config.list_physical_devices('GPU'):
    return 0
  return min(x.memory_limit for x in device_lib.list_local_devices() if x.device_type == 'GPU')


def outputs_in_pieces(fn: Callable, count: int, params: list[tf.Variable], x) -> tf.Tensor:
  """fn of data, a nest of [rows, ...], with gradients for the params.

  The backward pass runs fn once more on a piece, so that no activations are kept until then.
  """
  if count == 1:
    return fn(x)
  split = lambda t: tf.reshape(t, [count, t.shape[0] // count, *t.shape[1:]])
  parts = tf.nest.map_structure(split, x)

  def add(sums, inputs):
    part, upstream = inputs
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      tape.watch(params)
      outputs = fn(part)
    grads = tape.gradient(outputs, params, upstream, unconnected_gradients='zero')
    return [a + b for a, b in zip(sums, grads, strict=True)]

  zeros = [tf.zeros(p.shape, p.dtype) for p in params]
  grads = lambda upstream: tf.foldl(add, (parts, upstream), zeros, parallel_iterations=1)
  y = tf.map_fn(fn, parts, parallel_iterations=1, fn_output_signature=tf.float32)
  y = with_gradients(y, [tf.convert_to_tensor(p) for p in params], grads)
  return tf.reshape(y, [y.shape[0] * y.shape[1], *y.shape[2:]])


def loss_in_pieces(fn: Callable, count: int, params: list[tf.Variable], x, rest):
  """fn(x, rest) → (loss, means, rows), with gradients of the loss for x and the params.

  Cuts the second axis of [time, columns, ...]. The gradient of a piece is found right after its
  loss, on the way forward, so the activations of only one piece exist at once and none is
  computed twice. The loss and the means, which are scalars, have to be averages over columns.
  """
  if count == 1:
    return fn(x, rest)

  def piece(i):
    part, others = tf.nest.map_structure(lambda t: cut(t, i, count), (x, rest))
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      tape.watch([part, params])
      loss, means, rows = fn(part, others)
    of_part, of_params = tape.gradient(loss, (part, params), unconnected_gradients='zero')
    return (loss, means, of_params), (rows, of_part)

  def body(i, sums, arrays):
    new, rows = piece(i)
    sums = tf.nest.map_structure(lambda a, b: a + b / count, sums, new)
    return i + 1, sums, tf.nest.map_structure(lambda a, t: a.write(i, t), arrays, rows)

  # A loop has to know what it carries; this graph is only looked at.
  like = function(piece).get_concrete_function(tf.TensorSpec([], tf.int32)).structured_outputs
  sums = tf.nest.map_structure(lambda t: tf.zeros(t.shape, t.dtype), like[0])
  array = lambda t: tf.TensorArray(t.dtype, count, element_shape=t.shape)
  start = (0, sums, tf.nest.map_structure(array, like[1]))
  options = {'parallel_iterations': 1, 'maximum_iterations': count}
  _, sums, arrays = tf.while_loop(lambda i, *_: i < count, body, start, **options)
  loss, means, of_params = sums
  rows, of_x = tf.nest.map_structure(lambda a: joined(a.stack()), arrays)
  known = [*(g / count for g in tf.nest.flatten(of_x)), *of_params]
  sources = [*tf.nest.flatten(x), *(tf.convert_to_tensor(p) for p in params)]
  loss = with_gradients(loss, sources, lambda upstream: [upstream * g for g in known])
  return loss, *tf.nest.map_structure(tf.stop_gradient, (means, rows))


def with_gradients(y: tf.Tensor, sources: list[tf.Tensor], grads: Callable) -> tf.Tensor:
  """y, as if it depended on the sources with these gradients, and on nothing else."""

  @tf.custom_gradient
  def run(y, *_):
    return tf.identity(y), lambda upstream: (None, *grads(upstream))

  return run(y, *sources)


def cut(x: tf.Tensor, i: tf.Tensor, count: int) -> tf.Tensor:
  """Piece i of the second axis."""
  width = x.shape[1] // count
  return tf.slice(x, [0, i * width, *[0] * (len(x.shape) - 2)], [x.shape[0], width, *x.shape[2:]])


def joined(x: tf.Tensor) -> tf.Tensor:
  """[pieces, time, columns, ...] to [time, pieces * columns, ...]."""
  x = tf.transpose(x, [1, 0, *range(2, len(x.shape))])
  return tf.reshape(x, [x.shape[0], x.shape[1] * x.shape[2], *x.shape[3:]])
