"""What a task's observations and actions look like: spaces.json of a run or an exported policy."""

import dataclasses
import pathlib
from collections.abc import Mapping

import numpy as np

from recon_tf.common.episodes import Episode, load_episode
from recon_tf.common.errors import UserError
from recon_tf.common.files import check_fields, read_json, write_json
from recon_tf.common.pixels import fit_image, is_image

FILE = 'spaces.json'
FIELDS = {
  'observations': dict, 'shape': [int], 'dtype': str, 'low': [float], 'high': [float],
  'sources': dict, 'bounds_known?': bool, 'repeat?': int, 'discrete?': dict,
}  # fmt: skip
IGNORED = ('reward', 'is_first', 'is_last', 'is_terminal', 'action')
# Vectors that an environment calls so are called obs_* in training.
RESERVED = ('image', *IGNORED)


@dataclasses.dataclass(frozen=True)
class Spaces:
  """Shapes by name, and the action's own shape, type and what -1 and 1 mean in it."""

  observations: dict[str, tuple[int, ...]]
  shape: tuple[int, ...]
  dtype: str
  low: tuple[float, ...]
  high: tuple[float, ...]
  sources: dict[str, tuple[int, ...]]  # shapes of images before they were resized
  bounds_known: bool = True
  repeat: int = 1  # simulator steps for which an action is held
  discrete: dict[str, int] = dataclasses.field(default_factory=dict)  # smallest value, one-hot here

  def to_dict(self) -> dict:
    return dataclasses.asdict(self)

  @property
  def middle(self) -> np.ndarray:
    return (np.array(self.high) + np.array(self.low)) / 2

  @property
  def half(self) -> np.ndarray:
    return (np.array(self.high) - np.array(self.low)) / 2

  def own(self, action: np.ndarray) -> np.ndarray:
    """A flat action, or a batch of them, in the shape and type that the environment takes."""
    return action.reshape(*action.shape[:-1], *self.shape).astype(self.dtype)

  def scaled(self, action: np.ndarray) -> np.ndarray:
    """One action of the environment, between -1 and 1."""
    action = np.asarray(action, np.float64).reshape(-1)
    if action.size != len(self.low):
      raise UserError(f'an action has {action.size} numbers, but the task takes {len(self.low)}.')
    # A component with one possible value cannot be divided by its range.
    half = np.where(self.half == 0, 1, self.half)
    return ((action - self.middle) / half).astype(np.float32)

  def inputs(self, obs, keys: list[str]) -> tuple[dict[str, np.ndarray], bool]:
    """Arrays [batch, ...] of these names, and whether a batch was given."""
    named = as_trained(flatten(obs), keys)
    missing = [k for k in keys if k not in named]
    if missing:
      raise UserError(f'the observation lacks {missing}; the policy takes {keys}, not {[*named]}.')
    parts = {k: self._fit(k, np.asarray(named[k])) for k in keys}
    counts = {len(x) if batch else 0 for x, batch in parts.values()}
    if len(counts) > 1:
      raise UserError('the parts of an observation have different numbers of rows.')
    batch = bool(counts.pop())
    return {k: x for k, (x, _) in parts.items()}, batch

  def _fit(self, key: str, value: np.ndarray) -> tuple[np.ndarray, bool]:
    shape = self.observations[key]
    if len(shape) == 3:
      batch = value.ndim == 4
      if value.ndim not in (3, 4) or value.dtype != np.uint8:
        raise self._wrong(key, value, 'uint8 [height, width, channels]')
      images = value if batch else value[None]
      return np.stack([fit_image(x, shape[:2]) for x in images]), batch
    if key in self.discrete and value.dtype.kind in 'iu' and value.ndim < 2:
      value = self._one_hot(key, value)
    size, single = int(np.prod(shape)), value.ndim <= 1
    rows = 1 if single else len(value)
    if value.dtype.kind not in 'biuf' or not value.size or value.size != rows * size:
      raise self._wrong(key, value, f'{size} numbers')
    value = value.reshape(rows, size).astype(np.float32)
    if not np.isfinite(value).all():  # it would stay in what the policy remembers
      raise UserError(f"the observation '{key}' holds NaN or infinite numbers.")
    return value, not single

  def _one_hot(self, key: str, value: np.ndarray) -> np.ndarray:
    """Of a Discrete observation as the environment gives it, or of a batch of them."""
    index, count = value.astype(np.int64) - self.discrete[key], self.observations[key][0]
    if ((index < 0) | (index >= count)).any():
      low = self.discrete[key]
      raise UserError(f"the observation '{key}' is {value}, not from {low} to {low + count - 1}.")
    return np.eye(count, dtype=np.float32)[index]

  def _wrong(self, key: str, value: np.ndarray, wanted: str) -> UserError:
    given = f'{value.dtype} {list(value.shape)}'
    return UserError(f"the observation '{key}' is {given}; {wanted} are needed, or a batch.")


