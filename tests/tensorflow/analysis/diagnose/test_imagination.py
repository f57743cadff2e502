"""Real and imagined ways back: the same first pair, steps and values by hand, and the summary."""

import numpy as np
import pytest

from recon_tf.analysis.diagnose import imagination
from recon_tf.analysis.regions import Way
from tests.helpers.agent_fixtures import shared_agent

ALPHA = 3.0


@pytest.fixture(scope='module')
def agent():
  return shared_agent('recon')


@pytest.fixture(scope='module')
def judge(agent):
  return imagination.Judge(agent, ALPHA)


def beliefs(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
  rng = np.random.default_rng(seed)
  return {
    k: rng.normal(size=(rows, n)).astype(np.float32) for k, n in (('deter', 10), ('stoch', 4))
  }


def episode(rows: int, seed: int = 0) -> list[dict]:
  rng, states = np.random.default_rng(seed + 1), beliefs(rows, seed)
  steps = [{k: v[i] for k, v in states.items()} for i in range(rows)]
  return [{**x, 'action': rng.uniform(-1, 1, 2).astype(np.float32)} for x in steps]


def test_imagination_follows_the_main_policy_in_the_mean_of_the_heads(agent, judge):
  start = beliefs(2)
  found = {k: v.numpy() for k, v in judge.imagine(**start).items()}
  assert found['action'].shape == (imagination.STEPS, 2, 2)
  np.testing.assert_array_equal(found['deter'][0], start['deter'])
  rssm = agent.world_model.rssm
  for step in (0, 1, imagination.STEPS - 2):
    state = {k: found[k][step] for k in ('deter', 'stoch')}
    action = agent.main.policy(rssm.features(state)).mode().numpy()
    np.testing.assert_allclose(found['action'][step], action, atol=1e-6)
    following = rssm.mean_step(state, action)
    np.testing.assert_allclose(found['deter'][step + 1], following['deter'], atol=1e-6)
    np.testing.assert_allclose(found['stoch'][step + 1], following['stoch'], atol=1e-6)


def test_pairs_have_the_rewards_and_the_critic_of_the_main_policy(agent, judge):
  state, action = beliefs(5), np.zeros((5, 2), np.float32)
  found = {k: v.numpy() for k, v in judge.pairs(*state.values(), action).items()}
  feature = agent.world_model.rssm.features(state)
  np.testing.assert_allclose(found['disc'], agent.disc.prob(feature, action), rtol=1e-5)
  np.testing.assert_allclose(
    found['reward'], found['disc'] - ALPHA * found['uncertainty'], rtol=1e-5
  )
  inputs = np.concatenate([feature, action], -1)
  values = np.stack([q(inputs)[..., 0] for q in agent.main.critics])
  np.testing.assert_allclose(found['critic'], values.min(0), rtol=1e-4, atol=1e-6)
  heads = agent.world_model.rssm.head_means(
    agent.world_model.rssm.mean_step(state, action)['deter']
  ).numpy()
  np.testing.assert_allclose(found['uncertainty'], heads.std(0).mean(-1), rtol=1e-3)


def test_what_is_real_and_what_is_imagined_begin_with_the_same_pair(agent, judge):
  """With one decision there is nothing else, whatever is said of it later."""
  (row,) = episode(1)
  feature = agent.world_model.rssm.features({k: row[k][None] for k in ('deter', 'stoch')})
  row['action'] = agent.main.policy(feature).mode().numpy()[0]
  found = imagination.compare(judge, [row], None, 0.9)
  for key in ('disc', 'uncertainty', 'return'):
    assert found[f'real_{key}'] == pytest.approx(found[f'imagined_{key}'], rel=1e-5)
  assert found['real_return'] == pytest.approx(found['critic'], rel=1e-5)
  assert found['real_distance'] is None


def test_both_end_with_the_real_episode_and_at_the_horizon_at_the_latest(judge):
  assert imagination.compare(judge, episode(7), None, 0.9)['count'] == 7
  rows = episode(imagination.STEPS + 3)
  found = imagination.compare(judge, rows, None, 0.9)
  assert found['count'] == imagination.STEPS
  states = [np.stack([x[k] for x in rows]) for k in ('deter', 'stoch', 'action')]
  said = judge.pairs(*(x[: imagination.STEPS] for x in states))
  tail = said['disc'].numpy()[-imagination.TAIL :]
  assert found['real_disc'] == pytest.approx(tail.mean(), rel=1e-5)
  weights = 0.9 ** np.arange(imagination.STEPS)
  terms = np.append(said['reward'][:-1], said['critic'][-1])
  assert found['real_return'] == pytest.approx((weights * terms).sum(), rel=1e-4)


def test_decoded_vectors_have_a_distance_where_all_of_them_are_decoded(judge):
  rng = np.random.default_rng(3)
  shown = {k: rng.normal(size=(9, n)) for k, n in (('position', 3), ('velocity', 2))}
  rows = [
    {**x, 'position': np.full(3, i), 'velocity': np.zeros(2)} for i, x in enumerate(episode(8))
  ]
  found = imagination.compare(judge, rows, Way([shown], ('position', 'velocity')), 0.9)
  assert found['real_distance'] > found['imagined_distance'] > 0
  hidden = imagination.compare(judge, rows, Way([{'touch': shown['position']}], ('touch',)), 0.9)
  assert hidden['imagined_distance'] is None


def test_partial_returns_by_hand():
  assert imagination.partial_return(np.array([1.0, 2.0, 99.0]), 8.0, 0.5) == 1 + 1 + 2
  assert imagination.partial_return(np.array([99.0]), 8.0, 0.5) == 8


def test_half_of_what_the_expert_gets_is_coming_back():
  success, returned = {'measure': 'success'}, {'measure': 'return', 'high': 4.0}
  assert imagination.came_back(success, {'value': 1.0})
  assert not imagination.came_back(success, {'value': 0.0})
  assert imagination.came_back(returned, {'value': 0.5, 'expert': 1.0})
  assert not imagination.came_back(returned, {'value': 0.4, 'expert': 1.0})
  assert not imagination.came_back(returned, {'value': 1.9, 'expert': None})


def test_a_lost_way_is_shown_where_a_cell_has_one():
  places = np.arange(18.0).reshape(9, 2)
  row = {'cell': [1, 2], 'real_places': places, 'imagined_places': None}
  lost = {**row, 'back': False, 'real_places': places + 100}
  other = {**row, 'cell': [3, 3], 'back': True}
  found = imagination.paths([{**row, 'back': True}, lost, other, {'back': True}])
  assert [(x['cell'], x['back']) for x in found] == [([1, 2], False), ([3, 3], True)]
  assert found[0]['real'] == [[100, 101], [108, 109], [116, 117]]
  assert found[0]['imagined'] is None


def test_means_leave_out_what_no_episode_has():
  row = {'seed': 5, 'critic': 1.0, 'real_disc': 0.5, 'real_places': None, 'real_distance': None}
  found = imagination.means([row, {**row, 'critic': 2.0}])
  assert found == {'episodes': 2, 'critic': 1.5, 'real_disc': 0.5, 'real_distance': None}
  assert imagination.means([]) == {'episodes': 0}


def test_recorded_episodes_begin_where_the_simulator_does(agent):
  recorded, state = imagination.Recorded(agent), None
  obs = lambda first: {
    'position': np.ones((1, 3), np.float32), 'velocity': np.ones((1, 2), np.float32),
    'is_first': np.array([first]),
  }  # fmt: skip
  for first in (True, False, False, True, False):
    outputs, state = recorded.policy(obs(first), state, 'eval')
    assert recorded.episodes[-1][-1]['action'].tolist() == outputs['action'][0].tolist()
  assert [len(x) for x in recorded.episodes] == [3, 2]
  np.testing.assert_allclose(recorded.episodes[0][0]['deter'], recorded.episodes[1][0]['deter'])
