"""DA-DAC: soft actor-critic on cropped images (DrQ), rewarded by a discriminator (DAC)."""

import numpy as np
import tensorflow as tf

from recon_tf.agent import IGNORED
from recon_tf.baselines.dadac.nets import Actor, Critics, Encoder, Head, orthogonalize
from recon_tf.baselines.frames import crop, draw_offsets, push_frame, stack_frames
from recon_tf.common.errors import UserError
from recon_tf.discriminator import Discriminator, masked_mean
from recon_tf.nn import tfutils
from recon_tf.nn.checkpointable import Stored
from recon_tf.nn.scaler import Scaler

ADAM = {'eps': 1e-8, 'clip': 0.0}  # plain Adam, as in DrQ


class FeatureDiscriminator(Discriminator):
  """Expert or policy? Reads features of the critics' encoder, untouched, or has its own."""

  def __init__(self, rng: np.random.Generator, config, shapes: dict, scaler, units, action: int):
    settings = config.dadac
    changes = {'disc.layers': settings.disc_layers, 'disc.act': 'relu', 'disc_reward': 'log'}
    super().__init__(rng, config.update(changes), settings.features, action)
    own = settings.disc_encoder == 'own'
    self.encoder = Encoder(rng, config, shapes, scaler) if own else None
    self.head = Head(rng, config, units)
    orthogonalize(rng, [self.head, self.mlp])

  def project(self, inputs) -> tf.Tensor:
    """What the penalty counts as the input: from features, or from observations if encoded here."""
    return self.head(self.encoder(inputs) if self.encoder else inputs)

  def log_prob(self, inputs, action: tf.Tensor) -> tf.Tensor:
    """The imitation reward log D."""
    return self.reward(self.logit(self.project(inputs), action))

  def objective(self, expert: tuple, policy: tuple, mix: tf.Tensor):
    """Cross-entropy and gradient penalty; expert and policy are (inputs, action, valid)."""
    pairs = [(self.project(inputs), action) for inputs, action, _ in (expert, policy)]
    logits, valids = [self.logit(*x) for x in pairs], (expert[2], policy[2])
    loss = masked_mean(tf.nn.softplus(-logits[0]), valids[0])
    loss += masked_mean(tf.nn.softplus(logits[1]), valids[1])
    penalty = self._slope_penalty(pairs, valids, mix)
    probs = [masked_mean(tf.sigmoid(x), y) for x, y in zip(logits, valids, strict=True)]
    metrics = {
      'disc/expert': probs[0],
      'disc/policy': probs[1],
      'disc/gap': probs[0] - probs[1],
      'disc/penalty': penalty,
    }
    return loss + self._config.dadac.disc_gp * penalty, metrics

  def _slope_penalty(self, pairs, valids, mix: tf.Tensor) -> tf.Tensor:
    """Squared distance to 1 of the slope of D between valid pairs; the projection is constant."""
    count = min(x.shape[0] for x in valids)
    first, second = (tf.stop_gradient(tf.concat(x, -1)[:count]) for x in pairs)
    between = mix[:count] * first + (1 - mix[:count]) * second
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      tape.watch(between)
      logit = self.mlp(between)
    slope = tf.sqrt(tf.reduce_sum(tape.gradient(logit, between) ** 2, -1) + 1e-12)
    return masked_mean((slope - 1) ** 2, valids[0][:count] * valids[1][:count])


