"""Displaced states of real tasks: the same for every method, and the expert comes back."""

import numpy as np
import pytest

from recon_tf import envs
from recon_tf.analysis.diagnose import displaced
from recon_tf.analysis.runs import Run
from recon_tf.common import UserError, load_config
from tests.helpers.expert_runs import make_run


@pytest.fixture(scope='module')
def maze(tmp_path_factory):
  changes = {'task': 'maze_umaze', 'env.maze.start': [3, 3]}
  return make_run(tmp_path_factory.mktemp('maze'), 'maze', 'cpu', 'state', **changes)


def test_every_free_cell_but_the_goals_has_its_distance(maze):
  plan = displaced.make_jobs(maze, 4)
  cells = {tuple(x['cell']): x['difficulty'] for x in plan['jobs'] if x['kind'] == 'cells'}
  # The demonstration goes from the lower right corner up and to the left.
  assert cells == {(1, 2): 0, (1, 3): 0, (2, 3): 0, (3, 3): 0, (3, 2): 1, (3, 1): 2}
  assert all(x['expert'] == 1 for x in plan['jobs'])
  near = {x['difficulty'] for x in plan['jobs'] if x['kind'] == 'distance'}
  assert {0.25, 1.0} <= near <= set(displaced.DISTANCES)
  speeds = [np.linalg.norm(x['place'][2:]) for x in plan['jobs']]
  assert max(speeds) <= displaced.SPEED
  assert set(plan['visits']) == {f'{r},{c}' for r, c in [*cells, (1, 1)]}


def test_states_belong_to_the_seed_and_not_to_the_method(maze):
  jobs = lambda **x: displaced.make_jobs(Run(maze.path, maze.config.update(x)), 1)['jobs']
  assert jobs() == jobs(method='cmil', horizon=3)
  assert jobs() != jobs(seed=1)


def test_an_expert_is_displaced_and_returns_from_there(tmp_path):
  """Hopper: the actions of the jobs lead the simulator where the expert was measured from."""
  run = make_run(tmp_path, 'dmc', 'state', task='dmc_hopper_stand', **{'env.length': 60})
  plan = displaced.make_jobs(run, 2)
  assert plan['measure'] == 'return'
  assert [x['difficulty'] for x in plan['jobs']] == [5, 10, 5, 10]  # 20 is a third of the episode
  job = plan['jobs'][1]
  held = np.array(job['actions'][-10:])
  assert np.ptp(held, 0).max() == 0
  env = envs.make(run.task, run.config)
  expert, obs, total = displaced.experts.make_expert(run.task, env), env.reset(job['seed']), 0.0
  for action in job['actions']:
    obs = env.step({'action': np.array(action)})
  assert 1 <= len(job['actions']) - 10 <= 0.5 * env.length
  while not obs['is_last']:
    obs = env.step({'action': expert(obs)})
    total += obs['reward']
  assert job['expert'] == pytest.approx(total / (env.length - len(job['actions'])), rel=1e-6)


def test_displacement_comes_before_the_expert_would_be_done(tmp_path):
  changes = {'task': 'metaworld_handle-press', 'env.length': 100}
  run = make_run(tmp_path, 'metaworld', 'state', **changes)
  plan = displaced.make_jobs(run, 1)
  assert plan['measure'] == 'success'
  assert [x['difficulty'] for x in plan['jobs']] == [5, 10, 20]
  env = envs.make(run.task, run.config)
  for job in plan['jobs']:
    obs = env.reset(job['seed'])
    for action in job['actions'][: -job['difficulty']]:
      obs = env.step({'action': np.array(action)})
    assert not obs['log_success']
    assert job['expert'] in (0.0, 1.0)


def test_without_an_expert_the_policy_leads(tmp_path):
  config = load_config('state').update({'task': 'gym_Pendulum-v1', 'demos': str(tmp_path)})
  run = Run(tmp_path, config)
  with pytest.raises(UserError, match='demonstrations'):
    displaced.make_jobs(run, 1)
  np.savez(tmp_path / '000.npz', reward=np.full(201, -0.5, np.float32))
  plan = displaced.make_jobs(run, 1)
  assert plan['high'] == pytest.approx(-0.5 * 201 / 200)
  assert -12 < plan['low'] < -2  # of Pendulum's reward, which is about -6 for random actions
  assert [len(x['actions']) for x in plan['jobs']] == [5, 10, 20, 40]
  assert all(x['expert'] is None and 20 <= x['lead'] <= 100 for x in plan['jobs'])


# Places in a maze


@pytest.fixture(scope='module')
def env():
  return envs.make('maze_umaze', load_config('maze', 'cpu', 'state'))


def test_cells_off_the_way_by_hand():
  """Walls are dots; the way is the upper row, and the numbers are counted on the drawing."""
  drawing = ['    ', ' . .', ' . .', '    ']
  free = np.array([[x != '.' for x in row] for row in drawing])
  found = displaced.cells_off(free, [(0, c) for c in range(4)])
  steps = [[found.get((r, c)) for c in range(4)] for r in range(4)]
  assert steps == [[0, 0, 0, 0], [1, None, 1, None], [2, None, 2, None], [3, 4, 3, 4]]


def test_cells_that_no_way_leads_to_are_left_out():
  free = np.array([[True, False, True]])
  assert displaced.cells_off(free, [(0, 0)]) == {(0, 0): 0}


def test_a_ball_fits_into_cells_and_not_into_walls(env):
  map_ = displaced.Map(env.maze)
  assert map_.cells() == [(1, 1), (1, 2), (1, 3), (2, 3), (3, 1), (3, 2), (3, 3)]
  assert map_.clear(map_.centre((1, 1)))
  assert not map_.clear(map_.centre((2, 1)))
  assert map_.clear(map_.centre((1, 1)) - [0.37, 0])
  assert not map_.clear(map_.centre((1, 1)) - [0.39, 0])
  assert map_.straight(map_.centre((1, 1)), map_.centre((1, 3)))
  assert not map_.straight(map_.centre((1, 1)), map_.centre((3, 1)))


def test_displaced_places_keep_their_distance_and_stay_in_sight(env):
  map_, rng = displaced.Map(env.maze), np.random.default_rng(0)
  way = np.linspace(map_.centre((3, 1)), map_.centre((3, 2)), 30)
  goal = map_.centre((1, 1))
  for distance in (0.25, 1.0, 1.3):
    places = [displaced.displace(map_, way, distance, goal, rng) for _ in range(5)]
    for place in places:
      away = np.linalg.norm(way - place, axis=1).min()
      assert 0.9 * distance <= away <= distance + 1e-9
      assert map_.clear(place)
      assert np.linalg.norm(place - goal) >= displaced.GOAL
  assert displaced.displace(map_, way, 9.0, goal, rng) is None
