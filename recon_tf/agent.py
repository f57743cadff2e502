"""The agent: acting, learning, reporting; the only place where functions are compiled."""

import numpy as np
import tensorflow as tf

from recon_tf import explorer as exploration
from recon_tf.behavior import ActorCritic
from recon_tf.common.errors import UserError
from recon_tf.common.schedule import kind_of, optimizer_options
from recon_tf.discriminator import Discriminator
from recon_tf.nn import tfutils
from recon_tf.nn.checkpointable import Stored
from recon_tf.nn.scaler import Scaler
from recon_tf.replicas import make_strategy, own_share, replicated
from recon_tf.world_model import WorldModel

BELIEF = ('deter', 'stoch', 'mean')  # what the behaviours read of a posterior
IGNORED = ('reward', 'is_first', 'is_last', 'is_terminal', 'action')


class Agent(Stored):
  """BC, V-MAIL, CMIL, RECON and every ablation: one agent, told apart by its config."""

  def __init__(self, config, obs_space: dict, act_space: dict):
    self._config = config
    self._shapes = {
      k: tuple(v.shape)
      for k, v in obs_space.items()
      if not k.startswith('log_') and k not in IGNORED
    }
    self._action = act_space['action'].shape[0]
    self._strategy = make_strategy(config)
    with self._strategy.scope():
      self._build()
    self._compile()

  def _build(self) -> None:
    config, rng = self._config, np.random.default_rng([self._config.seed, 1])
    self.scaler = Scaler(self._shapes)
    self.world_model = WorldModel(rng, config, self._shapes, self._action, self.scaler)
    if not self.world_model.encoder.keys:
      raise UserError(
        f'encoder.cnn_keys and encoder.mlp_keys match none of the observations {[*self._shapes]}.'
      )
    units = self.world_model.rssm.units
    self.disc = Discriminator(rng, config, units, self._action)
    self.main = ActorCritic(rng, config, config.main, 'main', units, self._action)
    self.explorer = None
    if config.explorer.enabled:
      settings = config.explorer
      self.explorer = ActorCritic(rng, config, settings, 'explorer', units, self._action)
    optimizer, options = tfutils.Optimizer, lambda key: optimizer_options(config, key)
    self.model_opt = optimizer('model/model', self.world_model.variables, **options('model_opt'))
    self.disc_opt = optimizer('disc/disc', self.disc.variables, **options('disc_opt'))
    counter = lambda: tfutils.variable(np.zeros((), np.int32), trainable=False)
    self.updates, self.acts = counter(), counter()
    self.delta = tfutils.variable(np.full((), np.nan, np.float32), trainable=False)

  def _compile(self) -> None:
    config = self._config
    wrap = lambda fn, jit: fn if config.eager else tfutils.function(fn, jit)
    jit, alone = config.jit, config.devices == 1
    # On a GPU both call cuDNN, and one program has fewer launches than a graph.
    convs_inside = config.jit_conv or bool(tf.config.list_physical_devices('GPU'))
    model_jit = jit and (convs_inside or not self.world_model.encoder.convs)
    # Devices meet between programs, for which TensorFlow needs one graph: on several of them only
    # what finds gradients is compiled, and the updates of weights are not.
    nested = wrap if alone else lambda fn, jit: fn
    for optimizer in self._optimizers:
      of_model = optimizer is self.model_opt
      optimizer.apart = (model_jit if of_model else jit) and not alone and not config.eager
    # TensorFlow's own convolutions are faster than XLA's on a CPU; the recurrence is not.
    if jit and not model_jit and not config.eager:
      rssm = self.world_model.rssm
      self.world_model.observe = tfutils.compiled_inside(rssm.observe, rssm.variables)
    self._model_step = nested(self._train_model, model_jit)
    self._behavior_step = nested(self._train_behaviors, jit)
    self._clone_step = nested(self._train_clone, jit)
    self._believe_step = wrap(self._believe, model_jit)
    spread = lambda fn: fn if alone else replicated(self._strategy, fn)
    self._train = wrap(spread(self._update), None)
    self._follow = wrap(spread(self._follow_update), None)
    self._clone = wrap(spread(self._clone_update), None)
    self._watch = wrap(spread(self._watch_update), None)
    self._act = {}
    self._open_loop = wrap(self._predict, None)

  @property
  def _optimizers(self) -> list[tfutils.Optimizer]:
    policies = [x for x in (self.main, self.explorer) if x]
    return [self.model_opt, self.disc_opt, *(y for x in policies for y in x.optimizers)]

  # Acting

  def policy(self, obs: dict, state=None, mode='train') -> tuple[dict[str, np.ndarray], dict]:
    """Actions for a batch of observations and the belief state to pass back in.

    Modes: train (main policy, sampled), explore (explorer, sampled), eval (main, mode), random,
    or a bool array that says for which environments the explorer acts.
    """
    amount = len(obs['is_first'])
    if state is None:
      state = self.world_model.rssm.initial(amount)
      state['action'] = tf.zeros([amount, self._action])
    mask = np.full(amount, mode == 'explore') if isinstance(mode, str) else np.asarray(mode)
    obs = {k: obs[k] for k in (*self.world_model.encoder.keys, 'is_first')}
    greedy = isinstance(mode, str) and mode == 'eval' and self._config.eval_mode == 'mode'
    uniform = isinstance(mode, str) and mode == 'random'
    step = self._act_step(greedy, uniform, bool(mask.any()))
    state = step(obs, state, tf.constant(mask), self._act_seed())
    action = state['action'].numpy()
    return {'action': action, 'log_explorer': mask.astype(np.float32)}, state

  def _act_seed(self) -> np.ndarray:
    self.acts.assign_add(1)
    return np.array([self._config.seed * 2 + 1, int(self.acts.numpy())], np.int32)

  def _act_step(self, *how: bool):
    """A graph for each way to act, which computes nothing that this way does not need."""
    if how not in self._act:
      fn = lambda *args: self._policy(*args, *how)
      self._act[how] = fn if self._config.eager else tfutils.direct(fn)
    return self._act[how]

  def _policy(self, obs, state, mask, seed, greedy: bool, uniform: bool, shared: bool):
    """The belief is shared: only the action depends on who acts."""
    seeds = tfutils.Seeds(seed)
    rssm = self.world_model.rssm
    embed = self.world_model.encoder(obs)
    noise = seeds.normal(state['stoch'].shape)
    noise = tf.zeros_like(noise) if greedy else noise
    belief = {k: state[k] for k in ('deter', 'stoch')}
    belief = rssm.obs_step(belief, state['action'], embed, obs['is_first'], noise)
    feature = rssm.features(belief)
    shape = state['action'].shape
    random = 2 * seeds.uniform(shape) - 1
    dist = self.main.policy(feature)
    action = dist.mode() if greedy else dist.sample(seeds.uniform(shape))
    if uniform:
      action = random
    elif not shared:  # the main policy acts alone
      pass
    elif self.explorer:
      other = self.explorer.policy(feature).sample(seeds.uniform(shape))
      action = tf.where(mask[:, None], other, action)
    elif self._config.windows.collector == 'random':
      action = tf.where(mask[:, None], random, action)
    return {**belief, 'action': action}

  # Learning

  def train(self, data: dict, expert: dict) -> dict[str, tf.Tensor]:
    """One joint update on a replay batch and an expert batch, [batch, time, ...] each."""
    others = {'follow': self._follow, 'watch': self._watch}
    kind = kind_of(self._config, int(self.updates.numpy()))
    return self._run(others.get(kind, self._train), data, expert)

  def clone(self, data: dict, expert: dict) -> dict[str, tf.Tensor]:
    """One update of BC pretraining: both actors on expert actions, in the beliefs of the model."""
    return self._run(self._clone, data, expert)

  def _run(self, fn, data, expert):
    data, expert = self._inputs(data), self._inputs(expert)
    seed = np.array([self._config.seed * 2, int(self.updates.numpy())], np.int32)
    self.updates.assign_add(1)
    return fn(data, expert, seed)

  def _inputs(self, data) -> dict[str, tf.Tensor]:
    keys = {*self.world_model.encoder.keys, *self.world_model.decoder.keys}
    numbers = {'log_episode'} if self._config.rssm.head_choice == 'episode' else set()
    keys = sorted({*keys, *numbers, 'action', 'is_first', 'is_terminal'})
    missing = [k for k in keys if k not in data]
    if missing:
      raise UserError(
        f'the data lack {missing}, which this task observes; make the demonstrations anew or '
        'choose other inputs with encoder.cnn_keys, encoder.mlp_keys and the decoder keys.'
      )
    return {k: tf.convert_to_tensor(data[k]) for k in keys}

  def _update(self, data, expert, seed):
    """The whole update: world model, discriminator and main policy, explorer."""
    seeds = tfutils.Seeds(seed)
    states, metrics = self._model_step(data, expert, self._draw_model(data, expert, seeds))
    if self._config.behavior == 'imitation':
      noise = self._draw_behaviors(data, expert, seeds)
      metrics.update(self._behavior_step(data, expert, states, noise))
    elif self._config.behavior == 'bc':
      metrics.update(self._clone_step(expert, states))
    return metrics

  def _follow_update(self, data, expert, seed):
    """The model learns and the policies follow it by cloning alone, until it can be imagined in."""
    noise = self._draw_model(data, expert, tfutils.Seeds(seed))
    states, metrics = self._model_step(data, expert, noise)
    return {**metrics, **self._clone_step(expert, states)}

  def _watch_update(self, data, expert, seed):
    """A frozen policy reads the model, so the model learns nothing online: its fit is logged."""
    noise = self._draw_model(data, expert, tfutils.Seeds(seed))
    loss, _, metrics = self.world_model.loss(self._model_data(data, expert), noise['trained'])
    return {**metrics, 'model/model_loss': loss}

  def _clone_update(self, data, expert, seed):
    """The model is left as it is, which makes this many times cheaper than a joint update."""
    rows, length = expert['is_first'].shape
    noise = self._draw_beliefs([rows], length, tfutils.Seeds(seed))
    if self._config.bc_beliefs == 'mean':  # the whole belief, its history included
      noise['posterior'] = tf.zeros_like(noise['posterior'])
    return self._clone_step(expert, (None, self._believe_step(expert, noise)))

  def _believe(self, data, noise):
    """Posterior states of sequences, as data."""
    embed = self.world_model.encoder(data)
    post, _ = self.world_model.observe(embed, data['action'], data['is_first'], noise)
    return {k: tf.stop_gradient(post[k]) for k in BELIEF}

  def _draw_model(self, data, expert, seeds):
    """Posterior noise of the batch that trains the model, and of the rest if that is not all."""
    (rows, length), extra = data['is_first'].shape, expert['is_first'].shape[0]
    numbers = self._model_data(data, expert).get('log_episode')
    if self._config.expert_mix == 'concat':
      return {'trained': self._draw_beliefs([rows, extra], length, seeds, numbers)}
    return {
      'trained': self._draw_beliefs([rows], length, seeds, numbers),
      'expert': self._draw_beliefs([extra], length, seeds),
    }

  def _draw_beliefs(self, parts: list[int], length: int, seeds, numbers=None):
    """Noise of the recurrence for batches in a row, with so many sequences on this device."""
    rows = self._config.devices * sum(parts)
    noise = self.world_model.rssm.draw(rows, length, seeds, numbers)
    noise['posterior'] = own_share(noise['posterior'], 1, parts)
    if self._config.rssm.head_choice != 'batch':  # [time * sequences, heads]
      units = noise['heads'].shape[-1]
      heads = own_share(tf.reshape(noise['heads'], [length, -1, units]), 1, parts)
      noise['heads'] = tf.reshape(heads, [-1, units])
    return noise

  def _draw_behaviors(self, data, expert, seeds):
    config, devices = self._config, self._config.devices
    total, wanted = int(np.prod(data['is_first'].shape)), config.imag_starts // devices
    starts = wanted if 0 < wanted < total else total
    rows, length = expert['is_first'].shape
    every, pairs = devices * starts, devices * rows * (length - 1)
    imagined = lambda: own_share(self.disc.draw([config.horizon, every], seeds), 1)
    noise = {
      'starts': seeds.choice(total, starts) if starts < total else None,
      'main': self._draw_actions(self.main, every, seeds),
      'disc': {
        'expert': own_share(self.disc.draw([devices * rows, length - 1], seeds), 0),
        'main': imagined(),
        'replay': own_share(self.disc.draw([every], seeds), 0),
        'mix': own_share(seeds.uniform([pairs, 1]), 0),
      },
    }
    if self.explorer:
      noise['explorer'] = self._draw_actions(self.explorer, every, seeds)
      noise['disc']['explorer'] = imagined()
    return noise

  def _draw_actions(self, policy: ActorCritic, starts: int, seeds):
    """Noise of an imagination; prior heads and the target critic are the same for all starts."""
    noise = policy.draw(starts, seeds)
    return noise | {k: own_share(noise[k], 1) for k in ('action', 'latent')}

  def _model_data(self, data, expert):
    """What the model is trained on; sequences of the demonstrations come last."""
    if self._config.expert_mix != 'concat':
      return data
    return {k: tf.concat([data[k], expert[k]], 0) for k in data}

  def _train_model(self, data, expert, noise):
    """Updates the world model; returns the posteriors that it found on the way."""
    trained = self._model_data(data, expert)

    def loss():
      value, post, metrics = self.world_model.loss(trained, noise['trained'])
      return value, (post, metrics)

    (post, metrics), mets = self.model_opt.minimize(loss)
    metrics.update(mets)
    post = {k: tf.stop_gradient(post[k]) for k in BELIEF}
    if trained is data:
      own = self._believe(expert, noise['expert'])
      post = {k: tf.concat([post[k], own[k]], 0) for k in post}
    amount = data['action'].shape[0]
    states = {k: v[:amount] for k, v in post.items()}, {k: v[amount:] for k, v in post.items()}
    return states, metrics

  def _train_clone(self, expert, states):
    pairs = self._cloned_pairs(expert, states[1])
    metrics = self.main.clone(pairs)
    if self.explorer:
      metrics.update(self.explorer.clone(pairs))
    return metrics

  def _train_behaviors(self, data, expert, states, noise):
    """Main policy and discriminator on one imagination, then the explorer on its own."""
    rssm, metrics = self.world_model.rssm, {}
    pairs = self._expert_pairs(expert, states[1])
    cloned = self._cloned_pairs(expert, states[1])
    start, replay = self._starts(data, states[0], noise)
    if not self._config.main.replay_critic:
      replay = None
    own = {**noise['main'], 'reward': noise['disc']['main']}
    seq, mets = self.main.train(rssm, start, self._main_reward, cloned, own, replay)
    metrics.update(mets)
    # Of averages: over pieces of the starts, or devices, a share could not be averaged.
    metrics['main/penalty_share'] = ratio(mets['main/penalty'], mets['main/imitation'])
    metrics.update(self._train_disc(pairs, seq, noise['disc']))
    if self.explorer:
      own = {**noise['explorer'], 'reward': noise['disc']['explorer']}
      seq, mets = self.explorer.train(rssm, start, self._explorer_reward, cloned, own)
      metrics.update(mets)
      metrics['explorer/bonus_share'] = ratio(mets['explorer/bonus'], mets['explorer/imitation'])
      metrics.update(exploration.gate_metrics(seq['gate'][0]))
    return metrics

  def _train_disc(self, expert, seq, noise):
    feature, action, mask = expert
    policy = (seq['feature'][:-1], seq['action'])
    loss = lambda: self.disc.loss((feature, action), mask, policy, noise)
    metrics, mets = self.disc_opt.minimize(loss)
    self._update_delta(metrics['disc/main'])
    metrics.update(mets)
    metrics['gate/delta'] = tf.identity(self.delta)
    return metrics

  def _update_delta(self, score: tf.Tensor) -> None:
    """delta_k: moving average of the noise-free D on main-policy imagination."""
    score = tfutils.all_reduce_mean([score])[0]
    decay = self._config.gate.decay
    old = tf.where(tf.math.is_nan(self.delta), score, self.delta)
    self.delta.assign(decay * old + (1 - decay) * score)

  def _imitation_reward(self, seq, noise):
    noise = 0.0 if self._config.reward_noise == 'none' else noise
    logit = self.disc.logit(seq['feature'][:-1], seq['action'], noise)
    return self.disc.reward(logit)

  def _main_reward(self, seq, noise):
    """Equation (dual_rewards), left: D - alpha U."""
    imitation = self._imitation_reward(seq, noise)
    uncertainty = self.world_model.rssm.uncertainty(seq['deter'])
    penalty = self._config.main.alpha * uncertainty
    reward = imitation - penalty
    metrics = {
      'main/uncertainty': tf.reduce_mean(uncertainty),
      'main/imitation': tf.reduce_mean(imitation),
      'main/penalty': tf.reduce_mean(penalty),
    }
    return {'reward': reward}, metrics

  def _explorer_reward(self, seq, noise):
    """Equation (dual_rewards), right, with the gate at the end of the imagined rollout."""
    rssm, settings = self.world_model.rssm, self._config.gate
    imitation = self._imitation_reward(seq, noise)
    uncertainty = rssm.uncertainty(seq['deter'])
    if settings.kind == 'none':
      gate = tf.ones_like(imitation[0])
    else:
      end = {'deter': seq['deter'][-1], 'stoch': seq['stoch'][-1]}
      args = (self.main.policy, end, self.delta, settings)
      gate = exploration.recovery_gate(rssm, self.disc, *args)
    reward = exploration.explorer_reward(imitation, uncertainty, gate, self._config.explorer)
    bonus = reward - self._config.explorer.imitation * imitation
    metrics = {
      'explorer/uncertainty': tf.reduce_mean(uncertainty),
      'explorer/imitation': tf.reduce_mean(imitation),
      'explorer/bonus': tf.reduce_mean(bonus),
      'disc/explorer': tf.reduce_mean(self.disc.prob(seq['feature'][:-1], seq['action'])),
    }
    return {'reward': reward, 'gate': gate[None]}, metrics

  def _expert_pairs(self, expert, states):
    """What the expert did in s_t: (feature[t], action[t + 1]), unless an episode begins there."""
    feature = self.world_model.rssm.features(states)
    mask = 1 - tf.cast(expert['is_first'][:, 1:], tf.float32)
    return feature[:, :-1], expert['action'][:, 1:], mask

  def _cloned_pairs(self, expert, states):
    """The same pairs for cloning: in sampled beliefs, or in their means, as the policy acts."""
    if self._config.bc_beliefs == 'mean':
      states = {**states, 'stoch': states['mean']}
    return self._expert_pairs(expert, states)

  def _starts(self, data, states, noise):
    """States that seed imagination, and the real pairs (s_t-1, a_t-1) that led to them.

    feature:  s_0  s_1 ... s_T-1        start at s_t; its pair is (s_t-1, action[t]),
    action:   a_0  a_1 ... a_T-1        invalid at t = 0 and where an episode begins or ended
    """
    config, flat = self._config, lambda x: tf.reshape(x, [-1, *x.shape[2:]])
    states = {k: states[k] for k in ('deter', 'stoch')}
    feature = self.world_model.rssm.features(states)
    before = tf.concat([tf.zeros_like(feature[:, :1]), feature[:, :-1]], 1)
    valid = tf.logical_not(tf.logical_or(data['is_first'], data['is_terminal']))
    valid = tf.concat([tf.zeros_like(valid[:, :1]), valid[:, 1:]], 1)
    replay = {'feature': before, 'action': data['action'], 'mask': tf.cast(valid, tf.float32)}
    start, replay = tf.nest.map_structure(flat, (states, replay))
    if noise['starts'] is not None:
      pick = lambda x: tf.gather(x, noise['starts'])
      start, replay = tf.nest.map_structure(pick, (start, replay))
    disc_noise = noise['disc']['replay'] if config.reward_noise == 'both' else 0.0
    logit = self.disc.logit(replay['feature'], replay['action'], disc_noise)
    replay['reward'] = self.disc.reward(logit)
    return start, replay

  # Reports and files

  def report(self, data: dict, context: int = 5) -> dict[str, np.ndarray]:
    """Open-loop videos: truth, prediction and error side by side, uint8 [time, h, w, 3]."""
    data = {k: v[:6] for k, v in self._inputs(data).items()}
    means = self._open_loop(data, tf.constant([0, 0]), context)
    videos = {}
    for key, mean in means.items():
      if len(mean.shape) == 5:
        truth = tf.cast(data[key], tf.float32) / 255
        model = tf.clip_by_value(mean + 0.5, 0, 1)
        grid = tf.concat([truth, model, (model - truth + 1) / 2], 2)
        _, time, height, _, channels = grid.shape
        video = tf.reshape(tf.transpose(grid, [1, 2, 0, 3, 4]), [time, height, -1, channels])
        videos[f'open_loop/{key}'] = tf.cast(video * 255, tf.uint8).numpy()
    return videos

  def _predict(self, data, seed, context: int):
    rows, length = data['is_first'].shape
    noise = self.world_model.rssm.draw(rows, length, tfutils.Seeds(seed))
    return self.world_model.open_loop(data, context, noise)

  def parameters(self) -> dict[str, int]:
    """Stored parameters by part, targets included."""
    count = lambda xs: int(sum(np.prod(x.shape) for x in xs))
    sizes = {
      'world_model': count(self.world_model.variables),
      'discriminator': count(self.disc.variables),
      'main': count(self.main.networks),
    }
    if self.explorer:
      sizes['explorer'] = count(self.explorer.networks)
    return sizes


def ratio(part: tf.Tensor, whole: tf.Tensor) -> tf.Tensor:
  """Of two averages of the whole batch."""
  part, whole = tfutils.all_reduce_mean([part, whole])
  return part / whole
