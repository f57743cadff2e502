"""Soft actor-critic on state vectors: how the DMC experts are made."""

import collections
import itertools
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from recon_tf.experts.dmc import LOG_STD_MAX, LOG_STD_MIN, act

LEARNING_RATE = 3e-4
ADAM_B1, ADAM_B2, ADAM_EPS = 0.9, 0.999, 1e-8


def mlp_init(rng: np.random.Generator, sizes: list[int], heads: int = 0) -> list[np.ndarray]:
  """Kernels and biases for an MLP; with heads, every array has a leading axis."""
  lead = (heads,) if heads else ()
  params = []
  for fan_in, fan_out in itertools.pairwise(sizes):
    limit = np.sqrt(6 / (fan_in + fan_out))
    params.append(rng.uniform(-limit, limit, (*lead, fan_in, fan_out)).astype(np.float32))
    params.append(np.zeros((*lead, *([1] if heads else []), fan_out), np.float32))
  return params


def layer_norm(x: tf.Tensor) -> tf.Tensor:
  mean, var = tf.nn.moments(x, -1, keepdims=True)
  return (x - mean) * tf.math.rsqrt(var + 1e-5)


def mlp(params: list, x: tf.Tensor, norm: bool) -> tf.Tensor:
  for kernel, bias in zip(params[:-2:2], params[1:-2:2], strict=True):
    x = x @ kernel + bias
    x = tf.nn.relu(layer_norm(x) if norm else x)
  return x @ params[-2] + params[-1]