class DADAC(Stored):
  """No world model and no cloning: learns from the replay, judged by the discriminator alone.

  log D is negative, so it also rewards an early end; in the mazes an end is a success.
  """

  def __init__(self, config, obs_space: dict, act_space: dict):
    check_config(config)
    self._config, self._settings = config, config.dadac
    self._action = act_space['action'].shape[0]
    shapes = {k: tuple(v.shape) for k, v in obs_space.items()}
    hidden = [k for k in shapes if k.startswith('log_') or k in IGNORED]
    self._build({k: v for k, v in shapes.items() if k not in hidden})
    self._compile()

  def _build(self, shapes: dict[str, tuple]) -> None:
    config, settings, action = self._config, self._settings, self._action
    rng = np.random.default_rng([config.seed, 1])
    self.scaler = Scaler(shapes)
    inputs = (config, shapes, self.scaler)
    self.encoder, self.target_encoder = (Encoder(rng, *inputs) for _ in range(2))
    units = self.encoder.units
    if not units:
      raise UserError(
        f'encoder.cnn_keys and encoder.mlp_keys match none of the observations {[*shapes]}.'
      )
    self.actor = Actor(rng, config, units, action)
    self.critics, self.target_critics = (Critics(rng, config, units, action) for _ in range(2))
    self.disc = FeatureDiscriminator(rng, *inputs, units, action)
    self.log_alpha = tfutils.variable(np.log(settings.alpha).astype(np.float32))
    self._online = [*self.encoder.variables, *self.critics.variables]
    self._slow = [*self.target_encoder.variables, *self.target_critics.variables]
    for slow, fast in zip(self._slow, self._online, strict=True):
      slow.assign(fast)
    optimizer = tfutils.Optimizer
    self.critic_opt = optimizer('dadac/critic', self._online, settings.lr, **ADAM)
    self.actor_opt = optimizer('dadac/actor', self.actor.variables, settings.lr, **ADAM)
    self.alpha_opt = optimizer('dadac/alpha', [self.log_alpha], settings.alpha_lr, **ADAM)
    self.disc_opt = optimizer('disc/disc', self.disc.variables, settings.disc_lr, **ADAM)
    counter = lambda: tfutils.variable(np.zeros((), np.int32), trainable=False)
    self.updates, self.acts = counter(), counter()

  def _compile(self) -> None:
    """TensorFlow's own convolutions are faster than XLA's on a CPU; the rest is not."""
    config = self._config
    wrap = lambda fn, jit: fn if config.eager else tfutils.function(fn, jit)
    whole = config.jit and (config.jit_conv or not self.encoder.images)
    part = wrap if config.jit and not whole else lambda fn, jit: fn
    self._judge_step = part(self._judge, not self.disc.encoder)
    self._targets_step = part(self._targets, True)
    self._regress_step = part(self._regress, True)
    self._improve_step = part(self._improve, True)
    self._critic_step = wrap(self._update_critics, whole)
    self._actor_step = wrap(self._update_actor, whole)
    self._learn_step = wrap(self._learn, None)
    self._act = {}

  # Acting

  def policy(self, obs: dict, state=None, mode='train') -> tuple[dict[str, np.ndarray], dict]:
    """Actions for a batch of observations and the frame stacks to pass back in.

    Modes: train (sampled), eval (mode) and random; there is no explorer, so explore and a mask
    of environments act as train does.
    """
    named = isinstance(mode, str)
    mask = np.full(len(obs['is_first']), mode == 'explore') if named else np.asarray(mode)
    how = 'random' if named and mode == 'random' else 'sample'
    if named and mode == 'eval' and self._config.eval_mode == 'mode':
      how = 'mode'
    obs = {k: obs[k] for k in (*self.encoder.keys, 'is_first')}
    self.acts.assign_add(1)
    seed = np.array([self._config.seed * 2 + 1, int(self.acts.numpy())], np.int32)
    action, state = self._act_step(how)(obs, state or {}, seed)
    return {'action': action.numpy(), 'log_explorer': mask.astype(np.float32)}, state

  def _act_step(self, how: str):
    if how not in self._act:
      fn = lambda *args: self._policy(*args, how)
      self._act[how] = fn if self._config.eager else tfutils.direct(fn)
    return self._act[how]

  def _policy(self, obs, state, seed, how: str):
    count = self._settings.stack
    push = lambda k: push_frame(state.get(k), obs[k], obs['is_first'], count)
    state = {k: push(k) for k in self.encoder.images}
    features = self.encoder({**obs, **state})
    seeds, shape = tfutils.Seeds(seed), [features.shape[0], self._action]
    if how == 'random':
      return 2 * seeds.uniform(shape) - 1, state
    if how == 'mode':
      return self.actor.mode(features), state
    return self.actor.sample(features, seeds.normal(shape))[0], state

  # Data

  def _inputs(self, data: dict) -> dict[str, tf.Tensor]:
    """Everything that is learned from; rewards are not among it."""
    keys = (*self.encoder.keys, 'action', 'is_first', 'is_terminal')
    missing = [k for k in keys if k not in data]
    if missing:
      raise UserError(
        f'the data lack {missing}, which this task observes; make the demonstrations anew or '
        'choose other inputs with encoder.cnn_keys and encoder.mlp_keys.'
      )
    return {k: tf.convert_to_tensor(data[k]) for k in keys}

  def _transitions(self, data: dict[str, tf.Tensor]) -> dict:
    """States and what was done in them, from sequences [batch, time], k frames in a stack.

    row:   0 ... k-2  k-1  k    k+1     Before row k-1 a sequence that begins inside of an
    obs:              o_0  o_1          episode lacks frames. Action and flags are those of
    next:                  n_0  n_1     the next row; if an episode begins there, it is invalid.

    One step of each sequence, then the next steps, until the batch is full.
    """
    begin, limit = self._settings.stack - 1, self._settings.batch
    pick = lambda x: tf.concat(tf.unstack(x, axis=1), 0)[:limit]
    now, following = lambda x: pick(x[:, begin:-1]), lambda x: pick(x[:, begin + 1 :])
    states = {k: data[k] for k in self.encoder.vectors}
    for key in self.encoder.images:
      states[key] = stack_frames(data[key], data['is_first'], begin + 1)
    flag = lambda key: tf.cast(following(data[key]), tf.float32)
    return {
      'obs': {k: now(v) for k, v in states.items()},
      'next': {k: following(v) for k, v in states.items()},
      'action': following(data['action']),
      'valid': 1 - flag('is_first'),
      'alive': 1 - flag('is_terminal'),  # the end of time is not an end
    }

  def _crop(self, obs: dict[str, tf.Tensor], seeds: tfutils.Seeds) -> dict[str, tf.Tensor]:
    """One offset for all frames and images of a state; vectors stay as they are."""
    pad = self._settings.pad
    offsets = draw_offsets(seeds, next(iter(obs.values())).shape[0], pad)
    return {k: crop(v, offsets, pad) if k in self.encoder.images else v for k, v in obs.items()}

  def _crop_twice(self, obs: dict[str, tf.Tensor], seeds: tfutils.Seeds) -> dict[str, tf.Tensor]:
    first, second = self._crop(obs, seeds), self._crop(obs, seeds)
    return {k: tf.concat([first[k], second[k]], 0) for k in obs}

  # Learning

  def train(self, data: dict, expert: dict) -> dict[str, tf.Tensor]:
    """Updates discriminator and critics, every so often actor, temperature and targets."""
    number = int(self.updates.numpy())
    self.updates.assign_add(1)
    seed = np.array([self._config.seed * 2, number], np.int32)
    first, noise, metrics = self._learn_step(self._inputs(data), self._inputs(expert), seed)
    if number % self._settings.every == 0:
      metrics.update(self._actor_step(first, noise))
    return metrics

  def clone(self, data: dict, expert: dict) -> dict[str, tf.Tensor]:
    raise UserError('DA-DAC does not clone demonstrations; set pretrain_bc to 0.')

  def _learn(self, data, expert, seed):
    """Returns also what the actor's update needs: the first crops and noise."""
    seeds, augmented = tfutils.Seeds(seed), self._settings.disc_aug
    policy, expert = self._transitions(data), self._transitions(expert)
    count = policy['valid'].shape[0]
    crops, following = (self._crop_twice(policy[k], seeds) for k in ('obs', 'next'))
    first = {k: v[:count] for k, v in crops.items()}
    policy.update(crops=crops, next=following, obs=first if augmented else policy['obs'])
    expert['obs'] = self._crop(expert['obs'], seeds) if augmented else expert['obs']
    normal = lambda rows: seeds.normal([rows, self._action])
    noise = {'next': normal(2 * count), 'mix': seeds.uniform([count, 1])}
    return first, normal(count), self._critic_step(policy, expert, noise)

  def _update_critics(self, policy, expert, noise):
    """The discriminator first; its reward teaches the critics, and they the encoder."""
    sources, count = (expert, policy), policy['valid'].shape[0]
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      tape.watch(self._online)
      features = self.encoder(policy['crops'])
      with tape.stop_recording():
        shown = features[:count] if self._settings.disc_aug else self.encoder(policy['obs'])
        known = self.encoder(expert['obs'])
        inputs = [x['obs'] for x in sources] if self.disc.encoder else (known, shown)
        pairs = [(x, y['action'], y['valid']) for x, y in zip(inputs, sources, strict=True)]
        reward, metrics = self._judge_step(*pairs, noise['mix'])
        online, slow = self.encoder(policy['next']), self.target_encoder(policy['next'])
        targets = self._targets_step(online, slow, reward, policy['alive'], noise['next'])
      taken = (features, policy['action'], policy['valid'])
      given = (known, expert['action'], expert['valid'])
      loss, mets = self._regress_step(taken, targets, given)
    return {**metrics, **mets, **self.critic_opt.step(tape, loss)}

  def _judge(self, expert, policy, mix):
    """Updates the discriminator; returns log D of the policy's pairs."""
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      tape.watch(self.disc.variables)
      loss, metrics = self.disc.objective(expert, policy, mix)
    metrics.update(self.disc_opt.step(tape, loss))
    reward = self.disc.log_prob(*policy[:2])
    metrics['dadac/reward'] = masked_mean(reward, policy[2])
    return reward, metrics

  def _targets(self, online, slow, reward, alive, noise):
    """r + gamma (min Q - alpha log pi), averaged over two crops with an action each."""
    action, logprob = self.actor.sample(online, noise)
    value = tf.reduce_min(self.target_critics(slow, action), 0)
    value = tf.reshape(value - tf.exp(self.log_alpha) * logprob, [2, -1])
    return reward + self._config.discount * alive * tf.reduce_mean(value, 0)

  def _regress(self, policy, targets, expert):
    """Four squared errors, of two critics on two crops, to the same targets."""
    features, action, valid = policy
    values = tf.reshape(self.critics(features, tf.concat([action] * 2, 0)), [4, -1])
    loss = masked_mean(tf.reduce_sum((values - targets) ** 2, 0), valid)
    demonstrated = tf.reduce_mean(self.critics(*expert[:2]), 0)
    means = masked_mean(tf.reduce_mean(values, 0), valid), masked_mean(demonstrated, expert[2])
    means = [tf.stop_gradient(x) for x in means]
    return loss, {'dadac/q': means[0], 'dadac/q_gap': means[1] - means[0]}

  def _update_actor(self, obs, noise):
    return self._improve_step(self.encoder(obs), noise)

  def _improve(self, features, noise):
    """Actor and temperature; the encoder only lends its features. Then the targets move."""
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      tape.watch(self.actor.variables)
      action, logprob = self.actor.sample(features, noise)
      value = tf.reduce_min(self.critics(features, action), 0)
      loss = tf.reduce_mean(tf.exp(self.log_alpha) * logprob - value)
    metrics = self.actor_opt.step(tape, loss)
    entropy = -tf.reduce_mean(logprob)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      tape.watch(self.log_alpha)
      loss = tf.exp(self.log_alpha) * (entropy + self._action)  # wants an entropy of -actions
    metrics.update(self.alpha_opt.step(tape, loss))
    self._follow(self._settings.tau)
    return {**metrics, 'dadac/entropy': entropy, 'dadac/alpha': tf.exp(self.log_alpha)}

  def _follow(self, fraction: float) -> None:
    """Moves encoder and critics of the targets towards the trained ones."""
    for slow, fast in zip(self._slow, self._online, strict=True):
      slow.assign_add(fraction * (fast - slow))  # stays exactly equal where it is

  # Reports

  def report(self, data: dict) -> dict[str, np.ndarray]:
    """There is no model whose predictions could be shown."""
    return {}

  def parameters(self) -> dict[str, int]:
    """Stored parameters by part, targets included."""
    names = ('encoder', 'critics', 'target_encoder', 'target_critics', 'actor', 'disc')
    count = lambda part: int(sum(np.prod(x.shape) for x in part.variables))
    return {k: count(getattr(self, k)) for k in names}


def check_config(config) -> None:
  """Refuses what would make a demonstration a negative example, and sizes that do not fit."""
  settings = config.dadac
  if config.pretrain or config.pretrain_bc:
    raise UserError(
      'DA-DAC learns online only; set pretrain and pretrain_bc to 0, or name dadac after the size, '
      'as in --configs maze cpu dadac.'
    )
  if config.expert_mix == 'copy':
    raise UserError("expert_mix: 'copy' makes demonstrations negative examples of DA-DAC.")
  if settings.disc_encoder not in ('shared', 'own'):
    raise UserError(f"dadac.disc_encoder: 'shared' or 'own', not '{settings.disc_encoder}'.")
  if config.replay.length <= settings.stack:
    raise UserError(
      f'replay.length: {config.replay.length} steps hold no transition with stacks of '
      f'{settings.stack} frames; at least {settings.stack + 1} are needed.'
    )
  if config.devices != 1:
    raise UserError(f'devices: DA-DAC runs on one, not on {config.devices}.')
