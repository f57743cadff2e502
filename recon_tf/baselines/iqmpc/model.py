"""What IQ-MPC learns: encoder, latent dynamics, policy prior, Q heads; values and plan scores."""

import numpy as np
import tensorflow as tf

from recon_tf.baselines.frames import crop
from recon_tf.baselines.iqmpc import nets as networks
from recon_tf.common.errors import UserError
from recon_tf.nn import nets, tfutils

PICKED = 2  # heads in a minimum
USUAL = 500  # decisions in an episode where nothing tells; the loop fills in the task's own


class LatentModel(tfutils.Module):
  """TD-MPC2's model without a reward head: rewards are decoded from Q."""

  def __init__(self, rng: np.random.Generator, config, shapes: dict[str, tuple], action: int):
    settings, self._settings = config.iqmpc, config.iqmpc
    dtype = tf.bfloat16 if config.precision == 16 else tf.float32
    self.gamma = discount(settings.episode or USUAL)
    self.images = nets.select(shapes, config.encoder.cnn_keys, 3)
    self.vectors = nets.select(shapes, config.encoder.mlp_keys, 1)
    check_inputs(self.images, self.vectors, shapes)
    self.encoder = self._make_encoder(rng, dtype)
    sizes = (settings.latent, action, settings.units)
    self.dynamics = networks.Dynamics(rng, *sizes, dtype)
    self.prior = networks.Prior(rng, *sizes, dtype, settings.scaled_logprob)
    sizes = (*sizes, settings.heads, settings.dropout)
    self.heads = networks.QHeads(rng, *sizes, dtype)
    self.target = networks.QHeads(rng, *sizes, dtype)
    for slow, fast in zip(self.target.variables, self.heads.variables, strict=True):
      slow.assign(fast)

  def _make_encoder(self, rng, dtype):
    settings = self._settings
    if not self.images:
      inputs = sum(x[0] for x in self.vectors.values())
      args = (inputs, settings.encoder_units, settings.latent)
      return networks.VectorEncoder(rng, *args, dtype)
    size, channels = next(iter(self.images.values()))[0], sum(x[-1] for x in self.images.values())
    args = (size, settings.stack * channels, settings.channels)
    convs = zip(settings.kernels, settings.strides, strict=True)
    encoder = networks.ImageEncoder(rng, *args, convs, dtype)
    if encoder.latent != settings.latent:
      raise UserError(
        f'iqmpc.latent: {settings.latent}, but images of {size} pixels make '
        f'{encoder.latent} with these iqmpc.channels, kernels and strides; change one of them.'
      )
    return encoder

  @property
  def keys(self) -> list[str]:
    """The observations that are looked at."""
    return [*self.images, *self.vectors]

  def encode(self, inputs: tf.Tensor, offsets: tf.Tensor | None = None) -> tf.Tensor:
    """Frame stacks or vectors [batch, ...] to latents; images shift by random offsets first."""
    if self.images and offsets is not None:
      inputs = crop(inputs, offsets, self._settings.shift)
    return self.encoder(inputs)

  def value(self, weights, latent: tf.Tensor, noise: tf.Tensor, drop=None) -> tf.Tensor:
    """V(z) = min Q(z, a) - entropy * log pi(a | z) with a drawn from the policy, [rows]."""
    action, logprob = self.prior.sample(latent, noise)
    q = tf.reduce_min(self.heads(weights, latent, action, drop), 0)
    return q - self._settings.entropy * logprob

  def propose(self, latent: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
    """Rolls out the policy, [batch, latent] with noise [batch, some, horizon, action]."""
    count, some, horizon, _ = noise.shape
    latent = spread(latent, some)
    actions = []
    for step in range(horizon):
      action, _ = self.prior.sample(latent, flat(noise[:, :, step]))
      latent = self.dynamics(latent, action) if step + 1 < horizon else latent
      actions.append(tf.reshape(action, [count, some, -1]))
    return tf.stack(actions, 2)

  def score(self, latent: tf.Tensor, actions: tf.Tensor, noise: tf.Tensor, pick) -> tf.Tensor:
    """Return of action sequences [batch, all, horizon, action] from latents [batch, latent].

    Decoded rewards and the value at the end telescope:

      sum_t gamma^t (Q(z_t, a_t) - gamma V(z_t+1)) + gamma^H V(z_H)
        = Q(z_0, a_0) + sum_t>0 gamma^t (Q(z_t, a_t) - V(z_t))

    so the last latent is never needed, and Q and V of a latent share a product. Noise is for V,
    [horizon - 1, batch, all, action].
    """
    count, some, horizon, _ = actions.shape
    weights, entropy = self.heads.weights(pick), self._settings.entropy
    q = lambda part, action: tf.reduce_min(self.heads.finish(weights, part, action), 0)
    # All sequences begin in one latent, whose products are made once.
    shared = spread(self.heads.part(weights, latent), some)
    total, moving = (
      q(shared, flat(actions[:, :, 0])),
      spread(self.dynamics.part(latent), some),
    )
    for step in range(1, horizon):
      latent = self.dynamics.next(moving, flat(actions[:, :, step - 1]))
      part = self.heads.part(weights, latent)
      action, logprob = self.prior.sample(latent, flat(noise[step - 1]))
      advantage = q(part, flat(actions[:, :, step])) - q(part, action) + entropy * logprob
      total += self.gamma**step * advantage
      moving = self.dynamics.part(latent) if step + 1 < horizon else None
    return tf.reshape(total, [count, some])

  def released_score(self, latent: tf.Tensor, actions: tf.Tensor, noise, pick) -> tf.Tensor:
    """The score of the released code, which pays for entropy of actions that are not taken:

      sum_t gamma^t (Q(z_t, a_t) - gamma V(z_t+1) - entropy log pi(b_t | z_t))
        + gamma^H (mean Q(z_H, c) - entropy log pi(d | z_H))

    with b_t, c and d drawn from the policy. Noise is for V, b, c and d,
    [2 * horizon + 2, batch, all, action].
    """
    count, some, horizon, _ = actions.shape
    weights, entropy = self.heads.weights(pick), self._settings.entropy
    draws = iter([flat(x) for x in tf.unstack(noise)])
    logprob = lambda latent: self.prior.sample(latent, next(draws))[1]
    latent, total = spread(latent, some), 0.0
    for step in range(horizon):
      action = flat(actions[:, :, step])
      q = tf.reduce_min(self.heads(weights, latent, action), 0)
      spent = entropy * logprob(latent)
      latent = self.dynamics(latent, action)
      later = self.value(weights, latent, next(draws))
      total += self.gamma**step * (q - self.gamma * later - spent)
    last, _ = self.prior.sample(latent, next(draws))
    end = tf.reduce_mean(self.heads(weights, latent, last), 0) - entropy * logprob(latent)
    return tf.reshape(total + self.gamma**horizon * end, [count, some])

  def follow(self, fraction: float) -> None:
    """Moves the target heads towards the online ones."""
    for slow, fast in zip(self.target.variables, self.heads.variables, strict=True):
      slow.assign_add(fraction * (fast - slow))


def flat(x: tf.Tensor) -> tf.Tensor:
  """[batch, some, size] to [rows, size]."""
  return tf.reshape(x, [-1, x.shape[-1]])


def spread(x: tf.Tensor, some: int) -> tf.Tensor:
  """Every row of [..., rows, size] so many times in turn; tf.repeat would lose the static shape."""
  *lead, rows, size = x.shape
  copies = tf.tile(x[..., None, :], [1] * len(lead) + [1, some, 1])
  return tf.reshape(copies, [*lead, rows * some, size])


def discount(length: int) -> float:
  """TD-MPC2's rule for episodes of that many decisions."""
  fraction = length / 5
  return float(np.clip((fraction - 1) / fraction, 0.95, 0.995))


def draw_pick(seeds: tfutils.Seeds, times: int, heads: int) -> tf.Tensor:
  """Two different heads, so many times, as one-hot rows [times, 2, heads]."""
  order = tf.argsort(seeds.uniform([times, heads]))
  return tf.one_hot(order[:, :PICKED], heads)


def check_inputs(images: dict, vectors: dict, shapes: dict) -> None:
  if bool(images) == bool(vectors):
    found = 'both images and vectors' if images else 'none'
    raise UserError(
      f'encoder.cnn_keys and encoder.mlp_keys match {found} of the observations {[*shapes]}; '
      'IQ-MPC takes either images or vectors.'
    )
