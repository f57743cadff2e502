"""What all suites share: dict observations, seeds, time limits, success, saved states."""

import abc
from collections.abc import Mapping

import gymnasium
import numpy as np

from recon_tf.common.errors import UserError
from recon_tf.envs.render import Renderer, mujoco

Box = gymnasium.spaces.Box


class Environment(abc.ABC):
  """An environment in DreamerV2's form; a suite fills in the underscored methods.

  A subclass sets model, data, _actions and _renderer before it calls _ready().
  """

  success_task = False
  # Arrays of the model that hold the layout of the episode.
  layout: tuple[str, ...] = ()
  # The task's own units: middle and half of the range that -1 to 1 stands for.
  _middle, _half = 0.0, 1.0
  # What 'friction' means to the perturbations.
  friction: tuple[str, ...] = ('geom_friction', 'pair_friction')

  def __init__(self, task: str, length: int, repeat: int, seed: int, own: int = 0):
    self.task = task
    self.length = length
    # Decisions of the task's own episodes, however long they are made here.
    self.full = own or length
    self.repeat = repeat
    # Simulator steps per repeat; the suites set theirs.
    self.substeps = 1
    self.seed = check_seed(seed)
    self.model = None
    self.data = None
    self.episodes = 0
    self._renderer: Renderer | None = None
    self._entropy = [self.seed]
    self._count = 0
    self._success = 0.0
    self._running = False
    self._ended = False

  # What a suite provides

  @abc.abstractmethod
  def _reset(self, rng: np.random.Generator) -> None:
    """Starts an episode that depends on rng alone."""

  @abc.abstractmethod
  def _step(self, action: np.ndarray) -> tuple[float, bool]:
    """One decision with a clipped float64 action; returns reward and whether it is terminal.

    An end that is not terminal, apart from the time limit, sets _ended.
    """

  @abc.abstractmethod
  def _vectors(self) -> dict[str, np.ndarray]:
    """Observed vectors."""

  def _logs(self) -> dict[str, np.ndarray]:
    """Privileged state; names start with log_."""
    return {}

  def _solved(self) -> bool:
    """Whether the task is solved in the current state (success tasks)."""
    return False

  def _images(self) -> dict[str, np.ndarray]:
    """Rendered images; none if rendering is off."""
    return {'image': self._renderer(self.data)} if self._renderer else {}

  def _save(self) -> dict[str, np.ndarray]:
    """What the suite keeps outside the simulator."""
    return {}

  def _load(self, state: Mapping[str, np.ndarray]) -> None:  # noqa: B027 (optional)
    """The inverse of _save."""

  # The interface

  def reset(self, seed: int | None = None) -> dict[str, np.ndarray]:
    """First observation; with a seed the episode depends on that seed alone."""
    if seed is None:
      self._entropy = [self.seed, self.episodes]
      self.episodes += 1
    else:
      self._entropy = [check_seed(seed)]
    self._count = 0
    self._success = 0.0
    self._running = True
    self._ended = False
    self._reset(np.random.default_rng(np.random.SeedSequence(self._entropy)))
    return self._observe(np.zeros(self._actions), 0.0, False, is_first=True)

  def step(self, action: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Applies action['action'], clipped to [-1, 1], and returns the next observation."""
    if not self._running:
      raise RuntimeError(f'{self.task}: call reset() first; the episode is over or not begun.')
    action = np.asarray(action['action'], np.float64)
    if action.shape != (self._actions,):
      raise UserError(f'{self.task}: action has shape {action.shape}, needs ({self._actions},).')
    if not np.isfinite(action).all():
      raise UserError(f'{self.task}: the action at step {self._count} is not finite.')
    action = np.clip(action, -1.0, 1.0)
    reward, terminal = self._step(action)
    self._count += 1
    return self._observe(action, reward, terminal)

  def get_state(self) -> dict[str, np.ndarray]:
    """Everything that set_state needs to continue from here, as float64 arrays."""
    self._require_simulator()
    spec = mujoco.mjtState.mjSTATE_INTEGRATION
    physics = np.empty(mujoco.mj_stateSize(self.model, spec))
    mujoco.mj_getState(self.model, self.data, physics, spec)
    state = {
      'physics': physics,
      # Touch sensors lag by a step: they cannot be recomputed from positions.
      'sensors': self.data.sensordata.copy(),
      'entropy': np.array(self._entropy, np.float64),
      'counters': np.array([self._count, self._success, self._running]),
    }
    state.update({f'model_{x}': getattr(self.model, x).copy() for x in self.layout})
    state.update(self._save())
    return {k: np.asarray(v, np.float64) for k, v in state.items()}

  def set_state(self, state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Goes back to a saved state and returns its observation (reward 0, not first)."""
    self._require_simulator()
    if self._never_reset:
      self.reset(0)
    self._entropy = [int(x) for x in state['entropy']]
    count, success, running = state['counters']
    self._count, self._success, self._running = int(count), float(success), bool(running)
    self._ended = not self._running
    for name in self.layout:
      getattr(self.model, name)[:] = state[f'model_{name}']
    spec = mujoco.mjtState.mjSTATE_INTEGRATION
    mujoco.mj_setState(self.model, self.data, state['physics'], spec)
    mujoco.mj_forward(self.model, self.data)
    # mj_forward overwrites the solver's warm start, which the next step reads.
    mujoco.mj_setState(self.model, self.data, state['physics'], spec)
    self.data.sensordata[:] = state['sensors']
    self._load(state)
    return self._observe(np.zeros(self._actions), 0.0, False, is_first=self._count == 0)

  def render(self) -> np.ndarray | None:
    """The current image, None if rendering is off."""
    return self._images().get('image')

  def restore(self) -> 'Environment':
    """The environment without perturbations: itself."""
    return self

  def close(self) -> None:
    if self._renderer:
      self._renderer.close()
      self._renderer = None

  # Helpers

  @property
  def own_units(self) -> dict:
    """The task's own actions: shape, type, what -1 and 1 are; shapes of images before resizing."""
    low, high = (self._middle + sign * self._half * np.ones(self._actions) for sign in (-1, 1))
    own = {'shape': [self._actions], 'dtype': 'float32', 'low': low, 'high': high}
    return {**own, 'sources': {}, 'repeat': self.repeat}

  @property
  def entropy(self) -> list[int]:
    """The numbers that this episode's randomness comes from."""
    return list(self._entropy)

  @property
  def steps(self) -> int:
    """Decisions made in this episode."""
    return self._count

  @property
  def _never_reset(self) -> bool:
    return not self._running and self._count == 0

  def _require_simulator(self) -> None:
    if self.model is None:
      raise UserError(f'{self.task}: has no MuJoCo model, so its state cannot be saved or edited.')

  def _ready(self) -> None:
    """Derives the spaces from one observation."""
    self.act_space = {'action': Box(-1.0, 1.0, (self._actions,), np.float32)}
    # Only shapes are read here: a real reset comes from the user.
    self._reset(np.random.default_rng(0))
    obs = self._observe(np.zeros(self._actions), 0.0, False, is_first=True)
    self.obs_space = {k: _space(v) for k, v in obs.items()}
    self._running = False
    self._success = 0.0

  def _observe(
    self, action: np.ndarray, reward: float, terminal: bool, is_first: bool = False
  ) -> dict[str, np.ndarray]:
    obs = {k: np.asarray(v, np.float32).reshape(-1) for k, v in self._vectors().items()}
    obs.update(self._images())
    last = bool(terminal or self._ended or self._count >= self.length)
    if last:
      self._running = False
    obs['reward'] = np.float32(reward)
    obs['is_first'] = np.bool_(is_first)
    obs['is_last'] = np.bool_(last)
    obs['is_terminal'] = np.bool_(terminal)
    obs['log_action'] = np.asarray(action, np.float32)
    if self.success_task:
      now = float(self._solved())
      self._success = max(self._success, now)
      obs['log_success'] = np.float32(self._success)
      obs['log_success_now'] = np.float32(now)
    obs.update({k: np.asarray(v, np.float32) for k, v in self._logs().items()})
    return obs


def check_seed(seed: int) -> int:
  """A seed as an integer that SeedSequence and float64 can both hold."""
  if isinstance(seed, bool) or int(seed) != seed or not 0 <= seed < 2**53:
    raise UserError(f'seed: must be a whole number from 0 to 2**53 - 1, not {seed}.')
  return int(seed)


def decisions(length: int, own: int, repeat: int) -> int:
  """Decisions per episode: as configured, or the task's simulated time at this repeat."""
  if length < 0:
    raise UserError(f'env.length: must be 0 or more, not {length}.')
  return length or -(-own // repeat)


def repeats(repeat: int, own: int) -> int:
  """Simulator steps per decision: as configured, or the suite's own."""
  if repeat < 0:
    raise UserError(f'env.repeat: must be 0 or more, not {repeat}.')
  return repeat or own


def numbers(obj: object) -> dict[str, np.ndarray]:
  """An object's numeric attributes, without live views of simulator memory."""
  found = {}
  for name, value in vars(obj).items():
    if isinstance(value, bool | int | float | np.number | np.bool_ | np.ndarray):
      value = np.asarray(value)
      if value.dtype.kind in 'biuf' and not _is_live(value):
        found[name] = value.astype(np.float64)
  return found


def assign_numbers(obj: object, values: Mapping[str, np.ndarray]) -> None:
  """Puts back what numbers() found, each in the type the attribute has now."""
  for name, value in values.items():
    now = getattr(obj, name, None)
    if isinstance(now, bool | int | float):
      setattr(obj, name, type(now)(value))
    else:
      dtype = now.dtype if isinstance(now, np.ndarray | np.generic) else np.float64
      setattr(obj, name, np.array(value, dtype))


def _is_live(array: np.ndarray) -> bool:
  while isinstance(array, np.ndarray):
    array = array.base
  return array is not None


def _space(value: np.ndarray) -> Box:
  value = np.asarray(value)
  if value.dtype == np.uint8:
    return Box(0, 255, value.shape, np.uint8)
  if value.dtype == bool:
    return Box(0, 1, value.shape, bool)
  return Box(-np.inf, np.inf, value.shape, np.float32)
