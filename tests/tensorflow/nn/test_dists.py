"""Distributions against SciPy, TFP and closed forms."""

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf
import tensorflow_probability as tfp

from recon_tf.nn import dists

LOC = np.array([[-0.95, -0.3, 0.0], [0.2, 0.7, 0.99]], np.float32)
SCALE = np.array([[0.1, 0.5, 1.1], [2.1, 0.3, 0.2]], np.float32)


def scipy_truncated(loc=LOC, scale=SCALE):
  loc, scale = loc.astype(np.float64), scale.astype(np.float64)
  return scipy.stats.truncnorm((-1 - loc) / scale, (1 - loc) / scale, loc, scale)


def test_truncated_normal_log_prob_and_entropy():
  ours, theirs = dists.TruncatedNormal(LOC, SCALE), scipy_truncated()
  for x in (-0.9, -0.2, 0.4, 0.97):
    x = np.full_like(LOC, x)
    np.testing.assert_allclose(ours.log_prob(x), theirs.logpdf(x).sum(-1), rtol=1e-4)
    other = tfp.distributions.TruncatedNormal(LOC, SCALE, -1.0, 1.0)
    np.testing.assert_allclose(ours.log_prob(x), tf.reduce_sum(other.log_prob(x), -1), rtol=1e-4)
  np.testing.assert_allclose(ours.entropy(), theirs.entropy().sum(-1), rtol=1e-3, atol=1e-4)
  np.testing.assert_array_equal(ours.mode(), LOC)


@pytest.mark.parametrize('quantile', [0.01, 0.3, 0.5, 0.9, 0.99])
def test_truncated_normal_samples_are_quantiles(quantile):
  sample = dists.TruncatedNormal(LOC, SCALE).sample(tf.fill(LOC.shape, quantile))
  np.testing.assert_allclose(sample, scipy_truncated().ppf(quantile), atol=2e-4)


def test_truncated_normal_gradient_is_pathwise():
  uniform = np.float32([[0.3, 0.2, 0.8], [0.6, 0.4, 0.25]])
  loc, scale = tf.constant(LOC), tf.constant(SCALE)
  with tf.GradientTape() as tape:
    tape.watch((loc, scale))
    sample = dists.TruncatedNormal(loc, scale).sample(uniform)
  grads = tape.gradient(sample, (loc, scale))
  step = np.float32(1e-3)
  for grad, shift in zip(grads, ((step, 0), (0, step)), strict=True):
    ends = [scipy_truncated(LOC + s * shift[0], SCALE + s * shift[1]).ppf(uniform) for s in (-1, 1)]
    np.testing.assert_allclose(grad, (ends[1] - ends[0]) / (2 * step), rtol=0.02, atol=2e-3)


def test_truncated_normal_at_its_limits():
  """Saturated means and the ends of the noise give finite values and gradients inside (-1, 1)."""
  loc = tf.constant([[-1.0, 1.0, -1.0, 1.0]])
  uniform = tf.constant([[0.0, 0.0, 1.0, 1.0]])
  with tf.GradientTape() as tape:
    tape.watch(loc)
    dist = dists.TruncatedNormal(loc, tf.fill(loc.shape, 0.1))
    sample = dist.sample(uniform)
    value = dist.log_prob(sample) + dist.entropy() + tf.reduce_sum(sample)
  assert np.abs(sample.numpy()).max() < 1
  assert np.isfinite(value.numpy()).all()
  assert np.isfinite(tape.gradient(value, loc).numpy()).all()
  assert np.isfinite(dist.log_prob(tf.constant([[-1.0, 1.0, 1.0, -1.0]])).numpy()).all()


def test_kl_is_the_closed_form():
  rng = np.random.default_rng(0)
  (m1, m2), (s1, s2) = rng.normal(size=(2, 4, 5)), rng.uniform(0.3, 2, (2, 4, 5))
  expected = np.log(s2 / s1) + (s1**2 + (m1 - m2) ** 2) / (2 * s2**2) - 0.5
  kl = dists.kl_gaussian(*(x.astype(np.float32) for x in (m1, s1, m2, s2)))
  np.testing.assert_allclose(kl, expected.sum(-1), rtol=1e-4)


def test_standard_deviations_are_bounded():
  std = dists.squash_std(tf.constant([-100.0, 0.0, 1.0, 100.0]), 0.1).numpy()
  np.testing.assert_allclose(std, [0.1, 1.1, 2 / (1 + np.exp(-0.5)) + 0.1, 2.1], rtol=1e-5)
  constant = dists.squash_std(tf.constant([-100.0, 0.0, 100.0]), 0.1, 0.1)
  np.testing.assert_allclose(constant, 3 * [0.1], rtol=1e-6)
