"""The ensemble RSSM against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from recon_tf import rssm as module
from recon_tf.nn import tfutils
from tests.helpers import agent_fixtures as fixtures


def make(**changes):
  agent = fixtures.make_agent(eager=True, **changes)
  fixtures.jitter_biases(agent)
  return agent.world_model.rssm, agent.world_model.encoder


def observe(rssm, encoder, data, noise):
  data = {k: tf.constant(v) for k, v in data.items()}
  return rssm.observe(encoder(data), data['action'], data['is_first'], noise)


def draw(rssm, seed=0):
  return rssm.draw(4, 6, tfutils.Seeds(tf.constant([seed, 1])))


def kl_inputs():
  rng = np.random.default_rng(0)
  means = rng.normal(size=(2, 4, 6, 5)).astype(np.float32)
  stds = rng.uniform(0.5, 2, means.shape).astype(np.float32)
  return [{'mean': tf.constant(m), 'std': tf.constant(s)} for m, s in zip(means, stds, strict=True)]


def closed_kl(a, b):
  m1, s1, m2, s2 = (x[k].numpy().astype(np.float64) for x in (a, b) for k in ('mean', 'std'))
  terms = np.log(s2 / s1) + (s1**2 + (m1 - m2) ** 2) / (2 * s2**2) - 0.5
  return terms.sum(-1).mean()


def test_kl_loss_is_the_closed_form_above_the_free_nats():
  post, prior = kl_inputs()
  expected = closed_kl(post, prior)
  loss, value = module.kl_loss(post, prior, 1.0, 0.8)
  assert expected > 1
  np.testing.assert_allclose([loss, value], expected, rtol=1e-5)
  loss, value = module.kl_loss(post, prior, 50.0, 0.8)
  np.testing.assert_allclose([loss, value], [50, expected], rtol=1e-5)


def test_free_nats_count_for_the_mean_of_the_batch():
  """One pair far under and one far over the limit: their mean decides."""
  mean = tf.constant([[[0.0], [4.0]]])
  post, prior = ({'mean': x, 'std': tf.ones_like(x)} for x in (mean, tf.zeros_like(mean)))
  loss, _ = module.kl_loss(post, prior, 1.0, 0.8)
  np.testing.assert_allclose(loss, 4.0)  # (0 + 8) / 2, not (1 + 8) / 2


@pytest.mark.parametrize('free', [1.0, 50.0])
def test_kl_balance_splits_the_gradient(free):
  """0.2 of the plain gradient to the posterior, 0.8 to the prior, none under the free nats."""
  post, prior = kl_inputs()

  def grads(fn):
    with tf.GradientTape() as tape:
      tape.watch((post, prior))
      loss = fn()
    return tape.gradient(loss, (post, prior), unconnected_gradients='zero')

  plain = grads(lambda: tf.reduce_mean(module.dists.kl_gaussian(*kl_arguments(post, prior))))
  balanced = grads(lambda: module.kl_loss(post, prior, free, 0.8)[0])
  for part, share in ((0, 0.2), (1, 0.8)):
    share = share if free == 1 else 0.0
    for key in ('mean', 'std'):
      np.testing.assert_allclose(balanced[part][key], share * plain[part][key], atol=1e-6)


def kl_arguments(post, prior):
  return post['mean'], post['std'], prior['mean'], prior['std']


def test_disagreement_is_the_mean_of_standard_deviations():
  means = np.random.default_rng(0).normal(size=(10, 7, 5)).astype(np.float32)
  np.testing.assert_allclose(module.disagreement(means), means.std(0).mean(-1), rtol=1e-5)


def test_disagreement_has_a_gradient_where_all_heads_agree():
  means = tf.ones([10, 7, 5])
  with tf.GradientTape() as tape:
    tape.watch(means)
    value = module.disagreement(means)
  assert value.numpy().max() < 1e-5
  assert np.isfinite(tape.gradient(value, means).numpy()).all()


def test_uncertainty_of_transitions():
  rssm, _ = make()
  deter = np.random.default_rng(0).normal(size=(3, 5, 10)).astype(np.float32)
  expected = fixtures.head_means(rssm, deter).std(0).mean(-1)
  assert expected.std() > 0.01
  np.testing.assert_allclose(rssm.uncertainty(tf.constant(deter)), expected, rtol=1e-4)


def test_uncertainty_is_float32_at_half_precision():
  """Heads that agree to a thousandth: bfloat16 would round the differences away or up."""
  rssm, _ = make(precision=16)
  for layer in (rssm.head_in, rssm.head_out):
    for value in (layer.kernel, layer.bias):
      close = value[:1] + 1e-3 * (value - value[:1])
      value.assign(close)
  deter = np.random.default_rng(0).normal(size=(3, 5, 10)).astype(np.float32)
  expected = fixtures.head_means(rssm, deter).std(0).mean(-1)
  assert expected.max() < 0.01
  np.testing.assert_allclose(rssm.uncertainty(tf.constant(deter)), expected, rtol=1e-3)


def test_imagination_steps():
  rssm, _ = make()
  agent_state = {'deter': np.float32([[0.5] * 10, [-1] * 10]), 'stoch': np.float32([[1] * 4] * 2)}
  action = np.float32([[0.3, -0.8], [1, 0]])
  deter = fixtures.recur(rssm, agent_state, action)
  means = fixtures.head_means(rssm, deter)
  step = rssm.mean_step(agent_state, action)
  np.testing.assert_allclose(step['deter'], deter, atol=1e-5)
  np.testing.assert_allclose(step['stoch'], means.mean(0), atol=1e-5)
  for k in range(3):
    step = rssm.img_step(agent_state, action, tf.zeros([2, 4]), tf.one_hot(k, 3))
    np.testing.assert_allclose(step['stoch'], means[k], atol=1e-5)
  noisy = rssm.img_step(agent_state, action, tf.ones([2, 4]), tf.one_hot(0, 3))['stoch']
  std = noisy.numpy() - means[0]
  assert 0.1 <= std.min() <= std.max() <= 2.1


def test_acting_step_by_step_is_observing_at_once():
  rssm, encoder = make()
  data, noise = fixtures.batch(), draw(rssm)
  post, _ = observe(rssm, encoder, data, noise)
  state, embed = rssm.initial(4), encoder(data)
  for t in range(6):
    args = (data['action'][:, t], embed[:, t], data['is_first'][:, t], noise['posterior'][t])
    state = rssm.obs_step(state, *args)
    for key in ('deter', 'stoch'):
      np.testing.assert_allclose(state[key], post[key][:, t], atol=1e-5)


def test_nothing_passes_from_one_episode_to_the_next():
  """is_first at row 0, step 3: what came before changes nothing from there on."""
  rssm, encoder = make()
  noise, data = draw(rssm), fixtures.batch()
  other = {k: v.copy() for k, v in data.items()}
  other['position'][0, :3] += 1
  other['action'][0, :4] *= -0.5  # the action that "led" to the first observation too
  states = [observe(rssm, encoder, x, noise)[0]['stoch'].numpy() for x in (data, other)]
  assert (states[0][0, 2] != states[1][0, 2]).all()
  np.testing.assert_array_equal(states[0][0, 3:], states[1][0, 3:])
  np.testing.assert_array_equal(states[0][1:], states[1][1:])


@pytest.mark.parametrize('choice', ['batch', 'sample', 'episode'])
def test_the_drawn_head_supplies_the_prior(choice):
  rssm, encoder = make(**{'rssm.head_choice': choice})
  noise = draw(rssm)
  post, prior = observe(rssm, encoder, fixtures.batch(), noise)
  means = fixtures.head_means(rssm, post['deter'].numpy())
  picks = noise['heads'].numpy().argmax(-1)
  picks = np.repeat(picks[:, None], 4, 1) if choice == 'batch' else picks.reshape(6, 4)
  assert len(set(picks.ravel())) > 1
  expected = np.stack([[means[picks[t, b], b, t] for t in range(6)] for b in range(4)])
  np.testing.assert_allclose(prior['mean'], expected, atol=1e-5)


@pytest.mark.parametrize('graph', [False, True])
def test_noise_differs_between_time_steps(graph):
  """The trap of this lineage: one seed, the same noise at every step."""
  rssm, encoder = make()

  def normalised(seed):
    noise = rssm.draw(4, 6, tfutils.Seeds(seed))
    post, _ = observe(rssm, encoder, fixtures.batch(), noise)
    return (post['stoch'] - post['mean']) / post['std']

  run = tf.function(normalised, autograph=False) if graph else normalised
  first, again, other = (run(tf.constant([0, x])).numpy() for x in (1, 1, 2))
  np.testing.assert_array_equal(first, again)
  assert (first != other).all()
  steps = first.transpose(1, 0, 2).reshape(6, -1)
  assert len({x.round(3).tobytes() for x in steps}) == 6
  assert np.abs(np.corrcoef(steps) - np.eye(6)).max() < 0.9


def test_bootstrap_heads_learn_from_the_episodes_they_own():
  """Over many draws: each episode has its fixed half of the heads, all of them equally often."""
  rssm, _ = make(**{'rssm.head_choice': 'episode', 'rssm.ensemble': 6})
  episode = np.repeat(np.arange(-20, 20, dtype=np.int32)[:, None], 6, 1)
  counts = np.zeros((40, 6))
  for number in range(100):
    seeds = tfutils.Seeds(tf.constant([0, number]))
    heads = rssm.draw(40, 6, seeds, tf.constant(episode))['heads'].numpy()
    counts += heads.reshape(6, 40, 6).sum(0)
  owned = counts > 0
  assert 0.4 < owned.mean() < 0.62
  assert len({x.tobytes() for x in owned}) > 15
  share = counts / counts.sum(1, keepdims=True) * owned.sum(1, keepdims=True)
  assert np.abs(share[owned] - 1).max() < 0.35


def test_an_episode_that_no_head_owns_belongs_to_all():
  numbers = tf.range(module.OWNERS)
  one_head = module.owners_pick(tf.ones([module.OWNERS, 1]), numbers)
  np.testing.assert_array_equal(one_head, np.ones((module.OWNERS, 1)))
  order = tf.tile([[0.1, 0.9]], [module.OWNERS, 1])
  flipped = tf.tile([[0.9, 0.1]], [module.OWNERS, 1])
  first, second = (module.owners_pick(x, numbers).numpy().argmax(-1) for x in (order, flipped))
  free = (first != second).mean()  # both heads own it, or none does: chance decides
  assert 0.4 < free < 0.6
