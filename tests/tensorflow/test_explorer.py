"""Recovery gate, its gradient, the explorer's reward and the windows."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from recon_tf import envs, explorer
from recon_tf.common import load_config
from recon_tf.common.errors import UserError
from tests.helpers import agent_fixtures as fixtures

DELTA = 0.55


@pytest.fixture(scope='module')
def agent():
  agent = fixtures.make_agent(eager=True)
  fixtures.jitter_biases(agent)
  return agent


def settings(**changes):
  return load_config().gate.update(changes)


def gate(agent, state, settings):
  args = (agent.world_model.rssm, agent.disc, agent.main.policy)
  return explorer.recovery_gate(*args, state, tf.constant(DELTA), settings)


def numpy_scores(agent, state, horizon, tau=0.05):
  """sigmoid((D - delta) / tau) at every step of the recovery rollout, [horizon + 1, batch]."""
  rssm, scores = agent.world_model.rssm, []
  for _ in range(horizon + 1):
    feature = np.concatenate([state['stoch'], state['deter']], -1)
    action = np.tanh(np.split(fixtures.mlp(agent.main.actor, feature), 2, -1)[0])
    logit = fixtures.mlp(agent.disc.mlp, np.concatenate([feature, action], -1))[..., 0]
    scores.append(fixtures.sigmoid((fixtures.sigmoid(logit) - DELTA) / tau))
    deter = fixtures.recur(rssm, state, action)
    state = {'deter': deter, 'stoch': fixtures.head_means(rssm, deter).mean(0)}
  return np.stack(scores)


AGGREGATES = {
  'max': lambda x: x[3:].max(0),
  'mean': lambda x: x[3:].mean(0),
  'last': lambda x: x[5],
}


@pytest.mark.parametrize('how', list(AGGREGATES))
def test_gate_value(agent, how):
  state = fixtures.random_state(agent, 30)
  expected = AGGREGATES[how](numpy_scores(agent, state, 5))
  value = gate(agent, state, settings(aggregate=how)).numpy()
  assert value.shape == (30,)
  assert expected.std() > 0.01
  np.testing.assert_allclose(value, expected, atol=2e-4)


def test_gate_of_other_horizons_and_tails(agent):
  state = fixtures.random_state(agent, 8)
  scores = numpy_scores(agent, state, 7, tau=0.2)
  for horizon, tail, first in ((7, 2, 6), (4, 1, 4), (3, 9, 1), (1, 3, 1)):
    value = gate(agent, state, settings(horizon=horizon, tail=tail, tau=0.2))
    np.testing.assert_allclose(value, scores[first : horizon + 1].max(0), atol=2e-4)


def test_terminal_gate_looks_at_the_end_state_alone(agent):
  state = fixtures.random_state(agent, 8)
  value = gate(agent, state, settings(kind='terminal'))
  np.testing.assert_allclose(value, numpy_scores(agent, state, 0)[0], atol=2e-4)


@pytest.mark.parametrize('how', list(AGGREGATES))
def test_gate_gradient_is_the_finite_difference(agent, how):
  """Through model, discriminator and main actor, against the NumPy rollout in float64."""
  state = {k: tf.constant(v) for k, v in fixtures.random_state(agent, 40).items()}
  with tf.GradientTape() as tape:
    tape.watch(state)
    value = gate(agent, state, settings(aggregate=how))
  grads = tape.gradient(value, state)
  wide = {k: v.numpy().astype(np.float64) for k, v in state.items()}
  tail = np.sort(numpy_scores(agent, wide, 5)[3:], 0)
  clear = tail[-1] - tail[-2] > 1e-3  # the maximum has no gradient at a tie
  assert clear.sum() > 5
  for key, step in itertools.product(wide, [1e-5]):
    numeric = np.zeros_like(wide[key])
    for i in range(numeric.shape[1]):
      shift = step * np.eye(numeric.shape[1])[i]
      ends = [
        AGGREGATES[how](numpy_scores(agent, {**wide, key: wide[key] + s * shift}, 5))
        for s in (-1, 1)
      ]
      numeric[:, i] = (ends[1] - ends[0]) / (2 * step)
    assert np.abs(numeric).max() > 1e-3
    np.testing.assert_allclose(grads[key].numpy()[clear], numeric[clear], rtol=0.01, atol=1e-4)


def acquisition(agent, actions, start, gate_settings):
  """Sum of U G along a rollout of given actions, U and G alone."""
  rssm, state, deters = agent.world_model.rssm, start, []
  for action in tf.unstack(actions):
    state = rssm.img_step(state, action, tf.zeros([5, 4]), tf.one_hot(0, 3))
    deters.append(state['deter'])
  uncertainty = rssm.uncertainty(tf.stack(deters))
  value = gate(agent, state, gate_settings)
  options = load_config().explorer.update(imitation=0.0, beta=1.0)
  reward = explorer.explorer_reward(tf.zeros_like(uncertainty), uncertainty, value, options)
  return reward, uncertainty, value


def both_terms(agent, gate_settings):
  """The gradient of sum U G to the actions, and its two terms G dU and U dG."""
  rng = np.random.default_rng(0)
  actions = tf.constant(rng.uniform(-1, 1, (3, 5, 2)), tf.float32)
  start = fixtures.random_state(agent)
  with tf.GradientTape(persistent=True) as tape:
    tape.watch(actions)
    reward, uncertainty, value = acquisition(agent, actions, start, gate_settings)
    first = uncertainty * tf.stop_gradient(value)
    second = tf.stop_gradient(uncertainty) * value
  grad = lambda y: tape.gradient(y, actions, unconnected_gradients='zero').numpy()
  return grad(reward), grad(first), grad(second)


def test_gradient_has_both_terms(agent):
  total, first, second = both_terms(agent, settings())
  assert np.abs(first).max() > 1e-4
  assert np.abs(second).max() > 1e-4
  np.testing.assert_allclose(total, first + second, rtol=1e-4, atol=1e-6)


def test_stopped_gate_has_no_second_term(agent):
  total, first, second = both_terms(agent, settings(stopgrad=True))
  assert (second == 0).all()
  assert np.abs(first).max() > 1e-4
  np.testing.assert_array_equal(total, first)


def test_pathwise_gradient_of_a_rollout_is_the_finite_difference(agent):
  """The second term along a rollout: end state of the actions, gate of the end state."""
  rssm, start = agent.world_model.rssm, fixtures.random_state(agent)
  actions = np.random.default_rng(0).uniform(-1, 1, (3, 5, 2))

  def numpy_value(actions):
    state, total = {k: v.astype(np.float64) for k, v in start.items()}, 0
    for action in actions:
      deter = fixtures.recur(rssm, state, action)
      means = fixtures.head_means(rssm, deter)
      state, total = {'deter': deter, 'stoch': means[0]}, total + means.std(0).mean(-1)
    return (total * numpy_scores(agent, state, 5)[3:].mean(0)).sum()

  variable = tf.constant(actions, tf.float32)
  with tf.GradientTape() as tape:
    tape.watch(variable)
    reward, _, _ = acquisition(agent, variable, start, settings(aggregate='mean'))
  grad = tape.gradient(reward, variable).numpy()
  np.testing.assert_allclose(tf.reduce_sum(reward), numpy_value(actions), rtol=1e-4)
  numeric = np.zeros_like(actions)
  for index in np.ndindex(*actions.shape):
    shift = np.zeros_like(actions)
    shift[index] = 1e-5
    numeric[index] = (numpy_value(actions + shift) - numpy_value(actions - shift)) / 2e-5
  np.testing.assert_allclose(grad, numeric, rtol=0.01, atol=1e-4)


def test_reward_is_shared_by_all_steps():
  imitation, uncertainty = np.float32([[1, 2], [3, 4]]), np.float32([[0.1, 0.2], [0.3, 0.4]])
  value = tf.constant([0.5, 1.0])
  options = load_config().explorer.update(imitation=1.0, beta=10.0)
  reward = explorer.explorer_reward(imitation, uncertainty, value, options)
  np.testing.assert_allclose(reward, [[1.5, 4], [4.5, 8]], rtol=1e-6)


# Windows


def windows(mask):
  """(start, length) of every run of True."""
  edges = np.flatnonzero(np.diff(np.r_[0, mask.astype(int), 0]))
  return [(int(a), int(b - a)) for a, b in edges.reshape(-1, 2)]


def test_full_episode_has_150_explorer_steps_one_window_in_each_stratum():
  starts = []
  for seed in range(200):
    mask = explorer.sample_windows(500, 15, 10, np.random.default_rng(seed))
    assert mask.dtype == bool
    assert mask.shape == (500,)
    assert mask.sum() == 150
    edges = [i * 500 // 15 for i in range(16)]
    for low, high in itertools.pairwise(edges):
      (window,) = windows(mask[low:high])
      assert window[1] == 10
      starts.append(window[0])
  # Uniform: every possible start occurs, none much more often than the others.
  counts = np.bincount(starts)
  assert len(counts) in (24, 25)
  assert counts[:23].min() > 0.6 * counts[:23].mean()
  assert counts[:23].max() < 1.5 * counts[:23].mean()


def test_windows_follow_the_generator():
  draw = lambda seed: explorer.sample_windows(500, 15, 10, np.random.default_rng(seed))
  np.testing.assert_array_equal(draw(3), draw(3))
  assert (draw(3) != draw(4)).any()


@pytest.mark.parametrize('length', [30, 50, 75, 100, 120, 125, 130, 175, 250, 300, 499])
def test_shorter_episodes_keep_the_share(length):
  for seed in range(10):
    mask = explorer.sample_windows(length, 15, 10, np.random.default_rng(seed))
    assert abs(mask.sum() - 0.3 * length) <= 1


def test_longer_episodes_keep_the_windows():
  mask = explorer.sample_windows(1000, 15, 10, np.random.default_rng(0))
  assert [x[1] for x in windows(mask)] == [10] * 15


@pytest.mark.parametrize(('strata', 'window'), [(5, 10), (30, 10), (3, 50), (15, 10)])
@pytest.mark.parametrize('place', ['uniform', 'early', 'late'])
def test_schedules(strata, window, place):
  for seed in range(20):
    mask = explorer.sample_windows(500, strata, window, np.random.default_rng(seed), place)
    halves = mask[:250].sum(), mask[250:].sum()
    assert sum(halves) == min(strata * window, 500 if place == 'uniform' else 250)
    assert halves[1] == 0 or place != 'early'
    assert halves[0] == 0 or place != 'late'


@pytest.mark.parametrize('values', [(0, 15, 10), (500, 0, 10), (500, 15, 0)])
def test_impossible_windows_are_refused(values):
  with pytest.raises(UserError, match='windows'):
    explorer.sample_windows(*values, np.random.default_rng(0))


def collect(collector, resets, steps=100):
  """Who acted, [steps, environments]; resets maps a step to the environments that start."""
  rows = []
  for t in range(steps):
    first = np.zeros(2, bool)
    first[resets.get(t, [])] = True
    rows.append(collector(first))
  return np.stack(rows)


def test_collector_draws_new_windows_for_every_episode():
  options = load_config().windows
  make = lambda: explorer.Collector(2, 50, options, 7, 500)
  collector = make()
  rows = collect(collector, {0: [0, 1], 50: [0, 1]})
  assert collector.episodes == 4
  parts = [rows[:50, 0], rows[:50, 1], rows[50:, 0], rows[50:, 1]]
  assert [x.sum() for x in parts] == [15] * 4
  assert len({x.tobytes() for x in parts}) == 4
  # A resumed run sets the number of episodes and gets the windows that would have come.
  resumed = make()
  resumed.episodes = 2
  np.testing.assert_array_equal(collect(resumed, {0: [0, 1]}, 50), rows[50:])


def test_collector_starts_environments_one_by_one():
  collector = explorer.Collector(2, 50, load_config().windows, 0, 500)
  rows = collect(collector, {0: [0, 1], 30: [1]}, 80)
  assert rows[:50, 0].sum() == 15
  assert rows[30:80, 1].sum() == 15


@pytest.mark.parametrize('task', ['maze_umaze', 'maze_pointmaze'])
def test_a_full_episode_of_every_task_holds_fifteen_windows_of_ten(task):
  """The U-maze has 300 decisions, not 500; a shortened episode keeps their share."""
  for length in (0, 100):
    env = envs.make(task, load_config().update({'env.render': False, 'env.length': length}))
    args = (env.length, load_config().windows, 0, env.full)
    rows = collect(explorer.Collector(2, *args), {0: [0, 1]}, env.length)
    assert rows[:, 0].sum() == round(150 * env.length / env.full)
  assert env.full == {'maze_umaze': 300, 'maze_pointmaze': 500}[task]


def test_no_collector_means_the_main_policy_alone():
  options = load_config('cmil').windows
  assert not collect(explorer.Collector(2, 50, options, 0), {0: [0, 1]}, 50).any()