def flatten(obs, name: str = '') -> dict[str, np.ndarray]:
  """Named arrays of an observation as an environment gives it, named as training does."""
  if not isinstance(obs, Mapping):
    value = np.asarray(obs)
    image = value.dtype == np.uint8 and value.ndim >= 3
    return {name or ('image' if image else 'vector'): value}
  parts = {}
  for key, value in obs.items():
    parts.update(flatten(value, f'{name}_{key}' if name else key))
  return parts


def as_trained(named: dict[str, np.ndarray], keys: list[str]) -> dict[str, np.ndarray]:
  """With the names that training gave to what the environment calls otherwise."""
  missing = [k for k in keys if k not in named]
  if missing and len(keys) == len(named) == 1:  # an only observation needs no name
    return {keys[0]: next(iter(named.values()))}
  plain = lambda k: k.removeprefix('obs_')
  renamed = {k: named[plain(k)] for k in missing if plain(k) in RESERVED and plain(k) in named}
  images = [v for v in named.values() if is_image(v) or (v.ndim == 4 and is_image(v[0]))]
  if 'image' in missing and len(images) == 1:  # an only image neither
    renamed['image'] = images[0]
  return {**named, **renamed}


def space_of(env) -> Spaces:
  """From an environment or its worker, or what stands in for one."""
  if hasattr(env, 'spaces'):
    return env.spaces
  call = getattr(env, 'call', None)
  own = call('own_units') if call else env.own_units
  shapes = {k: tuple(v.shape) for k, v in env.obs_space.items() if is_observation(k)}
  tuples = {k: tuple(np.ravel(own[k]).tolist()) for k in ('low', 'high', 'shape')}
  sources = {k: tuple(v) for k, v in own['sources'].items()}
  same = {k: own[k] for k in ('dtype', 'repeat', 'discrete') if k in own}
  return Spaces(shapes, sources=sources, **same, **tuples)


def space_of_episode(episode: Episode) -> Spaces:
  """From recorded data, which do not tell the environment's own units."""
  shapes = {k: tuple(v.shape[1:]) for k, v in episode.items() if is_observation(k)}
  size = episode['action'].shape[1]
  return Spaces(shapes, (size,), 'float32', (-1.0,) * size, (1.0,) * size, {}, False)


def is_observation(key: str) -> bool:
  return key not in IGNORED and not key.startswith('log_')


def record_spaces(folder: pathlib.Path, spaces: Spaces) -> None:
  """Writes spaces.json, whole or not at all."""
  write_json(folder / FILE, spaces.to_dict())


def from_dict(values: dict, source: str = 'the spaces') -> Spaces:
  """The inverse of to_dict, after JSON."""
  shapes = lambda x: {k: tuple(v) for k, v in x.items()}
  check_fields(values, FIELDS, source)
  try:
    lists = {k: tuple(values[k]) for k in ('shape', 'low', 'high')}
    named = {k: shapes(values[k]) for k in ('observations', 'sources')}
    return Spaces(**{**values, **lists, **named})
  except (ValueError, TypeError) as error:
    raise UserError(f'Cannot use {source}: it is damaged ({error}); restore it.') from error


def run_spaces(folder: pathlib.Path) -> Spaces:
  """Of a run folder; runs from before spaces.json are read off an episode that they collected."""
  content = read_json(folder / FILE)
  if content is not None:
    return from_dict(content, f"'{folder / FILE}'")
  files = sorted((folder / 'train_episodes').glob('[!.]*.npz'))
  if not files:
    raise UserError(
      f"'{folder}' has neither {FILE} nor collected episodes, so its observations are unknown."
    )
  return space_of_episode(load_episode(files[-1], None))
