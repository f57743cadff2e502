"""The agent as a whole: who is changed by what, sizes, seeds, acting, files."""

import numpy as np
import pytest
import tensorflow as tf

from recon_tf.agent import Agent
from recon_tf.common import Replay, UserError, load_config
from recon_tf.nn import tfutils
from tests.helpers import agent_fixtures as fixtures


def parts(names):
  return {x.split('.')[0] for x in names}


# Sizes


@pytest.mark.parametrize(
  ('preset', 'total'), [('recon', 25_472_172), ('cmil', 21_528_156), ('bc', 21_528_156)]
)
def test_stored_parameters_with_six_actions(preset, total):
  obs, act = fixtures.spaces(image=True, action=6)
  sizes = Agent(load_config(preset), obs, act).parameters()
  assert sizes['world_model'] == 17_390_339
  assert sum(sizes.values()) == total


def test_only_chosen_observations_count():
  with pytest.raises(UserError, match='encoder'):
    fixtures.make_agent(**{'encoder.mlp_keys': 'positon$'})


# Who is changed by what


@pytest.fixture
def prepared():
  """An agent after its world model's update, and all that the behaviours are given."""
  agent = fixtures.shared_agent(eager=True)
  data, expert = (agent._inputs(x) for x in fixtures.batches())
  seeds = tfutils.Seeds(tf.constant([0, 0]))
  states, _ = agent._train_model(data, expert, agent._draw_model(data, expert, seeds))
  noise = agent._draw_behaviors(data, expert, seeds)
  start, replay = agent._starts(data, states[0], noise)
  return agent, start, replay, agent._expert_pairs(expert, states[1]), noise


def test_explorer_update_changes_not_one_bit_of_the_rest(prepared):
  agent, start, _, pairs, noise = prepared
  agent._update_delta(tf.constant(0.5))
  before = fixtures.weights(agent)
  own = {**noise['explorer'], 'reward': noise['disc']['explorer']}
  agent.explorer.train(agent.world_model.rssm, start, agent._explorer_reward, pairs, own)
  changed = fixtures.different(before, fixtures.weights(agent))
  assert parts(changed) == {'explorer'}
  for name in ('actor.', 'critics.0', 'critics.1', 'actor_opt', 'critic_opt'):
    assert any(x.startswith(f'explorer.{name}') for x in changed), name


def test_main_update_changes_not_one_bit_of_the_explorer(prepared):
  agent, start, replay, pairs, noise = prepared
  before = fixtures.weights(agent)
  own = {**noise['main'], 'reward': noise['disc']['main']}
  args = (agent.world_model.rssm, start, agent._main_reward, pairs, own, replay)
  seq, _ = agent.main.train(*args)
  assert parts(fixtures.different(before, fixtures.weights(agent))) == {'main'}
  before = fixtures.weights(agent)
  agent._train_disc(pairs, seq, noise['disc'])
  assert parts(fixtures.different(before, fixtures.weights(agent))) == {'disc', 'disc_opt', 'delta'}


def test_model_update_changes_the_model_alone():
  agent = fixtures.shared_agent(eager=True)
  before = fixtures.weights(agent)
  data, expert = (agent._inputs(x) for x in fixtures.batches())
  noise = agent._draw_model(data, expert, tfutils.Seeds(tf.constant([0, 0])))
  agent._train_model(data, expert, noise)
  assert parts(fixtures.different(before, fixtures.weights(agent))) == {'world_model', 'model_opt'}


def test_recon_without_its_explorer_is_cmil():
  """On the same data the explorer has no influence on model, discriminator and main policy."""
  recon, cmil = fixtures.make_agent(eager=True), fixtures.make_agent('cmil', eager=True)
  for number in range(2):
    for agent in (recon, cmil):
      agent.train(*fixtures.batches(number))
  first, second = fixtures.weights(recon), fixtures.weights(cmil)
  assert cmil.explorer is None
  assert set(second) == {k for k in first if not k.startswith('explorer.')}
  assert fixtures.different({k: first[k] for k in second}, second) == set()


