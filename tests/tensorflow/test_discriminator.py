"""The discriminator's loss, noise, rewards and penalties."""

import numpy as np
import pytest
import tensorflow as tf

from recon_tf.discriminator import Discriminator
from recon_tf.nn import tfutils
from tests.helpers import agent_fixtures as fixtures


def make(seed=0, **changes):
  disc = Discriminator(np.random.default_rng(seed), fixtures.tiny_config(**changes), 5, 2)
  disc.mlp.out.bias.assign([0.4])
  return disc


def pairs(*lead, seed=0, shift=0.0):
  rng = np.random.default_rng(seed)
  feature, action = rng.normal(size=(*lead, 5)) + shift, rng.uniform(-1, 1, (*lead, 2))
  return tf.constant(feature, tf.float32), tf.constant(action, tf.float32)


def draw(disc, seed=0):
  seeds = tfutils.Seeds(tf.constant([seed, 0]))
  mix = seeds.uniform([12, 1])
  return {'expert': disc.draw([3, 4], seeds), 'main': disc.draw([6, 8], seeds), 'mix': mix}


def numpy_logit(disc, pair, noise=0.0):
  return fixtures.mlp(disc.mlp, np.concatenate(pair, -1) + noise)[..., 0]


def test_loss_is_cross_entropy_on_noisy_inputs():
  disc = make()
  expert, policy, noise = pairs(3, 4), pairs(6, 8, seed=1), draw(disc)
  mask = np.float32([[1, 1, 0, 1]] * 3)
  loss, metrics = disc.loss(expert, mask, policy, noise)
  clean = [fixtures.sigmoid(numpy_logit(disc, x)) for x in (expert, policy)]
  noisy = [
    fixtures.sigmoid(numpy_logit(disc, x, noise[k].numpy()))
    for k, x in (('expert', expert), ('main', policy))
  ]
  expected = -np.log(noisy[0])[mask > 0].mean() - np.log(1 - noisy[1]).mean()
  np.testing.assert_allclose(loss, expected, rtol=1e-4)
  np.testing.assert_allclose(metrics['disc/expert'], clean[0][mask > 0].mean(), rtol=1e-4)
  np.testing.assert_allclose(metrics['disc/main'], clean[1].mean(), rtol=1e-4)
  np.testing.assert_allclose(metrics['disc/main_noisy'], noisy[1].mean(), rtol=1e-4)
  assert abs(clean[1].mean() - noisy[1].mean()) > 1e-3


def test_noise_has_the_configured_strength_and_differs_between_steps():
  noise = make(**{'disc.noise': 2.5}).draw([50, 40], tfutils.Seeds(tf.constant([0, 0]))).numpy()
  np.testing.assert_allclose(noise.std((0, 1)), 2.5, rtol=0.1)
  assert len({x.tobytes() for x in noise}) == 50


@pytest.mark.parametrize(
  ('kind', 'transform'),
  [
    ('prob', fixtures.sigmoid),
    ('logit', lambda x: x),
    ('log', lambda x: np.log(fixtures.sigmoid(x))),
  ],
)
def test_rewards(kind, transform):
  logit = np.float32([-3, 0, 2])
  np.testing.assert_allclose(make(disc_reward=kind).reward(logit), transform(logit), rtol=1e-5)


@pytest.mark.parametrize('kind', ['inputs', 'weights'])
def test_penalties_of_a_linear_discriminator(kind):
  """Without hidden layers both gradients are known: w, and (mean input, 1)."""
  disc = make(**{'disc.layers': [], 'disc_penalty.kind': kind, 'disc_penalty.scale': 2.0})
  expert, policy, noise = pairs(3, 4), pairs(6, 8, seed=1), draw(disc)
  loss, metrics = disc.loss(expert, np.ones((3, 4), np.float32), policy, noise)
  if kind == 'inputs':
    norm = np.linalg.norm(disc.mlp.out.kernel.numpy())
  else:
    flat = lambda x, key: (np.concatenate(x, -1) + noise[key].numpy()).reshape(-1, 7)[:12]
    mix = noise['mix'].numpy()
    inputs = mix * flat(expert, 'expert') + (1 - mix) * flat(policy, 'main')
    norm = np.sqrt((inputs.mean(0) ** 2).sum() + 1)
  np.testing.assert_allclose(metrics['disc/penalty'], (norm - 1) ** 2, rtol=1e-4)
  plain = make(**{'disc.layers': []}).loss(expert, np.ones((3, 4), np.float32), policy, noise)[0]
  np.testing.assert_allclose(loss - plain, 2 * (norm - 1) ** 2, rtol=1e-3)


def test_it_separates_what_differs():
  disc = make(**{'disc.noise': 0.5})
  opt = tfutils.Optimizer('disc', disc.variables, lr=1e-2)
  expert, policy = pairs(3, 4, shift=1.0), pairs(6, 8, seed=1, shift=-1.0)
  for i in range(60):
    with tf.GradientTape() as tape:
      loss, metrics = disc.loss(expert, np.ones((3, 4), np.float32), policy, draw(disc, i))
    opt.step(tape, loss)
  assert metrics['disc/expert'] > 0.8 > 0.2 > metrics['disc/main']
