"""Makes the agent that a config names; all of them go through the same loop."""

from recon_tf.agent import Agent
from recon_tf.baselines.clone.agent import Clone
from recon_tf.baselines.dadac.agent import DADAC
from recon_tf.baselines.iqmpc.agent import IQMPC


def make_agent(config, obs_space: dict, act_space: dict):
  """The agent of config.agent: policy, train, clone, report, state, restore, save, load."""
  kinds = {'recon': Agent, 'clone': Clone, 'dadac': DADAC, 'iqmpc': IQMPC}
  return kinds[config.agent](config, obs_space, act_space)


def sequences(config) -> tuple[int, int]:
  """Sequences of replay and demonstrations per update."""
  if config.agent in ('dadac', 'iqmpc'):
    return (config[config.agent].batch,) * 2
  return config.replay.batch, config.replay.expert_batch