def test_changed_rewards_in_the_replay_change_no_weight(tmp_path):
  agent = fixtures.shared_agent()
  results = []
  for scale in (1.0, -7.0):
    agent.restore(fixtures.shared_agent().state())
    replay = Replay(tmp_path / str(scale), seed=3)
    for seed in range(4):
      episode = {k: v[1] for k, v in fixtures.batch(2, 20, seed=seed).items()}
      episode['reward'] = scale * episode['reward'] + (scale != 1)
      episode['log_success'] = np.float32(episode['reward'] > 0)
      replay.add_episode(episode)
    samples = []
    for number in range(2):
      data, expert = replay.sample(4, 6, (0, number)), replay.sample(2, 6, (1, number))
      samples.append(data['reward'])
      agent.train(data, expert)
    results.append((samples, agent.state()))
    replay.close()
  assert (np.array(results[0][0]) != np.array(results[1][0])).all()
  assert fixtures.different(results[0][1], results[1][1]) == set()


# Seeds


def test_same_seed_same_metrics_bit_for_bit():
  runs = []
  for seed in (5, 5, 6):
    agent = fixtures.make_agent(eager=True, seed=seed)
    metrics = [agent.train(*fixtures.batches(number)) for number in range(2)]
    runs.append({f'{k}{i}': np.asarray(v) for i, x in enumerate(metrics) for k, v in x.items()})
  assert fixtures.different(runs[0], runs[1]) == set()
  assert len(fixtures.different(runs[0], runs[2])) > 0.8 * len(runs[0])


def test_updates_draw_new_noise():
  """The same data and weights, another update: the metrics differ."""
  agent = fixtures.shared_agent()
  state, losses = agent.state(), set()
  for update in range(3):
    agent.restore({**state, 'updates': np.int32(update)})
    losses.add(float(agent.train(*fixtures.batches())['model/model_loss']))
  assert len(losses) == 3


# Acting


def observation(rows=3, first=True):
  obs = {k: v[:, 0] for k, v in fixtures.batch(rows).items()}
  return {**obs, 'is_first': np.full(rows, first)}


def test_who_acts_changes_the_action_but_not_the_belief():
  agent = fixtures.shared_agent()
  start = agent.state()
  results = {}
  for name, mode in (
    ('main', 'train'),
    ('explorer', 'explore'),
    ('mixed', np.array([True, False, True])),
  ):
    agent.restore(start)
    _, state = agent.policy(observation(), None, 'train')
    results[name] = agent.policy(observation(first=False), state, mode)
  labels = {k: v[0]['log_explorer'].tolist() for k, v in results.items()}
  assert labels == {'main': [0, 0, 0], 'explorer': [1, 1, 1], 'mixed': [1, 0, 1]}
  main, other, mixed = (results[k][0]['action'] for k in ('main', 'explorer', 'mixed'))
  assert (main != other).all()
  np.testing.assert_array_equal(mixed, np.where([[True], [False], [True]], other, main))
  for key in ('deter', 'stoch'):
    beliefs = [x[1][key].numpy() for x in results.values()]
    np.testing.assert_array_equal(beliefs[0], beliefs[1])
    np.testing.assert_array_equal(beliefs[0], beliefs[2])


def test_evaluation_is_the_mode_of_the_main_policy_without_noise():
  agent = fixtures.shared_agent()
  first, state = agent.policy(observation(), None, 'eval')
  again, _ = agent.policy(observation(), None, 'eval')
  np.testing.assert_array_equal(first['action'], again['action'])
  feature = agent.world_model.rssm.features(state)
  np.testing.assert_allclose(first['action'], agent.main.policy(feature).mode(), atol=1e-5)
  sampled = [agent.policy(observation(), None, 'train')[0]['action'] for _ in range(2)]
  assert (sampled[0] != sampled[1]).all()


def test_belief_depends_on_the_past_until_an_episode_begins():
  agent = fixtures.shared_agent()
  act = lambda obs, state: agent.policy(obs, state, 'eval')
  _, early = act(observation(), None)
  fresh, _ = act(observation(), None)
  later, _ = act(observation(first=False), early)
  reset, _ = act(observation(first=True), early)
  assert (later['action'] != fresh['action']).all()
  np.testing.assert_array_equal(reset['action'], fresh['action'])


