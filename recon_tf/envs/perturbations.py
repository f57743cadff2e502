"""Perturbations of the paper's robustness protocol, for any task.

Actions: noise, delay, impulse, dropout, scale, and kicks, which are ours. Dynamics, by editing
the MuJoCo model: mass, friction, mass_friction. In the point mazes contacts have no friction, so
there friction means the joints' damping. Perturbations stack, and last until env.restore().
"""

import copy
import inspect
from collections.abc import Mapping

import numpy as np

from recon_tf.common.errors import UserError, nearest
from recon_tf.envs.render import mujoco
from recon_tf.envs.wrappers import ActionWrapper, Wrapper

# Keys an episode's random numbers, apart from those of the environment.
NOISE, DROPOUT, KICKS = 1, 2, 3
# All that mj_setConst derives from masses. It also measures the scene anew (cameras, extent),
# which would change the picture, so the rest of its work is not taken over.
MASS_ARRAYS = (
  'body_mass',
  'body_inertia',
  'body_subtreemass',
  'body_invweight0',
  'dof_M0',
  'dof_invweight0',
  'tendon_invweight0',
  'actuator_acc0',
)
MASS_STATISTICS = ('meaninertia', 'meanmass')


class Perturbation(ActionWrapper):
  """An action perturbation; its random numbers follow from the episode's seed and step."""

  def restore(self):
    """The environment without this and all other perturbations."""
    return self.env.restore()

  def change(self, action: np.ndarray) -> np.ndarray:
    return action

  def _random(self, key: int) -> np.random.Generator:
    return np.random.default_rng([*self.env.entropy, key, self.env.steps])


class Noise(Perturbation):
  """Adds independent Gaussian noise to every component."""

  def __init__(self, env, sigma: float = 0.05):
    super().__init__(env)
    self._sigma = _at_least(0, 'sigma', sigma)

  def change(self, action: np.ndarray) -> np.ndarray:
    return action + self._sigma * self._random(NOISE).standard_normal(action.shape)


