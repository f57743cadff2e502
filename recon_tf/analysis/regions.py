"""Where real steps went: expert-support, near-support or far, by distance to the expert states.

The paper's definition for PointMaze: d_E(s) is the distance of the planar position p(s) to the
nearest position of the demonstrations; support is d_E <= 0.025, near is d_E <= 0.10, far beyond.
"""

import dataclasses
import pathlib

import numpy as np
from scipy.spatial import cKDTree

from recon_tf.analysis.runs import RunFolder
from recon_tf.common.episodes import list_files, load_meta
from recon_tf.common.errors import UserError
from recon_tf.common.npz import UNREADABLE
from recon_tf.common.versions import ROOT
from recon_tf.demos.ensure import demo_folder

SUPPORT, NEAR = 0.025, 0.10
REGIONS = ('support', 'near', 'far')
POSITIONS = 'positions.npz'  # of an archived run, instead of its episodes and demonstrations


@dataclasses.dataclass(frozen=True)
class Steps:
  """Positions that were reached by real steps after the random ones, and who acted."""

  position: np.ndarray  # [steps, 2]
  explorer: np.ndarray  # bool [steps]
  distance: np.ndarray  # [steps], to the nearest expert position

  def shares(self, explorer: bool) -> dict[str, float] | None:
    """Fraction of the steps in each region, None without a step."""
    chosen = self.distance[self.explorer == explorer]
    if not len(chosen):
      return None
    counts = np.bincount(region_of(chosen), minlength=len(REGIONS))
    return dict(zip(REGIONS, (counts / len(chosen)).tolist(), strict=True))

  def mean_distance(self, explorer: bool) -> float | None:
    """Of the steps to the expert's positions, None without a step."""
    chosen = self.distance[self.explorer == explorer]
    return float(chosen.mean()) if len(chosen) else None


def region_of(distance: np.ndarray) -> np.ndarray:
  """Index into REGIONS; a boundary belongs to the nearer region."""
  return np.searchsorted([SUPPORT, NEAR], distance, side='left')


def expert_distance(position: np.ndarray, cloud: np.ndarray) -> np.ndarray:
  """d_E: distance to the nearest of the expert's positions."""
  return cKDTree(cloud).query(position)[0]


def real_steps(run: RunFolder) -> Steps | None:
  """All steps of a run with a planar position; None without episodes, positions or expert."""
  cloud = expert_cloud(run)
  rows = read_steps(run)
  if cloud is None or not len(rows):
    return None
  position, explorer = rows[:, :2], rows[:, 2] > 0
  return Steps(position, explorer, expert_distance(position, cloud))


def read_steps(run: RunFolder) -> np.ndarray:
  """[steps, 3] of x, y and who acted, without the random ones that fill the replay first."""
  if kept := _archived(run):
    return kept['steps']
  rows = []
  for path in list_files(run.path / 'train_episodes'):
    episode = read_keys(path, ('log_position', 'log_explorer'))
    if episode is None or episode['log_position'].shape[1:] != (2,):
      continue
    # Row t holds the state that the action of row t led to; row 0 was led to by none.
    acted = episode['log_explorer'].reshape(-1, 1)
    rows.append(np.concatenate([episode['log_position'], acted], 1)[1:])
  rows = np.concatenate(rows) if rows else np.zeros((0, 3))
  return rows[run.config.prefill :] if run.config.prefill_policy == 'random' else rows


def expert_cloud(run: RunFolder) -> np.ndarray | None:
  """Positions of the demonstrations that the run learned from, [states, 2]."""
  if kept := _archived(run):
    return kept['expert']
  folder = demonstrations(run)
  if folder is None:
    return None
  found = []
  for path in list_files(folder)[: run.config.demo_episodes]:
    episode = read_keys(path, ('log_position',))
    if episode is not None and episode['log_position'].shape[1:] == (2,):
      found.append(episode['log_position'])
  return np.concatenate(found) if found else None


def demonstrations(run: RunFolder) -> pathlib.Path | None:
  """Their folder, looked for from the working folder and from the repository; None if gone."""
  config = run.config
  folder = config.demos or demo_folder('demos', config.task, config)
  for root in (pathlib.Path(), ROOT):
    if (root / folder).is_dir() and list_files(root / folder):
      return root / folder
  return None


def expert_success(run: RunFolder) -> tuple[int, int] | None:
  """Successes and attempts of the expert while it made the demonstrations, if recorded."""
  if kept := _archived(run):
    return tuple(kept['expert_success'].tolist()) or None
  folder = demonstrations(run)
  try:
    meta = load_meta(folder) if folder else None
  except UserError:
    return None
  if not meta or not meta.get('successes'):
    return None
  successes = sum(meta['successes'])
  return successes, len(meta['successes']) + meta.get('rejected', 0)


def _archived(run: RunFolder) -> dict[str, np.ndarray] | None:
  return read_keys(run.path / POSITIONS, ('steps', 'expert', 'expert_success'))


def read_keys(path: pathlib.Path, keys: tuple[str, ...]) -> dict[str, np.ndarray] | None:
  """Some arrays of an episode, without decoding its images; None if one is missing."""
  try:
    with np.load(path, allow_pickle=False) as file:
      return {k: file[k] for k in keys}
  except UNREADABLE:
    return None
