"""IQ-MPC as an agent: what data may do, updates, acting, resuming."""

import types

import numpy as np
import pytest
import tensorflow as tf

from recon_tf import loop
from recon_tf.baselines.iqmpc import agent as iqmpc
from recon_tf.baselines.iqmpc.slices import cut_slices
from recon_tf.common import Checkpoint, UserError, load_config
from recon_tf.make_agent import sequences
from tests.helpers import agent_fixtures as fixtures
from tests.helpers import iqmpc_fixtures as iq
from tests.helpers import loop_fixtures

# Data


def test_slices_lie_inside_of_episodes():
  """Inputs count the rows of all sequences, so that every slice tells where it is from."""
  rows, length = 3, 12
  first = np.zeros((rows, length), bool)
  first[:, 0] = first[0, 5] = first[1, 9] = True
  number = np.arange(rows * length).reshape(rows, length)
  data = {
    'inputs': number[..., None].astype(np.float32),
    'action': number[..., None].astype(np.float32),
    'reward': number.astype(np.float32),
    'is_first': first,
  }
  settings = types.SimpleNamespace(horizon=3, batch=15)
  data = {k: tf.constant(v) for k, v in data.items()}
  found = {k: v.numpy() for k, v in cut_slices(data, settings, 2, iq.seeds()).items()}
  assert found['inputs'].shape == (15, 4, 3)
  starts = found['inputs'][:, 0, -1].astype(int)
  assert len(set(starts)) == 15
  assert np.bincount(starts // length).tolist() == [5, 5, 5]
  for i, start in enumerate(starts):
    assert start % length >= 2  # two older frames lie before it
    for t in range(4):
      row = start + t
      begin = max(x for x in range(row + 1) if first.ravel()[x] and x // length == row // length)
      stack = [max(row - 2, begin), max(row - 1, begin), row]
      assert found['inputs'][i, t].tolist() == stack
    same = [not first.ravel()[start + 1 : start + t + 2].any() for t in range(3)]
    assert found['valid'][:, i].tolist() == same
    np.testing.assert_array_equal(found['action'][:, i, 0], start + 1 + np.arange(3))
    np.testing.assert_array_equal(found['reward'][:, i], start + 1 + np.arange(3))
  assert 0 < found['valid'].mean() < 1


@pytest.mark.parametrize('method', ['dadac', 'iqmpc'])
def test_every_loaded_sequence_is_learned_from(method):
  for config in (load_config('cpu', method), load_config(method)):
    assert sequences(config) == (config[method].batch,) * 2
  assert sequences(load_config('cpu')) == (8, 8)


def test_behavior_comes_first_then_the_expert(monkeypatch):
  agent, seen = iq.make_agent(), {}
  inner = agent._gradient_step

  def spy(latent, future, action, valid, noise, behavior, mode):
    seen.update(action=action.numpy(), behavior=behavior)
    return inner(latent, future, action, valid, noise, behavior, mode)

  monkeypatch.setattr(agent, '_gradient_step', spy)
  data, expert = iq.batches()
  data['action'][:], expert['action'][:] = 0.5, -0.5
  agent.train(data, expert)
  assert seen['behavior'] == 6
  assert (seen['action'][:, :6] == 0.5).all()
  assert (seen['action'][:, 6:] == -0.5).all()


def test_demonstrations_are_no_negatives_while_pretraining():
  """The loop then hands them out as behaviour too: it has no influence."""
  agents = [iq.liven(iq.make_agent(pretrain=5)) for _ in range(2)]
  expert = iq.batches()[1]
  for number, agent in enumerate(agents):
    metrics = agent.train(iq.batches(number + 7)[0], expert)
    assert metrics['iqmpc/q_behavior'] == 0
  assert not fixtures.different(agents[0].state(), agents[1].state())


def test_copies_of_demonstrations_in_the_replay_are_refused():
  with pytest.raises(UserError, match='expert_mix'):
    iq.make_agent(expert_mix='copy')


def test_rewards_change_no_weight():
  agents = [iq.make_agent() for _ in range(2)]
  for scale, agent in enumerate(agents):
    for number in range(2):
      data = iq.batches(number)
      for part in data:
        part['reward'] = part['reward'] * scale + scale
      metrics = agent.train(*data)
  assert not fixtures.different(agents[0].state(), agents[1].state())
  assert 'iqmpc/reward_correlation' in metrics


def test_correlation_is_left_out_where_rewards_are_all_equal():
  data = iq.batches()
  for part in data:
    part['reward'][:] = 0
  assert 'iqmpc/reward_correlation' not in iq.make_agent().train(*data)


# Updates


def test_steps_of_the_optimizers():
  """Adam's first step is the learning rate, wherever there is a gradient."""
  agent = iq.liven(iq.make_agent())
  before = agent.state()
  metrics = iq.train(agent, 1)
  after = agent.state()
  step = lambda name: max(
    np.abs(after[k] - before[k]).max() for k in before if k.startswith(f'model.{name}.')
  )
  np.testing.assert_allclose(step('encoder'), 9e-5, rtol=0.02)
  for name in ('dynamics', 'heads', 'prior'):
    np.testing.assert_allclose(step(name), 3e-4, rtol=0.02)
  for key in before:
    if key.startswith('model.target.'):
      online = after[key.replace('target', 'heads')]
      np.testing.assert_allclose(after[key], before[key] + 0.01 * (online - before[key]), atol=1e-6)
  for key in ('iqmpc/model_loss', 'iqmpc/policy_loss', 'iqmpc/model_grad_norm',
              'iqmpc/policy_grad_norm', 'iqmpc/q_gap'):  # fmt: skip
    assert np.isfinite(metrics[key])


def test_one_norm_clips_encoder_and_model_together():
  agent = iq.make_agent()
  grads = [tf.ones_like(x) for x in (*agent.model.encoder.variables, *agent._trained)]
  norm = tf.linalg.global_norm(grads)
  for optimizer in (agent.encoder_opt, agent.model_opt):
    optimizer.apply(grads[: len(optimizer.first)] if optimizer is agent.encoder_opt
                    else grads[len(agent.encoder_opt.first) :], norm)  # fmt: skip
    for moment in optimizer.first:
      np.testing.assert_allclose(moment, 0.1 * min(1, 20 / norm) * np.ones(moment.shape), rtol=1e-5)


def test_q_tells_the_expert_from_the_behavior():
  """The expert always pushes right, the behaviour left: Q and the decoded reward learn it."""
  agent = iq.make_agent(**{'iqmpc': {'lr': 3e-3, 'batch': 16}, 'eager': False})
  for number in range(60):
    data, expert = iq.batches(number)
    data['action'][:], expert['action'][:] = -0.8, 0.8
    metrics = agent.train(data, expert)
  assert metrics['iqmpc/reward_expert'] > metrics['iqmpc/reward_behavior'] + 0.5
  test = iq.batches(99)[0]
  decoded = []
  for sign in (-0.8, 0.8):
    test['action'][:] = sign
    decoded.append(agent.decode_reward(test).mean())
  assert decoded[1] > decoded[0] + 0.5
  obs = {k: v[:, 0] for k, v in test.items() if k in ('position', 'velocity', 'is_first')}
  assert agent.policy(obs, None, 'eval')[0]['action'].mean() > 0.3


def test_cloning_raises_the_likelihood_of_the_expert():
  agent = iq.make_agent(**{'iqmpc.lr': 3e-3, 'eager': False})
  data = iq.batches()
  losses = [float(agent.clone(*data)['iqmpc/policy_loss']) for _ in range(20)]
  assert losses[-1] < losses[0] - 0.3
  assert (agent.model.heads.out.kernel.numpy() == 0).all()


@pytest.mark.parametrize('image', [False, True])
def test_same_seed_same_bits_and_a_restored_agent_goes_on(image, tmp_path):
  whole, half = iq.make_agent(image), iq.make_agent(image)
  iq.train(whole, 3, image=image)
  iq.train(half, 2, image=image)
  half.save(tmp_path / 'half.npz')
  other = iq.make_agent(image, seed=0)
  other.load(tmp_path / 'half.npz')
  other.train(*iq.batches(2, image=image))
  assert not fixtures.different(whole.state(), other.state())
  different = iq.make_agent(image, seed=1)
  iq.train(different, 3, image=image)
  assert fixtures.different(whole.state(), different.state())


@pytest.mark.slow
def test_xla_gives_the_numbers_of_eager_mode():
  eager, compiled = (iq.liven(iq.make_agent(jit=x, eager=not x)) for x in (False, True))
  metrics = iq.train(eager), iq.train(compiled)
  for key, expected in metrics[0].items():
    np.testing.assert_allclose(metrics[1][key], expected, rtol=1e-3, atol=1e-4, err_msg=key)
  obs = {
    k: v[:, 0] for k, v in iq.batches()[0].items() if k in ('position', 'velocity', 'is_first')
  }
  actions = [x.policy(obs, None, 'train')[0]['action'] for x in (eager, compiled)]
  np.testing.assert_allclose(actions[0], actions[1], atol=1e-3)


# Acting


def observation(image=False, count=2, seed=0, first=False):
  data = iq.batches(seed, image=image)[0]
  keys = ('image',) if image else ('position', 'velocity')
  return {**{k: data[k][:count, 0] for k in keys}, 'is_first': np.full(count, first)}


@pytest.mark.parametrize('image', [False, True])
def test_actions_in_every_mode(image):
  agent = iq.liven(iq.make_agent(image))
  state = None
  for mode in ('random', 'train', 'eval', 'explore', np.array([True, False])):
    outputs, state = agent.policy(observation(image, first=state is None), state, mode)
    assert outputs['action'].shape == (2, 2)
    assert outputs['log_explorer'].shape == (2,)
    assert (np.abs(outputs['action']) <= 1).all()
    assert state['mean'].shape == (2, 3, 2)


def test_a_new_episode_forgets_plan_and_frames():
  agent = iq.liven(iq.make_agent(True))
  used = agent.policy(observation(True), agent._initial(2), 'train')[1]
  used = agent.policy(observation(True, seed=1), used, 'train')[1]
  number = agent.acts.numpy()
  results = []
  for state in (used, None):
    agent.acts.assign(number)
    results.append(agent.policy(observation(True, first=True), state, 'eval'))
  np.testing.assert_array_equal(results[0][0]['action'], results[1][0]['action'])
  frames = results[0][1]['frames'].numpy()
  np.testing.assert_array_equal(frames, np.tile(observation(True)['image'], 3))


def test_images_are_not_shifted_when_acting(monkeypatch):
  def refuse(*args):
    raise AssertionError('shifted')

  monkeypatch.setattr(iqmpc, 'draw_offsets', refuse)
  iq.make_agent(True).policy(observation(True, first=True), None, 'train')
  with pytest.raises(AssertionError, match='shifted'):
    iq.make_agent(True, **{'iqmpc.aug_at_eval': True}).policy(observation(True), None, 'train')


def test_evaluation_takes_the_action_that_was_asked_for():
  actions = {}
  for how in ('best', 'mean'):
    agent = iq.liven(iq.make_agent(**{'iqmpc.eval_action': how}))
    outputs, state = agent.policy(observation(first=True), None, 'eval')
    actions[how] = outputs['action']
  np.testing.assert_array_equal(actions['mean'], state['mean'][:, 0])
  assert (actions['best'] != actions['mean']).any()


def test_large_actions_take_two_iterations_more():
  assert iq.make_agent(action=19)._iterations == 2
  assert iq.make_agent(action=20)._iterations == 4


def test_bad_settings_are_named():
  with pytest.raises(UserError, match=r'iqmpc\.latent'):
    iq.make_agent(True, **{'iqmpc.latent': 24})
  with pytest.raises(UserError, match=r'replay\.length'):
    iq.make_agent(True, **{'replay.length': 5})
  with pytest.raises(UserError, match='either images or vectors'):
    iq.make_agent(**{'encoder.mlp_keys': '$^'})
  with pytest.raises(UserError, match='value_term'):
    iq.make_agent(**{'iqmpc.value_term': 'v1'})


# The loop


@pytest.mark.slow
def test_resumed_run_is_the_whole_run_bit_for_bit(tmp_path):
  demos = loop_fixtures.make_demos(tmp_path / 'demos')
  tiny = load_config('maze', 'state', 'iqmpc').update(loop_fixtures.FLAGS).update(iq.TINY)
  tiny = tiny.update({'pretrain': 0, 'pretrain_bc': 0, 'demos': str(demos)})
  states = []
  for name, targets in (('whole', [60]), ('resumed', [40, 60])):
    for steps in targets:
      config = tiny.update({'logdir': str(tmp_path / name), 'steps': steps})
      assert loop.train(config)['step'] == steps
    folder = loop.run_folder(config)
    assert folder.parts[-2] == 'iqmpc'
    states.append(Checkpoint(folder / 'checkpoints').load())
  (first, meta), (second, other_meta) = states
  assert meta == other_meta
  assert int(first['updates']) == 20 + 4  # the burst of the random steps, then the usual ones
  assert not fixtures.different(first, second)
