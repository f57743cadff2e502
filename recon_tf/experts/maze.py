"""Waypoint controller for the point mazes: shortest route through the cells, then a soft PD."""

import collections
from collections.abc import Sequence

import numpy as np

Cell = tuple[int, int]


def shortest_route(blocked: np.ndarray, start: Cell, goal: Cell) -> list[Cell]:
  """Cells from start to goal by breadth-first search over the free cells."""
  parents = {start: start}
  queue = collections.deque([start])
  while queue and goal not in parents:
    row, col = queue.popleft()
    for cell in ((row + 1, col), (row - 1, col), (row, col + 1), (row, col - 1)):
      inside = 0 <= cell[0] < blocked.shape[0] and 0 <= cell[1] < blocked.shape[1]
      if inside and not blocked[cell] and cell not in parents:
        parents[cell] = (row, col)
        queue.append(cell)
  if goal not in parents:
    raise ValueError(f'No way from cell {start} to cell {goal}.')
  route = [goal]
  while route[-1] != start:
    route.append(parents[route[-1]])
  return route[::-1]


def project(route: np.ndarray, point: np.ndarray) -> tuple[float, float]:
  """Arc length of the point's nearest neighbour on a polyline, and the distance to it."""
  begin, delta = route[:-1], np.diff(route, axis=0)
  length = np.linalg.norm(delta, axis=1)
  share = ((point - begin) * delta).sum(1) / np.maximum(length, 1e-9) ** 2
  share = np.clip(share, 0, 1)
  distance = np.linalg.norm(begin + share[:, None] * delta - point, axis=1)
  nearest = int(distance.argmin())
  return float(length[:nearest].sum() + share[nearest] * length[nearest]), float(distance[nearest])


def point_at(route: np.ndarray, arc: float) -> np.ndarray:
  """The point of a polyline at an arc length, clamped to its end."""
  length = np.linalg.norm(np.diff(route, axis=0), axis=1)
  knots = np.concatenate([[0.0], np.cumsum(length)])
  return np.array([np.interp(arc, knots, route[:, i]) for i in range(route.shape[1])])


class MazeExpert:
  """Follows a point that runs ahead on the route, so that actions stay smooth and unsaturated."""

  def __init__(self, env, stiffness=3.0, damping=0.5, ahead=0.55, replan_distance=0.6):
    self.maze = env.maze
    self.blocked = np.array([[x == 1 for x in row] for row in self.maze.maze_map])
    self.stiffness = stiffness
    self.damping = damping
    self.ahead = ahead
    self.replan_distance = replan_distance
    self.route = None

  def __call__(self, obs: dict) -> np.ndarray:
    pos, vel, goal = (np.asarray(obs[k], np.float64) for k in ('position', 'velocity', 'goal'))
    if self.route is None or obs['is_first']:
      self.route = self.plan(pos, goal)
    arc, distance = project(self.route, pos)
    if distance > self.replan_distance:  # pushed off the route
      self.route = self.plan(pos, goal)
      arc, _ = project(self.route, pos)
    target = point_at(self.route, arc + self.ahead)
    action = self.stiffness * (target - pos) - self.damping * vel
    return np.clip(action, -1, 1).astype(np.float32)

  def plan(self, pos: Sequence[float], goal: Sequence[float]) -> np.ndarray:
    """Cell centres from here to the goal's cell, ending in the goal itself."""
    start, end = (tuple(int(i) for i in self.maze.cell_xy_to_rowcol(x)) for x in (pos, goal))
    cells = shortest_route(self.blocked, start, end)
    centres = [self.maze.cell_rowcol_to_xy(np.array(x)) for x in cells[:-1]]
    return np.array([*(centres or [pos]), goal])
