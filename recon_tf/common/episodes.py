"""Episodes as .npz files: row t holds the observation and the action that led to it."""

import datetime
import hashlib
import pathlib
import re
import uuid

import numpy as np

from recon_tf.common.errors import UserError
from recon_tf.common.files import check_fields, read_json
from recon_tf.common.npz import UNREADABLE, read_npz, write_npz

Episode = dict[str, np.ndarray]

ALIASES = {'images': 'image', 'actions': 'action', 'rewards': 'reward'}
FLAGS = ('is_first', 'is_last', 'is_terminal')
META = {
  'task': str, 'expert': str, 'env': dict, 'versions': dict, 'returns': [float],
  'successes': [bool], 'rejected': int,
}  # fmt: skip
TOLERANCE = 1e-6  # how far beyond [-1, 1] an action may lie, for rounding

_resized_folders = set()


def save_episode(
  folder: str | pathlib.Path, episode: Episode, compress: bool = False, number: int | None = None
) -> pathlib.Path:
  """Writes one episode atomically; a number makes the order of the files explicit."""
  time = datetime.datetime.now(datetime.UTC).strftime('%Y%m%dT%H%M%SF%f')
  label = uuid.uuid4().hex if number is None else f'{number:08d}'
  name = f'{time}-{label}-{len(episode["action"]) - 1}.npz'
  return write_npz(pathlib.Path(folder) / name, episode, compress)


def load_episode(path: str | pathlib.Path, size: tuple[int, int] | None = (64, 64)) -> Episode:
  """Reads, completes and checks one file; a UserError names the file, the key and the row."""
  path = pathlib.Path(path)
  if not path.is_file():
    raise UserError(f"There is no episode file '{path}'.")
  try:
    arrays = read_npz(path)
  except UNREADABLE as error:
    raise UserError(
      f"The file '{path}' is damaged or not an .npz of plain arrays ({error}); remove it."
    ) from error
  episode = complete_episode(arrays, f"file '{path}'")
  for key in [k for k, v in episode.items() if size is not None and is_film(k, v)]:
    episode[key] = resize_images(episode[key], tuple(size), path.parent)
  return episode


def is_film(key: str, value: np.ndarray) -> bool:
  """Whether a key of an episode holds images that were observed."""
  return _is_observation(key) and value.dtype == np.uint8 and value.ndim == 4


def load_folder(
  folder: str | pathlib.Path, size: tuple[int, int] | None = (64, 64), limit: int | None = None
) -> list[Episode]:
  """All episodes of a folder (or the first few), with the same keys and action size."""
  episodes = []
  for path in episode_files(folder)[:limit]:
    episode = load_episode(path, size)
    if episodes:
      _check_same(episode, episodes[0], path)
    episodes.append(episode)
  return episodes


def episode_files(folder: str | pathlib.Path) -> list[pathlib.Path]:
  """The .npz files of a folder in the order of writing; none is a UserError."""
  folder = pathlib.Path(folder)
  if not folder.is_dir():
    raise UserError(f"There is no folder '{folder}' with episodes.")
  paths = list_files(folder)
  if not paths:
    raise UserError(f"The folder '{folder}' holds no .npz episodes.")
  return paths


def list_files(folder: pathlib.Path) -> list[pathlib.Path]:
  """As episode_files, but a folder may be empty."""
  return sorted((x for x in folder.glob('*.npz') if not x.name.startswith('.')), key=_order)


def summary(folder: str | pathlib.Path, size: tuple[int, int] | None = None) -> dict:
  """What a folder holds, for `--check`; reads one episode at a time and checks each."""
  result = {'folder': str(folder), 'episodes': 0, 'steps': 0, 'lengths': [], 'returns': []}
  successes, low, high, first = [], np.inf, -np.inf, None
  for path in episode_files(folder):
    episode = load_episode(path, size)
    first = first or {k: v[:1] for k, v in episode.items()}
    _check_same(episode, first, path)
    result['episodes'] += 1
    result['lengths'].append(len(episode['action']) - 1)
    result['returns'].append(float(episode['reward'].sum()))
    low, high = min(low, episode['action'].min()), max(high, episode['action'].max())
    if 'log_success' in episode:
      successes.append(bool(episode['log_success'].max() > 0))
  result['steps'] = sum(result['lengths'])
  result['shapes'] = {k: (str(v.dtype), v.shape[1:]) for k, v in sorted(first.items())}
  result['action_range'] = (float(low), float(high))
  result['successes'] = sum(successes) if successes else None
  result['meta'] = load_meta(folder)
  return result


def load_meta(folder: str | pathlib.Path) -> dict | None:
  """The folder's meta.json, or None if it has none."""
  path = pathlib.Path(folder) / 'meta.json'
  meta = read_json(path)
  return None if meta is None else check_fields(meta, META, f"'{path}'", optional=True)


def fingerprint(episodes: list[Episode]) -> str:
  """Of what episodes hold, wherever their files lie."""
  digest = hashlib.sha256()
  for episode in episodes:
    for key in sorted(x for x in episode if not x.startswith('log_')):
      value = np.ascontiguousarray(episode[key])
      digest.update(f'{key} {value.dtype} {value.shape}'.encode())
      digest.update(value)
  return digest.hexdigest()[:16]


