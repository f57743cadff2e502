"""Foreign demonstrations in our folder format: DreamerV2/CMIL .npz, Minari, robomimic HDF5."""

import dataclasses
import os
import pathlib
import shutil
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from recon_tf.common.episodes import (
  Episode,
  complete_episode,
  episode_files,
  is_film,
  load_episode,
  resize_images,
  save_episode,
)
from recon_tf.common.errors import UserError, nearest
from recon_tf.common.spaces import space_of_episode
from recon_tf.demos.match import rename
from recon_tf.demos.meta import add_episode, new_meta, write_meta

Range = tuple[float, float]
Size = tuple[int, int]


def import_npz(
  folder: str,
  outdir: str,
  task: str = '',
  limit: int | None = None,
  size: Size = (64, 64),
  names: Sequence[str] = (),
) -> dict:
  """Copies a folder of DreamerV2 or CMIL episodes, completed and checked."""
  files = episode_files(folder)[:limit]
  episodes = ((f"file '{x}'", load_episode(x, size)) for x in files)
  return _store(episodes, outdir, task, folder, size, names)


def import_minari(
  dataset_id: str,
  outdir: str,
  task: str = '',
  image_key: str = '',
  rescale: Range | None = None,
  limit: int | None = None,
  size: Size = (64, 64),
  names: Sequence[str] = (),
) -> dict:
  """Converts a local Minari dataset; actions are scaled from the bounds of its action space."""
  import minari

  try:
    known = minari.list_local_datasets()
    if dataset_id not in known:
      raise UserError(
        f"There is no local Minari dataset '{dataset_id}'.{nearest(dataset_id, known)} "
        f'Get it with: minari download {dataset_id}'
      )
    dataset = minari.load_dataset(dataset_id)
  except (OSError, ValueError, KeyError) as error:
    raise UserError(f"The Minari dataset '{dataset_id}' cannot be read ({error}).") from error
  bounds = rescale or _bounds(dataset.action_space)
  episodes = _minari_episodes(dataset, dataset_id, image_key, bounds, limit)
  return _store(episodes, outdir, task, dataset_id, size, names, bounds)


def import_hdf5(
  path: str,
  outdir: str,
  task: str = '',
  image_key: str = '',
  rescale: Range | None = None,
  limit: int | None = None,
  size: Size = (64, 64),
  names: Sequence[str] = (),
) -> dict:
  """Converts robomimic's layout: data/demo_*/{obs/<key>, actions, rewards, dones}."""
  import h5py

  if not os.path.isfile(path):
    raise UserError(f"There is no HDF5 file '{path}'.")
  try:
    file = h5py.File(path, 'r')
  except OSError as error:
    raise UserError(f"The file '{path}' is damaged or not HDF5 ({error}).") from error
  with file:
    demos = _demo_groups(file, path)[:limit]
    episodes = (_read_demo(x, path, image_key, rescale) for x in demos)
    return _store(episodes, outdir, task, path, size, names, rescale)


def _minari_episodes(dataset, name, image_key, bounds, limit) -> Iterator[tuple[str, Episode]]:
  for index, data in enumerate(dataset.iterate_episodes()):
    if index == limit:
      return
    source = f"episode {data.id} of Minari dataset '{name}'"
    if not isinstance(data.actions, np.ndarray):
      raise UserError(f'The {source} has no plain array of actions, which is needed.')
    obs = data.observations
    obs = _flatten(obs) if isinstance(obs, dict) else {'vector': np.asarray(obs)}
    obs = _choose_image(obs, image_key, source)
    yield source, _convert(obs, data.actions, data.rewards, data.terminations, source, bounds)


def _demo_groups(file, path: str) -> list:
  names = [x for x in file.get('data', ()) if x.startswith('demo_')]
  if not names:
    raise UserError(f"The file '{path}' has no groups data/demo_*, as robomimic's files have.")
  number = lambda x: int(x.removeprefix('demo_')) if x.removeprefix('demo_').isdigit() else 0
  return [file['data'][x] for x in sorted(names, key=number)]


def _read_demo(group, path: str, image_key: str, rescale: Range | None) -> tuple[str, Episode]:
  try:
    return _hdf5_episode(group, path, image_key, rescale)
  except (OSError, KeyError) as error:
    raise UserError(f"The group '{group.name}' of '{path}' is damaged ({error}).") from error


def _hdf5_episode(group, path: str, image_key: str, rescale: Range | None) -> tuple[str, Episode]:
  source = f"group '{group.name}' of '{path}'"
  if 'actions' not in group or 'obs' not in group:
    raise UserError(
      f"The {source} lacks 'actions' or 'obs'; extract observations with robomimic's script first."
    )
  actions = group['actions'][()]
  obs = _choose_image(_flatten(group['obs']), image_key, source, group.get('next_obs'))
  rewards = group['rewards'][()] if 'rewards' in group else np.zeros(len(actions))
  dones = group['dones'][()] if 'dones' in group else np.zeros(len(actions))
  if 'next_obs' not in group:
    # There is no picture of what the last action led to, so that action goes.
    actions, rewards, dones = actions[:-1], rewards[:-1], dones[:-1]
  return source, _convert(obs, actions, rewards, dones, source, rescale)


