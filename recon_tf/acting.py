"""A trained agent as a pure function: observation and memory in, action and memory out."""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from recon_tf.baselines.frames import push_frame
from recon_tf.nn import nets, tfutils

Tensors = dict[str, tf.Tensor]


@dataclasses.dataclass(frozen=True)
class Acting:
  """step(obs, is_first, memory) gives actions in [-1, 1] and the next memory, all [batch, ...].

  Memory begins as zeros; is_first says where an episode begins. There is no noise but what the
  planner draws, from the number of the decision.
  """

  inputs: dict[str, tf.TensorSpec]  # of one row
  memory: dict[str, tf.TensorSpec]
  step: Callable[[Tensors, tf.Tensor, Tensors], tuple[tf.Tensor, Tensors]]
  any_batch: bool = True  # one graph serves every batch size; otherwise one row at a time
  scaler: object = None


def acting_of(agent, shapes: dict[str, tuple]) -> Acting:
  """The deployed part of an agent of any kind."""
  kinds = {'recon': recon, 'clone': clone, 'dadac': dadac, 'iqmpc': iqmpc}
  return kinds[agent._config.agent](agent, shapes)


def recon(agent, shapes) -> Acting:
  """Posterior mean and the main actor's mode, as in evaluations."""
  rssm, encoder = agent.world_model.rssm, agent.world_model.encoder
  start = {**rssm.initial(1), 'action': tf.zeros([1, agent._action])}

  def step(obs, is_first, memory):
    belief = {k: memory[k] for k in ('deter', 'stoch')}
    belief = rssm.obs_step(belief, memory['action'], encoder(obs), is_first, 0.0)
    action = agent.main.policy(rssm.features(belief)).mode()
    return action, {**belief, 'action': action}

  return Acting(row_specs(encoder.keys, shapes), row_of(start), step, scaler=agent.scaler)


def clone(agent, shapes) -> Acting:
  step = lambda obs, is_first, memory: (agent._mode(obs), {})
  return Acting(row_specs(agent._keys, shapes), {}, step, scaler=agent.scaler)


def dadac(agent, shapes) -> Acting:
  """Frame stacks and the actor's mode."""
  encoder, stack = agent.encoder, agent._settings.stack
  frames = {k: [*shapes[k][:-1], stack * shapes[k][-1]] for k in encoder.images}

  def step(obs, is_first, memory):
    # In float32, because TFLite cannot choose among bytes.
    frame = lambda k: tf.cast(obs[k], tf.float32)
    push = lambda k: push_frame(memory[f'frames_{k}'], frame(k), is_first, stack)
    stacks = {k: push(k) for k in frames}
    action = agent.actor.mode(encoder({**obs, **stacks}))
    return action, {f'frames_{k}': v for k, v in stacks.items()}

  memory = {f'frames_{k}': tf.TensorSpec(v, tf.float32) for k, v in frames.items()}
  return Acting(row_specs(encoder.keys, shapes), memory, step, scaler=agent.scaler)


def iqmpc(agent, shapes) -> Acting:
  """The planner, whose noise depends on the seed of the run and the number of the decision."""
  how, seed = agent._settings.eval_action, 2 * agent._config.seed + 1
  memory = {**row_of(agent._initial(1)), 'count': tf.TensorSpec([], tf.int32)}

  def step(obs, is_first, memory):
    count = tf.where(is_first, 0, memory['count']) + 1
    state = {k: v for k, v in memory.items() if k != 'count'}
    noise = tf.stack([tf.constant(seed), count[0]])
    nobody = tf.zeros_like(is_first)
    action, state = agent._policy({**obs, 'is_first': is_first}, state, nobody, noise, how)
    return action, {**state, 'count': count}

  inputs = row_specs(agent.model.keys, shapes)
  return Acting(inputs, memory, step, any_batch=False, scaler=agent.scaler)


def row_specs(keys: list[str], shapes: dict[str, tuple]) -> dict[str, tf.TensorSpec]:
  """Images are uint8 [height, width, channels], the rest are float32 vectors."""
  kind = lambda shape: tf.uint8 if len(shape) == 3 else tf.float32
  return {k: tf.TensorSpec(shapes[k], kind(shapes[k])) for k in keys}


def row_of(tensors: Tensors) -> dict[str, tf.TensorSpec]:
  return {k: tf.TensorSpec(v.shape[1:], v.dtype) for k, v in tensors.items()}


def act_function(acting: Acting, middle, half, batch: int | None) -> tf.types.experimental.Callable:
  """One graph for a batch size, None for any: named tensors in, named tensors out.

  In: the observations by name, is_first, and memory_* of the last call. Out: the action in the
  environment's own units, and memory_* for the next call.
  """
  middle, half = (tf.constant(x, tf.float32) for x in (middle, half))

  def act(**tensors):
    obs = {k: tensors[k] for k in acting.inputs}
    memory = {k: tensors[f'memory_{k}'] for k in acting.memory}
    action, memory = acting.step(obs, tensors['is_first'], memory)
    own = middle + half * tf.clip_by_value(action, -1, 1)
    return {'action': own, **{f'memory_{k}': v for k, v in memory.items()}}

  specs = {**acting.inputs, 'is_first': tf.TensorSpec([], tf.bool)}
  specs |= {f'memory_{k}': v for k, v in acting.memory.items()}
  named = {k: tf.TensorSpec([batch, *v.shape], v.dtype, k) for k, v in specs.items()}
  with nets.native_acts():
    return tfutils.function(act).get_concrete_function(**named)
