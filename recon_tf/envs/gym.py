"""Any registered Gymnasium environment with continuous actions: gym_<id>."""

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator, Mapping

import gymnasium
import numpy as np
from gymnasium import spaces

from recon_tf.common.errors import UserError, nearest
from recon_tf.common.pixels import fit_image, is_image
from recon_tf.common.spaces import RESERVED
from recon_tf.envs.base import Environment, assign_numbers, decisions, numbers, repeats
from recon_tf.envs.render import close_at_exit, gl_error, mujoco, require_gl

DEFAULT_LENGTH = 1000
# Gymnasium leaves these one simulator step behind the positions, and reads and draws them so.
POSES = (
  *('xpos', 'xquat', 'xmat', 'xipos', 'ximat', 'subtree_com'),
  *('geom_xpos', 'geom_xmat', 'site_xpos', 'site_xmat'),
  *('cam_xpos', 'cam_xmat', 'light_xpos', 'light_xdir'),
)


class Gym(Environment):
  """Vector observations under 'vector' or their own names; pixels from them or from render().

  An only image among the observations is 'image'. Of several each keeps its name, and 'image' is
  what render() draws, if it does. Bounded actions are scaled to [-1, 1]; components without bounds
  are passed on as they are.
  """

  def __init__(
    self,
    task: str,
    seed: int = 0,
    *,
    size: tuple[int, int] = (64, 64),
    render: bool = True,
    repeat: int = 0,
    length: int = 0,
    env: gymnasium.Env | None = None,
  ):
    name = task.removeprefix('gym_')
    self._env = env or _make(task, name, render)
    _check_env(task, self._env)
    # The environment's own spec has forgotten its limit, because we asked for none.
    registered = gymnasium.registry.get(self._env.spec.id) if self._env.spec else None
    repeat = repeats(repeat, 1)
    own = (registered and registered.max_episode_steps) or DEFAULT_LENGTH
    full = decisions(0, own, repeat)
    super().__init__(task, decisions(length, own, repeat), repeat, seed, full)
    # Only now: the base class clears them.
    inner = self._env.unwrapped
    if isinstance(getattr(inner, 'model', None), mujoco.MjModel):
      self.model, self.data = inner.model, inner.data
      self.substeps = getattr(inner, 'frame_skip', 1)
      if render:
        require_gl()
    if hasattr(inner, 'mujoco_renderer'):
      # Drawing at the final size is many times faster than drawing large and resizing.
      inner.mujoco_renderer.height, inner.mujoco_renderer.width = size
    self._size, self._sources, self._shapes = size, {}, {}
    self._draw = render
    self._scale_actions(self._env.action_space)
    with _own_words(task, 'its first reset() and step()'):
      self._success_key = self._find_success()
      self.success_task = self._success_key is not None
      self._ready()
    if render:
      close_at_exit(self)
    if not (self._values or render):
      raise UserError(f'{task}: has only images as observations; remove --env.render False.')

  def _reset(self, rng: np.random.Generator) -> None:
    obs, info = self._env.reset(seed=int(rng.integers(2**31)))
    self._receive(obs, bool(info.get(self._success_key, False)), 0)

  def _step(self, action: np.ndarray) -> tuple[float, bool]:
    action = (self._middle + self._half * action).reshape(self._env.action_space.shape)
    action = action.astype(self._env.action_space.dtype)
    total, solved, terminated = 0.0, False, False
    for _ in range(self.repeat):
      obs, reward, terminated, truncated, info = self._env.step(action)
      total += float(reward)
      if not np.isfinite(total):
        raise UserError(f'{self.task}: the reward is {total} at step {self._count + 1}.')
      solved = solved or bool(info.get(self._success_key, False))
      self._ended = bool(truncated)
      if terminated or truncated:
        break
    self._receive(obs, solved, self._count + 1)
    return total, bool(terminated)

  def _find_success(self) -> str | None:
    """The name under which steps report success, if they do."""
    self._env.reset(seed=0)
    action = self._middle.reshape(self._env.action_space.shape)
    _, _, _, _, info = self._env.step(action.astype(self._env.action_space.dtype))
    return next((k for k in ('success', 'is_success') if k in info), None)

  def _receive(self, obs, solved: bool, step: int) -> None:
    self.given = obs  # as the environment itself says it, for policies that were made for it
    self._values, self._pictures = {}, {}
    found = _flatten(self.task, obs, self._env.observation_space)
    images = [k for k, v in found.items() if is_image(v)]
    for key, value in found.items():
      self._check(key, value, step)
      if key in images:
        name = 'image' if [key] == images else key
        self._pictures[name] = self._picture(name, value)
      else:
        self._values[f'obs_{key}' if key in RESERVED else key] = value
    self._solved_now = solved

  def _check(self, key: str, value: np.ndarray, step: int) -> None:
    """Whatever is wrong here would be found much later, in a file or in a loss."""
    where = f"{self.task}: the observation '{key}'"
    if value.dtype.kind not in 'biuf':
      raise UserError(f'{where} is of type {value.dtype}; numbers are needed.')
    shape = self._shapes.setdefault(key, value.shape)
    if value.shape != shape:
      raise UserError(f'{where} has shape {value.shape} at step {step}, {shape} before.')
    if value.dtype.kind == 'f' and not np.isfinite(value).all():
      raise UserError(f'{where} holds NaN or infinite numbers at step {step}.')

  def _vectors(self) -> dict[str, np.ndarray]:
    return self._values

  def _solved(self) -> bool:
    return self._solved_now

  def _images(self) -> dict[str, np.ndarray]:
    if not self._draw:
      return {}
    drawn = self._env.render_mode == 'rgb_array'
    if 'image' in self._pictures or (self._pictures and not drawn):
      return self._pictures
    return {**self._pictures, 'image': self._picture('image', self._rendered())}

  def _rendered(self) -> np.ndarray:
    try:
      frame = self._env.render()
    except NotImplementedError:
      frame = None
    except gymnasium.error.DependencyNotInstalled as error:
      raise UserError(f'{self.task}: {error}') from error
    except Exception as error:
      raise gl_error(error) from error
    if not isinstance(frame, np.ndarray) or frame.ndim != 3:
      raise UserError(
        f'{self.task}: render() gives no RGB image; use --env.render False, or the preset state.'
      )
    return frame

  def _picture(self, key: str, image: np.ndarray) -> np.ndarray:
    self._sources[key] = list(image.shape)
    return fit_image(image, self._size)

  @property
  def own_units(self) -> dict:
    space = self._env.action_space
    own = {'shape': list(space.shape), 'dtype': str(space.dtype), 'sources': self._sources}
    own['discrete'] = _discrete(self._env.observation_space)
    return {**super().own_units, **own}

  def _save(self) -> dict[str, np.ndarray]:
    attributes = {f'env_{k}': v for k, v in numbers(self._env.unwrapped).items()}
    values = {f'value_{k}': v for k, v in self._values.items()}
    pictures = {f'picture_{k}': v for k, v in self._pictures.items()}
    poses = {f'pose_{x}': getattr(self.data, x).copy() for x in POSES}
    return {'solved': self._solved_now, **attributes, **values, **pictures, **poses}

  def _load(self, state: Mapping[str, np.ndarray]) -> None:
    def part(prefix):
      return {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}

    assign_numbers(self._env.unwrapped, part('env_'))
    for name, value in part('pose_').items():
      getattr(self.data, name)[:] = value
    self._solved_now = bool(state['solved'])
    self._values = part('value_')
    self._pictures = {k: v.astype(np.uint8) for k, v in part('picture_').items()}

  def _scale_actions(self, space: spaces.Space) -> None:
    if not isinstance(space, spaces.Box):
      raise UserError(f'{self.task}: actions are {space}; only continuous (Box) actions work.')
    low, high = (x.astype(np.float64).reshape(-1) for x in (space.low, space.high))
    bounded = np.isfinite(low) & np.isfinite(high)
    self._actions, self.unbounded = low.size, ~bounded
    self._middle = np.where(
      bounded, (np.where(bounded, low, 0) + np.where(bounded, high, 0)) / 2, 0
    )
    self._half = np.where(bounded, (np.where(bounded, high, 0) - np.where(bounded, low, 0)) / 2, 1)

  def close(self) -> None:
    super().close()
    with contextlib.suppress(Exception):  # at exit the display may already be gone
      self._env.close()


