"""MPPI: plans by sampling action sequences around a mean that moves to the best of them."""

from collections.abc import Callable

import tensorflow as tf

from recon_tf.nn.tfutils import Seeds, scan


def warm_start(mean: tf.Tensor, is_first: tf.Tensor) -> tf.Tensor:
  """The last plan [batch, horizon, action] moved on by one step; zeros in a new episode."""
  moved = tf.concat([mean[:, 1:], tf.zeros_like(mean[:, :1])], 1)
  return tf.where(is_first[:, None, None], tf.zeros_like(moved), moved)


def draw(seeds: Seeds, count: int, action: int, settings, iterations: int) -> dict:
  """Noise of one plan for each of `count` environments; settings are those of the config."""
  rest = settings.samples - settings.policy_samples
  uniform = tf.maximum(seeds.uniform([count, settings.elites]), 1e-20)
  return {
    'samples': seeds.normal([iterations, count, rest, settings.horizon, action]),
    'gumbel': -tf.math.log(-tf.math.log(uniform)),
    'explore': seeds.normal([count, action]),
  }


def plan(
  score: Callable[[tf.Tensor, object], tf.Tensor],
  mean: tf.Tensor,
  proposals: tf.Tensor,
  samples: tf.Tensor,
  extra,
  settings,
  unroll: bool = False,
) -> dict[str, tf.Tensor]:
  """Improves a plan as often as there are samples [iterations, batch, count, horizon, action].

  score(actions, extra of the iteration) rates [batch, all, horizon, action] as [batch, all]; the
  proposals [batch, some, horizon, action] take part in every iteration. Returns mean and std
  [batch, horizon, action], the elites, best first, and their weights [batch, elites].
  """

  def improve(state, inputs):
    noise, extra = inputs
    drawn = state['mean'][:, None] + state['std'][:, None] * noise
    actions = tf.concat([proposals, tf.clip_by_value(drawn, -1, 1)], 1)
    values = score(actions, extra)
    values = tf.where(tf.math.is_nan(values), tf.zeros_like(values), values)
    return fit(actions, values, settings)

  count, horizon, action = mean.shape
  start = {
    'mean': mean,
    'std': tf.fill(mean.shape, tf.constant(settings.max_std, tf.float32)),
    'elites': tf.zeros([count, settings.elites, horizon, action]),
    'weights': tf.zeros([count, settings.elites]),
  }
  states = scan(improve, start, (samples, extra), unroll)
  return {k: v[-1] for k, v in states.items()}


def fit(actions: tf.Tensor, values: tf.Tensor, settings) -> dict[str, tf.Tensor]:
  """Mean and std of the elites, weighted by exp(temperature * value)."""
  best, index = tf.math.top_k(values, settings.elites)
  elites = tf.gather(actions, index, batch_dims=1)
  weights = tf.nn.softmax(settings.temperature * best)
  weigh = lambda x: tf.reduce_sum(weights[:, :, None, None] * x, 1)
  mean = weigh(elites)
  std = tf.sqrt(weigh((elites - mean[:, None]) ** 2))
  std = tf.clip_by_value(std, settings.min_std, settings.max_std)
  return {'mean': mean, 'std': std, 'elites': elites, 'weights': weights}


def choose(found: dict[str, tf.Tensor], gumbel: tf.Tensor, how: str) -> tf.Tensor:
  """The action to take now: of an elite drawn by its weight, of the best one, or of the mean."""
  if how == 'mean':
    return found['mean'][:, 0]
  if how == 'best':
    return found['elites'][:, 0, 0]
  index = tf.argmax(tf.math.log(found['weights']) + gumbel, 1)
  return tf.gather(found['elites'], index, batch_dims=1)[:, 0]
