"""Distances between cells and places off the way, in mazes that are small enough to count."""

import numpy as np
import pytest

from recon_tf import envs
from recon_tf.analysis.diagnose import mazes
from recon_tf.analysis.regions import Way
from recon_tf.common import load_config


@pytest.fixture(scope='module')
def env():
  return envs.make('maze_umaze', load_config('maze', 'cpu', 'state'))


def test_cells_off_the_way_by_hand():
  """Walls are dots; the way is the upper row, and the numbers are counted on the drawing."""
  drawing = ['    ', ' . .', ' . .', '    ']
  free = np.array([[x != '.' for x in row] for row in drawing])
  found = mazes.cells_off(free, [(0, c) for c in range(4)])
  steps = [[found.get((r, c)) for c in range(4)] for r in range(4)]
  assert steps == [[0, 0, 0, 0], [1, None, 1, None], [2, None, 2, None], [3, 4, 3, 4]]


def test_cells_that_no_way_leads_to_are_left_out():
  free = np.array([[True, False, True]])
  assert mazes.cells_off(free, [(0, 0)]) == {(0, 0): 0}


def test_a_ball_fits_into_cells_and_not_into_walls(env):
  map_ = mazes.Map(env.maze)
  assert map_.cells() == [(1, 1), (1, 2), (1, 3), (2, 3), (3, 1), (3, 2), (3, 3)]
  assert map_.clear(map_.centre((1, 1)))
  assert not map_.clear(map_.centre((2, 1)))
  assert map_.clear(map_.centre((1, 1)) - [0.37, 0])
  assert not map_.clear(map_.centre((1, 1)) - [0.39, 0])
  assert map_.straight(map_.centre((1, 1)), map_.centre((1, 3)))
  assert not map_.straight(map_.centre((1, 1)), map_.centre((3, 1)))


def test_displaced_places_keep_their_distance_and_stay_in_sight(env):
  map_, rng = mazes.Map(env.maze), np.random.default_rng(0)
  states = np.linspace(map_.centre((3, 1)), map_.centre((3, 2)), 30)
  way, goal = Way([{'log_position': states}]), map_.centre((1, 1))
  for distance in (0.25, 1.0, 1.3):
    places = [mazes.displace(map_, way, distance, goal, rng) for _ in range(5)]
    for place in places:
      away = np.linalg.norm(states - place, axis=1).min()
      assert 0.9 * distance <= away <= distance + 1e-9
      assert map_.clear(place)
      assert np.linalg.norm(place - goal) >= mazes.GOAL
  assert mazes.displace(map_, way, 9.0, goal, rng) is None


def test_places_by_cell_and_wall():
  """A demonstration of the lower row leaves the other four cells off the way."""
  config = load_config('maze', 'cpu', 'state')
  map_ = mazes.Map(envs.make('maze_umaze', config).maze)
  way = np.linspace(map_.centre((3, 1)), map_.centre((3, 3)), 30)
  corner = map_.centre((1, 1)) - [0.39, 0]
  places = np.array([map_.centre((3, 2)), map_.centre((2, 3)), corner, map_.centre((1, 1))])
  found = mazes.locate('maze_umaze', config, places, way)
  assert found['off'].tolist() == [0, 1, 4, 4]
  assert found['wall'].tolist() == [False, False, True, False]
  assert found['cells_off'] == 4
  assert len(set(found['cell'][:3])) == 3
  assert found['cell'][2] == found['cell'][3]


def test_places_in_walls_and_outside(env):
  map_, config = mazes.Map(env.maze), load_config('maze', 'cpu', 'state')
  beside = map_.centre((1, 1)) - [0.49, 0]
  outside = beside - [30, 0]
  places = np.array([map_.centre((1, 1)), beside, beside - [0.02, 0], map_.centre((2, 1)), outside])
  assert mazes.in_walls('maze_umaze', config, places).tolist() == [False, False, True, True, True]
