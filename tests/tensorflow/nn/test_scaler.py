"""Vectors on their own scale: closed-form values, the inverse, floors, checkpoints from before."""

import numpy as np
import pytest
import tensorflow as tf

from recon_tf.nn.scaler import FLOOR, LINEAR, Scaler, floored
from tests.helpers import agent_fixtures as fixtures

SHAPES = {'position': (2,), 'goal': (1,), 'image': (8, 8, 3)}


def fitted():
  rng = np.random.default_rng(0)
  scaler = Scaler(SHAPES)
  episodes = [
    {'position': rng.normal([3, -40], [2, 10], (500, 2)), 'goal': np.full((500, 1), 7.0)}
    for _ in range(4)
  ]
  scaler.fit(episodes)
  return scaler, np.concatenate([x['position'] for x in episodes])


def test_values_are_those_of_numpy():
  scaler, values = fitted()
  wanted = (values - values.mean(0)) / values.std(0)
  wanted = LINEAR * np.arcsinh(wanted / LINEAR)
  np.testing.assert_allclose(scaler.scale('position', values).numpy(), wanted, atol=2e-5)


def test_near_values_stay_and_far_ones_are_held_back():
  scaler, values = fitted()
  mean, std = values.mean(0), values.std(0)
  at = lambda deviations: scaler.scale('position', mean + deviations * std).numpy()
  np.testing.assert_allclose(at(0.5), 0.5, rtol=0.01)
  assert (at(20) > at(10)).all()
  assert (at(1000) < 25).all()


def test_unscale_is_the_inverse():
  scaler, values = fitted()
  back = scaler.unscale('position', scaler.scale('position', values)).numpy()
  np.testing.assert_allclose(back, values, rtol=1e-4, atol=1e-3)


def test_a_key_that_never_moves_keeps_its_unit():
  scaler, _ = fitted()
  assert scaler.std['goal'].numpy() == pytest.approx(1.0)
  assert scaler.scale('goal', [[8.0]]).numpy() == pytest.approx(LINEAR * np.arcsinh(1 / LINEAR))


def test_an_entry_that_hardly_moves_is_not_blown_up():
  std = floored(np.array([1.0, 1.0, 1e-9]))
  assert std[2] == pytest.approx(FLOOR * np.sqrt(2 / 3))
  np.testing.assert_array_equal(std[:2], 1)


def test_without_demonstrations_nothing_changes():
  scaler = Scaler(SHAPES)
  x = np.array([[3.0, -40.0]], np.float32)
  np.testing.assert_array_equal(scaler.scale('position', x).numpy(), x)
  np.testing.assert_array_equal(scaler.unscale('position', x).numpy(), x)


def scattered(agent, seed: int = 1) -> list[dict]:
  rng = np.random.default_rng(seed)
  return [{k: rng.normal(100, 20, (50, *v.shape)) for k, v in agent.scaler.mean.items()}]


def test_the_model_learns_in_deviations_and_decodes_in_units():
  agent = fixtures.make_agent('state')
  agent.scaler.fit(scattered(agent))
  feature = tf.random.stateless_normal([3, 4, agent.world_model.rssm.units], [1, 2])
  raw, decoded = agent.world_model.decoder(feature), agent.world_model.decode(feature)
  data = fixtures.batch(3, 4)
  likes = agent.world_model.log_likelihoods(feature, data)
  for key in agent.scaler.mean:
    np.testing.assert_allclose(decoded[key], agent.scaler.unscale(key, raw[key]), rtol=1e-5)
    error = raw[key] - agent.scaler.scale(key, data[key])
    np.testing.assert_allclose(likes[key], -0.5 * np.sum(error**2, -1), rtol=1e-5)


def test_checkpoints_carry_it_and_older_ones_leave_it_out():
  first, second, third = (fixtures.make_agent('state') for _ in range(3))
  first.scaler.fit(scattered(first))
  second.restore(first.state())
  assert not fixtures.different(first.state(), second.state())
  third.restore({k: v for k, v in first.state().items() if not k.startswith('scaler.')})
  assert float(third.scaler.fitted) == 0
