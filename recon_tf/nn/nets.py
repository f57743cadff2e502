"""Layers and networks whose variables exist from the start."""

import contextlib
import contextvars
import copy
import re
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from recon_tf.common.errors import UserError
from recon_tf.nn.tfutils import Module, variable

NATIVE = contextvars.ContextVar('native', default=False)


@contextlib.contextmanager
def native_acts() -> Iterator[None]:
  """Graphs made in here have TensorFlow's own activations, which any program can load."""
  token = NATIVE.set(True)
  try:
    yield
  finally:
    NATIVE.reset(token)


def elu(x: tf.Tensor) -> tf.Tensor:
  """As TensorFlow's to the last digit or two of a float, in a form that XLA computes faster.

  XLA's expm1 is exact near zero at 1.7 times the time of exp; an activation needs no more than
  an absolute error of a rounding of 1.
  """
  return tf.nn.elu(x) if NATIVE.get() or tf.executing_eagerly() else composed_elu(x)


@tf.custom_gradient
def composed_elu(x: tf.Tensor):
  y = tf.maximum(x, 0.0) + (tf.exp(tf.minimum(x, 0.0)) - 1)
  return y, lambda upstream: tf.raw_ops.EluGrad(gradients=upstream, outputs=y)


ACTS = {'elu': elu, 'relu': tf.nn.relu, 'tanh': tf.tanh, 'none': tf.identity}
# TensorFlow's own convolutions stay outside of XLA on a CPU, where one native operation is best.
CONV_ACTS = {**ACTS, 'elu': tf.nn.elu}


def glorot(rng: np.random.Generator, shape: tuple, fan_in: int, fan_out: int) -> np.ndarray:
  limit = np.sqrt(6 / (fan_in + fan_out))
  return rng.uniform(-limit, limit, shape).astype(np.float32)


