"""Where real steps went: how far from the expert's states, and in mazes in which region.

The paper's definition for PointMaze: d_E(s) is the distance of the planar position p(s) to the
nearest position of the demonstrations; support is d_E <= 0.025, near is d_E <= 0.10, far beyond.
Tasks without a planar position have the distance of their vectors instead, in deviations of the
demonstrations per dimension, and no regions.
"""

import dataclasses
import pathlib

import numpy as np
from scipy.spatial import cKDTree

from recon_tf.analysis.runs import Run
from recon_tf.common.episodes import list_files, load_meta
from recon_tf.common.errors import UserError
from recon_tf.common.files import warn_once
from recon_tf.common.npz import UNREADABLE
from recon_tf.common.versions import ROOT
from recon_tf.demos.ensure import demo_folder

SUPPORT, NEAR = 0.025, 0.10
REGIONS = ('support', 'near', 'far')
PLANE = 'log_position'
UNIT = 2e-4  # metres, of positions in an archive


@dataclasses.dataclass(frozen=True)
class Steps:
  """States that real steps after the random ones led to, and who acted."""

  explorer: np.ndarray  # bool [steps]
  distance: np.ndarray  # [steps], to the nearest expert state
  position: np.ndarray | None = None  # [steps, 2] in mazes

  def shares(self, explorer: bool) -> dict[str, float] | None:
    """Fraction of the steps in each region, None without a step or without regions."""
    chosen = self.distance[self.explorer == explorer]
    if self.position is None or not len(chosen):
      return None
    counts = np.bincount(region_of(chosen), minlength=len(REGIONS))
    return dict(zip(REGIONS, (counts / len(chosen)).tolist(), strict=True))

  def mean_distance(self, explorer: bool) -> float | None:
    """Of the steps to the expert's states, None without a step."""
    chosen = self.distance[self.explorer == explorer]
    return float(chosen.mean()) if len(chosen) else None


class Cloud:
  """The expert's vectors, each entry divided by its deviation."""

  def __init__(self, vectors: dict[str, np.ndarray]):
    self.keys = tuple(sorted(vectors))
    deviation = self._join(vectors).std(0)
    self._used = deviation > 1e-4  # an entry that never changes has no unit
    self._scale = deviation[self._used]
    self._tree = cKDTree(self.scaled(vectors))

  def _join(self, vectors: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate([np.asarray(vectors[k], float) for k in self.keys], -1)

  def scaled(self, vectors: dict[str, np.ndarray]) -> np.ndarray:
    """As points whose plain distance is the root mean square over the entries."""
    rows = self._join(vectors)[..., self._used] / self._scale
    return rows / np.sqrt(max(rows.shape[-1], 1))

  def distance(self, vectors: dict[str, np.ndarray]) -> np.ndarray:
    """To the nearest of the expert's states."""
    return self._tree.query(self.scaled(vectors))[0]


def _is_vector(key: str, value: np.ndarray) -> bool:
  usual = key.startswith(('log_', 'is_')) or key in ('action', 'reward', 'discount')
  return not usual and value.ndim == 2 and value.dtype.kind == 'f'


def region_of(distance: np.ndarray) -> np.ndarray:
  """Index into REGIONS; a boundary belongs to the nearer region."""
  return np.searchsorted([SUPPORT, NEAR], distance, side='left')


def expert_distance(position: np.ndarray, cloud: np.ndarray) -> np.ndarray:
  """d_E: distance to the nearest of the expert's states."""
  return cKDTree(cloud).query(position)[0]


def real_steps(run: Run) -> Steps | None:
  """All steps of a run; None without episodes or demonstrations."""
  if run.kept:
    return _kept_steps(run)
  positions = expert_cloud(run)
  vectors = vector_cloud(run) if positions is None else None
  rows = _reached(run, vectors.keys if vectors else (PLANE,))
  if not rows:
    return None
  explorer = rows.pop('log_explorer').reshape(-1) > 0
  if positions is not None:
    return Steps(explorer, expert_distance(rows[PLANE], positions), rows[PLANE])
  return Steps(explorer, vectors.distance(rows)) if vectors else None


def vector_keys(episodes: list[dict[str, np.ndarray]]) -> tuple[str, ...]:
  """What tells states apart where there is no plane, () for pictures alone."""
  return tuple(k for k, v in sorted(episodes[0].items()) if _is_vector(k, v)) if episodes else ()


def _reached(run: Run, keys: tuple[str, ...]) -> dict[str, np.ndarray]:
  """What steps led to, without the random ones that fill the replay first; empty if none."""
  keys = (*keys, 'log_explorer')
  found = [read_keys(x, keys) for x in list_files(run.path / 'train_episodes')]
  # Row t holds the state that the action of row t led to; row 0 was led to by none.
  rows = {k: np.concatenate([x[k][1:] for x in found if x]) for k in keys if any(found)}
  first = run.config.prefill if run.config.prefill_policy == 'random' else 0
  rows = {k: v[first:] for k, v in rows.items()}
  return rows if rows and len(rows['log_explorer']) else {}


def _kept_steps(run: Run) -> Steps | None:
  explorer = run.array('explorer')
  if explorer is None:
    return None
  position = run.array('position')
  if position is None:
    return Steps(explorer, run.array('distance').astype(np.float64))
  position = _metres(position)
  return Steps(explorer, expert_distance(position, expert_cloud(run)), position)


def expert_cloud(run: Run) -> np.ndarray | None:
  """Planar positions of the demonstrations that the run learned from, [states, 2]."""
  if run.kept:
    kept = run.array('expert')
    return None if kept is None else _metres(kept)
  found = [x[PLANE] for x in demonstrations(run) if PLANE in x and x[PLANE].shape[1:] == (2,)]
  return np.concatenate(found) if found else None


def vector_cloud(run: Run, keys: tuple[str, ...] = ()) -> Cloud | None:
  """The demonstrations' vectors, these or all; None if they are gone or have none."""
  shown = demonstrations(run, keys)
  keys = keys or vector_keys(shown)
  return Cloud({k: np.concatenate([x[k] for x in shown]) for k in keys}) if keys and shown else None


def _metres(kept: np.ndarray) -> np.ndarray:
  """Archives keep whole units; the first ones kept floats."""
  return kept * (UNIT if kept.dtype.kind == 'i' else 1.0)


def demonstrations(run: Run, keys: tuple[str, ...] = ()) -> list[dict[str, np.ndarray]]:
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


def read_keys(path: pathlib.Path, keys: tuple[str, ...] = ()) -> dict[str, np.ndarray] | None:
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
