"""Point mazes of Gymnasium-Robotics with one start and one goal cell."""

import os
from collections.abc import Sequence

import gymnasium
import numpy as np

from recon_tf.common.errors import UserError, nearest
from recon_tf.envs.base import Environment, decisions, repeats
from recon_tf.envs.gym import register_robotics
from recon_tf.envs.render import Renderer, mujoco

# id, decisions, camera distance, start and goal cell [row, column]
TASKS = {
  'maze_umaze': ('PointMaze_UMaze-v3', 300, 6.4, (3, 1), (1, 1)),
  'maze_pointmaze': ('PointMaze_Medium-v3', 500, 10.2, (1, 1), (6, 6)),
}
GOAL_RADIUS = 0.45
MAX_SPEED = 5.0
MARKER_RADIUS = 0.2
# The ball's radius is 0.1 in a cell of half width 0.5.
MAX_NOISE = 0.4
WALL_HEIGHT = 0.4
VIEW_ANGLE = 45  # degrees, of MuJoCo's free camera


class Maze(Environment):
  """Vector keys position, velocity and goal; reward 1 within 0.45 of the goal."""

  success_task = True
  layout = ('site_pos',)
  # Contacts are frictionless here (condim 1): damping is what resists motion.
  friction = ('dof_damping',)

  def __init__(
    self,
    task: str,
    seed: int = 0,
    *,
    size: tuple[int, int] = (64, 64),
    render: bool = True,
    repeat: int = 0,
    length: int = 0,
    start: Sequence[int] = (),
    goal: Sequence[int] = (),
    start_noise: float = 0.25,
    goal_noise: float = 0.25,
    terminate: bool = True,
    marker: float = 1.0,
    hue: float = 0.0,
    close: bool = False,
  ):
    if task not in TASKS:
      raise UserError(f"Unknown task '{task}'.{nearest(task, TASKS)}")
    name, own_length, distance, own_start, own_goal = TASKS[task]
    repeat = repeats(repeat, 1)
    full = decisions(0, own_length, repeat)
    super().__init__(task, decisions(length, own_length, repeat), repeat, seed, full)
    register_robotics()
    inner = gymnasium.make(name, continuing_task=False, disable_env_checker=True).unwrapped
    # The suite leaves its temporary file behind.
    os.remove(inner.tmp_xml_file_path)
    self.maze = inner.maze
    self.model = inner.point_env.model
    self.data = inner.point_env.data
    self.start_cell = self._cell('env.maze.start', start or own_start)
    self.goal_cell = self._cell('env.maze.goal', goal or own_goal)
    if self.start_cell == self.goal_cell:
      raise UserError(f'env.maze.goal: {list(self.goal_cell)} is the start cell; choose another.')
    self._start_noise = _noise('env.maze.start_noise', start_noise)
    self._goal_noise = _noise('env.maze.goal_noise', goal_noise)
    self._terminate = terminate
    self._hue = hue
    self._actions = 2
    self._target = self.model.site('target').id
    distance = _close_distance(self.maze) if close else distance
    self._draw_markers(marker)
    if close:
      self._lift_ball()
    if render:
      self._renderer = Renderer(self.model, size, _camera_above(distance))
    self._ready()

  @property
  def goal(self) -> np.ndarray:
    """Planar position of the goal."""
    return self.model.site_pos[self._target, :2].copy()

  def place(self, position: Sequence[float], velocity: Sequence[float]) -> dict[str, np.ndarray]:
    """Moves the ball of an episode that has just begun; returns its new first observation."""
    if self._count or not self._running:
      raise UserError(f'{self.task}: place() belongs right after reset().')
    self.data.qpos[:], self.data.qvel[:] = position, velocity
    mujoco.mj_forward(self.model, self.data)
    return self._observe(np.zeros(self._actions), 0.0, False, is_first=True)

  def _reset(self, rng: np.random.Generator) -> None:
    start = self.maze.cell_rowcol_to_xy(self.start_cell)
    goal = self.maze.cell_rowcol_to_xy(self.goal_cell)
    start = start + rng.uniform(-self._start_noise, self._start_noise, 2)
    goal = goal + rng.uniform(-self._goal_noise, self._goal_noise, 2)
    mujoco.mj_resetData(self.model, self.data)
    self.data.qpos[:] = start
    self.model.site_pos[self._target, :2] = goal
    mujoco.mj_forward(self.model, self.data)

  def _step(self, action: np.ndarray) -> tuple[float, bool]:
    # The suite's own step without its second forward pass.
    for _ in range(self.repeat):
      np.clip(self.data.qvel, -MAX_SPEED, MAX_SPEED, out=self.data.qvel)
      self.data.ctrl[:] = action
      mujoco.mj_step(self.model, self.data)
      if self._terminate and self._solved():
        break
    # A step leaves the drawn poses one time step behind.
    mujoco.mj_kinematics(self.model, self.data)
    solved = self._solved()
    return float(solved), self._terminate and solved

  def _vectors(self) -> dict[str, np.ndarray]:
    return {'position': self.data.qpos, 'velocity': self.data.qvel, 'goal': self.goal}

  def _logs(self) -> dict[str, np.ndarray]:
    return {'log_position': self.data.qpos}

  def _images(self) -> dict[str, np.ndarray]:
    """With hue, one picture shows the velocity: red for the first axis, blue for the second."""
    if self._hue:
      red, blue = 0.35 * (1 + np.clip(self.data.qvel / self._hue, -1, 1))
      self.model.site('particle_site').rgba[:] = (red, 0.9, blue, 1)
    return super()._images()

  def _solved(self) -> bool:
    return bool(np.linalg.norm(self.data.qpos - self.goal) <= GOAL_RADIUS)

  def _lift_ball(self) -> None:
    """Neither a wall nor the goal hides it."""
    ball = self.model.site('particle_site')
    ball.pos[2] = WALL_HEIGHT
    self.model.site_sameframe[ball.id] = 0  # else MuJoCo takes the body's place for it

  def _draw_markers(self, scale: float) -> None:
    # Both are sites, which the physics never sees.
    if not 0 < scale <= 2.5:
      raise UserError(f'env.maze.marker: must be above 0 and at most 2.5, not {scale}.')
    for name, rgba in (('target', (1, 0, 0, 1)), ('particle_site', (0.1, 0.8, 0.1, 1))):
      site = self.model.site(name)
      site.size[:] = MARKER_RADIUS * scale
      site.rgba[:] = rgba

  def _cell(self, key: str, cell: Sequence[int]) -> tuple[int, int]:
    walls = self.maze.maze_map
    rows, columns = len(walls), len(walls[0])
    if len(cell) != 2 or any(int(x) != x for x in cell):
      raise UserError(f'{key}: needs two whole numbers, row and column, not {list(cell)}.')
    row, column = (int(x) for x in cell)
    if not (0 <= row < rows and 0 <= column < columns):
      raise UserError(f'{key}: {[row, column]} is outside the maze of {rows} x {columns} cells.')
    if walls[row][column] == 1:
      free = [[r, c] for r in range(rows) for c in range(columns) if walls[r][c] != 1]
      raise UserError(f'{key}: {[row, column]} is a wall; free cells are {free}.')
    return row, column


def _noise(key: str, value: float) -> float:
  if not 0 <= value <= MAX_NOISE:
    raise UserError(f'{key}: must be from 0 to {MAX_NOISE} (beyond are walls), not {value}.')
  return float(value)


def _close_distance(maze) -> float:
  """From where the free cells fill the picture, with a little of the outer wall."""
  cells = max(len(maze.maze_map), len(maze.maze_map[0])) - 2
  return (0.5 * cells * maze.maze_size_scaling + 0.25) / np.tan(np.radians(VIEW_ANGLE / 2))


def _camera_above(distance: float):
  camera = mujoco.MjvCamera()
  camera.type = mujoco.mjtCamera.mjCAMERA_FREE
  camera.lookat[:] = 0
  camera.distance, camera.azimuth, camera.elevation = distance, 90, -90
  return camera
