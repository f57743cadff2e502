"""The networks of DrQ: one encoder that the critics train, small heads, actor and twin critics."""

import numpy as np
import tensorflow as tf

from recon_tf.nn import nets, tfutils
from recon_tf.nn.dists import LOG_ROOT_TAU

LOG_STD = (-10.0, 2.0)


class Encoder(tfutils.Module):
  """Frame stacks through convolutions, vectors through an MLP."""

  def __init__(self, rng: np.random.Generator, config, shapes: dict[str, tuple], scaler):
    settings, dtype = config.dadac, compute_type(config)
    self._scaler = scaler
    self.images = nets.select(shapes, config.encoder.cnn_keys, 3)
    self.vectors = nets.select(shapes, config.encoder.mlp_keys, 1)
    self.units, self.convs, self.mlp = 0, [], None
    if self.images:
      size = next(iter(self.images.values()))[0]
      channels = settings.stack * sum(x[-1] for x in self.images.values())
      for stride in settings.strides:
        self.convs.append(nets.Conv(rng, channels, settings.channels, 3, stride, dtype=dtype))
        channels, size = settings.channels, (size - 3) // stride + 1
      self.units += size * size * channels
    if self.vectors:
      inputs = sum(x[0] for x in self.vectors.values())
      self.mlp = nets.MLP(rng, inputs, settings.mlp_layers, 'relu', dtype=dtype)
      self.units += settings.mlp_layers[-1]
    orthogonalize(rng, self.convs, np.sqrt(2))
    orthogonalize(rng, self.mlp)

  @property
  def keys(self) -> list[str]:
    return [*self.images, *self.vectors]

  def __call__(self, obs: dict[str, tf.Tensor]) -> tf.Tensor:
    """Observations [batch, ...] to features [batch, units]."""
    outputs = []
    if self.images:
      x = tf.concat([tf.cast(obs[k], tf.float32) for k in self.images], -1) / 255
      for conv in self.convs:
        x = tf.nn.relu(conv(x))
      outputs.append(tf.reshape(x, [-1, np.prod(x.shape[1:])]))
    if self.vectors:
      scaled = [self._scaler.scale(k, obs[k]) for k in self.vectors]
      outputs.append(self.mlp(tf.concat(scaled, -1)))
    return tf.concat(outputs, -1)


class Head(tfutils.Module):
  """The small projection of the features that each network has of its own."""

  def __init__(self, rng: np.random.Generator, config, inputs: int):
    units = config.dadac.features
    self.linear = nets.Linear(rng, inputs, units, dtype=compute_type(config))
    self.norm = nets.LayerNorm(units, eps=1e-5)

  def __call__(self, features: tf.Tensor) -> tf.Tensor:
    return tf.tanh(self.norm(self.linear(features)))


class Actor(tfutils.Module):
  """Gaussian, squashed by tanh."""

  def __init__(self, rng: np.random.Generator, config, inputs: int, action: int):
    settings, dtype = config.dadac, compute_type(config)
    self.head = Head(rng, config, inputs)
    sizes = (settings.features, settings.layers, 'relu', 2 * action)
    self.mlp = nets.MLP(rng, *sizes, dtype=dtype)
    orthogonalize(rng, self)

  def __call__(self, features: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean and log std before squashing."""
    mean, raw = tf.split(self.mlp(self.head(features)), 2, -1)
    low, high = LOG_STD
    return mean, low + 0.5 * (high - low) * (tf.tanh(raw) + 1)

  def mode(self, features: tf.Tensor) -> tf.Tensor:
    return tf.tanh(self(features)[0])

  def sample(self, features: tf.Tensor, noise: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Actions from normal noise, and their log-probabilities."""
    mean, log_std = self(features)
    raw = mean + tf.exp(log_std) * noise
    logprob = -0.5 * noise**2 - log_std - LOG_ROOT_TAU
    logprob -= 2 * (np.log(2) - raw - tf.nn.softplus(-2 * raw))  # log(1 - tanh^2), stable
    return tf.tanh(raw), tf.reduce_sum(logprob, -1)


class Critics(tfutils.Module):
  """Two Q functions on one projection."""

  def __init__(self, rng: np.random.Generator, config, inputs: int, action: int):
    settings, dtype = config.dadac, compute_type(config)
    self.head = Head(rng, config, inputs)
    sizes = (settings.features + action, settings.layers, 'relu', 1)
    self.mlps = [nets.MLP(rng, *sizes, dtype=dtype) for _ in range(2)]
    orthogonalize(rng, self)

  def __call__(self, features: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
    """[2, batch]."""
    x = tf.concat([self.head(features), action], -1)
    return tf.stack([mlp(x)[..., 0] for mlp in self.mlps])


def compute_type(config) -> tf.DType:
  return tf.bfloat16 if config.precision == 16 else tf.float32


def orthogonalize(rng: np.random.Generator, module, gain: float = 1.0) -> None:
  """Orthogonal kernels instead of those that the layers begin with; a filter is one column."""
  for name, value in tfutils.named_variables(module):
    if name.endswith('kernel'):
      value.assign(orthogonal(rng, value.shape, gain))


def orthogonal(rng: np.random.Generator, shape: tuple[int, ...], gain: float) -> np.ndarray:
  """Orthonormal columns, or rows if there are fewer of them, times a gain."""
  rows, columns = int(np.prod(shape[:-1])), int(shape[-1])
  q, r = np.linalg.qr(rng.normal(size=(max(rows, columns), min(rows, columns))))
  q *= np.sign(np.diag(r))  # uniform over all of them
  return (gain * (q if rows >= columns else q.T)).reshape(shape).astype(np.float32)
