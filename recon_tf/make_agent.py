"""Makes the agent that a config names; all of them go through the same loop."""

from recon_tf.agent import Agent
from recon_tf.baselines.clone.agent import Clone
from recon_tf.baselines.dadac.agent import DADAC
from recon_tf.baselines.iqmpc.agent import IQMPC
from recon_tf.common.errors import UserError


def make_agent(config, obs_space: dict, act_space: dict):
  """The agent of config.agent: policy, train, clone, report, state, restore, save, load."""
  check_together(config)
  kinds = {'recon': Agent, 'clone': Clone, 'dadac': DADAC, 'iqmpc': IQMPC}
  return kinds[config.agent](config, obs_space, act_space)


def check_together(config) -> None:
  """Refuses values that are allowed each but not together."""
  pairs = {
    ('gate.tail', 'gate.horizon'): config.gate.tail <= config.gate.horizon,
    ('actor.min_std', 'actor.max_std'): config.actor.min_std <= config.actor.max_std,
    ('iqmpc.min_std', 'iqmpc.max_std'): config.iqmpc.min_std <= config.iqmpc.max_std,
  }
  for (small, large), fits in pairs.items():
    if not fits:
      raise UserError(
        f"Key '{small}' is {config[small]}, too much for '{large}', which is {config[large]}."
      )


def sequences(config) -> tuple[int, int]:
  """Sequences of replay and demonstrations per update."""
  if config.agent in ('dadac', 'iqmpc'):
    return (config[config.agent].batch,) * 2
  return config.replay.batch, config.replay.expert_batch