def matmul(x: tf.Tensor, kernel: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
  """A product in the compute type whose result is float32 again."""
  if dtype == tf.float32:
    return x @ kernel
  return tf.cast(tf.cast(x, dtype) @ tf.cast(kernel, dtype), tf.float32)


def leading(x: tf.Tensor, rank: int) -> list[int]:
  """The shape before the last axes, for tf.reshape; one axis may be of any size."""
  return [-1 if n is None else n for n in x.shape[:-rank]]


class Linear(Module):
  """Dense layer; with heads, that many layers in one stacked kernel."""

  def __init__(self, rng, inputs: int, units: int, heads: int = 0, dtype=tf.float32):
    lead = (heads,) if heads else ()
    self._dtype = dtype
    self.kernel = variable(glorot(rng, (*lead, inputs, units), inputs, units))
    self.bias = variable(np.zeros((*lead, units), np.float32))

  def __call__(self, x: tf.Tensor) -> tf.Tensor:
    """[..., inputs] to [..., units]."""
    return matmul(x, self.kernel, self._dtype) + self.bias

  def fan_out(self, x: tf.Tensor, dtype: tf.DType | None = None) -> tf.Tensor:
    """[batch, inputs] through every head to [heads, batch, units]."""
    kernel, dtype = self.kernel, dtype or self._dtype
    y = tf.einsum('bi,kio->kbo', tf.cast(x, dtype), tf.cast(kernel, dtype))
    return tf.cast(y, tf.float32) + self.bias[:, None]

  def stacked(self, x: tf.Tensor, units: int, dtype: tf.DType | None = None) -> tf.Tensor:
    """[heads, batch, inputs] to the first units of each head's own output."""
    kernel = self.kernel[..., :units]
    return matmul(x, kernel, dtype or self._dtype) + self.bias[:, None, :units]

  def chosen(self, x: tf.Tensor, onehot: tf.Tensor) -> tf.Tensor:
    """[time, batch, inputs] through the head that a row of [time, heads] picks at that time."""
    kernel = tf.einsum('tk,kio->tio', onehot, self.kernel)
    return matmul(x, kernel, self._dtype) + (onehot @ self.bias)[:, None]


class LayerNorm(Module):
  def __init__(self, units: int, eps: float = 1e-3):
    self._eps = eps
    self.scale = variable(np.ones(units, np.float32))
    self.offset = variable(np.zeros(units, np.float32))

  def __call__(self, x: tf.Tensor) -> tf.Tensor:
    mean, var = tf.nn.moments(x, -1, keepdims=True)
    return (x - mean) * tf.math.rsqrt(var + self._eps) * self.scale + self.offset


class MLP(Module):
  """Hidden layers with an activation; a linear output if one is given."""

  def __init__(self, rng, inputs: int, layers, act: str, units: int = 0, dtype=tf.float32):
    sizes = [inputs, *layers]
    self._act = ACTS[act]
    self._units = units or sizes[-1]
    self.hidden = [Linear(rng, i, o, dtype=dtype) for i, o in zip(sizes[:-1], layers, strict=True)]
    self.out = Linear(rng, sizes[-1], units, dtype=dtype) if units else None

  def __call__(self, x: tf.Tensor) -> tf.Tensor:
    lead = leading(x, 1)
    x = tf.reshape(x, [-1, x.shape[-1]])
    for layer in self.hidden:
      x = self._act(layer(x))
    x = self.out(x) if self.out else x
    return tf.reshape(x, [*lead, self._units])


def chosen(networks: list[MLP], onehot: tf.Tensor) -> MLP:
  """The one of several alike that a one-hot picks: one pass instead of a pass of each."""

  def pick(layers):
    layer = copy.copy(layers[0])
    layer.kernel = sum(onehot[i] * x.kernel for i, x in enumerate(layers))
    layer.bias = sum(onehot[i] * x.bias for i, x in enumerate(layers))
    return layer

  net = copy.copy(networks[0])
  net.hidden = [pick(layers) for layers in zip(*(x.hidden for x in networks), strict=True)]
  net.out = pick([x.out for x in networks])
  return net


class GRU(Module):
  """Gated recurrent cell with one LayerNorm over all gates."""

  def __init__(self, rng, inputs: int, units: int, dtype=tf.float32):
    self.gates = Linear(rng, inputs + units, 3 * units, dtype=dtype)
    self.norm = LayerNorm(3 * units)

  def __call__(self, x: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
    gates = self.norm(self.gates(tf.concat([x, state], -1)))
    reset, candidate, update = tf.split(gates, 3, -1)
    candidate = tf.tanh(tf.sigmoid(reset) * candidate)
    update = tf.sigmoid(update - 1)  # biased towards keeping the state
    return update * candidate + (1 - update) * state


class Conv(Module):
  """Strided convolution, or its transpose, without padding."""

  def __init__(self, rng, inputs, units, kernel, stride=2, transpose=False, dtype=tf.float32):
    self._stride, self._transpose, self._dtype = stride, transpose, dtype
    area = kernel * kernel
    shape = (kernel, kernel, units, inputs) if transpose else (kernel, kernel, inputs, units)
    self.kernel = variable(glorot(rng, shape, inputs * area, units * area))
    self.bias = variable(np.zeros(units, np.float32))

  def __call__(self, x: tf.Tensor) -> tf.Tensor:
    x, kernel = tf.cast(x, self._dtype), tf.cast(self.kernel, self._dtype)
    if not self._transpose:
      y = tf.nn.conv2d(x, kernel, self._stride, 'VALID')
    elif x.shape[1] == x.shape[2] == 1:
      # From a single pixel a transposed convolution is a plain matrix product.
      size, _, units, inputs = kernel.shape
      flat = tf.reshape(kernel, [-1, inputs])
      y = tf.matmul(x[:, 0, 0], flat, transpose_b=True)
      y = tf.reshape(y, [-1, size, size, units])
    else:
      few = kernel.shape[0] % 2 == 0 and kernel.shape[2] < 8 and self._stride == 2
      y = to_pixels(x, kernel) if few else deconv(x, kernel, self._stride)
    return tf.cast(y, tf.float32) + self.bias


def deconv(x: tf.Tensor, kernel: tf.Tensor, stride: int) -> tf.Tensor:
  """Transposed convolution with a kernel [height, width, outputs, inputs]."""
  size = stride * (x.shape[1] - 1) + kernel.shape[0]
  shape = [tf.shape(x)[0], size, size, kernel.shape[2]]
  return tf.nn.conv2d_transpose(x, kernel, shape, stride, 'VALID')


@tf.custom_gradient
def to_pixels(x: tf.Tensor, kernel: tf.Tensor):
  """The same with stride 2, as a plain convolution that makes 2x2 pixels at each place.

  Native ones are several times slower if there are few outputs; their gradients are not.
  """
  half, (size, _, outputs, inputs) = kernel.shape[0] // 2, kernel.shape
  blocks = tf.reshape(kernel, [half, 2, half, 2, outputs, inputs])[::-1, :, ::-1]
  blocks = tf.reshape(tf.transpose(blocks, [0, 2, 5, 1, 3, 4]), [half, half, inputs, 4 * outputs])
  border = [half - 1, half - 1]
  y = tf.nn.conv2d(tf.pad(x, [[0, 0], border, border, [0, 0]]), blocks, 1, 'VALID')
  y = tf.nn.depth_to_space(y, 2)

  def grad(upstream):
    filters = tf.raw_ops.Conv2DBackpropFilter(
      input=upstream,
      filter_sizes=[size, size, outputs, inputs],
      out_backprop=x,
      strides=[1, 2, 2, 1],
      padding='VALID',
    )
    return tf.nn.conv2d(upstream, kernel, 2, 'VALID'), filters

  return y, grad


def select(shapes: dict[str, tuple], pattern: str, rank: int) -> dict[str, tuple]:
  """The observation keys that a regex picks among those of a rank."""
  found = {k: v for k, v in shapes.items() if len(v) == rank and re.match(pattern, k)}
  return dict(sorted(found.items()))


def check_size(images: dict[str, tuple], kernels) -> None:
  """Refuses kernels whose transposed convolutions do not end in pictures of that size."""
  made = 1
  for kernel in kernels:
    made = 2 * (made - 1) + kernel
  for key, (height, width, _) in images.items():
    if (height, width) != (made, made):
      raise UserError(
        f"decoder.cnn_kernels: {list(kernels)} make pictures of {made}x{made}, but '{key}' is "
        f'{height}x{width}; use [5, 5, 6, 6] for 64x64, [5, 5, 8] for 32x32, or change env.size.'
      )


class Encoder(Module):
  """Images through convolutions, vectors through an MLP, concatenated."""

  def __init__(
    self, rng, shapes, scaler, cnn_keys, mlp_keys, cnn_depth, cnn_kernels, mlp_layers, act, dtype
  ):
    self._images = select(shapes, cnn_keys, 3)
    self._vectors = select(shapes, mlp_keys, 1)
    self._scaler = scaler
    self._act = CONV_ACTS[act]
    self.units = self.activations = 0
    self.convs, self.mlp = [], None
    if self._images:
      size = next(iter(self._images.values()))[0]
      channels = sum(x[-1] for x in self._images.values())
      for i, kernel in enumerate(cnn_kernels):
        self.convs.append(Conv(rng, channels, cnn_depth * 2**i, kernel, dtype=dtype))
        channels, size = cnn_depth * 2**i, (size - kernel) // 2 + 1
        self.activations += size * size * channels
      if size < 1:
        raise UserError(f'encoder.cnn_kernels: images are too small for {list(cnn_kernels)}.')
      self.units += size * size * channels
    if self._vectors:
      inputs = sum(x[0] for x in self._vectors.values())
      self.mlp = MLP(rng, inputs, mlp_layers, act, dtype=dtype)
      self.units += mlp_layers[-1]
      self.activations += sum(mlp_layers)

  @property
  def keys(self) -> list[str]:
    return [*self._images, *self._vectors]

  def __call__(self, obs: dict[str, tf.Tensor]) -> tf.Tensor:
    """Observations [..., shape] to embeddings [..., units]."""
    outputs = []
    if self._images:
      x = tf.concat([tf.cast(obs[k], tf.float32) for k in self._images], -1) / 255 - 0.5
      lead = leading(x, 3)
      x = tf.reshape(x, [-1, *x.shape[-3:]])
      for conv in self.convs:
        x = self._act(conv(x))
      outputs.append(tf.reshape(x, [*lead, np.prod(x.shape[1:])]))
    if self._vectors:
      x = tf.concat([self._scaler.scale(k, obs[k]) for k in self._vectors], -1)
      outputs.append(self.mlp(x))
    return tf.concat(outputs, -1)


class Decoder(Module):
  """Features to the means of images and, in their scaled form, of vectors."""

  def __init__(
    self, rng, inputs, shapes, cnn_keys, mlp_keys, cnn_depth, cnn_kernels, mlp_layers, act, dtype
  ):
    self._images = select(shapes, cnn_keys, 3)
    self._vectors = select(shapes, mlp_keys, 1)
    self._act = CONV_ACTS[act]
    self.deconvs, self.mlp, self.activations = [], None, 0
    if self._images:
      depths = [cnn_depth * 2**i for i in reversed(range(len(cnn_kernels) - 1))]
      channels, size = 32 * cnn_depth, 1
      self.dense = Linear(rng, inputs, channels, dtype=dtype)
      depths.append(sum(x[-1] for x in self._images.values()))
      for units, kernel in zip(depths, cnn_kernels, strict=True):
        self.deconvs.append(Conv(rng, channels, units, kernel, transpose=True, dtype=dtype))
        channels, size = units, 2 * (size - 1) + kernel
        self.activations += size * size * channels
      check_size(self._images, cnn_kernels)
    if self._vectors:
      units = sum(x[0] for x in self._vectors.values())
      self.mlp = MLP(rng, inputs, mlp_layers, act, units, dtype=dtype)
      self.activations += sum(mlp_layers) + units

  @property
  def keys(self) -> list[str]:
    return [*self._images, *self._vectors]

  def __call__(self, features: tf.Tensor) -> dict[str, tf.Tensor]:
    lead = features.shape[:-1]
    flat = tf.reshape(features, [-1, features.shape[-1]])
    means = {}
    if self._images:
      x = self.dense(flat)[:, None, None]
      for conv in self.deconvs[:-1]:
        x = self._act(conv(x))
      x = self.deconvs[-1](x)
      x = tf.reshape(x, [*lead, *x.shape[1:]])
      sizes = [x[-1] for x in self._images.values()]
      means.update(zip(self._images, tf.split(x, sizes, -1), strict=True))
    if self._vectors:
      x = tf.reshape(self.mlp(flat), [*lead, -1])
      sizes = [x[0] for x in self._vectors.values()]
      means.update(zip(self._vectors, tf.split(x, sizes, -1), strict=True))
    return means
