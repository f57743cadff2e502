"""The losses of IQ-MPC: latent consistency, inverse soft-Q learning, the policy prior.

Time comes first here: latents z_0 to z_H are [H + 1, rows, latent], actions a_0 to a_H-1 and the
flags of valid transitions [H, rows]. The rows of the behaviour come first, then the expert's.
"""

import tensorflow as tf

from recon_tf.baselines.iqmpc.model import LatentModel, flat


def roll_out(model: LatentModel, latent: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
  """The latents that the dynamics predict from the first one, which is among them."""
  latents = [latent]
  for now in tf.unstack(action):
    latents.append(model.dynamics(latents[-1], now))
  return tf.stack(latents)


def consistency(latents: tf.Tensor, future: tf.Tensor, valid: tf.Tensor, rho: float) -> tf.Tensor:
  """Distance of the predicted latents to the encoded ones, later steps weigh less."""
  error = tf.reduce_mean((latents[1:] - future) ** 2, -1)
  return tf.reduce_mean(decay(rho, valid.shape[0]) * mean_rows(error, valid))


def inverse_q(model: LatentModel, settings, latents, action, future, valid, noise, behavior: int):
  """Inverse soft-Q loss; the first `behavior` rows are not the expert's.

  z_0    z_1    z_2    z_3       rolled out, with gradients
  a_0    a_1    a_2              r_t = Q(z_t, a_t) - gamma V(e_t+1), one for each head
         e_1    e_2    e_3       encoded; V from the target heads, without gradients
  """
  steps, rows = valid.shape
  expert = valid * tf.cast(tf.range(rows) >= behavior, tf.float32)
  unflat = lambda x: tf.reshape(x, [*x.shape[:-1], steps, rows])
  slow = model.target.weights(noise['target_pick'])
  target = model.gamma * unflat(model.value(slow, flat(future), noise['target_action']))
  target = tf.stop_gradient(target)
  weights = model.heads.weights()
  q = unflat(model.heads(weights, flat(latents[:-1]), flat(action), noise['drop']))
  reward = q - target
  chi2 = mean_rows(reward**2, valid) / (4 * settings.alpha)
  value = value_term(model, settings, latents, target, valid, expert, noise, behavior)
  losses = value - mean_rows(reward, expert) + chi2
  metrics = describe(q, reward, valid, expert, noise['reward'])
  metrics.update({'iqmpc/value': value[0], 'iqmpc/chi2': tf.reduce_mean(chi2)})
  if settings.grad_pen and 0 < behavior < rows:
    penalty = gradient_penalty(model, latents[:-1], action, valid, noise, behavior)
    losses += settings.grad_pen * penalty
    metrics['iqmpc/penalty'] = tf.reduce_mean(penalty)
  return tf.reduce_mean(decay(settings.rho, steps) * losses), metrics


def value_term(model, settings, latents, target, valid, expert, noise, behavior: int) -> tf.Tensor:
  """What stands for the value of the first states, by step: see iqmpc.value_term in the config."""
  weights = model.heads.weights(noise['pick'])
  if settings.value_term == 'v0':
    first = model.value(weights, latents[0, behavior:], noise['action'], noise['value_drop'])
    # A slice that begins with the last row of an episode holds no transition of the expert.
    mean = mean_rows(first, expert[0, behavior:])
    return tf.fill([valid.shape[0]], (1 - model.gamma) * mean)
  value = model.value(weights, flat(latents[:-1]), noise['action'], noise['value_drop'])
  value = tf.reshape(value, valid.shape)
  return mean_rows(value - target, valid - expert if settings.value_term == 'behavior' else valid)


def gradient_penalty(model: LatentModel, latents, action, valid, noise, behavior: int) -> tf.Tensor:
  """Squared distance to 1 of Q's input gradient between the expert and the behaviour, [H]."""
  count = noise['mix'].shape[1]
  pairs = tf.stop_gradient(tf.concat([latents, action], -1))
  pick = lambda x: (x[:, behavior : behavior + count], x[:, :count])
  (expert, other), (valid_expert, valid_other) = pick(pairs), pick(valid)
  mixed = flat(noise['mix'] * expert + (1 - noise['mix']) * other)
  weights = model.heads.weights(noise['pick'])
  with tf.GradientTape() as tape:
    tape.watch(mixed)
    size = latents.shape[-1]
    total = tf.reduce_sum(tf.reduce_mean(model.heads(weights, mixed[:, :size], mixed[:, size:]), 0))
  square = tf.reduce_sum(tape.gradient(total, mixed) ** 2, -1)
  distance = (tf.sqrt(square + 1e-12) - 1) ** 2  # the root has no gradient at zero
  return mean_rows(tf.reshape(distance, valid_expert.shape), valid_expert * valid_other)


def policy_loss(model: LatentModel, settings, latents, valid, noise) -> tuple[tf.Tensor, dict]:
  """Makes actions of high Q likely, with a little entropy; the heads are frozen."""
  steps, rows, _ = latents.shape
  action, logprob = model.prior.sample(flat(latents), noise['policy'])
  weights = model.heads.weights(noise['policy_pick'])
  q = tf.reduce_min(model.heads(weights, flat(latents), action, noise['policy_drop']), 0)
  losses = tf.reshape(settings.entropy * logprob - q, [steps, rows])
  weight = tf.concat([tf.ones([1, rows]), valid], 0)
  loss = tf.reduce_mean(decay(settings.rho, steps) * mean_rows(losses, weight))
  return loss, {'iqmpc/entropy': -tf.reduce_mean(logprob)}


def clone_loss(model: LatentModel, latents, action, valid) -> tf.Tensor:
  """Minus the log-likelihood of the actions."""
  logprob = model.prior.log_prob(flat(latents[:-1]), flat(action))
  return -tf.reduce_mean(mean_rows(tf.reshape(logprob, valid.shape), valid))


def describe(q, reward, valid, expert, truth) -> dict[str, tf.Tensor]:
  """Numbers that tell whether Q is healthy; the true reward is only looked at."""
  q, reward = tf.reduce_mean(q, 0), tf.reduce_mean(reward, 0)
  mean = lambda x, weight: mean_rows(tf.reshape(x, [-1]), tf.reshape(weight, [-1]))
  other = valid - expert
  centred = [x - mean(x, valid) for x in (reward, truth)]
  moment = lambda x, y: mean(x * y, valid)
  spread = tf.sqrt(moment(centred[0], centred[0]) * moment(centred[1], centred[1]))
  return {
    'iqmpc/q_expert': mean(q, expert),
    'iqmpc/q_behavior': mean(q, other),
    'iqmpc/q_gap': mean(q, expert) - mean(q, other),
    'iqmpc/q_max': tf.reduce_max(tf.abs(q)),
    'iqmpc/reward_expert': mean(reward, expert),
    'iqmpc/reward_behavior': mean(reward, other),
    # Not a number where the true rewards are all equal; the agent leaves it out then.
    'iqmpc/reward_correlation': moment(*centred) / spread,
  }


def decay(rho: float, steps: int) -> tf.Tensor:
  """Weights of the steps: 1, rho, rho^2, ..."""
  return tf.constant([rho**step for step in range(steps)], tf.float32)


def mean_rows(x: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
  """Weighted mean over the last axis; zero where nothing has weight."""
  return tf.reduce_sum(x * weight, -1) / tf.maximum(tf.reduce_sum(weight, -1), 1.0)
