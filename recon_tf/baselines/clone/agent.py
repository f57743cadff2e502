"""The plain clone: squared error of one network on standardised vectors, without a model."""

import numpy as np
import tensorflow as tf

from recon_tf.agent import IGNORED
from recon_tf.common.errors import UserError
from recon_tf.discriminator import masked_mean
from recon_tf.nn import nets, tfutils
from recon_tf.nn.checkpointable import Stored
from recon_tf.nn.scaler import Scaler


class Clone(Stored):
  """Learns from pairs of demonstrations alone, in the pretraining of the common loop."""

  def __init__(self, config, obs_space: dict, act_space: dict):
    self._config, self._action = config, act_space['action'].shape[0]
    shapes = {k: tuple(v.shape) for k, v in obs_space.items() if k not in IGNORED}
    shapes = {k: v for k, v in shapes.items() if not k.startswith('log_')}
    self._keys = [*nets.select(shapes, config.encoder.mlp_keys, 1)]
    if not self._keys:
      raise UserError(
        f'bc_raw clones from vectors, and encoder.mlp_keys match none of {[*shapes]}; add the '
        "preset 'state'."
      )
    self._build(shapes)
    self._learn_step, self._act_step = self._learn, self._mode
    if not config.eager:
      self._learn_step = tfutils.function(self._learn, config.jit)
      self._act_step = tfutils.direct(self._mode)

  def _build(self, shapes: dict[str, tuple]) -> None:
    config, settings = self._config, self._config.clone
    rng = np.random.default_rng([config.seed, 1])
    self.scaler = Scaler(shapes)
    inputs = sum(shapes[k][0] for k in self._keys)
    self.actor = nets.MLP(rng, inputs, settings.layers, 'relu', self._action)
    options = {'lr': settings.lr, 'clip': 0.0, 'decay': config.pretrain}
    self.actor_opt = tfutils.Optimizer('main/bc', self.actor.variables, **options)
    counter = lambda: tfutils.variable(np.zeros((), np.int32), trainable=False)
    self.updates, self.acts = counter(), counter()

  def policy(self, obs: dict, state=None, mode='train') -> tuple[dict[str, np.ndarray], dict]:
    """The cloned action for a batch of observations; it has no memory and no randomness."""
    count = len(obs['is_first'])
    self.acts.assign_add(1)  # per call in any mode, as every agent counts
    if isinstance(mode, str) and mode == 'random':
      rng = np.random.default_rng([self._config.seed, int(self.acts.numpy())])
      action = rng.uniform(-1, 1, (count, self._action)).astype(np.float32)
    else:
      action = self._act_step({k: obs[k] for k in self._keys}).numpy()
    return {'action': action, 'log_explorer': np.zeros(count, np.float32)}, state or {}

  def _mode(self, obs: dict) -> tf.Tensor:
    return tf.tanh(self.actor(tf.concat([self.scaler.scale(k, obs[k]) for k in self._keys], -1)))

  def train(self, data: dict, expert: dict) -> dict[str, tf.Tensor]:
    """One update on pairs (obs[t], action[t + 1]) of the demonstrations; `data` are not used."""
    self.updates.assign_add(1)
    missing = [k for k in self._keys if k not in expert]
    if missing:
      raise UserError(f'the data lack {missing}, which this task observes.')
    keys = (*self._keys, 'action', 'is_first')
    return self._learn_step({k: tf.convert_to_tensor(expert[k]) for k in keys})

  def clone(self, data: dict, expert: dict) -> dict[str, tf.Tensor]:
    return self.train(data, expert)

  def _learn(self, expert: dict) -> dict[str, tf.Tensor]:
    mask = 1 - tf.cast(expert['is_first'][:, 1:], tf.float32)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      tape.watch(self.actor.variables)
      action = self._mode({k: expert[k][:, :-1] for k in self._keys})
      error = tf.reduce_sum((action - expert['action'][:, 1:]) ** 2, -1)
      loss = masked_mean(error, mask)
    return self.actor_opt.step(tape, loss)

  def report(self, data: dict) -> dict[str, np.ndarray]:
    """There is no model whose predictions could be shown."""
    return {}

  def parameters(self) -> dict[str, int]:
    return {'actor': int(sum(np.prod(x.shape) for x in self.actor.variables))}
