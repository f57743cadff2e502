"""Makes the agent that a config names; all of them go through the same loop."""

from recon_tf.agent import Agent
from recon_tf.baselines.clone.agent import Clone
from recon_tf.baselines.dadac.agent import DADAC
from recon_tf.baselines.iqmpc.agent import IQMPC
from recon_tf.common.errors import UserError, nearest


def make_agent(config, obs_space: dict, act_space: dict):
  """The agent of config.agent: policy, train, clone, report, state, restore, save, load."""
  kinds = {'recon': Agent, 'clone': Clone, 'dadac': DADAC, 'iqmpc': IQMPC}
  if config.agent not in kinds:
    raise UserError(f"agent: '{config.agent}' is unknown.{nearest(config.agent, kinds)}")
  return kinds[config.agent](config, obs_space, act_space)


def sequences(config) -> tuple[int, int]:
  """Sequences of replay and demonstrations in an update; a baseline's batch needs no more."""
  sizes = config.replay.batch, config.replay.expert_batch
  limits = {'dadac': config.dadac.batch, 'iqmpc': config.iqmpc.batch}
  return tuple(min(x, limits.get(config.agent, x)) for x in sizes)
