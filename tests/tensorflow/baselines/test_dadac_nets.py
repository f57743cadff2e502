"""The networks of DA-DAC against NumPy: sizes, beginnings, actions and features."""

import numpy as np

from recon_tf.baselines.dadac import nets as drq
from recon_tf.common import load_config
from recon_tf.make_agent import make_agent
from recon_tf.nn.scaler import Scaler
from tests.helpers import agent_fixtures as fixtures
from tests.helpers import dadac_fixtures as da


def test_parameters_as_in_drq():
  obs, act = fixtures.spaces(image=True, action=6)
  config = load_config('dadac')
  rng = np.random.default_rng(0)
  shapes = {'image': obs['image'].shape}
  encoder = drq.Encoder(rng, config, shapes, Scaler(shapes))
  count = lambda module: sum(int(np.prod(x.shape)) for x in module.variables)
  assert (count(encoder), encoder.units) == (30_368, 20_000)
  assert count(drq.Head(rng, config, encoder.units)) == 1_000_150
  trunk = lambda inputs, units: inputs * 1024 + 1024 + 1024 * 1024 + 1024 + units * 1025
  sizes = make_agent(config, obs, act).parameters()
  assert sizes == {
    'encoder': 30_368,
    'critics': 1_000_150 + 2 * trunk(56, 1),
    'target_encoder': 30_368,
    'target_critics': 1_000_150 + 2 * trunk(56, 1),
    'actor': 1_000_150 + trunk(50, 12),
    'disc': 1_000_150 + trunk(56, 1),
  }


def test_kernels_begin_orthogonal_and_targets_as_copies():
  config = fixtures.tiny_config('dadac', **da.IMAGES).update(da.SMALL)
  agent = make_agent(config, *fixtures.spaces(image=True))
  is_network = lambda name: '_opt' not in name and not name.startswith('scaler.')
  networks = {k: v for k, v in agent.named.items() if is_network(k) and v.shape.rank}
  for name, value in networks.items():
    if not name.endswith('kernel'):
      assert (value.numpy() == name.endswith('scale')).all(), name
      continue
    matrix = value.numpy().reshape(-1, value.shape[-1]).astype(np.float64)
    matrix = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    gain = 2 if 'convs' in name else 1
    np.testing.assert_allclose(matrix.T @ matrix, gain * np.eye(matrix.shape[1]), atol=1e-5)
  for slow, fast in zip(agent._slow, agent._online, strict=True):
    np.testing.assert_array_equal(slow, fast)


def test_actions_and_their_densities():
  agent = da.make()
  features, noise = da.normal(40, 12), da.normal(40, 2, seed=1)
  action, logprob = agent.actor.sample(features, noise)
  expected = da.sample(agent.actor, features, noise)
  np.testing.assert_allclose(action, expected[0], atol=1e-5)
  np.testing.assert_allclose(logprob, expected[1], rtol=1e-3, atol=1e-3)
  np.testing.assert_allclose(agent.actor.mode(features), da.sample(agent.actor, features, 0)[0],
                             atol=1e-5)  # fmt: skip
  far = agent.actor.sample(features, 1e3 * noise)[1]
  assert np.isfinite(far).all()


def test_images_through_the_encoder():
  agent = da.make(image=True)
  image = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 9), dtype=np.uint8)
  x = image / 255.0
  for conv in agent.encoder.convs:
    kernel, size = conv.kernel.numpy().astype(np.float64), (x.shape[1] - 3) // 2 + 1
    out = np.zeros((2, size, size, 3))
    for i in range(size):
      for j in range(size):
        patch = x[:, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3]
        out[:, i, j] = np.tensordot(patch, kernel, 3) + conv.bias.numpy()
    x = np.maximum(out, 0)
  np.testing.assert_allclose(
    agent.encoder({'image': image}), x.reshape(2, -1), rtol=1e-4, atol=1e-5
  )
