"""Mazes: route, noise, goal, markers, and the suite's own dynamics."""

import os
import tempfile

import gymnasium
import numpy as np
import pytest

from recon_tf import envs
from recon_tf.analysis.diagnose import episodes
from recon_tf.common import UserError, load_config
from recon_tf.envs.maze import Maze
from recon_tf.envs.render import mujoco
from recon_tf.experts.maze import shortest_route


def route_of(env):
  walls = np.array([[x == 1 for x in row] for row in env.maze.maze_map])
  return shortest_route(walls, env.start_cell, env.goal_cell)


@pytest.mark.parametrize('task', ['maze_umaze', 'maze_pointmaze'])
def test_default_route_turns_at_least_twice(task):
  moves = np.diff(route_of(Maze(task, render=False)), axis=0)
  turns = (moves[1:] != moves[:-1]).any(1).sum()
  assert turns >= 2


def test_the_ball_is_placed_at_the_beginning_of_an_episode_alone():
  env = Maze('maze_umaze', render=False)
  goal = env.reset(3)['goal']
  obs = env.place([1.0, -1.0], [0.5, 2.0])
  assert obs['is_first']
  np.testing.assert_array_equal(obs['position'], np.float32([1.0, -1.0]))
  np.testing.assert_array_equal(obs['velocity'], np.float32([0.5, 2.0]))
  np.testing.assert_array_equal(obs['goal'], goal)
  assert env.step({'action': np.zeros(2)})['position'][1] > -1.0
  with pytest.raises(UserError, match='place'):
    env.place([1.0, -1.0], [0.0, 0.0])


@pytest.mark.parametrize('task', ['maze_umaze', 'maze_pointmaze'])
def test_dynamics_are_the_suites(task):
  env = Maze(task, render=False, terminate=False)
  env.reset(0)
  name = {'maze_umaze': 'PointMaze_UMaze-v3', 'maze_pointmaze': 'PointMaze_Medium-v3'}[task]
  reference = gymnasium.make(name).unwrapped
  reference.reset(seed=0)
  reference.point_env.set_state(env.data.qpos.copy(), np.zeros(2))
  rng = np.random.default_rng(0)
  # Pushing one way for a while runs into walls and into the speed limit.
  for action in np.repeat(np.sign(rng.standard_normal((4, 2))), 25, 0):
    obs = env.step({'action': action})
    state = reference.point_env.step(action)[0]
    np.testing.assert_allclose(obs['position'], state[:2], atol=1e-6)
    np.testing.assert_allclose(obs['velocity'], state[2:], atol=1e-5)
    np.testing.assert_array_equal(obs['position'], obs['log_position'])


def test_noise_stays_within_its_bounds_and_fills_them():
  env = Maze('maze_umaze', render=False, start_noise=0.1, goal_noise=0.2)
  observed = [env.reset(i) for i in range(200)]
  start = np.array([x['position'] for x in observed]) - env.maze.cell_rowcol_to_xy([3, 1])
  goal = np.array([x['goal'] for x in observed]) - env.maze.cell_rowcol_to_xy([1, 1])
  for offsets, noise in ((start, 0.1), (goal, 0.2)):
    assert np.abs(offsets).max() <= noise + 1e-6
    assert offsets.max() > 0.9 * noise
    assert offsets.min() < -0.9 * noise


def reach_goal(env, steps):
  """Puts the ball next to the goal and lets it rest there."""
  env.reset(0)
  env.data.qpos[:] = env.goal + np.array([0.4, 0])
  return [env.step({'action': np.zeros(2)}) for _ in range(steps)]


def test_goal_ends_the_episode():
  (obs,) = reach_goal(Maze('maze_umaze', render=False), 1)
  assert obs['is_last']
  assert obs['is_terminal']
  assert obs['log_success'] == obs['reward'] == 1


def test_success_stays_after_leaving_the_goal():
  env = Maze('maze_umaze', render=False, terminate=False)
  obs = reach_goal(env, 1)[-1]
  assert not obs['is_last']
  assert obs['log_success'] == obs['log_success_now'] == 1
  env.data.qpos[:] = env.goal + np.array([1.0, 0])
  obs = env.step({'action': np.zeros(2)})
  assert obs['log_success'] == 1
  assert obs['log_success_now'] == obs['reward'] == 0
  assert env.reset(1)['log_success'] == 0


@pytest.mark.parametrize(
  ('key', 'value', 'words'),
  [
    ('start', [0, 0], 'is a wall; free cells'),
    ('goal', [2, 1], 'is a wall'),
    ('start', [9, 1], 'outside'),
    ('goal', [-1, 1], r'\[0, inf\)'),
    ('start', [1], '1 entries'),
    ('goal', [1, 1, 1], '3 entries'),
    ('goal', [3, 1], 'is the start cell'),
    ('start_noise', 0.45, 'walls'),
    ('start_noise', 0.6, r'\[0, 0\.5\]'),
    ('goal_noise', -0.1, r'\[0, 0\.5\]'),
    ('marker', 0.0, r'\(0, 10\]'),
  ],
)
def test_bad_values_name_their_key(key, value, words):
  with pytest.raises(UserError, match=rf'env\.maze\.{key}.*{words}'):
    envs.make('maze_umaze', load_config().update({f'env.maze.{key}': value}))


def test_cells_come_from_config():
  config = load_config().update({'env.maze.start': [1, 3], 'env.maze.start_noise': 0.0})
  env = envs.make('maze_umaze', config)
  np.testing.assert_allclose(env.reset(0)['position'], env.maze.cell_rowcol_to_xy([1, 3]))


