"""Recovery: experts as the policy reach the experts' own numbers; scores by hand."""

import contextlib

import numpy as np
import pytest

from recon_tf import envs, experts
from recon_tf.analysis.diagnose import displaced, recovery
from recon_tf.analysis.regions import Way
from recon_tf.analysis.runs import Run
from recon_tf.common import UserError
from tests.helpers.expert_runs import make_run


class ExpertPolicy:
  """The task's expert behind the interface of an agent; notes what its state was told."""

  def __init__(self, run: Run, rows: int):
    twins = [envs.make(run.task, run.config.update({'env.render': False})) for _ in range(rows)]
    self.experts = [experts.make_expert(run.task, x) for x in twins]
    self.told = []

  def policy(self, obs, state, mode):
    assert mode == 'eval'
    self.told.append((obs['is_first'].copy(), state and state['action']))
    rows = [{k: v[i] for k, v in obs.items()} for i in range(len(self.experts))]
    action = np.stack([expert(x) for expert, x in zip(self.experts, rows, strict=True)])
    return {'action': action}, {'action': action}


@contextlib.contextmanager
def workers(run: Run, number: int):
  found = [envs.Worker(run.task, run.config, 0, wait=False) for _ in range(number)]
  yield found
  for worker in found:
    worker.close()


CASES = [
  (('maze', 'cpu', 'state'), {'task': 'maze_umaze', 'env.maze.start': [3, 3]}),
  (('dmc', 'state'), {'task': 'dmc_hopper_stand', 'env.length': 60}),
  (('metaworld', 'state'), {'task': 'metaworld_handle-press', 'env.length': 100}),
]


@pytest.mark.parametrize(('presets', 'changes'), CASES, ids=['maze', 'dmc', 'metaworld'])
def test_the_expert_as_policy_does_what_the_expert_did(tmp_path, presets, changes):
  """Both start from the very same states, though in other processes and out of order."""
  run = make_run(tmp_path, *presets, **changes)
  plan = displaced.make_jobs(run, 2)
  with workers(run, 3) as envs_:
    agent = ExpertPolicy(run, 3)
    outcomes = recovery.send(agent, envs_, plan['jobs'])
    result = recovery.summarize(plan, outcomes, recovery.expert_way(run, envs_[0].obs_space))
  for row in result['episodes']:
    assert row['value'] == pytest.approx(row['expert'], rel=1e-5)
  assert result['score'] == pytest.approx(1.0)
  assert result['lost'] == 0
  assert all(x['distance'] >= 0 for x in result['episodes'])
  # The belief is told about displacing actions, and begins anew with every episode.
  assert sum(first.sum() for first, _ in agent.told) >= len(plan['jobs'])
  job = plan['jobs'][0]
  if job['actions']:
    np.testing.assert_array_equal(agent.told[1][1][0], np.float32(job['actions'][0]))


def test_a_policy_that_does_nothing_recovers_from_nowhere(tmp_path):
  run = make_run(tmp_path, *CASES[0][0], **CASES[0][1])
  plan = displaced.make_jobs(run, 1)

  class Idle:
    def policy(self, obs, state, mode):
      return {'action': np.zeros((len(obs['is_first']), 2))}, None

  with workers(run, 2) as envs_:
    result = recovery.summarize(plan, recovery.send(Idle(), envs_, plan['jobs']), None)
  assert result['expert'] == 1
  assert result['score'] < 0.5
  assert result['by_distance'] == []
  table = {tuple(x['cell']): x for x in recovery.cell_table(plan, result['episodes'])}
  assert table[3, 1]['off'] == 2
  assert table[3, 1]['score'] == 0
  assert table[3, 1]['steps'] == 0


def rows(kind, difficulty, values, expert, **more):
  row = {'kind': kind, 'difficulty': difficulty, 'expert': expert, 'distance': None, **more}
  return [{**row, 'value': x} for x in values]


