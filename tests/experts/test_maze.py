"""The waypoint controller on the real mazes."""

import numpy as np
import pytest

from recon_tf import envs
from recon_tf.common import load_config
from recon_tf.demos.make import rollout
from recon_tf.experts import make_expert
from recon_tf.experts.maze import point_at, project, shortest_route

WALLS = np.array([[0, 0, 0], [1, 1, 0], [0, 0, 0]], bool)


def test_route_is_shortest_and_avoids_walls():
  route = shortest_route(WALLS, (0, 0), (2, 0))
  assert route == [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0)]
  with pytest.raises(ValueError, match='No way'):
    shortest_route(np.array([[0, 1, 0]], bool), (0, 0), (0, 2))


def test_projection_and_point_are_inverse_on_the_route():
  route = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 2.0]])
  for arc in (0.0, 0.4, 1.0, 1.7, 3.0):
    assert project(route, point_at(route, arc)) == pytest.approx((arc, 0.0))
  assert project(route, np.array([0.5, -0.2])) == pytest.approx((0.5, 0.2))
  np.testing.assert_allclose(point_at(route, 9.0), [1.0, 2.0])


@pytest.mark.parametrize('task', ['maze_umaze', 'maze_pointmaze'])
def test_succeeds_with_smooth_actions_over_fresh_seeds(task):
  env = envs.make(task, load_config(env={'render': False}))
  expert = make_expert(task, env)
  episodes = [rollout(env, expert, seed) for seed in range(100, 120)]
  assert np.mean([x['log_success'][-1] for x in episodes]) >= 0.95
  actions = np.concatenate([x['action'][1:] for x in episodes])
  # What is cloned easily: far from bang-bang, and no chatter from step to step.
  assert (np.abs(actions) > 0.999).mean() < 0.05
  assert np.mean([np.abs(np.diff(x['action'][1:], axis=0)).mean() for x in episodes]) < 0.05


def test_plans_again_after_a_push_into_another_corridor():
  env = envs.make('maze_pointmaze', load_config(env={'render': False, 'length': 900}))
  expert = make_expert('maze_pointmaze', env)
  obs = env.reset(seed=0)
  for _ in range(20):
    obs = env.step({'action': expert(obs)})
  cells = [env.maze.cell_rowcol_to_xy(x) for x in np.argwhere(~expert.blocked)]
  distances = [project(expert.route, x)[1] for x in cells]
  assert max(distances) >= 1
  env.data.qpos[:] = cells[int(np.argmax(distances))]
  old = expert.route
  obs = env.step({'action': np.zeros(2)})
  while not obs['is_last']:
    obs = env.step({'action': expert(obs)})
  assert obs['log_success'] == 1
  assert expert.route is not old
