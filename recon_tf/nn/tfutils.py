"""TensorFlow helpers: variables with names, random seeds without state, scans, the optimizer."""

import inspect
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf


def variable(value: np.ndarray, trainable: bool = True) -> tf.Variable:
  """A variable that also works mirrored over several devices."""
  return tf.Variable(
    value,
    trainable=trainable,
    aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
  )


def named_variables(module, prefix: str = '') -> Iterator[tuple[str, tf.Variable]]:
  """Every variable below a module with its dotted attribute path, in order of creation."""
  if isinstance(module, tf.Variable):
    yield prefix, module
  elif isinstance(module, (list, tuple)):
    for i, value in enumerate(module):
      yield from named_variables(value, f'{prefix}.{i}')
  elif isinstance(module, dict):
    for key, value in module.items():
      yield from named_variables(value, f'{prefix}.{key}')
  elif isinstance(module, Module):
    for key, value in vars(module).items():
      if not key.startswith('_'):  # belongs to another module
        yield from named_variables(value, f'{prefix}.{key}' if prefix else key)


class Module:
  """Something with variables; attributes are searched in the order they were set."""

  @property
  def variables(self) -> list[tf.Variable]:
    return [x for _, x in named_variables(self)]


class Seeds:
  """Stateless noise that never repeats within an update: each draw folds in a new number.

  A global seed with stateful random ops inside nested functions draws the same noise at every
  time step; here every draw is a function of (run seed, update, position in the program).
  Noise is drawn outside of the XLA programs and passed in: XLA's generator is far slower
  on a CPU, and this way XLA, graphs and eager mode see the same numbers.
  """

  def __init__(self, seed: tf.Tensor):
    self.seed = seed
    self.used = 0

  def __call__(self) -> tf.Tensor:
    self.used += 1
    return tf.random.experimental.stateless_fold_in(self.seed, self.used)

  def normal(self, shape) -> tf.Tensor:
    return tf.random.stateless_normal(shape, self())

  def uniform(self, shape) -> tf.Tensor:
    return tf.random.stateless_uniform(shape, self())

  def onehot(self, shape, depth: int) -> tf.Tensor:
    """Uniformly drawn indices as one-hot rows (an index would make XLA recompile)."""
    index = tf.random.stateless_uniform(shape, self(), maxval=depth, dtype=tf.int32)
    return tf.one_hot(index, depth)

  def choice(self, total: int, count: int) -> tf.Tensor:
    """Different indices below total, in random order."""
    return tf.argsort(self.uniform([total]))[:count]


def scan(fn: Callable, start, inputs, unroll: bool):
  """Stacks fn(state, input) over the leading axis of the inputs; state and output are nests."""
  if not unroll:
    return tf.scan(fn, inputs, start)
  length = tf.nest.flatten(inputs)[0].shape[0]
  state, states = start, []
  for i in range(length):
    state = fn(state, tf.nest.map_structure(lambda x: x[i], inputs))  # noqa: B023
    states.append(state)
  return tf.nest.map_structure(lambda *xs: tf.stack(xs), *states)


def function(fn: Callable, jit: bool | None = None) -> Callable:
  """A graph; there is no Python control flow on tensors for autograph to translate."""
  return tf.function(fn, jit_compile=jit, autograph=False)


def direct(fn: Callable) -> Callable:
  """A graph of fn for many small calls; arguments are nests of arrays and tensors.

  The same graph as of `function`, to the bit. What is left out is how TensorFlow looks at the
  arguments of every call, which takes several times as long as a policy's step itself.
  """
  programs = {}

  def call(*args):
    flat = tf.nest.flatten(args)
    key = tuple((tuple(x.shape), x.dtype) for x in flat)
    if key not in programs:
      graph = function(lambda *flat: fn(*tf.nest.pack_sequence_as(args, flat)))
      program = graph.get_concrete_function(*flat)
      programs[key] = program, [*program.captured_inputs], shortcut()
    program, captured, short = programs[key]
    inputs = [*map(tf.convert_to_tensor, flat)]
    if short is None:
      return program(*inputs)
    outputs = short(program.name, [*inputs, *captured], len(program.outputs))
    return tf.nest.pack_sequence_as(program.structured_outputs, outputs)

  call.programs = programs
  return call


def shortcut() -> Callable | None:
  """The call in which those of a tf.function end; None if this TensorFlow has it in no known form.

  It is not public. The public ways are a graph's own call, which takes 1.4 times as long for a
  policy's step, and tf.raw_ops.StatefulPartitionedCall, which is faster but has other bits.
  """
  try:
    from tensorflow.python.eager import context

    call = context.context().call_function
  except (ImportError, AttributeError):
    return None
  names = [*inspect.signature(call).parameters]
  return call if names == ['name', 'tensor_inputs', 'num_outputs'] else None