def test_only_states_count_that_the_expert_comes_back_from():
  plan = {'measure': 'success'}
  episodes = [
    *rows('distance', 0.5, [1, 1, 1, 0], 1.0),
    *rows('distance', 1.0, [1, 0], 0.0),
    *rows('cells', 1, [1, 0, 0, 0, 0], 1.0),
  ]
  assert recovery.kind_score(plan, episodes, 'distance') == pytest.approx(3 / 4)
  assert recovery.kind_score(plan, episodes, 'cells') == pytest.approx(1 / 5)
  assert recovery.kind_score(plan, rows('cells', 1, [0], 0.0), 'cells') is None


def test_cells_on_the_way_are_no_displacement_and_kinds_weigh_the_same():
  job = {'seed': 0, 'lead': 0, 'actions': [], 'expert': 1.0}
  kinds = [('cells', 0)] * 4 + [('cells', 2)] * 3 + [('distance', 0.5)]
  jobs = [{**job, 'kind': kind, 'difficulty': x} for kind, x in kinds]
  plan = {'measure': 'success', 'jobs': jobs, 'length': 9}
  ends = [{'success': float(x), 'return': 0.0, 'steps': 3} for x in (1, 1, 1, 1, 0, 1, 0, 1)]
  found = recovery.summarize(plan, ends, None)
  assert found['scores'] == pytest.approx({'cells': 1 / 3, 'distance': 1.0})
  assert found['score'] == pytest.approx(2 / 3)
  levels = [(x['kind'], x['difficulty'], x['score']) for x in found['by_difficulty']]
  assert levels == [('cells', 0, 1.0), ('cells', 2, pytest.approx(1 / 3)), ('distance', 0.5, 1.0)]


def test_returns_are_a_share_of_the_experts():
  plan = {'measure': 'return'}
  episodes = [
    *rows('decisions', 5, [0.3, 0.5], 0.8, usual=1.0),
    *rows('decisions', 40, [0.1, 0.1], 0.2, usual=1.0),  # the expert has lost it there
  ]
  first = recovery.group(plan, episodes[:2])
  assert first == pytest.approx({'score': 0.5, 'expert': 0.8, 'episodes': 2})
  assert recovery.kind_score(plan, episodes, 'decisions') == pytest.approx(0.5)


def test_without_an_expert_returns_lie_between_random_actions_and_demonstrations():
  plan = {'measure': 'return', 'low': -6.0, 'high': -1.0}
  found = recovery.group(plan, rows('decisions', 5, [-2.0, -3.0], None))
  assert found == {'score': pytest.approx(0.7), 'expert': None, 'episodes': 2}
  assert recovery.group(plan, rows('decisions', 5, [-9.0], None))['score'] == 0
  assert recovery.group(plan, rows('decisions', 5, [0.0], None))['score'] == 1


def test_distance_to_the_experts_states_is_in_deviations():
  """Entries 2 and 10 apart have deviations 1 and 5; the constant one has none and is ignored."""
  shown = {'a': np.array([[0.0, 3.0], [2.0, 3.0]]), 'b': np.array([[0.0], [10.0]])}
  way = Way([shown], ('a', 'b'))
  distance = lambda a, b: way.distance(way.points({'a': np.array(a), 'b': np.array([b])}))
  assert distance([2.0, 99.0], 10.0) == 0
  assert distance([5.0, 3.0], 30.0) == pytest.approx(np.sqrt((3**2 + 4**2) / 2))


def test_bands_by_distance_hold_equally_many_episodes():
  plan = {'measure': 'success'}
  episodes = [{**rows('decisions', 5, [i % 2], 1.0)[0], 'distance': 8.0 - i} for i in range(8)]
  found = recovery.by_distance(plan, episodes)
  assert [(x['low'], x['high'], x['episodes']) for x in found] == [
    (1, 2, 2), (3, 4, 2), (5, 6, 2), (7, 8, 2)
  ]  # fmt: skip


def test_episodes_that_end_too_early_are_not_counted():
  job = {'kind': 'decisions', 'difficulty': 5, 'seed': 0, 'lead': 3, 'actions': [], 'expert': 1.0}
  with pytest.raises(UserError, match='over before'):
    recovery.summarize({'measure': 'success', 'jobs': [job], 'length': 9}, [None], None)
