"""The losses of IQ-MPC against NumPy, head by head and step by step."""

import numpy as np
import pytest
import tensorflow as tf

from recon_tf.baselines.iqmpc import loss as iqmpc_loss
from tests.helpers import agent_fixtures as fixtures
from tests.helpers import iqmpc_fixtures as iq


def loss_inputs(agent, behavior=3, rows=7):
  """Latents, actions, encoded latents, flags; some slices end early."""
  settings, rng = agent._settings, np.random.default_rng(3)
  latents = iq.softmax8(rng.normal(size=(4, rows, settings.latent)))
  future = iq.softmax8(rng.normal(size=(3, rows, settings.latent)))
  action = rng.uniform(-1, 1, (3, rows, 2))
  valid = np.ones((3, rows))
  valid[1:, 0] = valid[2, 4] = valid[:, 6] = 0
  batch = {'valid': tf.constant(valid)}
  noise = agent._draw_update(behavior, batch, iq.seeds(4))
  noise['reward'] = tf.constant(rng.normal(size=(3, rows)), tf.float32)
  return latents, action, future, valid, noise


def run_inverse_q(agent, latents, action, future, valid, noise, behavior=3):
  args = [tf.constant(x, tf.float32) for x in (latents, action, future, valid)]
  return iqmpc_loss.inverse_q(agent.model, agent._settings, *args, noise, behavior)


def means(x, weight):
  return (x * weight).sum(-1) / np.maximum(weight.sum(-1), 1)


@pytest.mark.parametrize('term', ['v0', 'behavior', 'all'])
def test_inverse_soft_q_loss(term):
  """Head by head and step by step."""
  agent = iq.liven(
    iq.make_agent(**{'iqmpc': {'dropout': 0.0, 'value_term': term, 'entropy': 0.01}})
  )
  fixtures.jitter_biases(agent)
  model, gamma, data = agent.model, agent.model.gamma, loss_inputs(agent)
  latents, action, future, valid, noise = data
  picked = lambda key: np.argmax(noise[key], -1)
  target_noise = noise['target_action'].numpy().reshape(3, 7, 2)
  target = gamma * iq.value(model, model.target, picked('target_pick'), future, target_noise, 0.01)
  expert = valid * (np.arange(7) >= 3)
  own, total = noise['action'].numpy(), 0
  if term == 'v0':
    first = iq.value(model, model.heads, picked('pick'), latents[0, 3:], own, 0.01)
    values = np.full(3, (1 - gamma) * means(first, expert[0, 3:]))
  else:
    args = (latents[:-1], own.reshape(3, 7, 2), 0.01)
    first = iq.value(model, model.heads, picked('pick'), *args)
    values = means(first - target, valid - expert if term == 'behavior' else valid)
  for t in range(3):
    for k in range(3):
      reward = iq.q_value(model.heads, k, latents[t], action[t]) - target[t]
      loss = -means(reward, expert[t]) + values[t] + 0.5 * means(reward**2, valid[t])
      total += 0.5**t * loss / 9
  found, metrics = run_inverse_q(agent, *data)
  np.testing.assert_allclose(found, total, rtol=1e-4)
  rewards = iq.q_value(model.heads, 0, latents[:-1], action) / 3
  rewards = (
    rewards + sum(iq.q_value(model.heads, k, latents[:-1], action) for k in (1, 2)) / 3 - target
  )
  inside = valid.ravel() > 0
  pairs = rewards.ravel()[inside], noise['reward'].numpy().ravel()[inside]
  np.testing.assert_allclose(
    metrics['iqmpc/reward_correlation'], np.corrcoef(*pairs)[0, 1], rtol=1e-3
  )


def test_loss_is_zero_while_q_is_zero():
  agent = iq.make_agent(**{'iqmpc.entropy': 0.0})
  loss, metrics = run_inverse_q(agent, *loss_inputs(agent))
  assert float(loss) == 0
  assert float(metrics['iqmpc/q_gap']) == 0


def test_only_the_expert_is_a_positive_and_only_the_behavior_a_negative():
  agent = iq.liven(iq.make_agent(**{'iqmpc': {'dropout': 0.0, 'value_term': 'behavior'}}))
  latents, action, future, valid, noise = loss_inputs(agent)
  with_v = lambda x: run_inverse_q(agent, x, action, future, valid, noise)[1]['iqmpc/value'].numpy()
  moved = latents.copy()
  moved[:, 3:] = iq.softmax8(np.random.default_rng(8).normal(size=moved[:, 3:].shape))
  assert with_v(moved) == with_v(latents)  # the expert's states are no negatives
  moved = latents.copy()
  moved[:, :3] = iq.softmax8(np.random.default_rng(8).normal(size=moved[:, :3].shape))
  assert with_v(moved) != with_v(latents)
  metrics = run_inverse_q(agent, latents, action, future, valid, noise)[1]
  moved = run_inverse_q(agent, moved, action, future, valid, noise)[1]
  assert metrics['iqmpc/q_expert'] == moved['iqmpc/q_expert']
  assert metrics['iqmpc/reward_expert'] == moved['iqmpc/reward_expert']


