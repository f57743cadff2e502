"""Makes the agent that a config names; all of them go through the same loop."""

from recon_tf.agent import Agent
from recon_tf.baselines.dadac import DADAC
from recon_tf.baselines.iqmpc import IQMPC
from recon_tf.common.errors import UserError, nearest


def make_agent(config, obs_space: dict, act_space: dict):
  """The agent of config.agent: policy, train, clone, report, state, restore, save, load."""
  kinds = {'recon': Agent, 'dadac': DADAC, 'iqmpc': IQMPC}
  if config.agent not in kinds:
    raise UserError(f"agent: '{config.agent}' is unknown.{nearest(config.agent, kinds)}")
  return kinds[config.agent](config, obs_space, act_space)