def register_robotics() -> None:
  """Registers Gymnasium-Robotics, without its notice about environments we do not use."""
  with contextlib.suppress(ImportError):
    from farama_notifications import notifications

    notifications.pop('gymnasium_robotics', None)
  import gymnasium_robotics

  gymnasium.register_envs(gymnasium_robotics)


def _make(task: str, name: str, render: bool):
  """gymnasium.make with our errors; module:Name-v0 imports the module first."""
  if ':' not in name and name not in gymnasium.registry:
    register_robotics()
  if ':' in name and os.getcwd() not in sys.path:
    sys.path.append(os.getcwd())  # a module of the user's own lies in the working folder
  # The time limit is ours.
  options = {'max_episode_steps': -1, 'disable_env_checker': True}
  try:
    with _own_words(task, 'making it'):
      try:
        return gymnasium.make(name, **options, **({'render_mode': 'rgb_array'} if render else {}))
      except TypeError as error:
        if not render or 'render_mode' not in str(error):
          raise
        return gymnasium.make(name, **options)  # it cannot render, but may observe images
  except (gymnasium.error.UnregisteredEnv, gymnasium.error.DeprecatedEnv) as error:
    hint = nearest(name, gymnasium.registry)
    hint = hint.replace("mean '", "mean 'gym_")
    raise UserError(f"task: '{task}' is not a registered environment.{hint}") from error
  except ModuleNotFoundError as error:
    module = error.name or name.partition(':')[0]
    raise UserError(
      f"task: '{task}' needs the module '{module}'; install it, or start in its folder."
    ) from error
  except gymnasium.error.Error as error:
    raise UserError(f'{task}: {" ".join(str(error).split())}') from error


