"""The five stages on a run that cannot have learned anything, as a user asks for them."""

import json

import numpy as np
import pytest

from recon_tf.analysis.diagnose import stages
from tests.helpers.run_fixtures import digests, script, tiny_run


@pytest.fixture(scope='module')
def answers(tmp_path_factory):
  run = tiny_run(tmp_path_factory.mktemp('stages'))
  before = digests(run)
  result = script('diagnose', run, '--stage', 'all', cwd=run.parents[3])
  assert result.returncode == 0, result.stderr
  assert digests(run) == before
  return {i: json.loads((run / 'diagnose' / f'stage_{i}.json').read_text()) for i in range(1, 6)}


@pytest.mark.slow
def test_every_stage_answers(answers):
  assert {i: isinstance(x['holds'], bool) for i, x in answers.items()} == dict.fromkeys(
    answers, True
  )


@pytest.mark.slow
def test_what_moves_is_compared_with_its_variance(answers):
  ahead = [v for k, v in answers[1].items() if k.endswith('_ahead')]
  assert len(ahead) == 2  # position and velocity; the goal does not move and is left out
  own = [v for k, v in answers[1].items() if k.endswith('_own')]  # the run's own episodes
  assert len(own) == 2
  assert min(*ahead, *own) > 0
  assert answers[1]['holds'] == (max(sum(ahead), sum(own)) / 2 < 0.5)


@pytest.mark.slow
def test_expert_and_policy_are_told_apart(answers):
  assert 0.5 < answers[2]['expert'] == answers[4]['expert'] <= 1
  assert 0 <= answers[2]['clone'] <= 1
  assert answers[4]['policy'] < 1
  assert not answers[4]['holds']
  assert 0 <= answers[3]['auroc_random'] <= 1
  assert {f'auroc_noise_{x}' for x in (0.3, 1.0)} < set(answers[3])
  assert all(0 <= v <= 1 for k, v in answers[3].items() if k.startswith('auroc'))


def test_a_constant_prediction_has_the_whole_variance_as_error():
  """A velocity that is steady in the predicted steps does not divide by nothing."""
  goal = np.array([1.0, 2.0]).reshape(2, 1, 1).repeat(100, 1)  # still in each of the episodes
  held = {'speed': np.tile(np.linspace(0, 1, 100), (2, 1))[..., None], 'goal': goal}
  mean = {'speed': np.full((2, 100, 1), 0.5), 'goal': np.zeros((2, 100, 1))}
  batch = {'speed': np.full((2, 20, 1), 0.3)}
  ahead = (batch, {'speed': np.full((2, 20, 1), 0.4)})
  found = stages._see_anything({'ahead': held}, mean, {'ahead': ahead})
  assert set(found) == {'speed_now', 'speed_ahead', 'holds'}
  assert found['speed_now'] == pytest.approx(1)
  assert found['speed_ahead'] == pytest.approx(0.01 / held['speed'].var())
  assert found['holds']


@pytest.mark.slow
def test_both_policies_are_measured(answers):
  numbers = answers[5]
  ratio = numbers['explorer_uncertainty'] / numbers['main_uncertainty']
  assert numbers['ratio'] == pytest.approx(ratio)
  assert 0 <= numbers['explorer_gate'] <= 1
  assert numbers['explorer_distance'] > 0


def test_spans_lie_all_over_an_episode_and_begin_as_sequences_of_the_replay():
  batch = {'action': np.arange(200.0).reshape(2, 100), 'is_first': np.zeros((2, 100), bool)}
  spans = stages._spans(batch)
  rows = [batch['action'][i, x : x + 20] for x in (10, 33, 56, 80) for i in range(2)]
  np.testing.assert_array_equal(spans['action'], rows)
  assert spans['is_first'][:, 0].all()
  assert not spans['is_first'][:, 1:].any()
  assert not batch['is_first'].any()
  short = stages._spans({k: v[:, :25] for k, v in batch.items()})
  np.testing.assert_array_equal(short['action'], batch['action'][:, 5:25])


def test_a_policy_that_falls_is_measured_by_its_own_movement():
  held = {'height': np.tile([0.9, 1.1], (2, 50))[..., None]}
  own = {'height': np.tile([0.0, 1.0], (2, 50))[..., None]}
  now = {'height': held['height']}
  predict = lambda batch: (batch, {'height': np.full_like(batch['height'], 0.5)})
  later = {'ahead': predict(held), 'own': predict(own)}
  found = stages._see_anything({'ahead': held, 'own': own}, now, later)
  assert found['height_now'] == 0
  assert found['height_ahead'] == pytest.approx(0.6**2 / 0.1**2)
  assert found['height_own'] == pytest.approx(1)
