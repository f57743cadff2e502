"""Matrix products and convolutions of a graph by shape, and how fast each shape is alone."""

import collections
import functools
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from recon_tf.perf.graph import PRODUCTS, distinct, operation_flops

FLOPS = 5e7  # operations of a measured program at least, so that its call does not count
MOST = 6  # operands of each side in it at most
BLOCK = 0.02  # seconds


class Product(NamedTuple):
  """One kind of operation: what to call on operands of which shapes."""

  kind: str
  first: tuple[int, ...]
  second: tuple[int, ...]
  result: tuple[int, ...]
  options: tuple
  flops: int


def products(fn: Callable, inputs: tuple) -> collections.Counter:
  """The products that fn needs, each value once; its graph must have no loops or calls."""
  graph = tf.function(fn, autograph=False).get_concrete_function(*inputs).graph
  calls = {x.type for x in graph.get_operations() if x.type.endswith(('While', 'PartitionedCall'))}
  if calls:
    raise ValueError(f'Products inside of {calls} are not seen.')
  return collections.Counter(describe(x) for x in distinct(graph) if operation_flops(x))


def describe(op: tf.Operation) -> Product:
  shape = lambda x: tuple(x.shape.as_list())
  names = {'MatMul': ('transpose_a', 'transpose_b'), 'BatchMatMulV2': ('adj_x', 'adj_y')}
  names = names.get(op.type, ('equation',) if op.type == 'Einsum' else ('strides', 'padding'))
  options = tuple(tuple(x) if isinstance(x, list) else x for x in map(op.get_attr, names))
  # The gradients of a convolution take a list of sizes, which their result tells as well.
  sizes = {'Conv2DBackpropInput': 0, 'Conv2DBackpropFilter': 1}.get(op.type)
  first, second = (shape(x) for i, x in enumerate(op.inputs) if i != sizes)
  return Product(op.type, first, second, shape(op.outputs[0]), options, operation_flops(op))


def call(product: Product, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
  kind, options, result = product.kind, product.options, list(product.result)
  if kind in ('MatMul', 'BatchMatMulV2'):
    return tf.linalg.matmul(x, y, *options)
  if kind == 'Einsum':
    return tf.einsum(options[0].decode(), x, y)
  how = {'strides': list(options[0]), 'padding': options[1].decode()}
  if kind == 'Conv2D':
    return tf.raw_ops.Conv2D(input=x, filter=y, **how)
  if kind == 'Conv2DBackpropInput':
    return tf.raw_ops.Conv2DBackpropInput(input_sizes=result, filter=x, out_backprop=y, **how)
  return tf.raw_ops.Conv2DBackpropFilter(input=x, filter_sizes=result, out_backprop=y, **how)


def seconds(product: Product, rounds: int) -> float:
  """CPU time of one alone: the best of some blocks, in XLA but for convolutions.

  All operands of one side meet all of the other in one program, so that no two products are the
  same and few operands stay in the caches, as weights do. What the call itself takes is left out.
  """
  count = min(MOST, math.ceil(math.sqrt(FLOPS / product.flops)))
  compiled = product.kind in PRODUCTS
  fn = lambda x, y: call(product, x, y)
  taken = best(fn, product.first, product.second, count, compiled, rounds)
  return max(taken - of_call(count, compiled, rounds), 0.5 * taken) / count**2


@functools.cache
def of_call(count: int, compiled: bool, rounds: int) -> float:
  """The same program with next to no work."""
  return best(lambda x, y: x + y, (1,), (1,), count, compiled, rounds)


def best(
  fn: Callable, first: tuple, second: tuple, count: int, compiled: bool, rounds: int
) -> float:
  """CPU time of fn on all pairs of so many operands of either shape, in the best of the blocks."""
  draw = lambda shape, i: tf.random.stateless_normal(shape, [i, 0])
  xs, ys = ([draw(shape, i) for i in range(count)] for shape in (first, second))
  every = lambda xs, ys: [fn(x, y) for x in xs for y in ys]
  program = tf.function(every, jit_compile=compiled, autograph=False)
  program(xs, ys)
  return min(block(lambda: program(xs, ys), BLOCK) for _ in range(rounds))


def block(fn: Callable, least: float) -> float:
  calls, start = 0, time.process_time()
  while not calls or time.process_time() - start < least:
    fn()
    calls += 1
  return (time.process_time() - start) / calls
