"""The world model's loss, and what it learns from."""

import numpy as np
import pytest
import tensorflow as tf

from recon_tf.nn import tfutils
from tests.helpers import agent_fixtures as fixtures


def loss_parts(agent, data, number=1):
  model = agent.world_model
  noise = model.rssm.draw(*data['is_first'].shape, tfutils.Seeds(tf.constant([0, number])))
  data = {k: tf.constant(v) for k, v in data.items() if k != 'reward'}
  return model.loss(data, noise)


@pytest.fixture(scope='module')
def mixed():
  """Learns from images and vectors, without free nats."""
  keys = {'encoder.cnn_keys': 'image', 'decoder.cnn_keys': 'image', 'kl.free': 0.0}
  agent = fixtures.make_agent(image=True, eager=True, **keys)
  fixtures.jitter_biases(agent)
  return agent


def test_loss_is_kl_and_unit_gaussian_errors(mixed):
  data = fixtures.batch(4, image=True)
  loss, post, metrics = loss_parts(mixed, data)
  means = mixed.world_model.decoder(mixed.world_model.rssm.features(post))
  expected = float(metrics['model/kl'])
  for key in ('image', 'position', 'velocity'):
    target = data[key] / 255 - 0.5 if key == 'image' else data[key]
    error = 0.5 * ((means[key].numpy() - target) ** 2).reshape(24, -1).sum(-1).mean()
    np.testing.assert_allclose(metrics[f'model/{key}_error'], error, rtol=1e-4)
    expected += error
  np.testing.assert_allclose(loss, expected, rtol=1e-4)


def test_scales_weigh_the_terms():
  keys = {'decoder_scale.vector': 3.0, 'kl.scale': 0.5, 'kl.free': 100.0}
  agent = fixtures.make_agent(eager=True, **keys)
  loss, _, metrics = loss_parts(agent, fixtures.batch())
  errors = sum(metrics[f'model/{k}_error'] for k in ('position', 'velocity'))
  np.testing.assert_allclose(loss, 3 * errors + 0.5 * 100, rtol=1e-5)


def test_every_weight_has_a_gradient(mixed):
  variables = mixed.world_model.variables
  data = fixtures.batch(4, image=True)
  with tf.GradientTape() as tape:
    # Enough draws that each of the three heads supplies a prior.
    loss = sum(loss_parts(mixed, data, n)[0] for n in range(3))
  zero = [
    name
    for (name, _), grad in zip(
      tfutils.named_variables(mixed.world_model), tape.gradient(loss, variables), strict=True
    )
    if grad is None or not np.abs(tf.convert_to_tensor(grad)).max() > 0
  ]
  assert zero == []


def test_open_loop_does_not_look_ahead():
  agent = fixtures.shared_agent(eager=True)
  model, data = agent.world_model, fixtures.batch()
  noise = model.rssm.draw(4, 6, tfutils.Seeds(tf.constant([0, 1])))
  data['is_first'][0, 3] = False
  other = {k: v.copy() for k, v in data.items()}
  other['position'][:, 3:] += 1
  first, second = (model.open_loop(x, 3, noise)['position'].numpy() for x in (data, other))
  np.testing.assert_array_equal(first, second)
  other['position'][:, 2] += 1
  third = model.open_loop(other, 3, noise)['position'].numpy()
  np.testing.assert_array_equal(first[:, :2], third[:, :2])
  assert (first[:, 2:] != third[:, 2:]).any(-1).all()
  # Recorded actions drive the prediction.
  other = {k: v.copy() for k, v in data.items()}
  other['action'][:, 4] *= -1
  fourth = model.open_loop(other, 3, noise)['position'].numpy()
  np.testing.assert_array_equal(first[:, :4], fourth[:, :4])
  assert (first[:, 4:] != fourth[:, 4:]).any(-1).all()


@pytest.mark.parametrize('mix', ['concat', 'copy', 'none'])
def test_expert_sequences_train_the_model_as_configured(mix):
  agent = fixtures.make_agent(eager=True, expert_mix=mix)
  weights = []
  first = agent.state()
  for seed in (1, 2):
    agent.restore(first)
    data, expert = fixtures.batch(4), fixtures.batch(2, seed=seed)
    data, expert = (agent._inputs(x) for x in (data, expert))
    noise = agent._draw_model(data, expert, tfutils.Seeds(tf.constant([0, 0])))
    states, _ = agent._train_model(data, expert, noise)
    assert [x['stoch'].shape[0] for x in states] == [4, 2]
    weights.append({k: v for k, v in agent.state().items() if k.startswith('world_model')})
  assert bool(fixtures.different(*weights)) == (mix == 'concat')


def test_it_learns():
  agent = fixtures.make_agent('bc_equal', **{'model_opt.lr': 3e-3})
  t = np.linspace(0, 6, 6, dtype=np.float32)
  data = fixtures.batch()
  data['position'][:] = np.sin(t + np.arange(4)[:, None])[..., None]
  data['velocity'][:] = np.cos(t + np.arange(4)[:, None])[..., None]
  expert = {k: v[:2] for k, v in data.items()}
  losses = [float(agent.train(data, expert)['model/model_loss']) for _ in range(150)]
  assert np.mean(losses[-10:]) < 0.6 * np.mean(losses[:10])
