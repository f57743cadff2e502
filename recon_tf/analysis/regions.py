"""Where real steps went: how far from the expert's states, and in mazes in which region.

The paper's definition for PointMaze: d_E(s) is the distance of the planar position p(s) to the
nearest position of the demonstrations; support is d_E <= 0.025, near is d_E <= 0.10, far beyond.
Tasks without a planar position have the distance of their vectors instead, in deviations of the
demonstrations per dimension, and no regions.
"""

import pathlib

import numpy as np
from scipy.spatial import cKDTree

from recon_tf.analysis.runs import Run
from recon_tf.common.episodes import Episode, list_files, load_meta
from recon_tf.common.errors import UserError
from recon_tf.common.files import warn_once
from recon_tf.common.npz import UNREADABLE
from recon_tf.common.versions import ROOT
from recon_tf.demos.ensure import demo_folder

SUPPORT, NEAR = 0.025, 0.10
REGIONS = ('support', 'near', 'far')
PLANE = 'log_position'
CELL = 0.08  # metres, of the map of visits
SHOWN = 120  # states of the demonstrations on that map
TUBE = 0.25  # metres off the way that count as back after a window
QUANTILE = 90  # in percent, of distances


class Way:
  """Where demonstrations went: places in a plane, elsewhere vectors in units of deviations."""

  def __init__(self, episodes: list[Episode], keys: tuple[str, ...] = ()):
    planar = lambda x: x.get(PLANE, np.zeros(0)).shape[1:] == (2,)
    self.plane = not keys and all(map(planar, episodes))
    self.keys = (PLANE,) if self.plane else keys or _vector_keys(episodes[0])
    if not self.plane and self.keys:
      deviation = np.concatenate([self._join(x) for x in episodes]).std(0)
      self._used = deviation > 1e-4  # an entry that never changes has no unit
      self._scale = deviation[self._used]
    self.shown = [self.points(x) for x in episodes] if self.keys else []
    self.states = np.concatenate(self.shown) if self.keys else np.zeros((0, 0))
    self._tree = cKDTree(self.states) if self.keys else None

  def _join(self, rows: Episode) -> np.ndarray:
    return np.concatenate([np.asarray(rows[k], float) for k in self.keys], -1)

  def points(self, rows: Episode) -> np.ndarray:
    """Places, or vectors whose plain distance is the root mean square over their entries."""
    if self.plane:
      return self._join(rows)
    scaled = self._join(rows)[..., self._used] / self._scale
    return scaled / np.sqrt(max(scaled.shape[-1], 1))

  def distance(self, points: np.ndarray) -> np.ndarray:
    """d_E: to the nearest demonstrated state."""
    return self._tree.query(points)[0]

  def tube(self) -> float | None:
    """What counts as back: in vectors where nine of ten states of one demonstration lie of the
    others; a single demonstration does not tell."""
    if self.plane:
      return TUBE
    if len(self.shown) < 2:
      return None
    others = lambda i: np.concatenate(self.shown[:i] + self.shown[i + 1 :])
    away = [cKDTree(others(i)).query(x)[0] for i, x in enumerate(self.shown)]
    return float(np.percentile(np.concatenate(away), QUANTILE))


def find_way(run: Run, keys: tuple[str, ...] = ()) -> Way | None:
  """None if the demonstrations are gone or have neither places nor these vectors."""
  shown = demonstrations(run, keys)
  way = Way(shown, keys) if shown else None
  return way if way and way.keys else None


def find_plane(run: Run) -> Way | None:
  """The way of a task with places in a plane, None for others."""
  way = find_way(run)
  return way if way and way.plane else None


def _vector_keys(episode: Episode) -> tuple[str, ...]:
  """What tells states apart where there is no plane, () for pictures alone."""
  usual = lambda k: k.startswith(('log_', 'is_')) or k in ('action', 'reward', 'discount')
  vector = lambda v: v.ndim == 2 and v.dtype.kind == 'f'
  return tuple(k for k, v in sorted(episode.items()) if not usual(k) and vector(v))


# Steps of a run


def region_of(distance: np.ndarray) -> np.ndarray:
  """Index into REGIONS; a boundary belongs to the nearer region."""
  return np.searchsorted([SUPPORT, NEAR], distance, side='left')


