"""The products that an unrolled graph of TensorFlow really contains, counted one by one."""

import collections
import math

import tensorflow as tf

PRODUCTS = ('MatMul', 'BatchMatMulV2', 'Einsum')
PASSED_ON = ('Identity', 'IdentityN', 'StopGradient', 'PreventGradient', 'CheckNumerics')
WRITES = ('AssignVariableOp', 'AssignAddVariableOp', 'AssignSubVariableOp')


def needed(graph) -> set:
  """Operations that an output or a variable's new value depends on."""
  stack = [x.op for x in graph.outputs] + [x for x in graph.get_operations() if x.type in WRITES]
  found = set()
  while stack:
    op = stack.pop()
    if op not in found:
      found.add(op)
      stack += [x.op for x in op.inputs]
  return found


def distinct(graph) -> list[tf.Operation]:
  """Needed operations without those that repeat another one on the same values."""
  names, seen, operations, writes = {}, set(), [], collections.Counter()
  keep = needed(graph)
  for op in graph.get_operations():  # in the order of the program
    inputs = tuple(names.get(x.ref(), x.name) for x in op.inputs)
    if op.type in WRITES:
      writes[inputs[0]] += 1
    if op.type in PASSED_ON:
      names.update((x.ref(), name) for x, name in zip(op.outputs, inputs, strict=True))
      continue
    version = writes[inputs[0]] if op.type == 'ReadVariableOp' else 0
    attributes = str(sorted((k, str(v)) for k, v in op.node_def.attr.items()))
    key = (op.type, inputs, version, attributes)
    if op.type == 'Placeholder' or (not op.inputs and op.type != 'Const'):
      key = op.name
    for i, x in enumerate(op.outputs):
      names[x.ref()] = (key, i) if not isinstance(key, tuple) else (hash(key), i)
    if op in keep and key not in seen:
      seen.add(key)
      operations.append(op)
  return operations


def graph_flops(graph) -> int:
  """Operations of all products that are needed, each counted once."""
  return sum(operation_flops(op) for op in distinct(graph))


def operation_flops(op) -> int:
  if op.type in PRODUCTS:
    first, second = (x.shape.as_list() for x in op.inputs)
    if op.type == 'Einsum':
      return einsum_flops(op.get_attr('equation').decode(), first, second)
    inner = (
      first[-2] if op.get_attr('transpose_a' if op.type == 'MatMul' else 'adj_x') else first[-1]
    )
    return 2 * math.prod(op.outputs[0].shape) * inner
  # A convolution's small image meets the whole kernel at every pixel.
  if op.type == 'Conv2D':
    return 2 * math.prod(op.outputs[0].shape[:3]) * math.prod(op.inputs[1].shape)
  if op.type == 'Conv2DBackpropInput':
    return 2 * math.prod(op.inputs[2].shape[:3]) * math.prod(op.inputs[1].shape)
  if op.type == 'Conv2DBackpropFilter':
    return 2 * math.prod(op.inputs[2].shape[:3]) * math.prod(op.outputs[0].shape)
  assert 'MatMul' not in op.type
  assert 'Conv' not in op.type
  return 0


def einsum_flops(equation: str, first: list, second: list) -> int:
  left, right = equation.split('->')[0].split(',')
  sizes = dict([*zip(left, first, strict=True), *zip(right, second, strict=True)])
  return 2 * math.prod(sizes.values())