def test_random_actions_are_uniform():
  agent = fixtures.shared_agent()
  actions = np.concatenate(
    [agent.policy(observation(300), None, 'random')[0]['action'] for _ in range(2)]
  )
  assert actions.min() < -0.97 < 0.97 < actions.max()
  np.testing.assert_allclose(actions.std(), 1 / np.sqrt(3), rtol=0.06)
  assert len(np.unique(actions)) > 1100


def test_random_collector_acts_in_the_windows():
  agent = fixtures.shared_agent('random_collect', eager=True)
  start, actions = agent.state(), []
  for mask in (False, True):
    agent.restore(start)
    actions.append(agent.policy(observation(300), None, np.full(300, mask))[0]['action'])
  assert (actions[0] != actions[1]).all()
  np.testing.assert_allclose(actions[1].std(), 1 / np.sqrt(3), rtol=0.1)


# Pairs, delta


def test_expert_pairs_are_state_and_next_action():
  agent = fixtures.shared_agent(eager=True)
  expert = fixtures.batch(2)
  states = {k: normal((2, 6, n)) for k, n in (('deter', 10), ('stoch', 4))}
  feature, action, mask = agent._expert_pairs(expert, states)
  np.testing.assert_array_equal(feature[:, :, :4], states['stoch'][:, :-1])
  np.testing.assert_array_equal(action, expert['action'][:, 1:])
  # Row 0 begins an episode at step 3, so the pair of step 2 crosses into it.
  np.testing.assert_array_equal(mask, [[1, 1, 0, 1, 1], [1, 1, 1, 1, 1]])


def normal(shape):
  return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def test_imagination_starts_and_the_real_pairs_before_them():
  agent = fixtures.shared_agent(eager=True)
  data = {k: tf.constant(v) for k, v in fixtures.batch().items()}
  states = {k: tf.constant(normal((4, 6, n))) for k, n in (('deter', 10), ('stoch', 4))}
  noise = {'starts': None, 'disc': {'replay': None}}
  start, replay = agent._starts(data, states, noise)
  np.testing.assert_array_equal(start['stoch'], np.reshape(states['stoch'], (24, 4)))
  mask = replay['mask'].numpy().reshape(4, 6)
  expected = np.ones((4, 6))
  expected[:, 0] = expected[0, 3] = expected[0, 2] = 0  # begins, begins, ended for good
  np.testing.assert_array_equal(mask, expected)
  before = replay['feature'].numpy().reshape(4, 6, 14)[:, 1:, :4]
  np.testing.assert_array_equal(before, states['stoch'][:, :-1])
  np.testing.assert_array_equal(replay['action'], np.reshape(data['action'], (24, 2)))
  prob = agent.disc.prob(replay['feature'], replay['action'])
  np.testing.assert_allclose(replay['reward'], prob, rtol=1e-5)


def test_some_starts_are_drawn():
  agent = fixtures.make_agent(eager=True, imag_starts=7)
  data, expert = (agent._inputs(x) for x in fixtures.batches())
  noise = agent._draw_behaviors(data, expert, tfutils.Seeds(tf.constant([0, 0])))
  states = {k: tf.constant(normal((4, 6, n))) for k, n in (('deter', 10), ('stoch', 4))}
  start, replay = agent._starts(data, states, noise)
  index = noise['starts'].numpy()
  assert len(set(index)) == 7
  np.testing.assert_array_equal(start['deter'], np.reshape(states['deter'], (24, 10))[index])
  assert replay['action'].shape == (7, 2)


def test_delta_is_a_moving_average_from_the_first_value_on():
  agent = fixtures.shared_agent(eager=True)
  values = []
  for score in (0.5, 0.7, 0.1):
    agent._update_delta(tf.constant(score))
    values.append(float(agent.delta))
  second = 0.99 * 0.5 + 0.01 * 0.7
  np.testing.assert_allclose(values, [0.5, second, 0.99 * second + 0.001], rtol=1e-6)


def test_delta_follows_the_clean_discriminator():
  agent = fixtures.shared_agent()
  first = agent.train(*fixtures.batches())
  np.testing.assert_allclose(first['gate/delta'], first['disc/main'], rtol=1e-6)
  assert abs(first['disc/main'] - first['disc/main_noisy']) > 1e-5
  second = agent.train(*fixtures.batches(1))
  expected = 0.99 * first['disc/main'] + 0.01 * second['disc/main']
  np.testing.assert_allclose(second['gate/delta'], expected, rtol=1e-6)


