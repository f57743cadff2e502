"""Places in a maze off the demonstrated way, without TensorFlow."""

import collections
from collections.abc import Iterable

import numpy as np

from recon_tf import envs
from recon_tf.analysis.regions import Way
from recon_tf.common.config import Config

Cell = tuple[int, int]

CLEAR = 0.12  # between a ball's centre and a wall; its radius is 0.1
GOAL = 0.6  # places nearer to the goal would be solved at once
TRIES = 4000  # places drawn before a distance counts as impossible in this maze


class Map:
  """The free cells of a maze."""

  def __init__(self, maze):
    self._maze = maze
    self.free = np.array([[x != 1 for x in row] for row in maze.maze_map])

  def cell(self, position: np.ndarray) -> Cell:
    return tuple(int(i) for i in self._maze.cell_xy_to_rowcol(np.asarray(position, float)))

  def centre(self, cell: Cell) -> np.ndarray:
    return np.asarray(self._maze.cell_rowcol_to_xy(np.array(cell)), float)

  def cells(self) -> list[Cell]:
    return [(int(row), int(column)) for row, column in np.argwhere(self.free)]

  def clear(self, position: np.ndarray) -> bool:
    """Whether a ball fits there: no corner of the square around it lies in a wall."""
    corners = CLEAR * np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    return all(self.free[self.cell(position + x)] for x in corners)

  def straight(self, start: np.ndarray, end: np.ndarray) -> bool:
    """Whether a ball gets from one place to the other in a straight line."""
    count = int(np.linalg.norm(end - start) / 0.05) + 2
    return all(self.clear(x) for x in np.linspace(start, end, count))


def cells_off(free: np.ndarray, way: Iterable[Cell]) -> dict[Cell, int]:
  """Steps between cells from every free cell to the nearest one of the way."""
  steps = {cell: 0 for cell in way if free[cell]}
  queue = collections.deque(steps)
  while queue:
    row, column = queue.popleft()
    for cell in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
      inside = 0 <= cell[0] < free.shape[0] and 0 <= cell[1] < free.shape[1]
      if inside and free[cell] and cell not in steps:
        steps[cell] = steps[row, column] + 1
        queue.append(cell)
  return steps


def make_map(task: str, config: Config) -> Map:
  """The map of a task, from a simulator that is closed again."""
  env = envs.make(task, config.update({'env.render': False}))
  try:
    return Map(env.maze)
  finally:
    env.close()


def in_walls(task: str, config: Config, places: np.ndarray) -> np.ndarray:
  """Whether each place lies inside a wall, or outside of the maze."""
  map_ = make_map(task, config)
  limit = np.array(map_.free.shape)
  cells = [map_.cell(x) for x in places]
  return np.array(
    [not (np.all(np.array(x) >= 0) and np.all(x < limit) and map_.free[x]) for x in cells]
  )


def locate(task: str, config: Config, places: np.ndarray, way: np.ndarray) -> dict:
  """Cell, cells off the way and whether at a wall of every place, and how many cells are off."""
  map_ = make_map(task, config)
  off = cells_off(map_.free, {map_.cell(x) for x in way})
  cells = [map_.cell(x) for x in places]
  return {
    'cell': np.array([row * map_.free.shape[1] + column for row, column in cells]),
    'off': np.array([off[x] for x in cells]),
    'wall': np.array([not map_.clear(x) for x in places]),
    'cells_off': sum(x > 0 for x in off.values()),
  }


def displace(
  map_: Map, way: Way, distance: float, goal: np.ndarray, rng: np.random.Generator
) -> np.ndarray | None:
  """A place at this distance of the way, in sight of it; None if the maze has none."""
  for _ in range(TRIES):
    base, angle = way.states[rng.integers(len(way.states))], rng.uniform(0, 2 * np.pi)
    place = base + distance * np.array([np.cos(angle), np.sin(angle)])
    if np.linalg.norm(place - goal) < GOAL or way.distance(place) < 0.9 * distance:
      continue
    if map_.clear(base) and map_.straight(base, place):
      return place
  return None
