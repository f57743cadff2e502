"""The losses of DA-DAC against NumPy: critics, actor, temperature, discriminator."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import agent_fixtures as fixtures
from tests.helpers import dadac_fixtures as da


def test_targets_are_averaged_over_two_crops():
  agent = da.make()
  for x in agent._slow:
    x.assign(x + 0.1)
  agent.log_alpha.assign(-0.7)
  online, slow, noise = da.normal(12, 12), da.normal(12, 12, seed=1), da.normal(12, 2, seed=2)
  reward, alive = da.normal(6, seed=3), np.array([1, 1, 0, 1, 1, 0], np.float32)
  targets = agent._targets(online, slow, reward, alive, noise)
  action, logprob = da.sample(agent.actor, online, noise)
  value = da.values(agent.target_critics, slow, action).min(0) - np.exp(-0.7) * logprob
  manual = [reward[i] + alive[i] * 0.99 * (value[i] + value[6 + i]) / 2 for i in range(6)]
  np.testing.assert_allclose(targets, manual, rtol=1e-3, atol=1e-3)
  np.testing.assert_array_equal(np.asarray(targets)[alive == 0], reward[alive == 0])


def test_critic_loss_has_four_terms():
  agent = da.make()
  features, action, targets = da.normal(10, 12), da.normal(5, 2, seed=1), da.normal(5, seed=2)
  valid = np.array([1, 0, 1, 1, 1], np.float32)
  expert = da.normal(3, 12, seed=4), da.normal(3, 2), np.ones(3, np.float32)
  loss, metrics = agent._regress((features, action, valid), targets, expert)
  first, second = np.split(features, 2)
  terms = [
    ((da.values(agent.critics, x, action)[i] - targets) ** 2)[valid > 0].mean()
    for x in (first, second)
    for i in (0, 1)
  ]
  np.testing.assert_allclose(loss, sum(terms), rtol=1e-4)
  q = np.mean([da.values(agent.critics, x, action)[:, valid > 0] for x in (first, second)])
  np.testing.assert_allclose(metrics['dadac/q'], q, rtol=1e-4, atol=1e-5)
  gap = da.values(agent.critics, *expert[:2]).mean() - q
  np.testing.assert_allclose(metrics['dadac/q_gap'], gap, rtol=1e-4, atol=1e-5)


def test_actor_and_temperature_losses():
  agent = da.make()
  agent.log_alpha.assign(-0.5)
  features, noise = da.normal(6, 12), da.normal(6, 2, seed=1)
  action, logprob = da.sample(agent.actor, features, noise)
  expected = np.mean(np.exp(-0.5) * logprob - da.values(agent.critics, features, action).min(0))
  metrics = agent._improve(features, noise)
  np.testing.assert_allclose(metrics['dadac/actor_loss'], expected, rtol=1e-3)
  slope = np.exp(-0.5) * (-logprob.mean() + 2)  # target entropy -2
  np.testing.assert_allclose(metrics['dadac/alpha_loss'], slope, rtol=1e-3)
  # Adam's first step has the size of the learning rate, against the sign of the gradient.
  np.testing.assert_allclose(agent.log_alpha, -0.5 - 1e-4 * np.sign(slope), atol=1e-6)


def pair(seed, rows=7):
  return (
    da.normal(rows, 12, seed=seed),
    da.normal(rows, 2, seed=seed + 1),
    np.ones(rows, np.float32),
  )


def test_discriminator_loss_and_reward():
  agent = da.make(**{'dadac.disc_gp': 0.0})
  expert, policy = pair(0), pair(2)
  expert[2][:2] = policy[2][5:] = 0
  logit = lambda x: da.forward(agent.disc.head, agent.disc.mlp, x[0], x[1])[:, 0]
  loss, metrics = agent.disc.objective(expert, policy, da.normal(7, 1))
  probs = [fixtures.sigmoid(logit(x))[x[2] > 0] for x in (expert, policy)]
  manual = -np.log(probs[0]).mean() - np.log(1 - probs[1]).mean()
  np.testing.assert_allclose(loss, manual, rtol=1e-4)
  np.testing.assert_allclose(metrics['disc/gap'], probs[0].mean() - probs[1].mean(), atol=1e-5)
  reward = agent.disc.log_prob(*policy[:2]).numpy()
  np.testing.assert_allclose(reward, np.log(fixtures.sigmoid(logit(policy))), rtol=1e-4)
  assert (reward <= 0).all()
  assert (agent.disc.log_prob(1e4 * policy[0], 1e4 * policy[1]).numpy() <= 0).all()


@pytest.mark.parametrize(('slope', 'expected'), [(1.0, 0.0), (3.0, 4.0), (0.25, 0.5625)])
def test_penalty_of_a_linear_discriminator(slope, expected):
  agent = da.make(**{'dadac.disc_layers': []})
  kernel = da.normal(7, 1)
  agent.disc.mlp.out.kernel.assign(slope * kernel / np.linalg.norm(kernel))
  _, metrics = agent.disc.objective(pair(0), pair(2), np.full((7, 1), 0.5, np.float32))
  np.testing.assert_allclose(metrics['disc/penalty'], expected, atol=1e-5)


def test_penalty_is_of_the_gradient_at_interpolated_inputs():
  agent, mix = da.make(), np.random.default_rng(5).random((7, 1)).astype(np.float32)
  expert, policy = pair(0), pair(2)
  inputs = [np.concatenate([agent.disc.project(x[0]), x[1]], -1) for x in (expert, policy)]
  between = np.float64(mix * inputs[0] + (1 - mix) * inputs[1])

  def logit(x):
    for layer in agent.disc.mlp.hidden:
      x = np.maximum(fixtures.dense(layer, x), 0)
    return fixtures.dense(agent.disc.mlp.out, x)[:, 0]

  steps = 1e-6 * np.eye(7)
  slopes = np.stack([(logit(between + x) - logit(between - x)) / 2e-6 for x in steps], -1)
  manual = ((np.linalg.norm(slopes, axis=-1) - 1) ** 2).mean()
  with tf.GradientTape() as tape:
    loss, metrics = agent.disc.objective(expert, policy, mix)
  np.testing.assert_allclose(metrics['disc/penalty'], manual, rtol=1e-3)
  assert all(np.isfinite(x).all() for x in tape.gradient(loss, agent.disc.variables))