def test_invalid_transitions_have_no_say():
  agent = iq.liven(iq.make_agent())
  latents, action, future, valid, noise = loss_inputs(agent)
  first = run_inverse_q(agent, latents, action, future, valid, noise)[0]
  action, future = action.copy(), future.copy()
  action[valid == 0] = 0.7
  future[valid == 0] = 0.125
  assert run_inverse_q(agent, latents, action, future, valid, noise)[0] == first


def test_consistency_loss():
  agent = iq.make_agent()
  latents, _, future, valid, _ = loss_inputs(agent)
  error = ((latents[1:] - future) ** 2).mean(-1)
  expected = np.mean([0.5**t * means(error[t], valid[t]) for t in range(3)])
  args = [tf.constant(x, tf.float32) for x in (latents, future, valid)]
  np.testing.assert_allclose(iqmpc_loss.consistency(*args, 0.5), expected, rtol=1e-5)


def test_rollout_is_open_loop():
  agent = iq.make_agent()
  latents, action, *_ = loss_inputs(agent)
  args = (tf.constant(latents[0], tf.float32), tf.constant(action, tf.float32))
  found = iqmpc_loss.roll_out(agent.model, *args).numpy()
  assert found.shape == (4, 7, 16)
  latent = latents[0]
  for t in range(3):
    latent = iq.next_latent(agent.model, latent, action[t])
    np.testing.assert_allclose(found[t + 1], latent, rtol=1e-4, atol=1e-6)


def test_gradient_penalty_against_differences():
  agent = iq.liven(iq.make_agent(**{'iqmpc.dropout': 0.0}))
  model = agent.model
  latents, action, _, valid, noise = loss_inputs(agent)
  args = [tf.constant(x, tf.float32) for x in (latents[:-1], action, valid)]
  found = iqmpc_loss.gradient_penalty(model, *args, noise, 3).numpy()
  picked, mix, step = np.argmax(noise['pick'], -1), noise['mix'].numpy(), 1e-4
  pairs = np.concatenate([latents[:-1], action], -1)
  mixed = mix * pairs[:, 3:6] + (1 - mix) * pairs[:, :3]
  mean_q = lambda x: np.mean(
    [iq.q_value(model.heads, k, x[..., :16], x[..., 16:]) for k in picked], 0
  )
  slopes = [(mean_q(mixed + e) - mean_q(mixed - e)) / (2 * step) for e in step * np.eye(18)]
  distance = (np.linalg.norm(slopes, axis=0) - 1) ** 2
  np.testing.assert_allclose(found, means(distance, valid[:, 3:6] * valid[:, :3]), rtol=1e-3)


def test_gradient_penalty_reaches_the_weights():
  plain, other = iq.make_agent(), iq.make_agent(**{'iqmpc.grad_pen': 1.0})
  metrics = [iq.train(iq.liven(x), 1) for x in (plain, other)]
  assert 'iqmpc/penalty' not in metrics[0]
  assert metrics[1]['iqmpc/penalty'] > 0
  changed = fixtures.different(plain.state(), other.state())
  assert any(x.startswith('model.heads.second') for x in changed)


def test_policy_loss():
  agent = iq.liven(iq.make_agent(**{'iqmpc': {'dropout': 0.0, 'entropy': 0.1}}))
  latents, _, _, valid, noise = loss_inputs(agent)
  args = [tf.constant(x, tf.float32) for x in (latents, valid)]
  found, _ = iqmpc_loss.policy_loss(agent.model, agent._settings, *args, noise)
  picked = np.argmax(noise['policy_pick'], -1)
  drawn = noise['policy'].numpy().reshape(4, 7, 2)
  values = iq.value(agent.model, agent.model.heads, picked, latents, drawn, 0.1)
  weight = np.concatenate([np.ones((1, 7)), valid])
  expected = -np.mean([0.5**t * means(values[t], weight[t]) for t in range(4)])
  np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_dropout_leaves_out_a_share_and_keeps_the_mean():
  agent = iq.liven(iq.make_agent(**{'iqmpc': {'dropout': 0.25, 'units': 400}}))
  heads, rng = agent.model.heads, np.random.default_rng(0)
  latent = tf.constant(rng.uniform(size=(6, 16)), tf.float32)
  weights, action = heads.weights(), tf.zeros([6, 2])
  part = heads.part(weights, latent)
  noise = iq.seeds().uniform(part.shape)
  kept = tf.where(noise < 0.25, 0.0, part / 0.75)
  np.testing.assert_allclose(np.mean(kept == 0), 0.25, atol=0.02)
  expected = heads.finish(weights, kept, action)
  np.testing.assert_allclose(heads(weights, latent, action, noise), expected, rtol=1e-5)
  assert np.abs(expected - heads(weights, latent, action)).max() > 0.01
