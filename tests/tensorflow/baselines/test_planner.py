"""MPPI on problems whose answer is known."""

import types

import numpy as np
import pytest
import tensorflow as tf

from recon_tf.baselines.iqmpc import planner
from recon_tf.common import load_config
from recon_tf.nn import tfutils

SETTINGS = load_config('iqmpc').iqmpc


def settings(**changes):
  return types.SimpleNamespace(**{**SETTINGS, **changes})


def seeds(number=0):
  return tfutils.Seeds(tf.constant([number, 7]))


def run(score, options, count=1, action=2, mean=None, proposals=None):
  """A plan with a score of actions alone, [batch, all, horizon, action] to [batch, all]."""
  shape = [count, options.horizon, action]
  mean = tf.zeros(shape) if mean is None else mean
  noise = planner.draw(seeds(), count, action, options, options.iterations)
  if proposals is None:
    proposals = tf.zeros([count, options.policy_samples, *shape[1:]])
  extra = tf.zeros([options.iterations])
  return planner.plan(lambda x, _: score(x), mean, proposals, noise['samples'], extra, options)


def test_warm_start_moves_on_and_forgets_at_a_new_episode():
  mean = tf.reshape(tf.range(12.0), [2, 3, 2])
  moved = planner.warm_start(mean, tf.constant([False, True])).numpy()
  np.testing.assert_array_equal(moved[0], [[2, 3], [4, 5], [0, 0]])
  np.testing.assert_array_equal(moved[1], np.zeros((3, 2)))


def test_fit_is_the_weighted_mean_and_spread_of_the_best():
  rng = np.random.default_rng(0)
  actions = rng.uniform(-1, 1, (2, 20, 3, 2)).astype(np.float32)
  values = rng.normal(size=(2, 20)).astype(np.float32)
  found = planner.fit(tf.constant(actions), tf.constant(values), settings(elites=5))
  for i in range(2):
    best = np.argsort(-values[i])[:5]
    weights = np.exp(0.5 * (values[i][best] - values[i].max()))
    weights /= weights.sum()
    elites = actions[i][best]
    mean = np.einsum('e,eha->ha', weights, elites)
    std = np.sqrt(np.einsum('e,eha->ha', weights, (elites - mean) ** 2))
    np.testing.assert_allclose(found['weights'][i], weights, rtol=1e-5)
    np.testing.assert_allclose(found['weights'][i].numpy().sum(), 1, rtol=1e-6)
    np.testing.assert_array_equal(found['elites'][i], elites)
    np.testing.assert_allclose(found['mean'][i], mean, atol=1e-6)
    np.testing.assert_allclose(found['std'][i], np.clip(std, 0.05, 2), rtol=1e-4)


def test_spread_stays_within_its_limits():
  actions = tf.ones([1, 8, 3, 2])
  found = planner.fit(actions, tf.zeros([1, 8]), settings(elites=4))
  np.testing.assert_allclose(found['std'], np.full((1, 3, 2), 0.05))


@pytest.mark.parametrize('unroll', [False, True])
def test_finds_the_optimum_of_a_linear_system(unroll):
  """x' = M x + N a with a quadratic cost; least squares knows the best action sequence."""
  rng = np.random.default_rng(1)
  move, push = 0.9 * np.eye(2) + 0.1 * rng.normal(size=(2, 2)), rng.normal(size=(2, 2))
  starts = rng.uniform(-0.9, 0.9, (3, 2))
  # All states as a linear function of all actions: x_1 .. x_3 = A x_0 + B (a_0, a_1, a_2).
  power = [np.linalg.matrix_power(move, i) for i in range(4)]
  zero = np.zeros((2, 2))
  effect = np.block([[power[i - j] @ push if j <= i else zero for j in range(3)] for i in range(3)])
  free = np.concatenate([power[i + 1] @ starts.T for i in range(3)]).T.astype(np.float32)
  # A small price of actions makes the optimum unique and keeps it inside of the bounds.
  system = np.concatenate([effect, 0.3 * np.eye(6)])
  best = np.stack([np.linalg.lstsq(system, np.r_[-x, np.zeros(6)])[0] for x in free])
  assert np.abs(best).max() < 0.9

  def score(actions):
    flat = tf.reshape(actions, [3, -1, 6])
    states = free[:, None] + flat @ tf.constant(effect.T, tf.float32)
    cost = tf.reduce_sum(states**2, -1) + 0.09 * tf.reduce_sum(flat**2, -1)
    return -5 * cost

  options = settings(iterations=12)
  noise = planner.draw(seeds(), 3, 2, options, options.iterations)
  proposals = tf.zeros([3, options.policy_samples, 3, 2])
  extra = tf.zeros([options.iterations])
  args = (tf.zeros([3, 3, 2]), proposals, noise['samples'], extra, options, unroll)
  found = planner.plan(lambda x, _: score(tf.cast(x, tf.float32)), *args)
  np.testing.assert_allclose(found['mean'].numpy().reshape(3, 6), best, atol=0.03)
  np.testing.assert_allclose(planner.choose(found, noise['gumbel'], 'mean'), best[:, :2], atol=0.03)


