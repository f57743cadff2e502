"""The agent under eager execution, graphs and XLA, in pieces, half precision and on two devices."""

import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import pytest

from recon_tf.common import UserError
from recon_tf.nn import tfutils
from tests.helpers import agent_fixtures as fixtures

SEES = {'cnn_keys': 'image', 'mlp_keys': '$^', 'cnn_depth': 2}


def test_graphs_are_traced_once():
  agent = fixtures.shared_agent()
  for number in range(4):
    agent.train(*fixtures.batches(number))
  for fn in (agent._train, agent._model_step, agent._behavior_step):
    assert fn.experimental_get_tracing_count() == 1
  state, traced = None, []
  for number in range(4):
    obs = {k: v[:, number] for k, v in fixtures.batch(3).items()}
    _, state = agent.policy(obs, state, np.array([True, False, number > 2]))
    agent.policy(obs, state, 'train')
    agent.policy(obs, state, 'explore')
    traced.append({k: len(v.programs) for k, v in agent._act.items()})
  assert traced == 4 * traced[:1]


def test_a_policy_that_acts_alone_acts_as_beside_the_explorer():
  agent, obs, actions = fixtures.shared_agent(), fixtures.batch(3), []
  obs = {k: v[:, 0] for k, v in obs.items()}
  for mask in ([False, False, False], [False, False, True]):
    agent.acts.assign(0)
    actions.append(agent.policy(obs, None, np.array(mask))[0]['action'])
  alone, beside = actions
  np.testing.assert_array_equal(alone[:2], beside[:2])
  assert (alone[2] != beside[2]).any()


@pytest.mark.parametrize('image', [False, True])
def test_every_way_to_act_has_the_bits_of_a_plain_graph(image):
  """At a size with products and convolutions that TensorFlow has several programs for."""
  sees = {'encoder': {**SEES, 'cnn_depth': 8}, 'decoder.cnn_keys': 'image'} if image else {}
  sizes = {'rssm': {'deter': 128, 'stoch': 32, 'hidden': 128}, 'actor.layers': [256, 256]}
  agent = fixtures.make_agent(image=image, **sees, **sizes)
  keys = (*agent.world_model.encoder.keys, 'is_first')
  for number in range(4):  # greedy, at random, with the explorer, alone
    how, states = tuple(number == i for i in range(3)), []
    plain = tfutils.function(lambda *args, how=how: agent._policy(*args, *how))
    for step in (agent._act_step(*how), plain):
      state = agent.world_model.rssm.initial(2) | {'action': np.zeros([2, 2], np.float32)}
      for t in range(3):
        obs = {k: v[:2, t] for k, v in fixtures.batch(2, image=image).items() if k in keys}
        state = step(obs, state, np.array([True, False]), np.array([1, t], np.int32))
      states.append({k: np.asarray(v) for k, v in state.items()})
    for key, value in states[1].items():
      np.testing.assert_array_equal(states[0][key], value, err_msg=f'{how} {key}')


def assert_close(first, second, rate=3e-4):
  """Equal up to rounding; Adam may turn a rounding error of a tiny gradient into one step."""
  errors = np.concatenate([np.ravel(np.abs(np.float64(first[k]) - second[k])) for k in first])
  assert errors.max() <= 2.1 * rate
  assert (errors < 1e-5).mean() > 0.99


def after_one_update(agent):
  metrics = fixtures.scalars(agent.train(*fixtures.batches()))
  state = {k: v for k, v in fixtures.weights(agent).items() if '_opt' not in k}
  return metrics, state


