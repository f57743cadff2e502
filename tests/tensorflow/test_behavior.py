"""Imagination, lambda returns, actor and critic losses against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from recon_tf import behavior
from recon_tf.nn import tfutils
from tests.helpers import agent_fixtures as fixtures

GAMMA, LAMBDA = 0.99, 0.95


@pytest.fixture
def agent():
  agent = fixtures.shared_agent(eager=True)
  fixtures.jitter_biases(agent)
  return agent


def normal(*shape, seed=0):
  return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def numpy_returns(reward, value, discount, bootstrap, lambda_):
  """As a mixture of n-step returns, not by the recursion."""
  steps, values = len(reward), [*value[1:], bootstrap]
  result = []
  for t in range(steps):
    total, weight, product, rewards = 0, 1, 1, 0
    for n in range(t, steps):
      rewards = rewards + product * reward[n]
      product = product * discount[n]
      share = weight * (1 - lambda_) if n < steps - 1 else weight
      total = total + share * (rewards + product * values[n])
      weight *= lambda_
    result.append(total)
  return np.stack(result)


@pytest.mark.parametrize('lambda_', [0.0, 0.95, 1.0])
def test_lambda_return_is_a_mixture_of_n_step_returns(lambda_):
  reward, value, bootstrap = normal(6, 3), normal(6, 3, seed=1), normal(3, seed=2)
  discount = np.random.default_rng(3).uniform(0, 1, (6, 3)).astype(np.float32)
  expected = numpy_returns(reward, value, discount, bootstrap, lambda_)
  result = behavior.lambda_return(reward, value, discount, bootstrap, lambda_)
  np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_lambda_return_by_hand():
  """One step left: r + g V; two steps: the mixture."""
  args = [np.float32(x) for x in ([[1], [2]], [[7], [10]], [[0.5], [0.9]], [20])]
  result = behavior.lambda_return(*args, 0.8)
  last = 2 + 0.9 * 20
  np.testing.assert_allclose(result, [[1 + 0.5 * (0.2 * 10 + 0.8 * last)], [last]], rtol=1e-6)


def imagined(agent, rows=5):
  main, rssm = agent.main, agent.world_model.rssm
  noise = main.draw(rows, tfutils.Seeds(tf.constant([0, 5])))
  start = {k: tf.constant(v) for k, v in fixtures.random_state(agent, rows).items()}
  seq = main.imagine(rssm, start, noise)
  seq['reward'] = tf.constant(normal(4, rows, seed=4))
  return seq, noise, start


def test_imagination_pairs_states_with_the_actions_taken_there(agent):
  seq, noise, start = imagined(agent)
  rssm = agent.world_model.rssm
  assert {k: tuple(v.shape[:2]) for k, v in seq.items()} == {
    'feature': (5, 5), 'action': (4, 5), 'actor': (4, 5), 'deter': (4, 5), 'stoch': (4, 5),
    'reward': (4, 5),
  }  # fmt: skip
  np.testing.assert_array_equal(seq['feature'][0], rssm.features(start))
  for k in range(4):
    feature = seq['feature'][k]
    np.testing.assert_allclose(seq['actor'][k], agent.main.actor(feature), atol=1e-5)
    action = agent.main.policy(feature).sample(noise['action'][k])
    np.testing.assert_allclose(seq['action'][k], action, atol=1e-5)
    state = {'stoch': feature[:, :4].numpy(), 'deter': feature[:, 4:].numpy()}
    deter = fixtures.recur(rssm, state, action.numpy())
    np.testing.assert_allclose(seq['deter'][k], deter, atol=1e-5)
    np.testing.assert_allclose(seq['feature'][k + 1][:, 4:], deter, atol=1e-5)


def test_noise_of_imagination_differs_between_steps(agent):
  noise = agent.main.draw(50, tfutils.Seeds(tf.constant([0, 5])))
  for key in ('action', 'latent'):
    assert len({x.tobytes() for x in noise[key].numpy()}) == 4
  # All heads and both target critics have their turn.
  draws = [agent.main.draw(1, tfutils.Seeds(tf.constant([0, i]))) for i in range(30)]
  assert {int(x) for d in draws for x in d['heads'].numpy().argmax(-1)} == {0, 1, 2}
  assert any(len(set(d['heads'].numpy().argmax(-1))) > 1 for d in draws)
  assert {int(d['slow'].numpy().argmax()) for d in draws} == {0, 1}


def expert_pairs():
  mask = np.float32([[1, 1, 0], [1, 1, 1]])
  return tf.constant(normal(2, 3, 14, seed=7)), tf.constant(np.tanh(normal(2, 3, 2))), mask


def numpy_values(critics, seq):
  inputs = np.concatenate([seq['feature'][:-1], seq['action']], -1)
  return np.stack([fixtures.mlp(q, inputs)[..., 0] for q in critics])


def numpy_sequence_returns(reward, value):
  discount = np.full_like(value[:-1], GAMMA)
  return numpy_returns(reward[:-1], value[:-1], discount, value[-1], LAMBDA)


def test_actor_loss(agent):
  """Minimum of both online critics, weights and entropy."""
  seq, _, _ = imagined(agent)
  loss, _ = agent.main.actor_loss(seq)
  values = numpy_values(agent.main.critics, seq)
  assert (values[0] < values[1]).any()
  assert (values[0] > values[1]).any()
  value = values.min(0)
  returns = numpy_sequence_returns(seq['reward'].numpy(), value)
  entropy = agent.main.policy(seq['feature'][:-2]).entropy().numpy()
  objective = (1 - LAMBDA) * value[:-1] + LAMBDA * returns + 1e-4 * entropy
  weight = GAMMA ** np.arange(3)[:, None]
  np.testing.assert_allclose(loss, -(weight * objective).mean(), rtol=1e-4)


def test_entropy_of_the_rollout_has_the_gradient_of_a_pass_of_its_own(agent):
  with tf.GradientTape(persistent=True) as tape:
    seq, _, _ = imagined(agent)
    known = tf.reduce_mean(agent.main._dist(seq['actor'][:-1]).entropy())
    again = agent.main.policy(tf.stop_gradient(seq['feature'][:-2])).entropy()
    again = tf.reduce_mean(again)
  np.testing.assert_allclose(known, again, rtol=1e-5)
  sources = agent.main.actor.variables
  for a, b in zip(tape.gradient(known, sources), tape.gradient(again, sources), strict=True):
    assert np.abs(b).max() > 0
    np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-6)


def test_cloning_adds_to_the_actor_loss(agent):
  """The loss that is minimized: that of imagination, and ten times that of expert actions."""
  seq, noise, start = imagined(agent)
  expert = expert_pairs()
  reward = lambda *_: ({'reward': seq['reward']}, {})
  like = agent.main.policy(expert[0]).log_prob(expert[1]).numpy()
  bc = -like[expert[2] > 0].mean()
  expected = float(agent.main.actor_loss(seq)[0]) + 10 * bc
  args = (agent.world_model.rssm, start, reward, expert, {**noise, 'reward': noise['latent']})
  _, metrics = agent.main.train(*args)
  np.testing.assert_allclose(metrics['main/bc_loss'], bc, rtol=1e-4)
  np.testing.assert_allclose(metrics['main/actor_loss'], expected, rtol=1e-4)


@pytest.mark.parametrize('head', [0, 1])
def test_critic_loss_fits_the_drawn_slow_critic(agent, head):
  seq, noise, _ = imagined(agent)
  for x in agent.main.slow:
    x.out.bias.assign_add([0.5])
  noise['slow'] = tf.one_hot(head, 2)
  loss, metrics = agent.main.critic_loss(seq, noise, None)
  value = numpy_values(agent.main.slow, seq)[head]
  returns = numpy_sequence_returns(seq['reward'].numpy(), value)
  error = numpy_values(agent.main.critics, seq)[:, :-1] - returns
  weight = GAMMA ** np.arange(3)[:, None]
  np.testing.assert_allclose(loss, (0.5 * weight * error**2).mean(), rtol=1e-4)
  assert 'main/critic_replay_loss' not in metrics


def replay_pairs(rows=5):
  return {
    'feature': tf.constant(normal(rows, 14, seed=8)),
    'action': tf.constant(np.tanh(normal(rows, 2, seed=9))),
    'reward': tf.constant(normal(rows, seed=10)),
    'mask': np.float32([1, 0, 1, 1, 0]),
  }


def test_main_critics_fit_one_step_replay_targets(agent):
  seq, noise, _ = imagined(agent)
  replay = replay_pairs()
  with_replay, metrics = agent.main.critic_loss(seq, noise, replay)
  without, _ = agent.main.critic_loss(seq, noise, None)
  value = numpy_values(agent.main.slow, seq)[int(noise['slow'].numpy().argmax())]
  returns = numpy_sequence_returns(seq['reward'].numpy(), value)
  target = replay['reward'].numpy() + GAMMA * ((1 - LAMBDA) * value[0] + LAMBDA * returns[0])
  inputs = np.concatenate([replay['feature'], replay['action']], -1)
  error = np.stack([fixtures.mlp(q, inputs)[..., 0] for q in agent.main.critics]) - target
  expected = 0.5 * (error[:, replay['mask'] > 0] ** 2).mean()
  np.testing.assert_allclose(metrics['main/critic_replay_loss'], expected, rtol=1e-4)
  np.testing.assert_allclose(with_replay - without, expected, rtol=1e-3)


def test_actor_gradient_is_pathwise_through_the_model(agent):
  """Without expert and entropy terms the actor still learns: through model, U and critics."""
  rssm, main = agent.world_model.rssm, agent.main
  noise = main.draw(5, tfutils.Seeds(tf.constant([0, 5])))
  start = fixtures.random_state(agent)
  with tf.GradientTape() as tape:
    seq = main.imagine(rssm, start, noise)
    reward = tf.reduce_sum(rssm.uncertainty(seq['deter'])[-1])
  assert all(np.abs(g).max() > 0 for g in tape.gradient(reward, main.actor.variables))


@pytest.mark.parametrize(('fraction', 'every'), [(1.0, 3), (0.25, 1)])
def test_targets_follow(fraction, every):
  agent = fixtures.make_agent(eager=True, slow_fraction=fraction, slow_every=every)
  main = agent.main
  slow, fast = main._slow_variables[0], main._fast_variables[0]
  expected = slow.numpy()
  for update in range(7):
    fast.assign_add(tf.ones_like(fast))
    main._update_slow()
    if update % every == 0:
      expected = fraction * fast.numpy() + (1 - fraction) * expected
    np.testing.assert_allclose(slow.numpy(), expected, rtol=1e-5)


def test_targets_start_as_copies():
  main = fixtures.make_agent(eager=True).main
  for slow, fast in zip(main._slow_variables, main._fast_variables, strict=True):
    np.testing.assert_array_equal(slow.numpy(), fast.numpy())
  assert (
    main.critics[0].hidden[0].kernel.numpy() != main.critics[1].hidden[0].kernel.numpy()
  ).any()


@pytest.mark.parametrize('optimizer', ['adam', 'sgd'])
def test_cloning(optimizer):
  agent = fixtures.make_agent(eager=True, bc_opt=optimizer)
  main, expert = agent.main, expert_pairs()
  before = {k: v for k, v in agent.state().items() if '_params' not in k}
  losses = [float(main.clone(expert)['main/bc_loss']) for _ in range(30)]
  assert losses[-1] < losses[0]
  after = {k: v for k, v in agent.state().items() if '_params' not in k}
  changed = {k.split('.')[1] for k in fixtures.different(before, after)}
  assert changed == ({'actor', 'actor_opt'} if optimizer == 'adam' else {'actor'})


@pytest.mark.parametrize(('bc', 'weight'), [(10.0, 10.0), (0.1, 0.1), (0.0, 1.0)])
def test_cloning_carries_its_weight_into_the_moments_of_adam(bc, weight):
  """They scale the steps in imagination too; without a weight there, pretraining still clones."""
  main, expert = fixtures.make_agent(eager=True, **{'main.bc': bc}).main, expert_pairs()
  with tf.GradientTape() as tape:
    loss = main.bc_loss(expert)
  grads = tape.gradient(loss, main.actor.variables)
  assert weight * tf.linalg.global_norm(grads) < 100  # not clipped
  logged = main.clone(expert)['main/bc_loss']
  np.testing.assert_allclose(logged, loss, rtol=1e-6)
  for grad, moment in zip(grads, main.actor_opt.first, strict=True):
    np.testing.assert_allclose(moment, 0.1 * weight * grad, rtol=1e-3, atol=1e-7)


def test_extra_rounds_are_the_same_updates_on_shares_of_the_demonstrations():
  """Two rounds equal two single updates on every second sequence, after the whole batch."""
  one, rounds = (
    fixtures.make_agent(eager=True, **{'main.bc_rounds': x, 'main.bc': 10.0}) for x in (0, 2)
  )
  feature, action = normal(4, 5, one.world_model.rssm.units), np.tanh(normal(4, 5, 2, seed=1))
  pairs = tuple(tf.constant(x) for x in (feature, action, np.ones((4, 5), np.float32)))
  rounds.main.clone(pairs)
  for part in (slice(None), slice(0, None, 2), slice(1, None, 2)):
    one.main.clone(tuple(x[part] for x in pairs))
  assert int(rounds.main.actor_opt.steps) == 3
  for first, second in zip(one.main.actor.variables, rounds.main.actor.variables, strict=True):
    np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-7)
