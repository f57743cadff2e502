"""The trainer of the DMC experts: its densities, its targets, and that it learns."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from recon_tf.experts import dmc, sac


class Point:
  """Reward for standing at zero; the action moves the point."""

  obs_dim, act_dim = 1, 1

  def __init__(self, seed: int):
    self.rng = np.random.default_rng(seed)

  def reset(self) -> np.ndarray:
    self.steps, self.place = 0, self.rng.uniform(-1, 1, 1)
    return self.place.astype(np.float32)

  def step(self, action: np.ndarray):
    self.steps += 1
    self.place = np.clip(self.place + 0.3 * action, -1, 1)
    return self.place.astype(np.float32), 1 - abs(float(self.place[0])), self.steps == 50


def make_agent(seed: int = 0) -> sac.SAC:
  return sac.SAC(3, 2, 16, 0.99, -1.0, seed)


def test_log_probability_of_squashed_actions():
  agent = make_agent()
  obs = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
  action, logprob = agent.sample(tf.constant(obs), tf.constant([1, 2]))
  mean, raw = np.split(sac.mlp(agent.actor, tf.constant(obs), norm=False).numpy(), 2, -1)
  std = np.exp(dmc.LOG_STD_MIN + 0.5 * (dmc.LOG_STD_MAX - dmc.LOG_STD_MIN) * (np.tanh(raw) + 1))
  pre = np.arctanh(np.clip(action.numpy().astype(np.float64), -1 + 1e-7, 1 - 1e-7))
  expected = stats.norm(mean, std).logpdf(pre) - np.log(1 - np.tanh(pre) ** 2)
  inside = np.all(np.abs(pre) < 3, -1)  # farther out float32 cannot be inverted
  assert inside.sum() > 10
  np.testing.assert_allclose(
    logprob.numpy()[inside], expected.sum(-1)[inside], rtol=0.02, atol=0.02
  )


def test_numpy_actor_is_the_trained_one():
  agent = make_agent()
  obs = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
  mean, _ = np.split(sac.mlp(agent.actor, tf.constant(obs), norm=False).numpy(), 2, -1)
  np.testing.assert_allclose(dmc.act(agent.actor_arrays(), obs, None), np.tanh(mean), rtol=1e-5)


def test_only_critics_move_without_improvement():
  agent = make_agent()
  rng = np.random.default_rng(0)
  shapes = {'obs': (2, 8, 3), 'action': (2, 8, 2), 'reward': (2, 8), 'next_obs': (2, 8, 3)}
  data = {k: rng.normal(size=v).astype(np.float32) for k, v in shapes.items()}
  actor, critic = agent.actor_arrays(), [x.numpy() for x in agent.critic]
  agent.train(data, improve=False)
  assert all(np.array_equal(x, y) for x, y in zip(actor, agent.actor_arrays(), strict=True))
  assert not np.array_equal(critic[0], agent.critic[0].numpy())
  agent.train(data)
  assert not np.array_equal(actor[0], agent.actor_arrays()[0])


@pytest.mark.slow
def test_learns_to_stand_at_a_point():
  returns = []
  report = lambda step, agent, metrics: returns.append(metrics['return'])
  sac.train(Point, 7000, 0, report, hidden=32, batch=64)
  assert np.mean(returns[-3:]) > 44  # of 50; random actions reach about 25
  assert np.mean(returns[:10]) < 35