def allocation(run: Run) -> dict | None:
  """Steps by who acted ('explorer', 'main'), their distance and, in mazes, regions and a map.

  None without episodes or demonstrations.
  """
  if run.kept:
    return run.kept.get('allocation')
  way = find_way(run)
  rows = _reached(run, way.keys) if way else {}
  if not rows:
    return None
  explorer, points = rows['log_explorer'].reshape(-1) > 0, way.points(rows)
  distance = way.distance(points)
  parts = {'explorer': distance[explorer], 'main': distance[~explorer]}
  found = {k: _shares(v, way.plane) for k, v in parts.items() if len(v)}
  return {**found, 'map': map_visits(points, way.states)} if way.plane else found


def _shares(distance: np.ndarray, plane: bool) -> dict[str, float]:
  found = {'steps': len(distance), 'distance': float(distance.mean())}
  if not plane:
    return found
  shares = np.bincount(region_of(distance), minlength=len(REGIONS)) / len(distance)
  return {**found, **dict(zip(REGIONS, shares.tolist(), strict=True))}


def map_visits(places: np.ndarray, shown: np.ndarray) -> dict:
  """Steps in each cell of a grid that begins at `low` cells, and some of the expert's places."""
  cells = np.floor(places / CELL).astype(int)
  low = cells.min(0)
  counts = np.zeros(cells.max(0) - low + 1, int)
  np.add.at(counts, tuple((cells - low).T), 1)
  rows = np.linspace(0, len(shown) - 1, min(SHOWN, len(shown))).round().astype(int)
  return {'low': low.tolist(), 'counts': counts.tolist(), 'expert': shown[rows].round(2).tolist()}


def _reached(run: Run, keys: tuple[str, ...]) -> Episode:
  """What steps led to, without the random ones that fill the replay first; empty if none."""
  keys = (*keys, 'log_explorer')
  found = [read_keys(x, keys) for x in list_files(run.path / 'train_episodes')]
  # Row t holds the state that the action of row t led to; row 0 was led to by none.
  rows = {k: np.concatenate([x[k][1:] for x in found if x]) for k in keys if any(found)}
  rows = {k: v[random_steps(run) :] for k, v in rows.items()}
  return rows if rows and len(rows['log_explorer']) else {}


def random_steps(run: Run) -> int:
  """How many random steps fill the replay first."""
  return run.config.prefill if run.config.prefill_policy == 'random' else 0


# Demonstrations


def demonstrations(run: Run, keys: tuple[str, ...] = ()) -> list[Episode]:
  """What the run learned from, without pictures or these arrays alone; empty if they are gone."""
  folder = demo_place(run)
  paths = list_files(folder)[: run.config.demo_episodes] if folder else []
  return [x for x in (read_keys(path, keys) for path in paths) if x]


def demo_place(run: Run) -> pathlib.Path | None:
  """Their folder, looked for from the working folder, the repository and the logdir."""
  config = run.config
  folder = config.demos or demo_folder('demos', config.task, config)
  for root in (pathlib.Path(), ROOT, run.home, run.home.parent):
    if (root / folder).is_dir() and list_files(root / folder):
      return root / folder
  return None


def demo_success(run: Run) -> tuple[int, int] | None:
  """Successes and attempts of the expert while it made the demonstrations, if recorded."""
  if run.kept:
    return tuple(run.kept['demo_success']) if run.kept['demo_success'] else None
  folder = demo_place(run)
  try:
    meta = load_meta(folder) if folder else None
  except UserError as error:
    warn_once(str(error))
    return None
  if not meta or not meta.get('successes'):
    return None
  return sum(meta['successes']), len(meta['successes']) + meta.get('rejected', 0)


def read_keys(path: pathlib.Path, keys: tuple[str, ...] = ()) -> Episode | None:
  """Some arrays of an episode, or all but pictures; None if one is missing or it is damaged."""
  try:
    with np.load(path, allow_pickle=False) as file:
      chosen = keys or [k for k in file.files if not k.startswith('image')]
      return {k: file[k] for k in chosen}
  except (KeyError, FileNotFoundError):  # not recorded, or removed by the run meanwhile
    return None
  except UNREADABLE as error:
    warn_once(f"the episode '{path}' is damaged and left out ({error}).")
    return None
