"""Training without an environment: what the loop asks of one, read off demonstrations."""

import dataclasses
import pathlib

import numpy as np
from gymnasium.spaces import Box

from recon_tf.common.episodes import Episode, load_meta
from recon_tf.common.spaces import Spaces, from_dict, space_of_episode


class Recorded:
  """Has the spaces and the length of the demonstrations; it cannot be stepped."""

  success_task = False

  def __init__(self, task: str, episodes: list[Episode], folder: str | pathlib.Path):
    self.task = task
    self.length = self.full = max(len(x['action']) for x in episodes) - 1
    meta = load_meta(folder) or {}
    shown = space_of_episode(episodes[0])
    source = f"'spaces' in '{folder}/meta.json'"
    known = from_dict(meta['spaces'], source) if 'spaces' in meta else shown
    self.spaces: Spaces = dataclasses.replace(known, observations=shown.observations)
    self.obs_space = {k: box(episodes[0][k]) for k in shown.observations}
    self.act_space = {'action': Box(-1, 1, (episodes[0]['action'].shape[1],))}

  def ready(self) -> 'Recorded':
    return self

  def close(self) -> None:
    pass


def box(values: np.ndarray) -> Box:
  """The space of one row of an episode's array."""
  low, high = (0, 255) if values.dtype == np.uint8 else (-np.inf, np.inf)
  return Box(low, high, values.shape[1:], values.dtype)
