"""DA-DAC as an agent: who is changed by what, resuming, acting, learning."""

import numpy as np
import pytest
import tensorflow as tf

from recon_tf import loop
from recon_tf.baselines.dadac import agent as dadac
from recon_tf.common import Checkpoint
from tests.helpers import agent_fixtures as fixtures
from tests.helpers import dadac_fixtures as da
from tests.helpers import loop_fixtures

# Who is changed by what


def test_actor_update_leaves_encoder_critics_and_discriminator():
  agent = da.make(image=True)
  obs = {'image': np.random.default_rng(0).integers(0, 256, (4, 64, 64, 9), dtype=np.uint8)}
  agent.critics.head.linear.bias.assign_add(np.ones(5))  # so that the targets have to move
  moved = da.changed(agent, lambda: agent._update_actor(obs, da.normal(4, 2)))
  assert moved == {'actor', 'actor_opt', 'log_alpha', 'alpha_opt', 'target_critics'}


@pytest.mark.parametrize('encoder', ['shared', 'own'])
def test_critics_train_the_encoder(encoder):
  agent = da.make(image=True, **{'dadac.disc_encoder': encoder})
  data, expert = (agent._inputs(x) for x in fixtures.batches(image=True))
  before = agent.state()
  agent._learn(data, expert, tf.constant([0, 0]))
  moved = fixtures.different(before, agent.state())
  assert {x.split('.')[0] for x in moved} == {
    'encoder',
    'critics',
    'critic_opt',
    'disc',
    'disc_opt',
  }
  assert any('encoder.convs' in x for x in moved if x.startswith('encoder'))
  own = {x for x in moved if x.startswith('disc.encoder.convs')}
  assert bool(own) == (encoder == 'own')


def test_discriminator_does_not_touch_the_shared_encoder():
  agent = da.make(image=True)
  units = agent.encoder.units
  inputs = [
    (da.normal(4, units, seed=i), da.normal(4, 2), np.ones(4, np.float32)) for i in range(2)
  ]
  assert da.changed(agent, lambda: agent._judge(*inputs, da.normal(4, 1))) == {'disc', 'disc_opt'}


def test_actor_and_targets_move_every_second_update():
  agent = da.make()
  for number in range(4):
    slow, fast = ([x.numpy() for x in group] for group in (agent._slow, agent._online))
    moved = da.changed(agent, lambda: agent.train(*fixtures.batches(number)))  # noqa: B023
    assert {'encoder', 'critics', 'disc'} <= moved
    assert ({'actor', 'target_critics', 'log_alpha'} <= moved) == (number % 2 == 0)
    assert ('actor' in moved) == (number % 2 == 0)
    fast = [x.numpy() for x in agent._online]
    rate = 0.01 if number % 2 == 0 else 0.0
    for now, old, online in zip(agent._slow, slow, fast, strict=True):
      np.testing.assert_allclose(now, old + rate * (online - old), atol=1e-6)


def test_changed_rewards_change_no_weight():
  agent = da.make()
  first, results = agent.state(), []
  for scale in (1.0, -7.0):
    agent.restore(first)
    for number in range(2):
      data, expert = fixtures.batches(number)
      data['reward'], expert['reward'] = scale * data['reward'], scale * expert['reward']
      agent.train(data, expert)
    results.append(agent.state())
  assert fixtures.different(*results) == set()
  assert fixtures.different(first, results[0])


def test_pairs_that_cross_episodes_change_no_weight():
  """What stands before the beginning of an episode and after its end is not a transition."""
  agent = da.make(**{'dadac.every': 1000})
  agent.updates.assign(1)
  first, results = agent.state(), []
  for value in (0.0, 5.0):
    agent.restore(first)
    data, expert = fixtures.batches()
    for source in (data, expert):
      source['action'][0, 3] = value / 10  # the row begins an episode, nothing led to it
    agent.train(data, expert)
    results.append(agent.state())
  assert fixtures.different(*results) == set()


# Seeds, compilation, files


def test_same_seed_same_metrics_bit_for_bit():
  runs = []
  for seed in (5, 5, 6):
    agent = da.make(seed=seed)
    metrics = [agent.train(*fixtures.batches(number)) for number in range(2)]
    runs.append({f'{k}{i}': np.asarray(v) for i, x in enumerate(metrics) for k, v in x.items()})
  assert fixtures.different(runs[0], runs[1]) == set()
  assert len(fixtures.different(runs[0], runs[2])) > 0.8 * len(runs[0])