def test_optimum_at_the_bounds():
  found = run(lambda x: 20 * tf.reduce_sum(x, [2, 3]), settings())
  assert (found['mean'].numpy() > 0.9).all()
  assert (np.abs(found['elites'].numpy()) <= 1).all()


def test_more_iterations_give_better_plans():
  goal = tf.constant([0.3, -0.6])
  score = lambda x: -5 * tf.reduce_sum((x - goal) ** 2, [2, 3])
  errors = []
  for iterations in (1, 3, 6):
    mean = run(score, settings(iterations=iterations))['mean']
    errors.append(float(tf.reduce_max(tf.abs(mean - goal))))
  assert errors[0] > 2 * errors[1] > 2 * errors[2]


def test_a_good_proposal_wins_at_once():
  shape = [1, SETTINGS.policy_samples, 3, 2]
  proposals = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
  target = proposals[0, 5]
  score = lambda x: -1e4 * tf.reduce_sum((x - target) ** 2, [2, 3])
  found = run(score, settings(iterations=1), proposals=tf.constant(proposals))
  np.testing.assert_array_equal(found['elites'][0, 0], target)
  np.testing.assert_allclose(found['mean'][0], target, atol=1e-3)


def test_environments_do_not_mix():
  """Each one's plan is for its own goal."""
  goals = tf.constant([0.5, -0.5])[:, None, None, None]
  found = run(lambda x: -5 * tf.reduce_sum((x - goals) ** 2, [2, 3]), settings(), count=2)
  np.testing.assert_allclose(found['mean'][0], np.full((3, 2), 0.5), atol=0.1)
  np.testing.assert_allclose(found['mean'][1], np.full((3, 2), -0.5), atol=0.1)


def test_scores_that_are_not_numbers_count_as_zero():
  def score(actions):
    first = actions[:, :, 0, 0]
    return tf.where(first > 0, tf.fill(first.shape, np.nan), -1 - first**2)

  found = run(score, settings(iterations=1))
  assert np.isfinite(found['mean'].numpy()).all()
  assert (found['elites'][:, :, 0, 0].numpy() > 0).all()


def test_the_choice_of_an_elite():
  elites = tf.reshape(tf.range(4.0), [1, 4, 1, 1])
  weights = tf.constant([[0.5, 0.3, 0.15, 0.05]])
  found = {'elites': elites, 'weights': weights, 'mean': tf.fill([1, 1, 1], 9.0)}
  gumbel = planner.draw(seeds(), 1, 1, settings(elites=4), 1)['gumbel']
  assert planner.choose(found, gumbel, 'best').numpy() == [[0]]
  assert planner.choose(found, gumbel, 'mean').numpy() == [[9]]
  many = {k: tf.repeat(v, 4000, 0) for k, v in found.items()}
  gumbel = planner.draw(seeds(), 4000, 1, settings(elites=4), 1)['gumbel']
  drawn = planner.choose(many, gumbel, 'sample').numpy().astype(int)[:, 0]
  np.testing.assert_allclose(np.bincount(drawn) / 4000, weights[0], atol=0.03)