def complete_episode(arrays: dict, source: str) -> Episode:
  """Brings arrays of DreamerV2, CMIL or V-MAIL to our form and checks every value."""
  arrays = {ALIASES.get(k, k): np.asarray(v) for k, v in arrays.items()}
  if 'action' not in arrays:
    raise UserError(f"The {source} is not an episode: it has no key 'action'.")
  rows = len(arrays['action']) if arrays['action'].ndim else 0
  if rows < 2:
    raise UserError(f'The {source} holds {rows} rows, too few for an episode.')
  discount = arrays.pop('discount', None)
  if discount is not None and 'is_terminal' not in arrays:
    arrays['is_terminal'] = discount == 0
  episode = {'action': _check_action(arrays.pop('action'), source)}
  episode.update(_flags(arrays, rows, source))
  reward = arrays.pop('reward', np.zeros(rows))
  reward = _check_column('reward', reward, rows, source).astype(np.float32, copy=False)
  _check_finite('reward', reward, source)
  episode['reward'] = reward
  for key, value in arrays.items():
    if value.dtype.kind in 'biuf' and value.ndim:
      episode[key] = _check_extra(key, value, rows, source)
  if not any(_is_observation(key) for key in episode):
    raise UserError(f"The {source} is not an episode: it has no 'image' and no vector key.")
  return episode


def _is_observation(key: str) -> bool:
  return key not in ('action', 'reward', *FLAGS) and not key.startswith('log_')


def _flags(arrays: dict, rows: int, source: str) -> Episode:
  row = np.arange(rows)
  default = {'is_first': row == 0, 'is_last': row == rows - 1, 'is_terminal': row < 0}
  flags = {}
  for key in FLAGS:
    flags[key] = _check_column(key, arrays.pop(key, default[key]), rows, source).astype(bool)
  flags['is_first'][0] = True
  return flags


def _check_column(key: str, value: np.ndarray, rows: int, source: str) -> np.ndarray:
  if value.shape not in ((rows,), (rows, 1)) or value.dtype.kind not in 'biuf':
    raise UserError(
      f"The {source} has '{key}' of shape {value.shape}, but its action has {rows} rows."
    )
  return value.reshape(rows)


def _check_action(action: np.ndarray, source: str) -> np.ndarray:
  if action.dtype.kind not in 'iuf' or action.ndim != 2:
    raise UserError(
      f"The {source} has an 'action' of shape {action.shape} and type {action.dtype}; "
      'an array of numbers [rows, action size] is needed.'
    )
  _check_finite('action', action, source)
  wrong = (np.abs(action.astype(np.float64)) > 1 + TOLERANCE).any(1)
  if wrong.any():
    row = int(wrong.argmax())
    value = float(action[row][np.abs(action[row]).argmax()])
    raise UserError(
      f"The {source} has an 'action' of {value:g} in row {row}; scale actions to [-1, 1]."
    )
  return np.clip(action, -1, 1).astype(np.float32, copy=False)


def _check_extra(key: str, value: np.ndarray, rows: int, source: str) -> np.ndarray:
  if len(value) != rows:
    raise UserError(f"The {source} has {len(value)} rows of '{key}' but {rows} of 'action'.")
  if key == 'image':
    if value.dtype != np.uint8 or value.ndim != 4 or value.shape[-1] != 3:
      raise UserError(
        f"The {source} has an 'image' of shape {value.shape} and type {value.dtype}; "
        'uint8 [rows, height, width, 3] is needed.'
      )
    return value
  if key.startswith('log_') or (value.dtype == np.uint8 and value.ndim == 4):
    return value
  if value.dtype.kind == 'f':
    _check_finite(key, value, source)
  return value.astype(np.float32, copy=False)


def _check_finite(key: str, value: np.ndarray, source: str) -> None:
  wrong = ~np.isfinite(value.reshape(len(value), -1)).all(1)
  if wrong.any():
    raise UserError(
      f"The {source} has a NaN or infinite '{key}' in row {int(wrong.argmax())}; remove the file."
    )


def _check_same(episode: Episode, first: Episode, path: pathlib.Path) -> None:
  sizes = first['action'].shape[1], episode['action'].shape[1]
  if sizes[0] != sizes[1]:
    raise UserError(
      f"The folder '{path.parent}' mixes action sizes: {sizes[0]} before '{path.name}' "
      f'and {sizes[1]} in it.'
    )
  for key in sorted({*first, *episode}):
    if not _is_observation(key):
      continue
    shapes = [x[key].shape[1:] if key in x else None for x in (first, episode)]
    if shapes[0] != shapes[1]:
      raise UserError(
        f"The folder '{path.parent}' mixes episodes: '{key}' has shape {shapes[0]} before "
        f"'{path.name}' and {shapes[1]} in it."
      )


def resize_images(images: np.ndarray, size: tuple[int, int], folder: pathlib.Path) -> np.ndarray:
  """Images of another size brought to this one; said once a folder."""
  if images.shape[1:3] == size:
    return images
  from PIL import Image  # only foreign data needs it

  if folder not in _resized_folders:
    _resized_folders.add(folder)
    height, width = images.shape[1:3]
    print(f"Images in '{folder}' are {height}x{width}; resized to {size[0]}x{size[1]}.")
  shape = size[1], size[0]
  resized = [Image.fromarray(x).resize(shape, Image.Resampling.BOX) for x in images]
  return np.stack([np.asarray(x) for x in resized])


def _order(path: pathlib.Path) -> tuple:
  # Numbered files follow their numbers, because a clock can be set back.
  match = re.search(r'-(\d{8})-\d+\.npz$', path.name)
  return (1, int(match[1]), path.name) if match else (0, 0, path.name)
