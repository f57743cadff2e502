"""A tiny IQ-MPC agent, its data, and independent forward passes of its networks in NumPy."""

import numpy as np
import tensorflow as tf
from gymnasium.spaces import Box

from recon_tf.common import load_config
from recon_tf.make_agent import make_agent as make_any_agent
from recon_tf.nn import tfutils
from tests.helpers import agent_fixtures as fixtures

TINY = {
  'replay': {'batch': 4, 'expert_batch': 4, 'length': 8},
  'iqmpc': {
    **{'encoder_units': 12, 'latent': 16, 'units': 12, 'heads': 3, 'batch': 6},
    **{'iterations': 2, 'samples': 12, 'elites': 4, 'policy_samples': 3},
  },
}
IMAGES = {'iqmpc.channels': 1}


def make_agent(image=False, action=2, **changes):
  """Tiny and eager, on vectors or images."""
  config = load_config(*(() if image else ('state',)), 'iqmpc').update(TINY)
  config = config.update(IMAGES if image else {}).update({'eager': True, 'jit': False, **changes})
  obs, _ = fixtures.spaces()
  obs = {'image': Box(0, 255, (64, 64, 3), np.uint8)} if image else obs
  return make_any_agent(config, obs, {'action': Box(-1, 1, (action,))})


def liven(agent):
  """The last kernels start at zero, which would hide mistakes."""
  rng = np.random.default_rng(5)
  for heads in (agent.model.heads, agent.model.target):
    heads.out.kernel.assign(rng.normal(size=heads.out.kernel.shape).astype(np.float32))
  return agent


def batches(number=0, **options):
  options = {'length': 8, **options}
  return tuple(fixtures.batch(4, seed=2 * number + i, **options) for i in (0, 1))


def train(agent, updates=2, **options):
  for number in range(updates):
    metrics = agent.train(*batches(number, **options))
  return fixtures.scalars(metrics)


def seeds(number=0):
  return tfutils.Seeds(tf.constant([number, 3]))


# Forward passes in float64


def norm(x, scale, offset):
  x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
  return x * scale + offset


def mish(x):
  return x * np.tanh(np.logaddexp(0, x))


def softmax8(x):
  x = np.exp(x).reshape(*x.shape[:-1], -1, 8)
  return (x / x.sum(-1, keepdims=True)).reshape(*x.shape[:-2], -1)


def normed(layer, x, act=mish):
  x = fixtures.dense(layer.linear, x)
  return act(norm(x, layer.norm.scale.numpy(), layer.norm.offset.numpy()))


def next_latent(model, latent, action):
  dynamics = model.dynamics
  x = normed(dynamics.first, np.concatenate([latent, action], -1))
  return normed(dynamics.third, normed(dynamics.second, x), softmax8)


def q_value(heads, k, latent, action):
  """Head k on [..., latent] and [..., action]."""
  w = [x.numpy()[k].astype(np.float64) for x in heads.variables]
  x = np.concatenate([latent, action], -1) @ w[0] + w[1]
  x = mish(norm(x, w[2], w[3])) @ w[4] + w[5]
  return (mish(norm(x, w[6], w[7])) @ w[8] + w[9])[..., 0]


def policy_sample(model, latent, noise):
  x = normed(model.prior.layers[1], normed(model.prior.layers[0], latent))
  mean, raw = np.split(fixtures.dense(model.prior.out, x), 2, -1)
  log_std = -10 + 6 * (np.tanh(raw) + 1)
  action = np.tanh(mean + noise * np.exp(log_std))
  logprob = -0.5 * noise**2 - log_std - 0.5 * np.log(2 * np.pi) - np.log(1 - action**2 + 1e-6)
  return action, logprob.sum(-1)


def value(model, heads, picked, latent, noise, entropy=1e-4):
  action, logprob = policy_sample(model, latent, noise)
  q = np.min([q_value(heads, k, latent, action) for k in picked], 0)
  return q - entropy * logprob
