"""The analytic count against the products that TensorFlow's unrolled graph really contains."""

import collections
import math

import pytest
import tensorflow as tf

from recon_tf.perf.flops import count_flops
from tests.agent_fixtures import batch, make_agent, spaces, tiny_config

PRODUCTS = ('MatMul', 'BatchMatMulV2', 'Einsum')
PASSED_ON = ('Identity', 'IdentityN', 'StopGradient', 'PreventGradient', 'CheckNumerics')
WRITES = ('AssignVariableOp', 'AssignAddVariableOp', 'AssignSubVariableOp')


def update_graph(agent, image: bool) -> tf.Graph:
  """The whole update in one graph without loops or calls."""
  agent._model_step, agent._behavior_step = agent._train_model, agent._train_behaviors
  data, expert = batch(4, image=image), batch(2, image=image)
  function = tf.function(agent._update, autograph=False)
  inputs = agent._inputs(data), agent._inputs(expert), tf.zeros([2], tf.int32)
  return function.get_concrete_function(*inputs).graph


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


CASES = {
  'recon': {},
  'cmil': {'explorer.enabled': False},
  'stopgrad': {'gate.stopgrad': True},
  'terminal': {'gate.kind': 'terminal'},
  'no_gate': {'gate.kind': 'none'},
  'few_starts': {'imag_starts': 7, 'main.replay_critic': False},
  'copy': {'expert_mix': 'copy'},
}


@pytest.mark.parametrize('case', CASES)
def test_count_is_that_of_the_unrolled_graph(case):
  changes = {'unroll': True, **CASES[case]}
  agent = make_agent(**changes)
  shapes = {k: v.shape for k, v in spaces()[0].items() if v.shape}
  config = tiny_config(**changes)
  counted = sum(count_flops(config, shapes, 2).values())
  picks = selections(config)
  assert graph_flops(update_graph(agent, False)) - picks == counted


def test_count_with_convolutions():
  changes = {'encoder.cnn_keys': 'image', 'decoder.cnn_keys': 'image', 'decoder.cnn_depth': 8}
  changes['unroll'] = True
  agent = make_agent(image=True, **changes)
  shapes = {k: v.shape for k, v in spaces(True)[0].items() if v.shape}
  config = tiny_config(**changes)
  counted = sum(count_flops(config, shapes, 2).values())
  # The convolution that makes the image also covers a border, 32x32 places instead of 30x30.
  depth, images = config.decoder.cnn_depth, 6 * config.replay.length
  border = 2 * images * (32**2 - 30**2) * 3 * 3 * depth * 4 * 3
  assert graph_flops(update_graph(agent, True)) - selections(config) - border == counted


def selections(config) -> int:
  """One-hot products that pick a head: forward each, and backward where the heads learn."""
  rssm, length = config.rssm, config.replay.length
  stored = rssm.deter * rssm.hidden + rssm.hidden * 2 * rssm.stoch
  stored += rssm.hidden + 2 * rssm.stoch  # biases
  policies = 1 + config.explorer.enabled
  return 2 * rssm.ensemble * stored * (2 * length + policies * config.horizon)