def _convert(obs, actions, rewards, ends, source: str, bounds: Range | None) -> Episode:
  """Shifts row t = "taken in obs t" to our row t+1 = "led to obs t+1", and checks it all."""
  actions = np.asarray(actions)
  if actions.ndim != 2:
    raise UserError(f'The {source} has actions of shape {actions.shape}; [steps, size] is needed.')
  if bounds is not None and not (np.all(bounds[0] == -1) and np.all(bounds[1] == 1)):
    low, high = (np.asarray(x, np.float64) for x in bounds)
    actions = (actions - (high + low) / 2) / np.where(high == low, 1, (high - low) / 2)
  shift = lambda x: np.concatenate([np.zeros_like(x[:1]), x])
  arrays = {'action': shift(actions.astype(np.float64)), **obs}
  arrays['reward'] = shift(np.asarray(rewards, np.float32).reshape(-1))
  arrays['is_terminal'] = shift(np.asarray(ends).reshape(-1).astype(bool))
  try:
    return complete_episode(arrays, source)
  except UserError as error:
    if 'scale actions' in str(error):
      raise UserError(f'{error} Try --rescale LOW HIGH with the range of the actions.') from error
    raise


def _flatten(node, prefix: str = '') -> dict:
  """Nested dicts or HDF5 groups as one dict with names joined by underscores."""
  flat = {}
  for key, value in node.items():
    if hasattr(value, 'items'):
      flat.update(_flatten(value, f'{prefix}{key}_'))
    else:
      flat[prefix + key] = value
  return flat


def _choose_image(obs: dict, image_key: str, source: str, following=None) -> dict:
  """Reads the vectors and the one image; its name becomes 'image'."""
  images = [k for k, v in obs.items() if v.ndim == 4 and v.dtype == np.uint8]
  if image_key and image_key not in images:
    raise UserError(
      f"The {source} has no image '{image_key}' (--image-key).{nearest(image_key, images)}"
    )
  if len(images) > 1 and not image_key and 'image' not in images:
    raise UserError(f'The {source} has the images {", ".join(images)}; choose with --image-key.')
  chosen = image_key or ('image' if 'image' in images else ''.join(images))
  last = _flatten(following) if following is not None else {}
  result = {}
  for key, value in obs.items():
    if key in images and key != chosen:
      continue
    rows = value[()]
    if last:
      rows = np.concatenate([rows, last[key][-1:]])
    result['image' if key == chosen else key] = rows
  return result


def _bounds(space) -> tuple | None:
  """What -1 and 1 are in the environment's own units; components without bounds stay as they are.

  Narrow bounds count too: the environment's actions are scaled by them, so these have to be.
  """
  low, high = (np.ravel(getattr(space, x, None)) for x in ('low', 'high'))
  if low.dtype.kind not in 'iuf':
    return None
  bounded = np.isfinite(low) & np.isfinite(high)
  return np.where(bounded, low, -1.0), np.where(bounded, high, 1.0)


def _store(
  episodes: Iterable[tuple[str, Episode]],
  outdir: str,
  task: str,
  origin: str,
  size: Size,
  names: Sequence[str],
  bounds: Range | None = None,
) -> dict:
  """Writes all episodes or none: into a folder beside, which is then moved into place."""
  outdir = pathlib.Path(outdir)
  beside = outdir.with_name(f'.{outdir.name}.importing-{os.getpid()}')
  meta, shapes = new_meta(task, origin, None, {}), None
  try:
    if outdir.exists() and (not outdir.is_dir() or any(outdir.iterdir())):
      raise UserError(f"'{outdir}' is not an empty folder; choose another --outdir for the import.")
    for number, (source, episode) in enumerate(episodes):
      episode = rename(episode, names)
      for key in [k for k, v in episode.items() if is_film(k, v)]:
        episode[key] = resize_images(episode[key], size, pathlib.Path(origin))
      shapes = shapes or _shapes(episode)
      _check_shapes(_shapes(episode), shapes, source)
      save_episode(beside, episode, compress=True, number=number)
      meta = add_episode(meta, episode)
    if not meta['returns']:
      raise UserError(f"'{origin}' holds no episodes.")
    if bounds is not None:
      meta['spaces'] = _own_units(episode, bounds)
    write_meta(beside, meta)
    if outdir.exists():
      outdir.rmdir()
    beside.rename(outdir)
  except UserError as error:
    raise UserError(str(error).replace(str(beside), str(outdir))) from error
  except OSError as error:
    raise UserError(f"Cannot write to the folder '{outdir}': {error.strerror}.") from error
  finally:
    shutil.rmtree(beside, ignore_errors=True)
  return meta


def _own_units(episode: Episode, bounds: Range) -> dict:
  """For training without the environment: its actions are then known in its own units."""
  spread = lambda x: tuple(np.broadcast_to(x, episode['action'].shape[1:]).astype(float).tolist())
  known = {'low': spread(bounds[0]), 'high': spread(bounds[1]), 'bounds_known': True}
  return dataclasses.replace(space_of_episode(episode), **known).to_dict()


def _shapes(episode: Episode) -> dict[str, tuple]:
  return {k: v.shape[1:] for k, v in episode.items() if not k.startswith('log_')}


def _check_shapes(found: dict, first: dict, source: str) -> None:
  for key in sorted({*found, *first}):
    if found.get(key) != first.get(key):
      raise UserError(
        f"The {source} has '{key}' of shape {found.get(key)}, the first episode {first.get(key)}; "
        'one folder needs one shape.'
      )
