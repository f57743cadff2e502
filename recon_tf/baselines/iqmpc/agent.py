"""IQ-MPC: inverse soft-Q learning in the latent space of TD-MPC2, acting by planning there."""

import numpy as np
import tensorflow as tf

from recon_tf.agent import IGNORED
from recon_tf.baselines.frames import draw_offsets, push_frame, stack_frames
from recon_tf.baselines.iqmpc import loss as losses
from recon_tf.baselines.iqmpc import planner
from recon_tf.baselines.iqmpc.model import LatentModel, draw_pick, flat
from recon_tf.baselines.iqmpc.slices import cut_slices, slice_rows
from recon_tf.common.errors import UserError
from recon_tf.nn import tfutils
from recon_tf.nn.checkpointable import Stored
from recon_tf.nn.scaler import Scaler

LARGE_ACTION = 20  # from this size on the planner takes two iterations more


class SharedNormAdam(tfutils.Optimizer):
  """Adam for gradients whose common norm with those of other optimizers is clipped."""

  def apply(self, grads: list[tf.Tensor], norm: tf.Tensor) -> None:
    self._apply(grads, norm)


class IQMPC(Stored):
  """The expert's data stay apart: they are never among the negatives."""

  def __init__(self, config, obs_space: dict, act_space: dict):
    check_config(config)
    self._config, self._settings = config, config.iqmpc
    self._action = act_space['action'].shape[0]
    self._iterations = self._settings.iterations + 2 * (self._action >= LARGE_ACTION)
    shapes = {k: tuple(v.shape) for k, v in obs_space.items() if k not in IGNORED}
    self._build({k: v for k, v in shapes.items() if not k.startswith('log_')})
    self._compile()

  def _build(self, shapes: dict[str, tuple]) -> None:
    config, settings = self._config, self._settings
    self.scaler = Scaler(shapes)
    self.model = LatentModel(np.random.default_rng([config.seed, 1]), config, shapes, self._action)
    self._context = settings.stack - 1 if self.model.images else 0
    needed = slice_rows(settings, self._context)
    if config.replay.length < needed:
      raise UserError(f'replay.length: IQ-MPC needs at least {needed}, not {config.replay.length}.')
    self._trained = [*self.model.dynamics.variables, *self.model.heads.variables]
    options = {'eps': 1e-8, 'clip': settings.clip}
    rate = settings.lr * settings.encoder_lr_scale
    self.encoder_opt = SharedNormAdam('', self.model.encoder.variables, rate, **options)
    self.model_opt = SharedNormAdam('', self._trained, settings.lr, **options)
    options = {'eps': 1e-5, 'clip': settings.clip}
    prior = self.model.prior.variables
    self.policy_opt = tfutils.Optimizer('iqmpc/policy', prior, settings.lr, **options)
    counter = lambda: tfutils.variable(np.zeros((), np.int32), trainable=False)
    self.updates, self.acts = counter(), counter()

  def _compile(self) -> None:
    """TensorFlow's own convolutions are faster than XLA's on a CPU; all the rest is not."""
    config = self._config
    wrap = lambda fn, jit=None: fn if config.eager else tfutils.function(fn, jit)
    jit = config.jit or None
    self._encode_step = wrap(self.model.encode, jit and (config.jit_conv or not self.model.images))
    self._gradient_step = wrap(self._gradients, jit)
    self._apply_step = wrap(self._apply, jit)
    self._plan_step = wrap(self._plan, jit)
    self._learn_step = wrap(self._learn)
    self._act_step = wrap(self._policy)
    self._decode_step = wrap(self._decode)

  # Acting

  def policy(self, obs: dict, state=None, mode='train') -> tuple[dict[str, np.ndarray], dict]:
    """Actions for a batch of observations; the state holds frame stacks and the last plans.

    Modes: train (planned, with noise), eval (planned) and random; there is no explorer, so
    explore and a mask of environments act as train does.
    """
    count, named = len(obs['is_first']), isinstance(mode, str)
    mask = np.full(count, mode == 'explore') if named else np.asarray(mode)
    how = mode if named and mode == 'random' else 'train'
    if named and mode == 'eval' and self._config.eval_mode == 'mode':
      how = self._settings.eval_action
    obs = {k: obs[k] for k in (*self.model.keys, 'is_first')}
    state = self._initial(count) if state is None else state
    self.acts.assign_add(1)
    seed = np.array([self._config.seed * 2 + 1, int(self.acts.numpy())], np.int32)
    action, state = self._act_step(obs, state, tf.constant(mask), seed, how)
    return {'action': action.numpy(), 'log_explorer': mask.astype(np.float32)}, state

  def _initial(self, count: int) -> dict[str, tf.Tensor]:
    state = {'mean': tf.zeros([count, self._settings.horizon, self._action])}
    if self.model.images:
      shape, *others = self.model.images.values()
      channels = self._settings.stack * sum(x[-1] for x in (shape, *others))
      state['frames'] = tf.zeros([count, *shape[:-1], channels], tf.uint8)
    return state

  def _policy(self, obs, state, mask, seed, how: str):
    """Action and next state; `how` is random, train or the planner's choice in evaluations."""
    settings, seeds, first = self._settings, tfutils.Seeds(seed), obs['is_first']
    count, inputs, frames = first.shape[0], self._join(obs), {}
    if self.model.images:
      inputs = push_frame(state['frames'], inputs, first, settings.stack)
      frames = {'frames': inputs}
    random = 2 * seeds.uniform([count, self._action]) - 1
    if how == 'random':
      return random, {**frames, 'mean': tf.zeros_like(state['mean'])}
    offsets = None
    if settings.aug_at_eval:
      offsets = draw_offsets(seeds, count, settings.shift)
    latent = self.model.encode(inputs, offsets)
    mean = planner.warm_start(state['mean'], first)
    action, mean = self._plan_step(latent, mean, self._draw_plan(count, seeds), how)
    if self._config.windows.collector == 'random':
      action = tf.where(mask[:, None], random, action)
    return action, {**frames, 'mean': mean}

  def _draw_plan(self, count: int, seeds: tfutils.Seeds) -> dict:
    settings, times = self._settings, self._iterations
    sizes = [settings.horizon, self._action]
    released = settings.plan_score == 'released'
    draws = 2 * settings.horizon + 2 if released else settings.horizon - 1
    return {
      **planner.draw(seeds, count, self._action, settings, times),
      'policy': seeds.normal([count, settings.policy_samples, *sizes]),
      'value': seeds.normal([times, draws, count, settings.samples, sizes[1]]),
      'pick': draw_pick(seeds, times, settings.heads),
    }

  def _plan(self, latent, mean, noise, how: str):
    """The whole planner, one program."""
    released = self._settings.plan_score == 'released'
    rate = self.model.released_score if released else self.model.score
    score = lambda actions, extra: rate(latent, actions, *extra)
    proposals = self.model.propose(latent, noise['policy'])
    extra = (noise['value'], noise['pick'])
    args = (noise['samples'], extra, self._settings, self._config.unroll)
    found = planner.plan(score, mean, proposals, *args)
    action = planner.choose(found, noise['gumbel'], how)
    if how == 'train':
      action += found['std'][:, 0] * noise['explore']
    return tf.clip_by_value(action, -1, 1), found['mean']

  def _join(self, data: dict) -> tf.Tensor:
    """All images or all vectors as one input."""
    scale = (lambda key, x: x) if self.model.images else self.scaler.scale
    return tf.concat([scale(k, data[k]) for k in self.model.keys], -1)

  # Learning

  def train(self, data: dict, expert: dict) -> dict[str, tf.Tensor]:
    """One update of model and policy; during pretraining `data` are the expert's and unused."""
    pretraining = int(self.updates.numpy()) < self._config.pretrain
    return self._update(data, expert, 'offline' if pretraining else 'online')

  def clone(self, data: dict, expert: dict) -> dict[str, tf.Tensor]:
    """One update of encoder, dynamics and policy prior that clones the expert."""
    return self._update(data, expert, 'clone')

  def _update(self, data, expert, mode: str) -> dict[str, tf.Tensor]:
    seed = np.array([self._config.seed * 2, int(self.updates.numpy())], np.int32)
    self.updates.assign_add(1)
    metrics = self._learn_step(self._inputs(data), self._inputs(expert), seed, mode)
    found = metrics.get('iqmpc/reward_correlation')
    if found is not None and not np.isfinite(found):
      del metrics['iqmpc/reward_correlation']
    return metrics

  def _inputs(self, data: dict) -> dict[str, tf.Tensor]:
    """What is learned from, and the true reward, which the logs compare with the decoded one."""
    keys = (*self.model.keys, 'action', 'is_first', 'reward')
    missing = [k for k in keys if k not in data]
    if missing:
      raise UserError(f'the data lack {missing}; make the demonstrations anew for this task.')
    return {k: tf.convert_to_tensor(data[k]) for k in keys}

  def _learn(self, data, expert, seed, mode: str):
    """Encodes, then model, policy and target heads; mode is online, offline or clone."""
    seeds, parts = tfutils.Seeds(seed), (data, expert) if mode == 'online' else (expert,)
    inputs = [{**x, 'inputs': self._join(x)} for x in parts]
    cuts = [cut_slices(x, self._settings, self._context, seeds) for x in inputs]
    behavior = cuts[0]['inputs'].shape[0] if mode == 'online' else 0
    batch = {k: tf.concat([x[k] for x in cuts], 0 if k == 'inputs' else 1) for k in cuts[0]}
    encoder = self.model.encoder.variables
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      tape.watch(encoder)
      latent = self._encode(batch['inputs'][:, :1], seeds)[0]
    future = self._encode(batch['inputs'][:, 1:], seeds)
    noise = {**self._draw_update(behavior, batch, seeds), 'reward': batch['reward']}
    args = (latent, future, batch['action'], batch['valid'], noise)
    upstream, grads, latents, metrics = self._gradient_step(*args, behavior, mode)
    grads = [*tape.gradient(latent, encoder, upstream), *grads]
    args = (grads, latents, batch['action'], batch['valid'], noise)
    return {**metrics, **self._apply_step(*args, mode)}

  def _encode(self, inputs: tf.Tensor, seeds: tfutils.Seeds) -> tf.Tensor:
    """[rows, time, ...] to latents [time, rows, latent], every observation shifted anew."""
    rows, steps = inputs.shape[:2]
    offsets = draw_offsets(seeds, rows * steps, self._settings.shift) if self.model.images else None
    latent = self._encode_step(tf.reshape(inputs, [-1, *inputs.shape[2:]]), offsets)
    return tf.transpose(tf.reshape(latent, [rows, steps, -1]), [1, 0, 2])

  def _draw_update(self, behavior: int, batch: dict, seeds: tfutils.Seeds) -> dict:
    settings = self._settings
    steps, rows = batch['valid'].shape
    valued = rows - behavior if settings.value_term == 'v0' else steps * rows
    normal = lambda count: seeds.normal([count, self._action])
    pick = lambda: draw_pick(seeds, 1, settings.heads)[0]
    drop = lambda *shape: seeds.uniform([*shape, settings.units]) if settings.dropout else None
    return {
      'target_action': normal(steps * rows),
      'target_pick': pick(),
      'drop': drop(settings.heads, steps * rows),
      'action': normal(valued),
      'pick': pick(),
      'value_drop': drop(2, valued),
      'mix': seeds.uniform([steps, min(behavior, rows - behavior), 1]),
      'policy': normal((steps + 1) * rows),
      'policy_pick': pick(),
      'policy_drop': drop(2, (steps + 1) * rows),
    }

  def _gradients(self, latent, future, action, valid, noise, behavior: int, mode: str):
    """Gradients of the model's loss for the first latents and for dynamics and heads."""
    settings, metrics = self._settings, {}
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      tape.watch([latent, *self._trained])
      latents = losses.roll_out(self.model, latent, action)
      consistency = losses.consistency(latents, future, valid, settings.rho)
      loss = settings.consistency * consistency
      if mode != 'clone':
        args = (latents, action, future, valid, noise, behavior)
        iq, metrics = losses.inverse_q(self.model, settings, *args)
        loss += settings.value * iq
        metrics['iqmpc/iq_loss'] = iq
    metrics.update({'iqmpc/model_loss': loss, 'iqmpc/consistency_loss': consistency})
    wanted = [latent, *self._trained]
    upstream, *grads = tape.gradient(loss, wanted, unconnected_gradients='zero')
    return upstream, grads, latents, metrics

  def _apply(self, grads, latents, action, valid, noise, mode: str):
    """The model's step, the policy's, then that of the target heads."""
    norm = tf.linalg.global_norm(grads)
    split = len(self.model.encoder.variables)
    self.encoder_opt.apply(grads[:split], norm)
    self.model_opt.apply(grads[split:], norm)
    metrics, prior = {'iqmpc/model_grad_norm': norm}, self.model.prior.variables
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      tape.watch(prior)
      if mode == 'clone':
        loss = losses.clone_loss(self.model, latents, action, valid)
      else:
        loss, mets = losses.policy_loss(self.model, self._settings, latents, valid, noise)
        metrics.update(mets)
    metrics.update(self.policy_opt.step(tape, loss))
    self.model.follow(self._settings.tau)
    return metrics

  # Reports

  def decode_reward(self, data: dict) -> np.ndarray:
    """Rewards that Q implies, [batch, time - 1], of what was done in all rows but the last.

    Sequences begin where is_first says; mean of all heads, V with the policy's mode.
    """
    return self._decode_step(self._inputs(data)).numpy()

  def _decode(self, data):
    inputs, action = self._join(data), data['action'][:, 1:]
    if self.model.images:
      inputs = stack_frames(inputs, data['is_first'], self._settings.stack)
    rows, length = data['is_first'].shape
    latent = self.model.encode(tf.reshape(inputs, [-1, *inputs.shape[2:]]))
    latent = tf.reshape(latent, [rows, length, -1])
    weights, later = self.model.heads.weights(), flat(latent[:, 1:])
    q = lambda latent, action: tf.reduce_mean(self.model.heads(weights, latent, action), 0)
    value = q(later, tf.tanh(self.model.prior(later)[0]))
    reward = q(flat(latent[:, :-1]), flat(action)) - self.model.gamma * value
    return tf.reshape(reward, [rows, length - 1])

  def report(self, data: dict) -> dict[str, np.ndarray]:
    """There is no decoder, so no videos."""
    return {}

  def parameters(self) -> dict[str, int]:
    """Stored parameters by part, targets included."""
    count = lambda xs: int(sum(np.prod(x.shape) for x in xs))
    names = ('encoder', 'dynamics', 'prior', 'heads', 'target')
    return {k: count(getattr(self.model, k).variables) for k in names}


def check_config(config) -> None:
  """Refuses what would break the method silently."""
  choices = {
    'value_term': ('v0', 'behavior', 'all'),
    'eval_action': ('sample', 'best', 'mean'),
    'plan_score': ('clean', 'released'),
  }
  for key, known in choices.items():
    if config.iqmpc[key] not in known:
      raise UserError(f"iqmpc.{key}: '{config.iqmpc[key]}' is unknown; choose one of {known}.")
  if config.expert_mix == 'copy':
    raise UserError('expert_mix: copy would make demonstrations negatives; IQ-MPC needs concat.')
  if config.devices != 1:
    raise UserError('devices: IQ-MPC runs on one device.')
  if len(config.iqmpc.kernels) != len(config.iqmpc.strides):
    raise UserError('iqmpc.kernels and iqmpc.strides must have as many entries as each other.')
  elites, samples = config.iqmpc.elites, config.iqmpc.samples
  if not 0 < elites <= samples or not 0 < config.iqmpc.policy_samples < samples:
    raise UserError('iqmpc.elites and iqmpc.policy_samples must be from 1 to iqmpc.samples.')