def test_restored_agent_goes_on_bit_for_bit(tmp_path):
  agent = da.make()
  for number in range(3):
    agent.train(*fixtures.batches(number))
  agent.save(tmp_path / 'agent.npz')
  other = da.make(seed=0)
  other.load(tmp_path / 'agent.npz')
  for x in (agent, other):
    for number in range(3, 5):
      x.train(*fixtures.batches(number))
    obs = {k: v[:, 0] for k, v in fixtures.batch(3).items()}
    x.policy(obs, None, 'train')
  assert fixtures.different(agent.state(), other.state()) == set()


def test_resumed_run_ends_bit_for_bit_as_one_that_was_not_stopped(tmp_path):
  demos, states = loop_fixtures.make_demos(tmp_path / 'demos'), []
  for name, stops in (('straight', [60]), ('stopped', [40, 60])):
    for steps in stops:
      config = da.run_config(tmp_path / name, demos, steps=steps)
      loop.train(config)
    states.append(Checkpoint(loop.run_folder(config) / 'checkpoints').load()[0])
  assert fixtures.different(*states) == set()


@pytest.mark.slow
@pytest.mark.parametrize('image', [False, True])
def test_xla_graph_and_eager_agree(image):
  results = []
  for changes in ({'eager': True}, {'eager': False}, {'eager': False, 'jit': True}):
    agent = da.make(image=image, **changes)
    results.append([fixtures.scalars(agent.train(*fixtures.batches(i, image=image)))
                    for i in range(2)])  # fmt: skip
    if not agent._config.eager:
      assert agent._learn_step.experimental_get_tracing_count() == 1
  for other in results[1:]:
    for reference, metrics in zip(results[0], other, strict=True):
      assert reference.keys() == metrics.keys()
      for key, value in reference.items():
        np.testing.assert_allclose(metrics[key], value, rtol=5e-3, atol=1e-3, err_msg=key)


def test_half_precision_trains():
  agent = da.make(precision=16)
  metrics = fixtures.scalars(agent.train(*fixtures.batches()))
  assert all(np.isfinite(x) for x in metrics.values())
  assert all(x.dtype in (np.float32, np.int32) for x in agent.state().values())


# Acting


def observations(length=6, rows=3):
  data = fixtures.batch(rows, length, image=True)
  return data, [{k: v[:, i] for k, v in data.items()} for i in range(length)]


def test_acting_stacks_frames_and_takes_the_mode_in_evaluation():
  agent = da.make(image=True)
  data, steps = observations()
  stacks = dadac.stack_frames(data['image'], data['is_first'], 3)
  state = None
  for i, obs in enumerate(steps):
    outputs, state = agent.policy(obs, state, 'eval')
    np.testing.assert_array_equal(state['image'], stacks[:, i])
    mode = agent.actor.mode(agent.encoder({'image': stacks[:, i]}))
    np.testing.assert_allclose(outputs['action'], mode, atol=1e-5)
    assert not outputs['log_explorer'].any()


def test_modes_of_acting():
  agent = da.make()
  obs = {k: v[:, 0] for k, v in fixtures.batch(300).items()}
  samples = [agent.policy(obs, None, mode)[0]['action'] for mode in ('train', 'train')]
  assert (samples[0] != samples[1]).any(-1).all()
  random = agent.policy(obs, None, 'random')[0]['action']
  np.testing.assert_allclose(random.std(), 1 / np.sqrt(3), rtol=0.1)
  mask = np.arange(300) % 2 == 0
  outputs, state = agent.policy(obs, None, mask)
  np.testing.assert_array_equal(outputs['log_explorer'], mask)
  assert state == {}
  assert agent.report(obs) == {}


# Learning


def test_learns_to_imitate_where_every_step_is_the_last():
  """Without a future Q is log D, so that the actor has to find the expert's actions."""
  changes = {'eager': False, 'dadac.layers': [32, 32], 'dadac.disc_layers': [32, 32]}
  agent = da.make(**changes, **{'dadac.lr': 3e-3})
  rng = np.random.default_rng(0)

  def draw(expert):
    data = fixtures.batch(64, 4, seed=int(rng.integers(1 << 30)))
    for key in ('is_first', 'is_last', 'is_terminal'):
      data[key][:] = key == 'is_terminal'
    data['is_first'][:, 0] = True
    right = np.tanh(data['position'][:, 2, :2])
    data['action'][:, 3] = right if expert else rng.uniform(-1, 1, right.shape)
    return data

  def error():
    data = draw(True)
    obs = {k: v[:, 2] for k, v in data.items()}
    return np.abs(agent.policy(obs, None, 'eval')[0]['action'] - data['action'][:, 3]).mean()

  before = error()
  for _ in range(1200):
    metrics = agent.train(draw(False), draw(True))
  assert metrics['disc/gap'] > 0.1
  assert error() < 0.5 * before
