"""Wrappers that behave like the environment they hold."""

from collections.abc import Mapping

import numpy as np


class Wrapper:
  """Passes everything on; subclasses override what they change."""

  def __init__(self, env):
    self.env = env

  def __getattr__(self, name: str):
    if name.startswith('_') or name == 'env':
      raise AttributeError(f'{type(self).__name__} has no attribute {name!r}')
    return getattr(self.env, name)

  def reset(self, seed: int | None = None) -> dict[str, np.ndarray]:
    return self.env.reset(seed)

  def step(self, action: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return self.env.step(action)


class ActionWrapper(Wrapper):
  """Changes the action on its way to the environment; log_action shows what was executed."""

  def change(self, action: np.ndarray) -> np.ndarray:
    """The action to execute instead; it is clipped to the bounds afterwards."""
    raise NotImplementedError

  def step(self, action: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    # Clipped first: what is outside the bounds was never a command.
    wanted = np.clip(np.asarray(action['action'], np.float64), -1.0, 1.0)
    return self.env.step({**action, 'action': np.clip(self.change(wanted), -1.0, 1.0)})