class Delay(Perturbation):
  """Executes the action of some decisions ago; zeros until there is one."""

  def __init__(self, env, steps: int = 1):
    super().__init__(env)
    if _at_least(0, 'steps', steps) != int(steps):
      raise UserError(f"perturbation 'delay': steps must be a whole number, not {steps}.")
    self._steps = int(steps)
    # Delays may stack, and each saves its own queue.
    self.delays = 1 + getattr(env, 'delays', 0)
    self._clear()

  def reset(self, seed: int | None = None) -> dict[str, np.ndarray]:
    self._clear()
    return super().reset(seed)

  def change(self, action: np.ndarray) -> np.ndarray:
    queue = np.concatenate([self._queue, action[None]])
    self._queue = queue[1:]
    return queue[0]

  def get_state(self) -> dict[str, np.ndarray]:
    return {**self.env.get_state(), f'delay_{self.delays}': self._queue.copy()}

  def set_state(self, state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    self._clear()
    # A state saved without the delay starts with an empty queue.
    saved = state.get(f'delay_{self.delays}')
    if saved is not None and saved.shape == self._queue.shape:
      self._queue = np.array(saved)
    return self.env.set_state(state)

  def _clear(self) -> None:
    self._queue = np.zeros((self._steps, *self.env.act_space['action'].shape))


class Impulse(Perturbation):
  """Adds a signed number to every component of the one action at decision `at`."""

  def __init__(self, env, size: float = 0.15, at: int = 50):
    super().__init__(env)
    self._size = float(size)
    self._at = int(_at_least(0, 'at', at))

  def change(self, action: np.ndarray) -> np.ndarray:
    return action + self._size if self.env.steps == self._at else action


class Dropout(Perturbation):
  """Sets every component to zero with some probability."""

  def __init__(self, env, prob: float = 0.1):
    super().__init__(env)
    if not 0 <= prob <= 1:
      raise UserError(f"perturbation 'dropout': prob must be from 0 to 1, not {prob}.")
    self._prob = prob

  def change(self, action: np.ndarray) -> np.ndarray:
    return action * (self._random(DROPOUT).random(action.shape) >= self._prob)


class Scale(Perturbation):
  """Multiplies the action."""

  def __init__(self, env, factor: float = 0.85):
    super().__init__(env)
    self._factor = _at_least(0, 'factor', factor)

  def change(self, action: np.ndarray) -> np.ndarray:
    return self._factor * action


class Kicks(Perturbation):
  """Pushes at full force in a random direction, for whole stretches of decisions by chance."""

  def __init__(self, env, chance: float = 0.2, steps: int = 8):
    super().__init__(env)
    if not 0 <= chance <= 1:
      raise UserError(f"perturbation 'kicks': chance must be from 0 to 1, not {chance}.")
    self._chance = chance
    self._steps = int(_at_least(1, 'steps', steps))

  def change(self, action: np.ndarray) -> np.ndarray:
    stretch = self.env.steps // self._steps
    rng = np.random.default_rng([*self.env.entropy, KICKS, stretch])
    if rng.random() >= self._chance:
      return action
    direction = rng.standard_normal(action.shape)
    return direction / np.abs(direction).max()


class MassFriction(Wrapper):
  """Scales masses with their inertia, and friction (in the mazes: joint damping)."""

  def __init__(self, env, mass: float = 1.25, friction: float = 1.5):
    super().__init__(env)
    if env.model is None:
      raise UserError(f'{env.task}: has no MuJoCo model, so mass and friction cannot be scaled.')
    for name, factor in (('mass', mass), ('friction', friction)):
      if not 0 < factor < np.inf:
        raise UserError(f'perturbation: the factor of {name} must be above 0, not {factor}.')
    model = env.model
    self._arrays = {k: getattr(model, k).copy() for k in (*MASS_ARRAYS, *env.friction)}
    self._statistics = {k: getattr(model.stat, k) for k in MASS_STATISTICS}
    if mass != 1:
      _scale_mass(model, mass)
    for name in env.friction:
      getattr(model, name)[:] *= friction

  def restore(self):
    """Puts the saved arrays back, bit for bit, then removes what lies beneath."""
    model = self.env.model
    for name, value in self._arrays.items():
      getattr(model, name)[:] = value
    for name, value in self._statistics.items():
      setattr(model.stat, name, value)
    return self.env.restore()


class Mass(MassFriction):
  """Scales masses with their inertia."""

  def __init__(self, env, factor: float = 1.25):
    super().__init__(env, mass=factor, friction=1.0)


class Friction(MassFriction):
  """Scales friction (in the mazes: joint damping)."""

  def __init__(self, env, factor: float = 1.5):
    super().__init__(env, mass=1.0, friction=factor)


PERTURBATIONS = {
  'noise': Noise,
  'delay': Delay,
  'impulse': Impulse,
  'dropout': Dropout,
  'scale': Scale,
  'kicks': Kicks,
  'mass': Mass,
  'friction': Friction,
  'mass_friction': MassFriction,
}


def perturb(env, name: str, **kwargs):
  """The environment with one more perturbation; perturb.remove(env) takes all of them off."""
  if name not in PERTURBATIONS:
    known = ', '.join(PERTURBATIONS)
    hint = nearest(name, PERTURBATIONS)
    raise UserError(f"unknown perturbation '{name}'.{hint} There are {known}.")
  cls = PERTURBATIONS[name]
  known = list(inspect.signature(cls).parameters)[1:]
  for key, value in kwargs.items():
    if key not in known:
      raise UserError(f"perturbation '{name}': no parameter '{key}'; it has {', '.join(known)}.")
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
      raise UserError(f"perturbation '{name}': {key} must be a number, not {value!r}.")
  return cls(env, **kwargs)


def remove(env):
  """The environment without any perturbation, its model as it was."""
  return env.restore()


perturb.remove = remove


def _scale_mass(model, factor: float) -> None:
  scaled = copy.copy(model)
  scaled.body_mass[:] *= factor
  scaled.body_inertia[:] *= factor
  # Without this the simulator keeps quantities of the old masses (and the maze ignores them).
  mujoco.mj_setConst(scaled, mujoco.MjData(scaled))
  for name in MASS_ARRAYS:
    getattr(model, name)[:] = getattr(scaled, name)
  for name in MASS_STATISTICS:
    setattr(model.stat, name, getattr(scaled.stat, name))


def _at_least(low: float, name: str, value: float) -> float:
  if not low <= value < np.inf:
    raise UserError(f'perturbation: {name} must be {low} or more, not {value}.')
  return value
