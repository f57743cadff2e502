"""The trained agent of a run folder, and what it makes of recorded sequences.

Nothing is written into the run.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from recon_tf import envs
from recon_tf.analysis.runs import Run
from recon_tf.common import Checkpoint, Driver, UserError
from recon_tf.common.episodes import Episode
from recon_tf.make_agent import make_agent
from recon_tf.nn import tfutils
from recon_tf.nn.tfutils import Seeds


@dataclasses.dataclass(frozen=True, eq=False)
class Trained:
  """An agent as its newest checkpoint left it."""

  run: Run
  agent: object
  meta: dict  # of the checkpoint: step and counters
  env: envs.Worker


@contextlib.contextmanager
def trained(run: Run) -> Iterator[Trained]:
  """Loads the newest checkpoint; the environment closes at the end."""
  config = run.config
  found = Checkpoint(run.path / 'checkpoints').load()
  if found is None:
    raise UserError(f"'{run.path}' has no readable checkpoint; let the run get beyond pretraining.")
  arrays, meta = found
  env = envs.Worker(config.task, config, config.seed)
  try:
    agent = make_agent(config, env.obs_space, env.act_space)
    agent.restore(arrays)
    yield Trained(run, agent, meta, env)
  finally:
    env.close()


def rollouts(trained: Trained, mode: str, count: int, seed: int) -> list[Episode]:
  """Fresh episodes of the agent in its environment."""
  episodes, driver = [], Driver([trained.env], seed)
  driver.on_episode(lambda episode, _: episodes.append(episode))
  driver(lambda obs, state: trained.agent.policy(obs, state, mode), count)
  return episodes


class Deployed:
  """Another actor on this agent's beliefs, in deployment: posterior means and modes."""

  def __init__(self, agent, actor: Callable, actions: int):
    self._world, self._actor, self._actions = agent.world_model, actor, actions
    self._step = tfutils.function(self._act)

  def policy(self, obs: dict, state=None, mode: str = 'eval') -> tuple[dict, dict]:
    """As Agent.policy, whatever the mode."""
    if state is None:
      count = len(obs['is_first'])
      state = self._world.rssm.initial(count)
      state['action'] = tf.zeros([count, self._actions])
    state = self._step({k: obs[k] for k in (*self._world.encoder.keys, 'is_first')}, state)
    return {'action': state['action'].numpy()}, state

  def _act(self, obs, state):
    rssm, belief = self._world.rssm, {k: state[k] for k in ('deter', 'stoch')}
    noise = tf.zeros_like(state['stoch'])
    embed = self._world.encoder(obs)
    belief = rssm.obs_step(belief, state['action'], embed, obs['is_first'], noise)
    return {**belief, 'action': self._actor(rssm.features(belief)).mode()}


# Sequences


def inputs(agent, batch: Episode) -> dict[str, tf.Tensor]:
  """The keys that the world model reads, as tensors [batch, time, ...]."""
  model = agent.world_model
  keys = {*model.encoder.keys, *model.decoder.keys, 'action', 'is_first'}
  return {k: tf.convert_to_tensor(batch[k]) for k in sorted(keys)}


def quiet_noise(rssm, rows: int, length: int) -> dict[str, tf.Tensor]:
  """No sampling: posterior means, and always the first head for the prior that nobody reads."""
  return rssm.draw(rows, length, _Zeros())


class _Zeros:
  """Stands where Seeds stands and draws nothing at random."""

  def normal(self, shape) -> tf.Tensor:
    return tf.zeros(shape)

  def onehot(self, shape, depth: int) -> tf.Tensor:
    return tf.one_hot(tf.zeros(shape, tf.int32), depth)


def beliefs(agent, batch: Episode, seed: int | None = None) -> dict[str, tf.Tensor]:
  """Posterior states [batch, time, ...] of recorded sequences: means, or samples with a seed."""
  data, model = inputs(agent, batch), agent.world_model
  noise = quiet_noise(model.rssm, *batch['action'].shape[:2])
  if seed is not None:
    noise = model.rssm.draw(*batch['action'].shape[:2], Seeds(tf.constant([seed, 7])))
  post, _ = model.rssm.observe(model.encoder(data), data['action'], data['is_first'], noise)
  return {k: post[k] for k in ('deter', 'stoch')}


def pairs(
  agent, batch: Episode, seed: int | None = None
) -> tuple[tf.Tensor, tf.Tensor, np.ndarray]:
  """What was done in which belief: (feature[t], action[t + 1]) and where that holds."""
  feature = agent.world_model.rssm.features(beliefs(agent, batch, seed))
  valid = ~batch['is_first'][:, 1:]
  return feature[:, :-1], tf.constant(batch['action'][:, 1:]), valid


def reconstruct(agent, batch: Episode) -> dict[str, np.ndarray]:
  """Decoded means at every step, images in [0, 1]."""
  model = agent.world_model
  return _decoded(model.decode(model.rssm.features(beliefs(agent, batch))))


def predict(agent, batch: Episode, context: int) -> dict[str, np.ndarray]:
  """Decoded means: after the context the prior alone, on the recorded actions."""
  data = inputs(agent, batch)
  noise = quiet_noise(agent.world_model.rssm, *batch['action'].shape[:2])
  return _decoded(agent.world_model.open_loop(data, context, noise))


def _decoded(means: dict[str, tf.Tensor]) -> dict[str, np.ndarray]:
  image = lambda x: np.clip(x + 0.5, 0, 1)
  return {k: image(v.numpy()) if len(v.shape) == 5 else v.numpy() for k, v in means.items()}
