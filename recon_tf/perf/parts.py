"""The parts of an update as programs of their own, to be timed and counted one by one."""

from collections.abc import Callable

import tensorflow as tf

from recon_tf import explorer
from recon_tf.nn.tfutils import Seeds, function


def model(agent, data, expert, noise):
  return agent._train_model(data, expert, noise)


def main(agent, start, replay, cloned, noise, rewards):
  replay = replay if agent._config.main.replay_critic else None
  own = {**noise, 'reward': rewards}
  return agent.main.train(agent.world_model.rssm, start, agent._main_reward, cloned, own, replay)


def discriminator(agent, pairs, seq, noise):
  return agent._train_disc(pairs, seq, noise)


def explore(agent, start, cloned, noise, rewards):
  own = {**noise, 'reward': rewards}
  return agent.explorer.train(agent.world_model.rssm, start, agent._explorer_reward, cloned, own)


def gate(agent, end):
  """Forward, and back to the end of the explorer's rollouts."""
  with tf.GradientTape(watch_accessed_variables=False) as tape:
    tape.watch(end)
    args = (agent.main.policy, end, agent.delta, agent._config.gate)
    opened = explorer.recovery_gate(agent.world_model.rssm, agent.disc, *args)
  return opened, tape.gradient(opened, end)


def clone(agent, expert, states):
  return agent._train_clone(expert, states)


PARTS = {
  'world model': model,
  'main': main,
  'discriminator': discriminator,
  'explorer and gate': explore,
  'gate alone': gate,
  'cloning': clone,
}


def prepare(
  agent, data: dict, expert: dict, compiled: Callable
) -> dict[str, tuple[Callable, tuple]]:
  """name → (program, its inputs), for every part that the agent has.

  The inputs are those of an update; `compiled` makes programs of functions.
  """
  data, expert = agent._inputs(data), agent._inputs(expert)
  seeds = Seeds(tf.constant([0, 0]))
  given = {'world model': (data, expert, agent._draw_model(data, expert, seeds))}
  states, _ = agent._model_step(*given['world model'])
  noise = agent._draw_behaviors(data, expert, seeds)
  start, replay = agent._starts(data, states[0], noise)
  pairs, cloned = agent._expert_pairs(expert, states[1]), agent._cloned_pairs(expert, states[1])
  given['main'] = start, replay, cloned, noise['main'], noise['disc']['main']
  programs = {'world model': agent._model_step, 'main': compiled(bound(main, agent))}
  seq, _ = programs['main'](*given['main'])
  given['discriminator'] = pairs, {k: seq[k] for k in ('feature', 'action')}, noise['disc']
  given['cloning'] = expert, states
  if agent.explorer:
    given['explorer and gate'] = start, cloned, noise['explorer'], noise['disc']['explorer']
    if agent._config.gate.kind != 'none':
      given['gate alone'] = ({k: seq[k][-1] for k in ('deter', 'stoch')},)
  for name in given:
    if name not in programs:
      programs[name] = compiled(bound(PARTS[name], agent))
  return {k: (programs[k], given[k]) for k in PARTS if k in given}


def noise(agent, data: dict, expert: dict) -> Callable:
  """Draws the noise of an update, which is outside of XLA and has no product."""

  def draw(seed):
    seeds = Seeds(seed)
    return agent._draw_model(data, expert, seeds), agent._draw_behaviors(data, expert, seeds)

  data, expert = agent._inputs(data), agent._inputs(expert)
  program, seed = function(draw), tf.constant([0, 0])
  return lambda: program(seed)


def bound(fn: Callable, agent) -> Callable:
  return lambda *inputs: fn(agent, *inputs)