def blob(image, channel):
  """Pixels where one colour is far above the other two."""
  image = image.astype(int)
  others = np.delete(image, channel, -1).max(-1)
  return np.argwhere(image[..., channel] > others + 80)


@pytest.mark.parametrize('task', ['maze_umaze', 'maze_pointmaze'])
def test_image_is_a_map_with_green_ball_and_red_goal(task):
  env = Maze(task)
  for seed in range(3):
    obs = env.reset(seed)
    for colour, point in ((1, obs['position']), (0, obs['goal'])):
      pixels = blob(obs['image'], colour)
      assert len(pixels) >= 4
      row, column = pixels.mean(0)
      # x grows to the right, y upwards; the camera is centred on the origin.
      assert abs(column - 31.5) > 3
      assert np.sign(column - 31.5) == np.sign(point[0])
      assert np.sign(31.5 - row) == np.sign(point[1])


def test_image_follows_the_ball_without_lag():
  env = Maze('maze_umaze')
  env.reset(0)
  for _ in range(10):
    obs = env.step({'action': np.array([1.0, 0.0])})
  state = env.get_state()
  np.testing.assert_array_equal(env.set_state(state)['image'], obs['image'])


def test_marker_scales_the_drawing_but_not_the_physics():
  small, large = Maze('maze_umaze', marker=0.6), Maze('maze_umaze', marker=2.0)
  first, second = small.reset(0), large.reset(0)
  for colour in (0, 1):
    assert len(blob(second['image'], colour)) > 4 * len(blob(first['image'], colour))
  for _ in range(40):
    first, second = (x.step({'action': np.array([1.0, 0.3])}) for x in (small, large))
  np.testing.assert_array_equal(first['position'], second['position'])


def test_no_temporary_file_is_left(tmp_path, monkeypatch):
  # A folder of its own: other processes make mazes too.
  monkeypatch.setattr(tempfile, 'tempdir', str(tmp_path))
  written = []
  remove = os.remove
  monkeypatch.setattr(os, 'remove', lambda path: (written.append(path), remove(path)))
  Maze('maze_umaze', render=False)
  assert [os.path.dirname(x) for x in written] == [str(tmp_path)]
  assert not list(tmp_path.iterdir())


def test_the_hue_shows_the_velocity_and_nothing_else_changes():
  """Red grows with the first axis, blue with the second; the physics does not see it."""
  plain, coloured = (Maze('maze_umaze', marker=2.0, hue=x) for x in (0.0, 4.0))
  for action in ((1.0, 0.0), (-0.5, 0.5)):
    for env in (plain, coloured):
      env.reset(1)
      for _ in range(12):
        env.last = env.step({'action': np.array(action, np.float32)})
    for key in ('position', 'velocity', 'log_success'):
      np.testing.assert_array_equal(plain.last[key], coloured.last[key])
    still, moving = (ball_colour(coloured, x) for x in (np.zeros(2), coloured.last['velocity']))
    change = (moving - still)[[0, 2]] / still[[0, 2]]
    np.testing.assert_allclose(change, coloured.last['velocity'] / 4, atol=0.05)
  np.testing.assert_allclose(ball_colour(plain, np.zeros(2)), ball_colour(plain, np.ones(2)))
  fast, faster = (ball_colour(coloured, np.array([x, -x])) for x in (4.0, 5.0))
  np.testing.assert_allclose(fast, faster)  # the end of the scale


def ball_colour(env, velocity: np.ndarray) -> np.ndarray:
  """Colour of the ball's middle at that velocity."""
  env.data.qvel[:] = velocity
  image = env._images()['image']
  return image[tuple(episodes.locate(image, 'ball').astype(int))].astype(float)


def test_close_up_the_ball_is_larger_and_never_hidden():
  far = Maze('maze_umaze', marker=1.5, start_noise=0.0)
  near = Maze('maze_umaze', marker=1.5, start_noise=0.0, close=True)
  first, second = far.reset(0), near.reset(0)
  green = lambda image: blob(image, 1)
  spread = lambda pixels: np.ptp(pixels, 0).min() + 1
  assert spread(green(second['image'])) > 1.4 * spread(green(first['image']))
  for _ in range(60):  # into the outer wall
    first, second = (x.step({'action': np.array([-1.0, -1.0])}) for x in (far, near))
  np.testing.assert_array_equal(first['position'], second['position'])
  assert spread(green(second['image'])) > 1.3 * spread(green(first['image']))
  for env in (far, near):
    env.data.qpos[:] = env.goal
    mujoco.mj_kinematics(env.model, env.data)
  seen, whole = (len(green(x._images()['image'])) for x in (far, near))
  assert seen < 0.2 * whole  # the goal is drawn over it from afar


def test_close_up_all_free_cells_are_in_the_picture():
  for task in ('maze_umaze', 'maze_pointmaze'):
    env = Maze(task, close=True)
    walls = env.maze.maze_map
    for row, cells in enumerate(walls):
      for column, cell in enumerate(cells):
        if cell == 1:
          continue
        env.reset(0)
        env.data.qpos[:] = env.maze.cell_rowcol_to_xy(np.array([row, column]))
        mujoco.mj_kinematics(env.model, env.data)
        pixels = blob(env._images()['image'], 1)
        assert len(pixels) > 3, (task, row, column)
        assert pixels.min() > 0, (task, row, column)
        assert pixels.max() < 63, (task, row, column)
    env.close()
