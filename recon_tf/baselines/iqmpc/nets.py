"""The layers and networks of TD-MPC2, as IQ-MPC uses them."""

import numpy as np
import tensorflow as tf

from recon_tf.nn import nets
from recon_tf.nn.dists import LOG_ROOT_TAU
from recon_tf.nn.tfutils import Module

SIMPLEX = 8  # entries in a group of SimNorm
LOG_STD = (-10.0, 2.0)


def mish(x: tf.Tensor) -> tf.Tensor:
  """x tanh(softplus(x)), written with one exponential: three times as fast."""
  power = tf.exp(tf.minimum(x, 20.0))
  ratio = power * (power + 2)
  return x * ratio / (ratio + 2)


def simnorm(x: tf.Tensor) -> tf.Tensor:
  """A softmax in every group of the last axis: a latent is a list of simplices."""
  groups = tf.reshape(x, [*x.shape[:-1], x.shape[-1] // SIMPLEX, SIMPLEX])
  return tf.reshape(tf.nn.softmax(groups), x.shape)


def linear(rng: np.random.Generator, inputs: int, units: int, dtype, heads: int = 0):
  """TD-MPC2's start: kernels from N(0, 0.02), biases zero."""
  layer = nets.Linear(rng, inputs, units, heads, dtype)
  layer.kernel.assign(rng.normal(0, 0.02, layer.kernel.shape).astype(np.float32))
  return layer


class Normed(Module):
  """Dense layer, LayerNorm, activation."""

  def __init__(self, rng, inputs: int, units: int, dtype, act=mish):
    self._act = act
    self.linear = linear(rng, inputs, units, dtype)
    self.norm = nets.LayerNorm(units, eps=1e-5)

  def __call__(self, x: tf.Tensor) -> tf.Tensor:
    return self._act(self.norm(self.linear(x)))


class ImageEncoder(Module):
  """Frame stacks to latents; the last feature map is the latent, without a dense layer."""

  def __init__(self, rng, size: int, channels: int, units: int, convs, dtype):
    """convs: (kernel, stride) of each layer."""
    self.convs = []
    for kernel, stride in convs:
      conv = nets.Conv(rng, channels, units, kernel, stride, dtype=dtype)
      limit = 1 / np.sqrt(channels * kernel**2)  # PyTorch's start, of kernel and bias
      for x in conv.variables:
        x.assign(rng.uniform(-limit, limit, x.shape).astype(np.float32))
      self.convs.append(conv)
      channels, size = units, (size - kernel) // stride + 1
    self.latent = size * size * units

  def __call__(self, images: tf.Tensor) -> tf.Tensor:
    """[batch, height, width, channels] of uint8 to [batch, latent]."""
    x = tf.cast(images, tf.float32) / 255 - 0.5
    for conv in self.convs[:-1]:
      x = tf.nn.relu(conv(x))
    x = self.convs[-1](x)
    return simnorm(tf.reshape(x, [x.shape[0], self.latent]))


class VectorEncoder(Module):
  """Vectors to latents."""

  def __init__(self, rng, inputs: int, units: int, latent: int, dtype):
    self.latent = latent
    self.layers = [Normed(rng, inputs, units, dtype), Normed(rng, units, latent, dtype, simnorm)]

  def __call__(self, x: tf.Tensor) -> tf.Tensor:
    for layer in self.layers:
      x = layer(x)
    return x


class Dynamics(Module):
  """The next latent; the product with the latent can be shared by several actions."""

  def __init__(self, rng, latent: int, action: int, units: int, dtype):
    self._latent, self._dtype = latent, dtype
    self.first = Normed(rng, latent + action, units, dtype)
    self.second = Normed(rng, units, units, dtype)
    self.third = Normed(rng, units, latent, dtype, simnorm)

  def part(self, latent: tf.Tensor) -> tf.Tensor:
    """What the latent [rows, latent] contributes to the first layer."""
    kernel = self.first.linear.kernel[: self._latent]
    return nets.matmul(latent, kernel, self._dtype) + self.first.linear.bias

  def next(self, part: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
    """From that part and actions [rows, action] to [rows, latent]."""
    x = part + nets.matmul(action, self.first.linear.kernel[self._latent :], self._dtype)
    return self.third(self.second(mish(self.first.norm(x))))

  def __call__(self, latent: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
    return self.next(self.part(latent), action)


class Prior(Module):
  """The policy: a Gaussian squashed by tanh."""

  def __init__(self, rng, latent: int, action: int, units: int, dtype, scaled: bool = False):
    self._action, self._scaled = action, scaled
    self.layers = [Normed(rng, latent, units, dtype), Normed(rng, units, units, dtype)]
    self.out = linear(rng, units, 2 * action, dtype)

  def __call__(self, latent: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean and log std before squashing."""
    x = self.layers[1](self.layers[0](latent))
    mean, raw = tf.split(self.out(x), 2, -1)
    low, high = LOG_STD
    return mean, low + 0.5 * (high - low) * (tf.tanh(raw) + 1)

  def sample(self, latent: tf.Tensor, noise: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Actions from normal noise, and their log-probabilities."""
    mean, log_std = self(latent)
    action = tf.tanh(mean + noise * tf.exp(log_std))
    return action, self._log_prob(noise, log_std, action)

  def log_prob(self, latent: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
    """Of given actions; those at the bounds are moved inside."""
    mean, log_std = self(latent)
    action = tf.clip_by_value(action, -0.999, 0.999)
    return self._log_prob((tf.atanh(action) - mean) * tf.exp(-log_std), log_std, action)

  def _log_prob(self, noise, log_std, action) -> tf.Tensor:
    if self._scaled:  # as released: the Gaussian part is multiplied by the size of the action
      normal = tf.reduce_sum(-0.5 * noise**2 - log_std, -1) - LOG_ROOT_TAU
      normal *= self._action
    else:
      normal = tf.reduce_sum(-0.5 * noise**2 - log_std - LOG_ROOT_TAU, -1)
    return normal - tf.reduce_sum(tf.math.log(tf.nn.relu(1 - action**2) + 1e-6), -1)


class QHeads(Module):
  """Several Q functions in stacked kernels; all of them or a few picked ones are evaluated."""

  def __init__(self, rng, latent: int, action: int, units: int, heads: int, dropout: float, dtype):
    self._latent, self._dropout, self._dtype = latent, dropout, dtype
    self.first = linear(rng, latent + action, units, dtype, heads)
    self.norm1 = nets.LayerNorm((heads, units), eps=1e-5)
    self.second = linear(rng, units, units, dtype, heads)
    self.norm2 = nets.LayerNorm((heads, units), eps=1e-5)
    self.out = linear(rng, units, 1, dtype, heads)
    self.out.kernel.assign(np.zeros(self.out.kernel.shape, np.float32))

  def weights(self, pick: tf.Tensor | None = None) -> list[tf.Tensor]:
    """All heads, or those that the one-hot rows [picked, heads] name."""
    if pick is None:
      return [tf.convert_to_tensor(x) for x in self.variables]
    return [tf.tensordot(pick, x, 1) for x in self.variables]

  def part(self, weights: list[tf.Tensor], latent: tf.Tensor) -> tf.Tensor:
    """What the latent [rows, latent] contributes to the first layer, [heads, rows, units]."""
    return fan_out(latent, weights[0][:, : self._latent], self._dtype) + weights[1][:, None]

  def finish(self, weights, part: tf.Tensor, action: tf.Tensor, noise=None) -> tf.Tensor:
    """Values [heads, rows] of actions; uniform noise of the part's shape is for dropout."""
    kernel1, _, scale1, offset1, kernel2, bias2, scale2, offset2, kernel3, bias3 = weights
    x = part + fan_out(action, kernel1[:, self._latent :], self._dtype)
    if noise is not None:
      x = tf.where(noise < self._dropout, 0.0, x / (1 - self._dropout))
    x = mish(normalize(x, scale1, offset1))
    x = nets.matmul(x, kernel2, self._dtype) + bias2[:, None]
    x = mish(normalize(x, scale2, offset2))
    # One output: a weighted sum over the last axis, where a matrix product would be wasteful.
    return tf.reduce_sum(x * kernel3[:, None, :, 0], -1) + bias3

  def __call__(self, weights, latent: tf.Tensor, action: tf.Tensor, noise=None) -> tf.Tensor:
    return self.finish(weights, self.part(weights, latent), action, noise)


def fan_out(x: tf.Tensor, kernels: tf.Tensor, dtype) -> tf.Tensor:
  """The same rows [rows, inputs] through every head, [heads, rows, units]."""
  y = tf.einsum('bi,kio->kbo', tf.cast(x, dtype), tf.cast(kernels, dtype))
  return tf.cast(y, tf.float32)


def normalize(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor) -> tf.Tensor:
  """LayerNorm of [heads, rows, units] with weights [heads, units]."""
  mean, var = tf.nn.moments(x, -1, keepdims=True)
  return (x - mean) * tf.math.rsqrt(var + 1e-5) * scale[:, None] + offset[:, None]