class SAC:
  """Twin critics in one stacked kernel, automatic temperature, many updates a call."""

  def __init__(
    self, obs_dim: int, act_dim: int, hidden: int, discount: float, entropy: float, seed: int
  ):
    rng = np.random.default_rng(seed)
    actor = mlp_init(rng, [obs_dim, hidden, hidden, 2 * act_dim])
    critic = mlp_init(rng, [obs_dim + act_dim, hidden, hidden, 1], heads=2)
    self.actor = [tf.Variable(x) for x in actor]
    self.critic = [tf.Variable(x) for x in critic]
    self.target = [tf.Variable(x) for x in critic]
    self.log_alpha = tf.Variable(np.log(0.1).astype(np.float32))
    self.entropy = entropy * act_dim
    self.discount = discount
    self.seed = seed
    self.updates = tf.Variable(0, dtype=tf.int32)
    trained = [*self.actor, *self.critic, self.log_alpha]
    self.moments = {id(x): (tf.Variable(x * 0), tf.Variable(x * 0)) for x in trained}

  def sample(self, obs: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """A tanh-squashed Gaussian action and its log-probability."""
    mean, raw = tf.split(mlp(self.actor, obs, norm=False), 2, -1)
    log_std = LOG_STD_MIN + 0.5 * (LOG_STD_MAX - LOG_STD_MIN) * (tf.tanh(raw) + 1)
    eps = tf.random.stateless_normal(tf.shape(mean), seed)
    pre = mean + eps * tf.exp(log_std)
    logprob = -0.5 * eps**2 - log_std - 0.5 * np.log(2 * np.pi)
    logprob -= 2 * (np.log(2) - pre - tf.nn.softplus(-2 * pre))
    return tf.tanh(pre), tf.reduce_sum(logprob, -1)

  def value(self, params: list, obs: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
    x = tf.concat([obs, action], -1)
    return mlp(params, tf.stack([x, x]), norm=True)[..., 0]  # [2, batch]

  @tf.function(jit_compile=True)
  def train(self, data: dict[str, tf.Tensor], improve: bool = True) -> dict[str, tf.Tensor]:
    """As many updates as the batches have leading entries; only of the critics if not improve."""
    metrics = tf.zeros([4])
    for i in tf.range(tf.shape(data['reward'])[0]):
      batch = {k: v[i] for k, v in data.items()}
      metrics = self.update(batch, improve)
    names = ('critic_loss', 'q', 'entropy', 'alpha')
    return {k: metrics[i] for i, k in enumerate(names)}

  def update(self, batch: dict[str, tf.Tensor], improve: bool) -> tf.Tensor:
    self.updates.assign_add(1)
    seeds = [tf.stack([self.seed * 2 + j, self.updates]) for j in range(2)]
    alpha = tf.exp(self.log_alpha)
    next_action, next_logprob = self.sample(batch['next_obs'], seeds[0])
    next_value = tf.reduce_min(self.value(self.target, batch['next_obs'], next_action), 0)
    target = batch['reward'] + self.discount * (next_value - alpha * next_logprob)
    with tf.GradientTape() as tape:
      q = self.value([tf.convert_to_tensor(x) for x in self.critic], batch['obs'], batch['action'])
      critic_loss = tf.reduce_mean((q - tf.stop_gradient(target)[None]) ** 2)
    self.step(self.critic, tape.gradient(critic_loss, self.critic))
    with tf.GradientTape() as tape:
      action, logprob = self.sample(batch['obs'], seeds[1])
      best = tf.reduce_min(self.value(self.critic, batch['obs'], action), 0)
      actor_loss = tf.reduce_mean(tf.stop_gradient(alpha) * logprob - best)
    entropy = -tf.reduce_mean(logprob)
    if improve:
      self.step(self.actor, tape.gradient(actor_loss, self.actor))
      # d/d log_alpha of alpha * (entropy - target entropy)
      self.step([self.log_alpha], [alpha * (entropy - self.entropy)])
    for slow, fast in zip(self.target, self.critic, strict=True):
      slow.assign(slow + 0.005 * (fast - slow))
    return tf.stack([critic_loss, tf.reduce_mean(q), entropy, alpha])

  def step(self, params: list[tf.Variable], grads: list[tf.Tensor]) -> None:
    t = tf.cast(self.updates, tf.float32)
    rate = LEARNING_RATE * tf.sqrt(1 - ADAM_B2**t) / (1 - ADAM_B1**t)
    for x, g in zip(params, grads, strict=True):
      m, v = self.moments[id(x)]
      m.assign(ADAM_B1 * m + (1 - ADAM_B1) * g)
      v.assign(ADAM_B2 * v + (1 - ADAM_B2) * g * g)
      x.assign(x - rate * m / (tf.sqrt(v) + ADAM_EPS))

  def actor_arrays(self) -> list[np.ndarray]:
    return [x.numpy() for x in self.actor]


class Buffer:
  """Preallocated transitions, sampled uniformly."""

  def __init__(self, capacity: int, obs_dim: int, act_dim: int):
    self.data = {
      'obs': np.zeros((capacity, obs_dim), np.float32),
      'action': np.zeros((capacity, act_dim), np.float32),
      'reward': np.zeros(capacity, np.float32),
      'next_obs': np.zeros((capacity, obs_dim), np.float32),
    }
    self.size = 0

  def add(self, **transition) -> None:
    for key, value in transition.items():
      self.data[key][self.size] = value
    self.size += 1

  def sample(self, rng: np.random.Generator, shape: tuple[int, int]) -> dict[str, np.ndarray]:
    index = rng.integers(0, self.size, shape)
    return {k: v[index] for k, v in self.data.items()}


def episode(env, policy: Callable) -> Iterator[tuple]:
  """Steps one time-limited episode, yielding (obs, action, reward, next_obs)."""
  obs = env.reset()
  last = False
  while not last:
    action = policy(obs)
    new, reward, last = env.step(action)
    yield obs, action, reward, new
    obs = new


def train(
  make_env: Callable,
  steps: int,
  seed: int,
  report: Callable,
  entropy: float = -1.0,
  init: list[np.ndarray] | None = None,
  hidden: int = 256,
  batch: int = 256,
) -> SAC:
  """Trains on make_env(seed) for a number of decisions; calls report(step, agent, metrics).

  With the weights of an actor it goes on from there: new critics learn its value first.
  """
  env = make_env(seed)
  rng = np.random.default_rng(seed)
  agent = SAC(env.obs_dim, env.act_dim, hidden, 0.99, entropy, seed)
  buffer = Buffer(steps + 1000, env.obs_dim, env.act_dim)
  warmup, block, improve_from = 5000, 50, 5000
  if init is not None:
    warmup, improve_from = 0, 25_000
    agent.log_alpha.assign(np.log(0.02))
    for variable, value in zip(agent.actor, init, strict=True):
      variable.assign(value)
  params = agent.actor_arrays()
  recent = collections.deque(maxlen=10)
  step, metrics = 0, {}

  def policy(obs):
    return act(params, obs, rng) if step > warmup else rng.uniform(-1, 1, env.act_dim)

  while step < steps:
    total = 0.0
    for obs, action, reward, new in episode(env, policy):
      buffer.add(obs=obs, action=action, reward=reward, next_obs=new)
      step += 1
      total += reward
      if step > 5000 and step % block == 0:
        metrics = agent.train(buffer.sample(rng, (block, batch)), step > improve_from)
        params = agent.actor_arrays()
    recent.append(total)
    numbers = {k: float(v) for k, v in metrics.items()}
    report(step, agent, {'return': float(np.mean(recent)), **numbers})
  return agent
