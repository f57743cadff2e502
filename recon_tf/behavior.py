"""Actor and critics that learn in imagination; the reward is passed in as a function."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from recon_tf.common.schedule import optimizer_options
from recon_tf.discriminator import masked_mean
from recon_tf.nn import dists, microbatch, nets, tfutils

Metrics = dict[str, tf.Tensor]


class ActorCritic(tfutils.Module):
  """One policy of Equation (common_actor): used for the main policy and for the explorer."""

  def __init__(self, rng: np.random.Generator, config, settings, name: str, features, action):
    dtype = tf.bfloat16 if config.precision == 16 else tf.float32
    self._config, self._settings, self._name, self._action = config, settings, name, action
    critic = lambda: nets.MLP(
      rng, features + action, config.critic.layers, config.critic.act, 1, dtype=dtype
    )
    self.actor = nets.MLP(
      rng, features, config.actor.layers, config.actor.act, 2 * action, dtype=dtype
    )
    self.critics = [critic(), critic()]
    self.slow = [critic(), critic()]
    for slow, fast in zip(self._slow_variables, self._fast_variables, strict=True):
      slow.assign(fast)
    options = optimizer_options(config, 'actor_opt', settings.bc_rounds)
    self.actor_opt = tfutils.Optimizer(f'{name}/actor', self.actor.variables, **options)
    options = optimizer_options(config, 'critic_opt')
    self.critic_opt = tfutils.Optimizer(f'{name}/critic', self._fast_variables, **options)
    self.updates = tfutils.variable(np.zeros((), np.int32), trainable=False)

  @property
  def networks(self) -> list[tf.Variable]:
    """What a checkpoint table counts: actor, critics and their targets."""
    return [*self.actor.variables, *self._fast_variables, *self._slow_variables]

  @property
  def optimizers(self) -> list[tfutils.Optimizer]:
    return [self.actor_opt, self.critic_opt]

  def policy(self, feature: tf.Tensor) -> dists.TruncatedNormal:
    return self._dist(self.actor(feature))

  def _dist(self, outputs: tf.Tensor) -> dists.TruncatedNormal:
    mean, raw = tf.split(outputs, 2, -1)
    std = dists.squash_std(raw, self._config.actor.min_std, self._config.actor.max_std)
    return dists.TruncatedNormal(tf.tanh(mean), std)

  def train(
    self,
    rssm,
    start: dict[str, tf.Tensor],
    reward_fn: Callable,
    expert: tuple[tf.Tensor, tf.Tensor, tf.Tensor],
    noise: dict[str, tf.Tensor],
    replay: dict[str, tf.Tensor] | None = None,
  ) -> tuple[dict[str, tf.Tensor], Metrics]:
    """Imagines, then one update of the actor and one of the critics; returns the rollout."""

    def actor_loss():
      loss, metrics, seq = self._imagined(rssm, start, reward_fn, noise)
      bc = self.bc_loss(expert)
      return loss + self._settings.bc * bc, ({**metrics, f'{self._name}/bc_loss': bc}, seq)

    (metrics, seq), mets = self.actor_opt.minimize(actor_loss)
    metrics.update(mets)
    seq = {k: tf.stop_gradient(v) for k, v in seq.items()}
    critic_metrics, mets = self.critic_opt.minimize(lambda: self.critic_loss(seq, noise, replay))
    metrics.update(critic_metrics)
    metrics.update(mets)
    self._update_slow()
    self._clone_rounds(expert)
    return seq, metrics

  def _imagined(self, rssm, start, reward_fn, noise):
    """The actor's loss in imagination with metrics and rollout, in pieces of the starts."""

    def rollout(_, inputs):
      start, own = inputs
      start = {k: v[0] for k, v in start.items()}
      seq = self.imagine(rssm, start, {**noise, **own})
      more, metrics = reward_fn(seq, own['reward'])
      seq.update(more)
      loss, actor_metrics = self.actor_loss(seq)
      return loss, {**metrics, **actor_metrics}, seq

    start = {k: start[k][None] for k in ('deter', 'stoch')}
    own = {k: noise[k] for k in ('action', 'latent', 'reward')}
    return microbatch.loss_in_pieces(
      rollout, self._pieces(own), self.actor.variables, (), (start, own)
    )

  def _pieces(self, rows: dict[str, tf.Tensor]) -> int:
    """How many pieces of the starts keep to the limit; rows are [horizon, starts, ...]."""
    horizon, starts = rows['action'].shape[:2]
    limit = microbatch.rows_at_once(self._config.piece, imagined_floats(self._config))
    return microbatch.count_pieces(starts, horizon, limit)

  def clone(self, expert: tuple[tf.Tensor, tf.Tensor, tf.Tensor]) -> Metrics:
    """One update on the expert's actions alone, then the extra rounds."""
    loss = self._clone_once(expert)
    self._clone_rounds(expert)
    return {f'{self._name}/bc_loss': loss}

  def _clone_rounds(self, expert) -> None:
    """bc_rounds more updates, each on its own share of the expert's sequences.

    The model moves under the actor with every update; a clone that follows one step at a time is
    always late.
    """
    rounds = self._settings.bc_rounds
    for i in range(rounds):
      self._clone_once(tuple(x[i::rounds] for x in expert))

  def _clone_once(self, expert) -> tf.Tensor:
    if self._config.bc_opt == 'sgd':
      return self.actor_opt.minimize_plainly(lambda: (self.bc_loss(expert),) * 2, 2e-4)
    # One Adam moves the actor here and in imagination, and its steps are relative to the gradients
    # before: cloning with another weight than there would be lost among them, or make them leap.
    weight = self._settings.bc or 1.0

    def weighed():
      loss = self.bc_loss(expert)
      return weight * loss, loss

    return self.actor_opt.minimize(weighed)[0]

  def draw(self, batch: int, seeds: tfutils.Seeds) -> dict[str, tf.Tensor]:
    """The noise of one update: actions, latent samples, prior heads, the target critic."""
    config = self._config
    return {
      'action': seeds.uniform([config.horizon, batch, self._action]),
      'latent': seeds.normal([config.horizon, batch, config.rssm.stoch]),
      'heads': seeds.onehot([config.horizon], config.rssm.ensemble),
      'slow': seeds.onehot([], 2),
    }

  def imagine(self, rssm, start: dict[str, tf.Tensor], noise: dict[str, tf.Tensor]):
    """Rolls the policy through the prior.

    feature:  s0  s1  s2 ... sH      [H + 1, batch]
    action:   a0  a1  a2 ...         [H, batch], a_k taken in s_k
    deter:        d1  d2 ... dH      [H, batch], the prior heads at d_k+1 give U(s_k, a_k)
    actor:    p0  p1  p2 ...         [H, batch], the actor's outputs in s_k, which a_k is drawn from
    """
    inputs = (noise['action'], noise['latent'], noise['heads'])

    def step(state, inputs):
      uniform, noise, head = inputs
      # As in DreamerV2 the policy does not see the gradient of its own future inputs.
      outputs = self.actor(tf.stop_gradient(rssm.features(state)))
      action = self._dist(outputs).sample(uniform)
      return {**rssm.img_step(state, action, noise, head), 'action': action, 'actor': outputs}

    start = {k: start[k] for k in ('deter', 'stoch')}
    action = tf.zeros_like(noise['action'][0])
    begin = {**start, 'action': action, 'actor': tf.concat([action, action], -1)}
    states = tfutils.scan(step, begin, inputs, self._config.unroll)
    features = tf.concat([rssm.features(start)[None], rssm.features(states)], 0)
    return {'feature': features, **states}

  def actor_loss(self, seq) -> tuple[tf.Tensor, Metrics]:
    """-J of Equation (common_actor).

    reward:  r0  r1 ... rH-2  rH-1
    value:   v0  v1 ... vH-2 [vH-1]   the last one bootstraps
    return:  R0  R1 ... RH-2          H - 1 terms enter the objective
    """
    settings, lambda_ = self._settings, self._config.lambda_
    value = self.value(seq)
    returns = self._returns(seq['reward'], value)
    objective = (1 - lambda_) * value[:-1] + lambda_ * returns
    entropy = self._dist(seq['actor'][:-1]).entropy()
    weight = self._weight(objective)
    objective += settings.entropy * entropy
    loss = -tf.reduce_mean(weight * objective)
    metrics = {
      'reward': tf.reduce_mean(seq['reward']),
      'value': tf.reduce_mean(value),
      'return': tf.reduce_mean(returns),
      'entropy': tf.reduce_mean(entropy),
    }
    return loss, {f'{self._name}/{k}': v for k, v in metrics.items()}

  def bc_loss(self, expert) -> tf.Tensor:
    """-log pi(a | s) on the expert's pairs; features are data here."""
    feature, action, mask = expert
    return -masked_mean(self.policy(feature).log_prob(action), mask)

  def critic_loss(self, seq, noise, replay) -> tuple[tf.Tensor, Metrics]:
    """Unit-variance likelihood of the slow-target lambda return, averaged over both critics."""

    def imagined(_, seq):
      inputs = self._pairs(seq)
      value = nets.chosen(self.slow, noise['slow'])(inputs)[..., 0]
      returns = self._returns(seq['reward'], value)
      weight = self._weight(returns)
      errors = [q(inputs[:-1])[..., 0] - returns for q in self.critics]
      loss = sum(0.5 * tf.reduce_mean(weight * e**2) for e in errors) / len(errors)
      return loss, {}, {'value': value[:1], 'return': returns[:1]}

    seq = {k: seq[k] for k in ('feature', 'action', 'reward')}
    args = (self._pieces(seq), self._fast_variables, (), seq)
    loss, _, starts = microbatch.loss_in_pieces(imagined, *args)
    metrics = {f'{self._name}/critic_imag_loss': loss}
    if replay is not None:
      replay_loss = self._replay_critic_loss(replay, starts['value'][0], starts['return'][0])
      metrics[f'{self._name}/critic_replay_loss'] = replay_loss
      loss += replay_loss
    return loss, metrics

  def _replay_critic_loss(self, replay, next_value, next_return) -> tf.Tensor:
    """One-step targets on real pairs whose next state started the imagination.

    replay:   s_t-1, a_t-1 -> s_t          imagination from s_t gives value and return there
    """
    config = self._config
    target = (1 - config.lambda_) * next_value + config.lambda_ * next_return
    target = replay['reward'] + config.discount * target
    inputs = tf.concat([replay['feature'], replay['action']], -1)
    errors = [q(inputs)[..., 0] - target for q in self.critics]
    return sum(0.5 * masked_mean(e**2, replay['mask']) for e in errors) / len(errors)

  def value(self, seq) -> tf.Tensor:
    """Minimum of the two critics at every (s_k, a_k).

    The last pair, which only bootstraps, passes on its own: XLA then finds that the others pass
    the same critics once more in their own loss, and computes them once.
    """
    inputs = self._pairs(seq)
    values = [tf.concat([q(inputs[:-1]), q(inputs[-1:])], 0)[..., 0] for q in self.critics]
    return tf.minimum(*values)

  def _pairs(self, seq) -> tf.Tensor:
    """(s_k, a_k) as inputs of critics, [H, batch]."""
    return tf.concat([seq['feature'][:-1], seq['action']], -1)

  def _returns(self, reward, value) -> tf.Tensor:
    discount = tf.fill(value[:-1].shape, self._config.discount)
    return lambda_return(reward[:-1], value[:-1], discount, value[-1], self._config.lambda_)

  def _weight(self, like: tf.Tensor) -> tf.Tensor:
    """w_t, the product of the discounts before t."""
    return self._config.discount ** tf.range(like.shape[0], dtype=tf.float32)[:, None]

  def _update_slow(self) -> None:
    """Copies the critics to their targets every slow_every updates, at the first one too."""
    due = tf.cast(self.updates % self._config.slow_every == 0, tf.float32)
    mix = due * self._config.slow_fraction
    for slow, fast in zip(self._slow_variables, self._fast_variables, strict=True):
      slow.assign(mix * fast + (1 - mix) * slow)
    self.updates.assign_add(1)

  @property
  def _fast_variables(self) -> list[tf.Variable]:
    return [x for critic in self.critics for x in critic.variables]

  @property
  def _slow_variables(self) -> list[tf.Variable]:
    return [x for critic in self.slow for x in critic.variables]


def imagined_floats(config) -> int:
  """Activations of one imagined state: recurrence, all heads, actor, critics and their target."""
  rssm = config.rssm
  heads = rssm.ensemble * (rssm.hidden + rssm.stoch)
  networks = sum(config.actor.layers) + 3 * sum(config.critic.layers) + 2 * sum(config.disc.layers)
  return heads + networks + 2 * rssm.hidden + 4 * rssm.deter + 4 * rssm.stoch


def lambda_return(reward, value, discount, bootstrap, lambda_: float) -> tf.Tensor:
  """Equation (lambda_return): R_t = r_t + g_t [(1 - l) V_t+1 + l R_t+1], ending in bootstrap."""
  next_values = tf.concat([value[1:], bootstrap[None]], 0)
  inputs = reward + discount * (1 - lambda_) * next_values
  returns = [bootstrap]  # short and cheap: a loop of the program would cost more than its sums
  for now, factor in zip(tf.unstack(inputs)[::-1], tf.unstack(discount)[::-1], strict=True):
    returns.append(now + factor * lambda_ * returns[-1])
  return tf.stack(returns[:0:-1])
