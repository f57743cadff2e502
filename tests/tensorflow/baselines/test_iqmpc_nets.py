"""The networks of IQ-MPC and the score of its plans."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from gymnasium.spaces import Box

from recon_tf.baselines.iqmpc import agent as iqmpc
from recon_tf.baselines.iqmpc import nets as iqmpc_nets
from recon_tf.baselines.iqmpc.model import discount, draw_pick
from recon_tf.common import load_config
from tests.helpers import agent_fixtures as fixtures
from tests.helpers import iqmpc_fixtures as iq


@pytest.fixture(scope='module')
def full_size():
  config = load_config('iqmpc')
  obs = {'image': Box(0, 255, (64, 64, 3), np.uint8)}
  return iqmpc.IQMPC(config, obs, {'action': Box(-1, 1, (6,))})


def test_parameters_of_model_size_5(full_size):
  sizes = full_size.parameters()
  heads = 5 * 530_945
  assert sizes == {
    'encoder': 58_272, 'dynamics': 794_112, 'prior': 533_516, 'heads': heads, 'target': heads,
  }  # fmt: skip
  assert round((sum(sizes.values()) - heads) / 1e6, 2) == 4.04


def test_latents_of_images_are_simplices(full_size):
  images = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 9), dtype=np.uint8)
  latent = full_size.model.encode(tf.constant(images)).numpy()
  assert latent.shape == (2, 512)
  np.testing.assert_allclose(latent.reshape(2, 64, 8).sum(-1), 1, rtol=1e-5)
  assert (latent > 0).all()


def test_values_start_at_zero(full_size):
  model, rng = full_size.model, np.random.default_rng(0)
  latent, action = rng.normal(size=(3, 512)), rng.normal(size=(3, 6))
  args = (tf.constant(latent, tf.float32), tf.constant(action, tf.float32))
  np.testing.assert_array_equal(model.heads(model.heads.weights(), *args), np.zeros((5, 3)))


def test_first_weights(full_size):
  """Normal kernels of std 0.02 that are not truncated; convolutions as in PyTorch."""
  kernel = full_size.model.dynamics.second.linear.kernel.numpy()
  np.testing.assert_allclose(kernel.std(), 0.02, rtol=0.02)
  assert np.abs(kernel).max() > 0.08
  for conv, inputs in zip(full_size.model.encoder.convs, (9 * 49, 32 * 25, 288, 288), strict=True):
    for x in (conv.kernel.numpy(), conv.bias.numpy()):
      assert 0.8 / np.sqrt(inputs) < np.abs(x).max() <= 1 / np.sqrt(inputs)


def test_targets_start_as_copies(full_size):
  model = full_size.model
  for slow, fast in zip(model.target.variables, model.heads.variables, strict=True):
    np.testing.assert_array_equal(slow, fast)


def test_mish():
  x = np.linspace(-30, 60, 200)
  expected = x * np.tanh(np.logaddexp(0, x))
  np.testing.assert_allclose(iqmpc_nets.mish(tf.constant(x)), expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
  ('length', 'gamma'),
  [(20, 0.95), (100, 0.95), (125, 0.96), (250, 0.98), (500, 0.99), (2000, 0.995)],
)
def test_discount(length, gamma):
  assert discount(length) == pytest.approx(gamma)


def test_log_probability_is_that_of_a_squashed_normal():
  prior = iqmpc_nets.Prior(np.random.default_rng(0), 16, 3, 8, tf.float32)
  latent = tf.constant(np.random.default_rng(1).uniform(size=(50, 16)), tf.float32)
  action, logprob = prior.sample(latent, iq.seeds().normal([50, 3]))
  mean, log_std = prior(latent)
  normal = tfp.distributions.MultivariateNormalDiag(mean, tf.exp(log_std))
  expected = tfp.distributions.TransformedDistribution(normal, tfp.bijectors.Tanh())
  inside = np.abs(action).max(-1) < 0.99
  assert inside.sum() > 20
  truth = expected.log_prob(action).numpy()[inside]
  np.testing.assert_allclose(logprob.numpy()[inside], truth, atol=0.02)
  np.testing.assert_allclose(prior.log_prob(latent, action).numpy()[inside], truth, atol=0.02)


def test_released_log_probability_scales_the_gaussian_part():
  prior = iqmpc_nets.Prior(np.random.default_rng(0), 16, 3, 8, tf.float32)
  latent, noise = tf.ones([1, 16]) / 8, iq.seeds().normal([1, 3])
  action, correct = prior.sample(latent, noise)
  prior._scaled = True
  released = prior.sample(latent, noise)[1]
  half_log_tau = 0.5 * np.log(2 * np.pi)
  squash = np.log(1 - action.numpy() ** 2 + 1e-6).sum(-1)
  normal = correct + squash + 3 * half_log_tau
  np.testing.assert_allclose(released, 3 * (normal - half_log_tau) - squash, rtol=1e-4)
  assert not load_config('iqmpc').iqmpc.scaled_logprob


# The planner's score


def score_inputs(agent, count=2, some=5):
  settings, rng = agent._settings, np.random.default_rng(2)
  latent = iq.softmax8(rng.normal(size=(count, settings.latent)))
  actions = rng.uniform(-1, 1, (count, some, settings.horizon, 2))
  noise = rng.normal(size=(settings.horizon, count, some, 2))
  return latent, actions, noise


@pytest.mark.parametrize('entropy', [0.0, 0.1])
def test_score_telescopes(entropy):
  """Equal to decoded rewards along the rollout plus the value at its end, step by step."""
  agent = iq.liven(iq.make_agent(**{'iqmpc.entropy': entropy}))
  fixtures.jitter_biases(agent)
  model, gamma, picked = agent.model, agent.model.gamma, (2, 0)
  start, actions, noise = score_inputs(agent)
  latent = np.repeat(start[:, None], actions.shape[1], 1)
  total = 0
  for t in range(3):
    q = np.min([iq.q_value(model.heads, k, latent, actions[:, :, t]) for k in picked], 0)
    latent = iq.next_latent(model, latent, actions[:, :, t])
    later = iq.value(model, model.heads, picked, latent, noise[t], entropy)
    total += gamma**t * (q - gamma * later)
  total += gamma**3 * later
  pick = tf.one_hot(picked, 3)
  args = [tf.constant(x, tf.float32) for x in (start, actions, noise[:-1])]
  np.testing.assert_allclose(model.score(*args, pick), total, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize('entropy', [0.0, 0.3])
def test_released_score_step_by_step(entropy):
  """As the released code adds it up: entropy of other actions, two samples at the end."""
  agent = iq.liven(iq.make_agent(**{'iqmpc.entropy': entropy, 'iqmpc.plan_score': 'released'}))
  fixtures.jitter_biases(agent)
  model, gamma, picked = agent.model, agent.model.gamma, (2, 0)
  start, actions, _ = score_inputs(agent)
  noise = np.random.default_rng(3).normal(size=(8, *actions.shape[:2], actions.shape[-1]))
  latent, draws, total = np.repeat(start[:, None], actions.shape[1], 1), iter(noise), 0
  q = lambda latent, action: [iq.q_value(model.heads, k, latent, action) for k in picked]
  for t in range(3):
    now = np.min(q(latent, actions[:, :, t]), 0)
    other = iq.policy_sample(model, latent, next(draws))[1]
    latent = iq.next_latent(model, latent, actions[:, :, t])
    later = iq.value(model, model.heads, picked, latent, next(draws), entropy)
    total += gamma**t * (now - gamma * later - entropy * other)
  last, _ = iq.policy_sample(model, latent, next(draws))
  _, logprob = iq.policy_sample(model, latent, next(draws))
  total += gamma**3 * (np.mean(q(latent, last), 0) - entropy * logprob)
  args = [tf.constant(x, tf.float32) for x in (start, actions, noise)]
  found = model.released_score(*args, tf.one_hot(picked, 3))
  np.testing.assert_allclose(found, total, rtol=1e-4, atol=1e-4)
  # And a whole plan is made with it.
  obs = {k: v[:, 0] for k, v in iq.batches()[0].items()}
  outputs, _ = agent.policy(obs, None, 'eval')
  assert np.abs(outputs['action']).max() <= 1


def test_proposals_follow_the_policy():
  agent = iq.liven(iq.make_agent())
  start, _, noise = score_inputs(agent)
  noise = noise.transpose(1, 2, 0, 3)
  found = agent.model.propose(tf.constant(start, tf.float32), tf.constant(noise, tf.float32))
  latent = np.repeat(start[:, None], 5, 1)
  for t in range(3):
    action, _ = iq.policy_sample(agent.model, latent, noise[:, :, t])
    np.testing.assert_allclose(found[:, :, t], action, rtol=1e-4, atol=1e-5)
    latent = iq.next_latent(agent.model, latent, action)


def test_two_different_heads_are_picked():
  pick = draw_pick(iq.seeds(), 200, 5).numpy()
  assert (pick.sum(1).max(-1) == 1).all()
  np.testing.assert_allclose(pick.sum((0, 1)) / 400, 0.2, atol=0.07)
