"""The discriminator: does a (state, action) pair come from the expert?"""

import numpy as np
import tensorflow as tf

from recon_tf.nn import nets, tfutils


class Discriminator(tfutils.Module):
  """D(s, a) with Gaussian noise on its whole input during training, as in CMIL."""

  def __init__(self, rng: np.random.Generator, config, features: int, action: int):
    dtype = tf.bfloat16 if config.precision == 16 else tf.float32
    self._config = config
    self._inputs = features + action
    self.mlp = nets.MLP(rng, self._inputs, config.disc.layers, config.disc.act, 1, dtype=dtype)

  def draw(self, lead, seeds: tfutils.Seeds) -> tf.Tensor:
    """Input noise for pairs [*lead]."""
    return self._config.disc.noise * seeds.normal([*lead, self._inputs])

  def logit(self, feature: tf.Tensor, action: tf.Tensor, noise=0.0) -> tf.Tensor:
    return self.mlp(tf.concat([feature, action], -1) + noise)[..., 0]

  def prob(self, feature: tf.Tensor, action: tf.Tensor, noise=0.0) -> tf.Tensor:
    return tf.sigmoid(self.logit(feature, action, noise))

  def reward(self, logit: tf.Tensor) -> tf.Tensor:
    """The imitation reward: D itself, or V-MAIL's and DAC's transforms of it."""
    transforms = {'prob': tf.sigmoid, 'logit': tf.identity, 'log': tf.math.log_sigmoid}
    return transforms[self._config.disc_reward](logit)

  def loss(self, expert, mask, policy, noise: dict[str, tf.Tensor]):
    """Equation (discriminator_loss); expert and policy are (feature, action) pairs.

    The mask leaves out expert pairs that cross from one episode into the next.
    """
    expert_logit = self.logit(*expert, noise['expert'])
    policy_logit = self.logit(*policy, noise['main'])
    loss = masked_mean(tf.nn.softplus(-expert_logit), mask)
    loss += tf.reduce_mean(tf.nn.softplus(policy_logit))
    penalty = self._penalty(expert, policy, noise)
    clean_expert = masked_mean(self.prob(*expert), mask)
    clean_policy = tf.reduce_mean(self.prob(*policy))
    metrics = {
      'disc/expert': clean_expert,
      'disc/main': clean_policy,
      'disc/gap': clean_expert - clean_policy,
      'disc/expert_noisy': masked_mean(tf.sigmoid(expert_logit), mask),
      'disc/main_noisy': tf.reduce_mean(tf.sigmoid(policy_logit)),
      'disc/penalty': penalty,
    }
    return loss + self._config.disc_penalty.scale * penalty, metrics

  def _penalty(self, expert, policy, noise) -> tf.Tensor:
    """Zero, or a squared distance to 1 of a gradient's norm on random interpolates."""
    kind = self._config.disc_penalty.kind
    if kind == 'none':
      return tf.zeros([])
    flat = lambda pair, noise: tf.reshape(tf.concat(pair, -1) + noise, [-1, self._inputs])
    first, second = flat(expert, noise['expert']), flat(policy, noise['main'])
    count = min(first.shape[0], second.shape[0])
    mix = noise['mix'][:count]
    inputs = mix * first[:count] + (1 - mix) * second[:count]
    sources = inputs if kind == 'inputs' else self.variables
    with tf.GradientTape() as tape:
      tape.watch(sources)
      logit = self.mlp(inputs)[..., 0]
      value = tf.reduce_sum(logit) if kind == 'inputs' else tf.reduce_mean(logit)
    grads = tape.gradient(value, sources)
    if kind == 'weights':  # V-MAIL's: one norm over all weights
      return (tf.linalg.global_norm(grads) - 1) ** 2
    norms = tf.sqrt(tf.reduce_sum(grads**2, -1) + 1e-12)
    return tf.reduce_mean((norms - 1) ** 2)


def masked_mean(x: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
  return tf.reduce_sum(x * mask) / tf.maximum(tf.reduce_sum(mask), 1.0)