# Files, data, reports


def test_weights_come_back_without_the_optimizers():
  agent = fixtures.shared_agent(eager=True)
  old, first = agent.weights(), agent.state()
  assert not any('_opt' in k for k in old)
  assert {k.split('.')[0] for k in old} >= {'world_model', 'disc', 'main', 'explorer', 'delta'}
  agent.train(*fixtures.batches())
  trained = agent.state()
  agent.restore_weights(old)
  assert fixtures.different(agent.weights(), old) == set()
  moved = fixtures.different(agent.state(), first)
  assert moved
  assert all('_opt.' in k for k in moved)
  agent.restore_weights(trained)  # a whole checkpoint serves too
  assert fixtures.different(agent.state(), trained) == set()
  with pytest.raises(UserError, match='does not fit'):
    agent.restore_weights({k: v for k, v in old.items() if k != 'delta'})


def test_saved_agents_go_on_alike(tmp_path):
  agent = fixtures.shared_agent()
  agent.train(*fixtures.batches())
  agent.policy(observation())
  agent.save(tmp_path / 'agent.npz')
  saved = agent.state()
  expected = fixtures.scalars(agent.train(*fixtures.batches(1)))
  action = agent.policy(observation())[0]['action']
  fixtures.shared_agent()  # back to the beginning
  assert fixtures.different(saved, agent.state())
  agent.load(tmp_path / 'agent.npz')
  assert fixtures.different(saved, agent.state()) == set()
  again = fixtures.scalars(agent.train(*fixtures.batches(1)))
  assert fixtures.different(expected, again) == set()
  np.testing.assert_array_equal(agent.policy(observation())[0]['action'], action)
  for name in ('delta', 'updates', 'acts', 'model_opt.steps', 'explorer.critic_opt.second.0'):
    assert name in saved


def test_no_variable_is_stored_twice():
  named = fixtures.shared_agent(eager=True).named
  assert len({id(x) for x in named.values()}) == len(named)


@pytest.mark.parametrize('presets', [('cmil',), ('recon',)])
def test_checkpoints_of_other_agents_are_refused(tmp_path, presets):
  changes = {} if presets == ('cmil',) else {'rssm.deter': 11}
  fixtures.make_agent(*presets, eager=True, **changes).save(tmp_path / 'agent.npz')
  with pytest.raises(UserError, match='does not fit'):
    fixtures.shared_agent(eager=True).load(tmp_path / 'agent.npz')


def test_data_need_the_chosen_observations_and_no_others():
  keys = {'encoder.mlp_keys': 'position', 'decoder.mlp_keys': 'position'}
  agent = fixtures.make_agent(eager=True, **keys)
  data = fixtures.batch()
  del data['velocity'], data['reward'], data['is_last']
  assert set(agent._inputs(data)) == {'position', 'action', 'is_first', 'is_terminal'}
  del data['position']
  with pytest.raises(UserError, match='position'):
    agent.train(data, data)


def test_open_loop_videos():
  keys = {'encoder.cnn_keys': 'image', 'decoder.cnn_keys': 'image'}
  agent = fixtures.make_agent(image=True, eager=True, **keys)
  data = fixtures.batch(3, image=True)
  video = agent.report(data)['open_loop/image']
  assert video.shape == (6, 3 * 64, 3 * 64, 3)
  assert video.dtype == np.uint8
  for row in range(3):  # truth on top, one column a sequence
    np.testing.assert_allclose(
      np.float32(video[:, :64, row * 64 : row * 64 + 64]), data['image'][row], atol=1
    )


def test_shares_of_the_reward_are_those_of_its_parts():
  """alpha U / D and beta U G / D, by hand from the logged means and the reward."""
  agent = fixtures.shared_agent(eager=True)
  metrics = fixtures.scalars(agent.train(*fixtures.batches()))
  penalty = 10 * metrics['main/uncertainty'] / metrics['main/imitation']
  np.testing.assert_allclose(metrics['main/penalty_share'], penalty, rtol=1e-5)
  extra = metrics['explorer/reward'] / metrics['explorer/imitation'] - 1
  np.testing.assert_allclose(metrics['explorer/bonus_share'], extra, rtol=1e-4)
