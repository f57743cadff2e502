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
