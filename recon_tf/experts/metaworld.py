"""Meta-World's own scripted policies, clipped to the action bounds."""

import warnings

import numpy as np


class MetaworldExpert:
  """The policy that ships with the task; it reads the full state, goal included."""

  def __init__(self, env):
    from metaworld.policies import ENV_POLICY_MAP  # slow import, only for its tasks

    name = env.task.removeprefix('metaworld_')
    self.policy = ENV_POLICY_MAP[f'{name}-v3']()

  def __call__(self, obs: dict) -> np.ndarray:
    state = np.array(obs['state'], np.float64)
    state[-3:] = obs['log_goal']  # hidden from the agent
    with warnings.catch_warnings():
      warnings.simplefilter('ignore')  # it warns at every action that we clip
      action = self.policy.get_action(state)
    return np.clip(action, -1, 1).astype(np.float32)