@contextlib.contextmanager
def _own_words(task: str, what: str) -> Iterator[None]:
  """The user's code may raise anything: shows where, and ends with a sentence."""
  known = (UserError, gymnasium.error.Error, ModuleNotFoundError)
  try:
    yield
  except Exception as error:
    if isinstance(error, known):
      raise
    traceback.print_exc()
    raise UserError(f'{task}: {what} raised {type(error).__name__}: {error}.') from error


def _check_env(task: str, env: object) -> None:
  if isinstance(env, gymnasium.vector.VectorEnv):
    raise UserError(f'{task}: is a vector environment; give a single one, from gymnasium.make.')
  if not isinstance(env, gymnasium.Env):
    raise UserError(f'{task}: is no Gymnasium environment but {type(env).__name__}.')


def _flatten(task: str, value, space: spaces.Space, name: str = '') -> dict[str, np.ndarray]:
  """Named arrays of an observation; nested names are joined by an underscore."""
  if isinstance(space, spaces.Dict):
    parts = {}
    for key, child in space.items():
      if not isinstance(value, Mapping) or key not in value:
        raise UserError(f"{task}: an observation lacks '{key}', which its space names.")
      parts.update(_flatten(task, value[key], child, f'{name}_{key}' if name else key))
    return parts
  if not isinstance(space, spaces.Box):
    value = spaces.flatten(space, value)
  return {name or 'vector': np.asarray(value)}


def _discrete(space: spaces.Space, name: str = '') -> dict[str, int]:
  """The smallest value of each Discrete observation, all of which are given one-hot."""
  if isinstance(space, spaces.Discrete):
    return {name or 'vector': int(space.start)}
  parts = {}
  for key, child in space.items() if isinstance(space, spaces.Dict) else ():
    parts.update(_discrete(child, f'{name}_{key}' if name else key))
  return parts


def has_images(space: spaces.Space) -> bool:
  """Whether some of its observations are images."""
  if isinstance(space, spaces.Dict):
    return any(has_images(x) for x in space.values())
  return isinstance(space, spaces.Box) and is_image(np.empty(space.shape, space.dtype))
