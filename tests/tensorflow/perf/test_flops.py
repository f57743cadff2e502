"""The analytic count against the products that TensorFlow's unrolled graph really contains."""

import pytest
import tensorflow as tf

from recon_tf.perf.flops import count_flops
from recon_tf.perf.graph import graph_flops
from tests.helpers.agent_fixtures import batch, make_agent, spaces, tiny_config


def update_graph(agent, image: bool) -> tf.Graph:
  """The whole update in one graph without loops or calls."""
  agent._model_step, agent._behavior_step = agent._train_model, agent._train_behaviors
  agent._clone_step = agent._train_clone
  data, expert = batch(4, image=image), batch(2, image=image)
  function = tf.function(agent._update, autograph=False)
  inputs = agent._inputs(data), agent._inputs(expert), tf.zeros([2], tf.int32)
  return function.get_concrete_function(*inputs).graph


CASES = {
  'recon': {},
  'cmil': {'explorer.enabled': False},
  'stopgrad': {'gate.stopgrad': True},
  'terminal': {'gate.kind': 'terminal'},
  'no_gate': {'gate.kind': 'none'},
  'few_starts': {'imag_starts': 7, 'main.replay_critic': False},
  'copy': {'expert_mix': 'copy'},
  'linear_decoder': {'decoder.mlp_layers': []},
  'rounds': {'main.bc_rounds': 2, 'explorer.bc_rounds': 2},
  'bc': {'behavior': 'bc', 'explorer.enabled': False},
  'frozen': {'behavior': 'frozen', 'explorer.enabled': False},
}


@pytest.mark.parametrize('case', CASES)
def test_count_is_that_of_the_unrolled_graph(case):
  changes = {'unroll': True, **CASES[case]}
  agent = make_agent(**changes)
  shapes = {k: v.shape for k, v in spaces()[0].items() if v.shape}
  config = tiny_config(**changes)
  counted = sum(count_flops(config, shapes, 2).values())
  picks = selections(config)
  assert graph_flops(update_graph(agent, False)) - picks == counted


def test_count_with_convolutions():
  changes = {'encoder.cnn_keys': 'image', 'decoder.cnn_keys': 'image', 'decoder.cnn_depth': 8}
  changes['unroll'] = True
  agent = make_agent(image=True, **changes)
  shapes = {k: v.shape for k, v in spaces(True)[0].items() if v.shape}
  config = tiny_config(**changes)
  counted = sum(count_flops(config, shapes, 2).values())
  # The convolution that makes the image also covers a border, 32x32 places instead of 30x30.
  depth, images = config.decoder.cnn_depth, 6 * config.replay.length
  border = 2 * images * (32**2 - 30**2) * 3 * 3 * depth * 4 * 3
  assert graph_flops(update_graph(agent, True)) - selections(config) - border == counted


def selections(config) -> int:
  """One-hot products that pick a head: forward each, and backward where the heads learn."""
  rssm, length = config.rssm, config.replay.length
  stored = rssm.deter * rssm.hidden + rssm.hidden * 2 * rssm.stoch
  stored += rssm.hidden + 2 * rssm.stoch  # biases
  policies = 1 + config.explorer.enabled if config.behavior == 'imitation' else 0
  return 2 * rssm.ensemble * stored * (2 * length + policies * config.horizon)
