"""The analytic counts against the products that TensorFlow's graphs really contain."""

import numpy as np
import pytest
import tensorflow as tf

from recon_tf.nn import tfutils
from recon_tf.perf import iqmpc_flops
from recon_tf.perf.graph import graph_flops
from tests.helpers import agent_fixtures as fixtures
from tests.helpers import iqmpc_fixtures as iq


def selections(agent, times: int) -> int:
  """The products with one-hot rows that pick two heads."""
  stored = sum(np.prod(x.shape) for x in agent.model.heads.variables)
  return 2 * 2 * int(stored) * times


def shapes(image: bool) -> dict:
  obs, _ = fixtures.spaces(image)
  return {k: v.shape for k, v in obs.items() if v.shape}


@pytest.mark.parametrize(
  ('image', 'term'), [(False, 'v0'), (False, 'all'), (True, 'v0')], ids=['v0', 'all', 'image']
)
def test_update(image, term):
  agent = iq.make_agent(image, **{'iqmpc.value_term': term})
  data, expert = (agent._inputs(x) for x in iq.batches(image=image))
  function = tf.function(agent._learn, autograph=False)
  seed = tf.zeros([2], tf.int32)
  graph = function.get_concrete_function(data, expert, seed, 'online').graph
  counted = sum(iqmpc_flops.count_update(agent._config, shapes(image), 2).values())
  # Target, value with its gradient, policy.
  assert graph_flops(graph) - selections(agent, 4) == counted


@pytest.mark.parametrize('image', [False, True])
def test_plan(image):
  agent = iq.make_agent(image, unroll=True)

  def decide(inputs, mean, seed):
    noise = agent._draw_plan(1, tfutils.Seeds(seed))
    return agent._plan(agent.model.encode(inputs), mean, noise, 'train')

  inputs = tf.zeros([1, 64, 64, 9], tf.uint8) if image else tf.zeros([1, 5])
  args = (inputs, tf.zeros([1, 3, 2]), tf.zeros([2], tf.int32))
  graph = tf.function(decide, autograph=False).get_concrete_function(*args).graph
  counted = iqmpc_flops.count_plan(agent._config, shapes(image), 2, 2)
  assert graph_flops(graph) - selections(agent, 2) == counted
