"""The distributions of the agent."""

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

tfd = tfp.distributions

ROOT_HALF = np.sqrt(0.5).astype(np.float32)
LOG_ROOT_TAU = np.float32(0.5 * np.log(2 * np.pi))
CLIP = 1 - 1e-6


def gaussian(mean: tf.Tensor, std: tf.Tensor) -> tfd.Distribution:
  """Independent Gaussians over the last axis."""
  return tfd.MultivariateNormalDiag(mean, std)


def kl_gaussian(mean1, std1, mean2, std2) -> tf.Tensor:
  """KL(1 || 2) of diagonal Gaussians, summed over the last axis."""
  return tfd.kl_divergence(gaussian(mean1, std1), gaussian(mean2, std2))


def squash_std(raw: tf.Tensor, low: float, high: float | None = None) -> tf.Tensor:
  """DreamerV2's sigmoid2: between low and high, which is low + 2 there, in the middle at zero."""
  span = 2.0 if high is None else high - low
  return span * tf.sigmoid(raw / 2) + low


class TruncatedNormal:
  """Normal on [-1, 1] with its mode inside; samples by the inverse CDF, so gradients are pathwise.

  Same values as TFP's (a test compares them), and compiles faster with XLA.
  """

  def __init__(self, loc: tf.Tensor, scale: tf.Tensor):
    self.loc, self.scale = loc, scale
    self.low, self.high = (-1 - loc) / scale, (1 - loc) / scale
    self.cdf_low, self.cdf_high = normal_cdf(self.low), normal_cdf(self.high)
    self.mass = self.cdf_high - self.cdf_low

  def sample(self, uniform: tf.Tensor) -> tf.Tensor:
    """From uniform noise of the shape of loc, clipped inside the bounds straight-through."""
    cdf = self.cdf_low + uniform * self.mass
    cdf = tf.clip_by_value(cdf, 1e-7, 1 - 1e-7)
    return clip_inside(self.loc + self.scale * tf.math.ndtri(cdf))

  def mode(self) -> tf.Tensor:
    return self.loc

  def log_prob(self, x: tf.Tensor) -> tf.Tensor:
    """Summed over the last axis; values at the bounds are moved inside by 1e-6."""
    z = (tf.clip_by_value(x, -CLIP, CLIP) - self.loc) / self.scale
    terms = -0.5 * z**2 - LOG_ROOT_TAU - tf.math.log(self.scale) - tf.math.log(self.mass)
    return tf.reduce_sum(terms, -1)

  def entropy(self) -> tf.Tensor:
    edges = self.low * normal_pdf(self.low) - self.high * normal_pdf(self.high)
    terms = 0.5 + LOG_ROOT_TAU + tf.math.log(self.scale * self.mass) + 0.5 * edges / self.mass
    return tf.reduce_sum(terms, -1)


def normal_cdf(z: tf.Tensor) -> tf.Tensor:
  return 0.5 * tf.math.erfc(-ROOT_HALF * z)


def normal_pdf(z: tf.Tensor) -> tf.Tensor:
  return tf.exp(-0.5 * z**2 - LOG_ROOT_TAU)


def clip_inside(x: tf.Tensor) -> tf.Tensor:
  """Into the open interval, where the log-density is finite; the gradient passes through."""
  return x + tf.stop_gradient(tf.clip_by_value(x, -CLIP, CLIP) - x)