def compiled_inside(fn: Callable, params: list[tf.Variable]) -> Callable:
  """An XLA program of fn(x, *rest) for use inside of a graph, with gradients for x and params.

  The backward pass is a program that runs fn once more, because XLA cannot hand the history of
  a loop from one program to another.
  """

  def gradients(x, rest, upstream):
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      tape.watch([x, *params])
      outputs = tf.nest.flatten(fn(x, *rest))
    return tape.gradient(outputs, [x, *params], upstream, unconnected_gradients='zero')

  forward, backward = function(fn, True), function(gradients, True)

  def call(x, *rest):
    structure = []

    @tf.custom_gradient
    def run(x):
      outputs = forward(x, *rest)
      structure.append(outputs)

      def grad(*upstream, variables=()):
        first, *others = backward(x, rest, list(upstream))
        of = {p.ref(): g for p, g in zip(params, others, strict=True)}
        return first, [of[v.ref()] for v in variables]

      return tf.nest.flatten(outputs), grad

    flat = run(x)
    return tf.nest.pack_sequence_as(structure[0], flat)

  return call


def all_reduce_mean(values: list[tf.Tensor]) -> list[tf.Tensor]:
  """Averages over the devices that share a batch; nothing to do on one."""
  context = tf.distribute.get_replica_context()
  if context is None or context.num_replicas_in_sync == 1:
    return values
  return context.all_reduce(tf.distribute.ReduceOp.MEAN, values)


class Optimizer(Module):
  """Adam with global-norm clipping and decoupled weight decay, as in DreamerV2."""

  apart = False  # find gradients in an XLA program of their own, between which devices can meet

  def __init__(
    self,
    name: str,
    params: list[tf.Variable],
    lr: float,
    eps: float = 1e-5,
    clip: float = 100.0,
    wd: float = 0.0,
    betas: tuple[float, float] = (0.9, 0.999),
    decay: int = 0,
  ):
    self._name = name
    self._params = list(params)
    self._lr, self._eps, self._clip, self._wd, self._betas = lr, eps, clip, wd, betas
    self._decay = decay
    self.steps = variable(np.zeros((), np.int32), trainable=False)
    self.first = [variable(np.zeros(x.shape, np.float32), trainable=False) for x in params]
    self.second = [variable(np.zeros(x.shape, np.float32), trainable=False) for x in params]

  def minimize(self, fn: Callable) -> tuple[object, dict[str, tf.Tensor]]:
    """One update on fn() → (loss, more); returns what more there is, and the metrics of step."""
    more, loss, grads = self._find(fn)
    return more, self._move(loss, grads)

  def minimize_plainly(self, fn: Callable, lr: float) -> tf.Tensor:
    """Gradient descent on fn() → (loss, more) without moments, clipping or decay."""
    _, loss, grads = self._find(fn)
    for x, grad in zip(self._params, all_reduce_mean(grads), strict=True):
      x.assign(x - lr * grad)
    return loss

  def step(self, tape: tf.GradientTape, loss: tf.Tensor) -> dict[str, tf.Tensor]:
    """One update; returns the loss and the norm of its gradient before clipping."""
    return self._move(loss, self._gradients(tape, loss))

  def _find(self, fn: Callable) -> tuple[object, tf.Tensor, list[tf.Tensor]]:
    def find():
      with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(self._params)
        loss, more = fn()
      return more, loss, self._gradients(tape, loss)

    return function(find, True)() if self.apart else find()

  def _gradients(self, tape: tf.GradientTape, loss: tf.Tensor) -> list[tf.Tensor]:
    return [tf.convert_to_tensor(g) for g in tape.gradient(loss, self._params)]

  def _move(self, loss: tf.Tensor, grads: list[tf.Tensor]) -> dict[str, tf.Tensor]:
    grads = all_reduce_mean(grads)
    norm = tf.linalg.global_norm(grads)
    self._apply(grads, norm)
    return {f'{self._name}_loss': loss, f'{self._name}_grad_norm': norm}

  def _apply(self, grads: list[tf.Tensor], norm: tf.Tensor) -> None:
    self.steps.assign_add(1)
    step = tf.cast(self.steps, tf.float32)
    b1, b2 = self._betas
    rate = self._lr * tf.sqrt(1 - b2**step) / (1 - b1**step)
    if self._decay:  # linearly to a tenth, so that the last policy is a settled one
      rate *= tf.maximum(0.1, 1 - 0.9 * step / self._decay)
    scale = self._clip / tf.maximum(norm, self._clip) if self._clip else 1.0
    for x, grad, m, v in zip(self._params, grads, self.first, self.second, strict=True):
      grad = grad * scale
      new_m = m.assign(b1 * m + (1 - b1) * grad)
      new_v = v.assign(b2 * v + (1 - b2) * grad**2)
      x.assign(x * (1 - self._wd) - rate * new_m / (tf.sqrt(new_v) + self._eps))