@pytest.mark.slow
def test_xla_graph_and_eager_agree_and_xla_compiles_once():
  reference, state = after_one_update(fixtures.shared_agent(eager=True))
  moved = fixtures.shared_agent(eager=True).state()
  assert np.abs(state['main.actor.out.kernel'] - moved['main.actor.out.kernel']).max() > 1e-4
  compiled = fixtures.make_agent(jit=True)
  start = time.process_time()
  results = [after_one_update(compiled), after_one_update(fixtures.shared_agent())]
  first = time.process_time() - start
  for metrics, other in results:
    assert metrics.keys() == reference.keys()
    for key, value in reference.items():
      np.testing.assert_allclose(metrics[key], value, rtol=2e-3, atol=1e-4, err_msg=key)
    assert_close(state, other)
  # Tracing counts do not see XLA's own compilations, but those take seconds, not milliseconds.
  later = []
  for number in range(1, 9):
    start = time.process_time()
    compiled.train(*fixtures.batches(number))['main/actor_loss'].numpy()
    later.append(time.process_time() - start)
  assert max(later) < 0.1 * first, (first, later)
  assert compiled._train.experimental_get_tracing_count() == 1


@pytest.mark.slow
@pytest.mark.parametrize('changes', [{'jit_conv': True}, {'precision': 16}])
def test_pictures_agree_with_plain_graphs_under_xla(changes):
  """Convolutions inside and outside of the XLA program, and half precision, roughly."""
  make = lambda **more: fixtures.make_agent(image=True, encoder=SEES, decoder=SEES, **more)
  update = lambda agent: fixtures.scalars(agent.train(*fixtures.batches(image=True)))
  plain, compiled = update(make()), update(make(jit=True, **changes))
  tolerance = 0.05 if 'precision' in changes else 2e-3
  assert compiled.keys() == plain.keys()
  for key in ('model/model_loss', 'model/kl', 'main/bc_loss', 'disc/expert', 'gate/mean'):
    np.testing.assert_allclose(compiled[key], plain[key], rtol=tolerance, atol=1e-4, err_msg=key)


def test_unrolled_loops_agree():
  reference, state = after_one_update(fixtures.shared_agent(eager=True))
  metrics, other = after_one_update(fixtures.make_agent(eager=True, unroll=True))
  for key, value in reference.items():
    np.testing.assert_allclose(metrics[key], value, rtol=2e-3, atol=1e-4, err_msg=key)
  assert_close(state, other)


@pytest.mark.slow
@pytest.mark.parametrize(
  'mode', [{'eager': True}, {}, {'jit': True}], ids=['eager', 'graph', 'xla']
)
def test_pieces_change_nothing_but_rounding(mode):
  """Three pieces of the images and eight of the starts against none; the weights move alike."""
  keys = {'image': True, 'encoder.cnn_keys': 'image', 'decoder.cnn_keys': 'image'}
  results = []
  for agent in (
    fixtures.shared_agent(eager=True, **keys),
    fixtures.make_agent(piece=12, **keys, **mode),
  ):
    metrics = fixtures.scalars(agent.train(*fixtures.batches(image=True)))
    results.append((metrics, {k: v for k, v in fixtures.weights(agent).items() if '_opt' not in k}))
  (reference, state), (metrics, other) = results
  assert metrics.keys() == reference.keys()
  for key, value in reference.items():
    np.testing.assert_allclose(metrics[key], value, rtol=2e-3, atol=1e-4, err_msg=key)
  assert_close(state, other)


def test_half_precision_trains():
  agent = fixtures.make_agent(eager=True, precision=16)
  full = fixtures.scalars(fixtures.shared_agent(eager=True).train(*fixtures.batches()))
  for number in range(2):
    metrics = fixtures.scalars(agent.train(*fixtures.batches(number)))
    assert all(np.isfinite(v).all() for v in metrics.values())
    if number == 0:
      np.testing.assert_allclose(metrics['model/model_loss'], full['model/model_loss'], rtol=0.05)
      assert metrics['model/model_loss'] != full['model/model_loss']
  assert all(v.dtype in (np.float32, np.int32) for v in agent.state().values())


@pytest.mark.slow
def test_two_devices_share_a_batch_and_stay_equal():
  program = pathlib.Path(fixtures.__file__).with_name('replicas_program.py')
  env = {**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)}
  result = subprocess.run([sys.executable, program], capture_output=True, text=True, env=env)
  assert result.returncode == 0, result.stderr[-3000:]
  assert 'equal on both devices' in result.stdout


def test_missing_devices_are_refused():
  with pytest.raises(UserError, match='devices: 3'):
    fixtures.make_agent(devices=3)
