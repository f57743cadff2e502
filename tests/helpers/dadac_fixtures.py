"""A tiny DA-DAC agent, runs of it, and independent forward passes of its networks in NumPy."""

import numpy as np

from recon_tf.common.config import presets
from recon_tf.make_agent import make_agent
from tests.helpers import agent_fixtures as fixtures
from tests.helpers import loop_fixtures

SMALL = {
  'dadac': {
    'channels': 3,
    'strides': [2, 2, 2, 2],
    'mlp_layers': [12],
    'features': 5,
    'layers': [8, 8],
    'disc_layers': [8, 8],
  }
}
IMAGES = {'encoder.cnn_keys': 'image', 'encoder.mlp_keys': '$^'}


def make(image=False, **changes):
  """A tiny agent with biases that are not zero, on vectors or images."""
  config = fixtures.tiny_config('dadac', **{'eager': True, **(IMAGES if image else {})})
  agent = make_agent(config.update(SMALL).update(changes), *fixtures.spaces(image))
  fixtures.jitter_biases(agent)
  agent._follow(1.0)
  return agent


def normal(*shape, seed=0):
  return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def changed(agent, update):
  before = agent.state()
  update()
  return {x.split('.')[0] for x in fixtures.different(before, agent.state())}


def forward(head, mlp, features, action=None):
  """Projection and MLP in float64."""
  x = fixtures.dense(head.linear, features)
  x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
  x = np.tanh(x * head.norm.scale.numpy() + head.norm.offset.numpy())
  x = x if action is None else np.concatenate([x, action], -1)
  for layer in mlp.hidden:
    x = np.maximum(fixtures.dense(layer, x), 0)
  return fixtures.dense(mlp.out, x)


def sample(actor, features, noise):
  """The squashed Gaussian and its density, by the change of variables as it is defined."""
  mean, raw = np.split(forward(actor.head, actor.mlp, features), 2, -1)
  std = np.exp(-10 + 6 * (np.tanh(raw) + 1))
  before = mean + std * noise
  density = np.exp(-0.5 * ((before - mean) / std) ** 2) / (std * np.sqrt(2 * np.pi))
  return np.tanh(before), np.log(density / (1 - np.tanh(before) ** 2)).sum(-1)


def values(critics, features, action):
  return np.stack([forward(critics.head, x, features, action)[:, 0] for x in critics.mlps])


def run_config(folder, demos, **changes):
  preset = {**presets()['dadac'], **SMALL, 'dadac.batch': 4, 'eager': True, 'steps': 60}
  preset.update({'replay': {'batch': 4, 'expert_batch': 3, 'length': 4}, 'train_every': 5})
  return loop_fixtures.run_config(folder, demos, **preset).update(changes)
