"""DA-DAC against NumPy: what it is given, its losses, and who is changed by what."""

import numpy as np
import pytest
import tensorflow as tf

from recon_tf import loop
from recon_tf.agents import make_agent
from recon_tf.baselines import dadac, drq
from recon_tf.common import Checkpoint, Replay, UserError, load_config
from recon_tf.common.config import presets
from recon_tf.common.episodes import load_folder
from tests import agent_fixtures as fixtures
from tests import loop_fixtures

SMALL = {
  'dadac': {
    'channels': 3,
    'strides': [2, 2, 2, 2],
    'mlp_layers': [12],
    'features': 5,
    'layers': [8, 8],
    'disc_layers': [8, 8],
  }
}
IMAGES = {'encoder.cnn_keys': 'image', 'encoder.mlp_keys': '$^'}


def make(image=False, **changes):
  """A tiny agent with biases that are not zero, on vectors or images."""
  config = fixtures.tiny_config('dadac', **{'eager': True, **(IMAGES if image else {})})
  agent = make_agent(config.update(SMALL).update(changes), *fixtures.spaces(image))
  fixtures.jitter_biases(agent)
  agent._follow(1.0)
  return agent


def normal(*shape, seed=0):
  return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def changed(agent, update):
  before = agent.state()
  update()
  return {x.split('.')[0] for x in fixtures.different(before, agent.state())}


# Networks


def test_parameters_as_in_drq():
  obs, act = fixtures.spaces(image=True, action=6)
  config = load_config('dadac')
  rng = np.random.default_rng(0)
  encoder = drq.Encoder(rng, config, {'image': obs['image'].shape})
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
  config = fixtures.tiny_config('dadac', **IMAGES).update(SMALL)
  agent = make_agent(config, *fixtures.spaces(image=True))
  networks = {k: v for k, v in agent.named.items() if '_opt' not in k and v.shape.rank}
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


def forward(head, mlp, features, action=None):
  """Projection and MLP in float64."""
  x = fixtures.dense(head.linear, features)
  x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
  x = np.tanh(x * head.norm.scale.numpy() + head.norm.offset.numpy())
  x = x if action is None else np.concatenate([x, action], -1)
  for layer in mlp.hidden:
    x = np.maximum(fixtures.dense(layer, x), 0)
  return fixtures.dense(mlp.out, x)


def sample(actor, features, noise):
  """The squashed Gaussian and its density, by the change of variables as it is defined."""
  mean, raw = np.split(forward(actor.head, actor.mlp, features), 2, -1)
  std = np.exp(-10 + 6 * (np.tanh(raw) + 1))
  before = mean + std * noise
  density = np.exp(-0.5 * ((before - mean) / std) ** 2) / (std * np.sqrt(2 * np.pi))
  return np.tanh(before), np.log(density / (1 - np.tanh(before) ** 2)).sum(-1)


def values(critics, features, action):
  return np.stack([forward(critics.head, x, features, action)[:, 0] for x in critics.mlps])


def test_actions_and_their_densities():
  agent = make()
  features, noise = normal(40, 12), normal(40, 2, seed=1)
  action, logprob = agent.actor.sample(features, noise)
  expected = sample(agent.actor, features, noise)
  np.testing.assert_allclose(action, expected[0], atol=1e-5)
  np.testing.assert_allclose(logprob, expected[1], rtol=1e-3, atol=1e-3)
  np.testing.assert_allclose(agent.actor.mode(features), sample(agent.actor, features, 0)[0],
                             atol=1e-5)  # fmt: skip
  far = agent.actor.sample(features, 1e3 * noise)[1]
  assert np.isfinite(far).all()


def test_images_through_the_encoder():
  agent = make(image=True)
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


# What it is given


def counting_episode(number, rows):
  """An episode whose frames and actions say where they are from."""
  label = 40 * number + np.arange(rows)
  flags = np.arange(rows)
  return {
    'image': np.broadcast_to(label[:, None, None, None], (rows, 64, 64, 3)).astype(np.uint8),
    'action': np.repeat(label[:, None], 2, 1).astype(np.float32) / 1000,
    'reward': np.zeros(rows, np.float32),
    'is_first': flags == 0,
    'is_last': flags == rows - 1,
    'is_terminal': (flags == rows - 1) & (number % 2 == 0),
  }


@pytest.mark.parametrize('length', [4, 9])
def test_transitions_from_a_replay_are_what_the_policy_saw(length):
  """Every stack, action and end, also at the beginning of episodes; never across two."""
  agent, replay = make(image=True, **{'dadac.batch': 400}), Replay(None, seed=1)
  lengths = [9, 14, 7, 12, 10]
  for number, rows in enumerate(lengths):
    replay.add_episode(counting_episode(number, rows))
  seen, dropped = set(), 0
  for key in range(2):
    data = agent._inputs(replay.sample(150, length, key))
    batch = agent._transitions(data)
    assert batch['valid'].shape[0] == min(150 * (length - 3), 400)
    corner = {k: batch[k]['image'][:, 0, 0, ::3].numpy() for k in ('obs', 'next')}
    for i, valid in enumerate(batch['valid'].numpy()):
      if not valid:
        dropped += 1
        continue
      number, step = divmod(int(corner['obs'][i][-1]), 40)
      stack = lambda t: [40 * number + max(t - back, 0) for back in (2, 1, 0)]  # noqa: B023
      assert corner['obs'][i].tolist() == stack(step)
      assert corner['next'][i].tolist() == stack(step + 1)
      np.testing.assert_allclose(batch['action'][i], (40 * number + step + 1) / 1000, atol=1e-6)
      last = step + 2 == lengths[number]
      assert batch['alive'][i] == (0 if last and number % 2 == 0 else 1)
      seen.add((number, step))
  assert seen == {(i, t) for i, rows in enumerate(lengths) for t in range(rows - 1)}
  assert 0 < dropped < 0.25 * 2 * batch['valid'].shape[0]


def test_small_batches_take_one_step_of_each_sequence():
  agent = make(**{'dadac.batch': 6})
  data = agent._inputs(fixtures.batch(4, 6))
  batch = agent._transitions(data)
  expected = [(0, 2), (1, 2), (2, 2), (3, 2), (0, 3), (1, 3)]
  for i, (row, step) in enumerate(expected):
    np.testing.assert_array_equal(batch['obs']['position'][i], data['position'][row, step])
    np.testing.assert_array_equal(batch['next']['position'][i], data['position'][row, step + 1])
    np.testing.assert_array_equal(batch['action'][i], data['action'][row, step + 1])


def recorded_update(agent, data, expert, seed=0):
  """What the update of the critics is given, without the update."""
  calls = []
  agent._critic_step = lambda *args: calls.append(args)
  first, *_ = agent._learn(agent._inputs(data), agent._inputs(expert), tf.constant([0, seed]))
  return first, *calls[0]


def offset(cropped, image):
  """By how much a crop is shifted; all frames of the stack by the same."""
  padded = np.pad(image, [(4, 4), (4, 4), (0, 0)], mode='edge')
  found = [
    (i, j) for i in range(9) for j in range(9)
    if (padded[i : i + 64, j : j + 64] == cropped).all()
  ]  # fmt: skip
  assert len(found) == 1
  return found[0]


@pytest.mark.parametrize('augmented', [True, False])
def test_states_are_cropped_twice_and_demonstrations_once(augmented):
  agent = make(image=True, **{'dadac.disc_aug': augmented, 'dadac.batch': 8})
  data, expert = fixtures.batches(image=True)
  plain, known = (agent._transitions(agent._inputs(x)) for x in (data, expert))
  first, policy, shown, _ = recorded_update(agent, data, expert)
  images = lambda tree: tree['image'].numpy()
  offsets = []
  for now, raw in ((policy['crops'], plain['obs']), (policy['next'], plain['next'])):
    halves = np.split(images(now), 2)
    offsets += [[offset(x, y) for x, y in zip(half, images(raw), strict=True)] for half in halves]
  assert len({str(x) for x in offsets}) == 4
  np.testing.assert_array_equal(images(first), np.split(images(policy['crops']), 2)[0])
  if augmented:
    np.testing.assert_array_equal(images(policy['obs']), images(first))
    shifts = {offset(x, y) for x, y in zip(images(shown['obs']), images(known['obs']), strict=True)}
    assert len(shifts) > 1
  else:
    np.testing.assert_array_equal(images(policy['obs']), images(plain['obs']))
    np.testing.assert_array_equal(images(shown['obs']), images(known['obs']))


# Losses


def test_targets_are_averaged_over_two_crops():
  agent = make()
  for x in agent._slow:
    x.assign(x + 0.1)
  agent.log_alpha.assign(-0.7)
  online, slow, noise = normal(12, 12), normal(12, 12, seed=1), normal(12, 2, seed=2)
  reward, alive = normal(6, seed=3), np.array([1, 1, 0, 1, 1, 0], np.float32)
  targets = agent._targets(online, slow, reward, alive, noise)
  action, logprob = sample(agent.actor, online, noise)
  value = values(agent.target_critics, slow, action).min(0) - np.exp(-0.7) * logprob
  manual = [reward[i] + alive[i] * 0.99 * (value[i] + value[6 + i]) / 2 for i in range(6)]
  np.testing.assert_allclose(targets, manual, rtol=1e-3, atol=1e-3)
  np.testing.assert_array_equal(np.asarray(targets)[alive == 0], reward[alive == 0])


def test_critic_loss_has_four_terms():
  agent = make()
  features, action, targets = normal(10, 12), normal(5, 2, seed=1), normal(5, seed=2)
  valid = np.array([1, 0, 1, 1, 1], np.float32)
  expert = normal(3, 12, seed=4), normal(3, 2), np.ones(3, np.float32)
  loss, metrics = agent._regress((features, action, valid), targets, expert)
  first, second = np.split(features, 2)
  terms = [
    ((values(agent.critics, x, action)[i] - targets) ** 2)[valid > 0].mean()
    for x in (first, second)
    for i in (0, 1)
  ]
  np.testing.assert_allclose(loss, sum(terms), rtol=1e-4)
  q = np.mean([values(agent.critics, x, action)[:, valid > 0] for x in (first, second)])
  np.testing.assert_allclose(metrics['dadac/q'], q, rtol=1e-4, atol=1e-5)
  gap = values(agent.critics, *expert[:2]).mean() - q
  np.testing.assert_allclose(metrics['dadac/q_expert_gap'], gap, rtol=1e-4, atol=1e-5)


def test_actor_and_temperature_losses():
  agent = make()
  agent.log_alpha.assign(-0.5)
  features, noise = normal(6, 12), normal(6, 2, seed=1)
  action, logprob = sample(agent.actor, features, noise)
  expected = np.mean(np.exp(-0.5) * logprob - values(agent.critics, features, action).min(0))
  metrics = agent._improve(features, noise)
  np.testing.assert_allclose(metrics['dadac/actor_loss'], expected, rtol=1e-3)
  slope = np.exp(-0.5) * (-logprob.mean() + 2)  # target entropy -2
  np.testing.assert_allclose(metrics['dadac/alpha_loss'], slope, rtol=1e-3)
  # Adam's first step has the size of the learning rate, against the sign of the gradient.
  np.testing.assert_allclose(agent.log_alpha, -0.5 - 1e-4 * np.sign(slope), atol=1e-6)


def pair(seed, rows=7):
  return normal(rows, 12, seed=seed), normal(rows, 2, seed=seed + 1), np.ones(rows, np.float32)


def test_discriminator_loss_and_reward():
  agent = make(**{'dadac.disc_gp': 0.0})
  expert, policy = pair(0), pair(2)
  expert[2][:2] = policy[2][5:] = 0
  logit = lambda x: forward(agent.disc.head, agent.disc.mlp, x[0], x[1])[:, 0]
  loss, metrics = agent.disc.objective(expert, policy, normal(7, 1))
  probs = [fixtures.sigmoid(logit(x))[x[2] > 0] for x in (expert, policy)]
  manual = -np.log(probs[0]).mean() - np.log(1 - probs[1]).mean()
  np.testing.assert_allclose(loss, manual, rtol=1e-4)
  np.testing.assert_allclose(metrics['disc/gap'], probs[0].mean() - probs[1].mean(), atol=1e-5)
  reward = agent.disc.log_prob(*policy[:2]).numpy()
  np.testing.assert_allclose(reward, np.log(fixtures.sigmoid(logit(policy))), rtol=1e-4)
  assert (reward <= 0).all()
  assert (agent.disc.log_prob(1e4 * policy[0], 1e4 * policy[1]).numpy() <= 0).all()


@pytest.mark.parametrize(('slope', 'expected'), [(1.0, 0.0), (3.0, 4.0), (0.25, 0.5625)])
def test_penalty_of_a_linear_discriminator(slope, expected):
  agent = make(**{'dadac.disc_layers': []})
  kernel = normal(7, 1)
  agent.disc.mlp.out.kernel.assign(slope * kernel / np.linalg.norm(kernel))
  _, metrics = agent.disc.objective(pair(0), pair(2), np.full((7, 1), 0.5, np.float32))
  np.testing.assert_allclose(metrics['disc/penalty'], expected, atol=1e-5)


def test_penalty_is_of_the_gradient_at_interpolated_inputs():
  agent, mix = make(), np.random.default_rng(5).random((7, 1)).astype(np.float32)
  expert, policy = pair(0), pair(2)
  inputs = [np.concatenate([agent.disc.project(x[0]), x[1]], -1) for x in (expert, policy)]
  between = np.float64(mix * inputs[0] + (1 - mix) * inputs[1])

  def logit(x):
    for layer in agent.disc.mlp.hidden:
      x = np.maximum(fixtures.dense(layer, x), 0)
    return fixtures.dense(agent.disc.mlp.out, x)[:, 0]

  steps = 1e-6 * np.eye(7)
  slopes = np.stack([(logit(between + x) - logit(between - x)) / 2e-6 for x in steps], -1)
  manual = ((np.linalg.norm(slopes, axis=-1) - 1) ** 2).mean()
  with tf.GradientTape() as tape:
    loss, metrics = agent.disc.objective(expert, policy, mix)
  np.testing.assert_allclose(metrics['disc/penalty'], manual, rtol=1e-3)
  assert all(np.isfinite(x).all() for x in tape.gradient(loss, agent.disc.variables))


# Who is changed by what


def test_actor_update_leaves_encoder_critics_and_discriminator():
  agent = make(image=True)
  obs = {'image': np.random.default_rng(0).integers(0, 256, (4, 64, 64, 9), dtype=np.uint8)}
  agent.critics.head.linear.bias.assign_add(np.ones(5))  # so that the targets have to move
  moved = changed(agent, lambda: agent._update_actor(obs, normal(4, 2)))
  assert moved == {'actor', 'actor_opt', 'log_alpha', 'alpha_opt', 'target_critics'}


@pytest.mark.parametrize('encoder', ['shared', 'own'])
def test_critics_train_the_encoder(encoder):
  agent = make(image=True, **{'dadac.disc_encoder': encoder})
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
  agent = make(image=True)
  units = agent.encoder.units
  inputs = [(normal(4, units, seed=i), normal(4, 2), np.ones(4, np.float32)) for i in range(2)]
  assert changed(agent, lambda: agent._judge(*inputs, normal(4, 1))) == {'disc', 'disc_opt'}


def test_actor_and_targets_move_every_second_update():
  agent = make()
  for number in range(4):
    slow, fast = ([x.numpy() for x in group] for group in (agent._slow, agent._online))
    moved = changed(agent, lambda: agent.train(*fixtures.batches(number)))  # noqa: B023
    assert {'encoder', 'critics', 'disc'} <= moved
    assert ({'actor', 'target_critics', 'log_alpha'} <= moved) == (number % 2 == 0)
    assert ('actor' in moved) == (number % 2 == 0)
    fast = [x.numpy() for x in agent._online]
    rate = 0.01 if number % 2 == 0 else 0.0
    for now, old, online in zip(agent._slow, slow, fast, strict=True):
      np.testing.assert_allclose(now, old + rate * (online - old), atol=1e-6)


def test_changed_rewards_change_no_weight():
  agent = make()
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
  agent = make(**{'dadac.every': 1000})
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


# Demonstrations are no negatives


@pytest.mark.parametrize(
  ('changes', 'match'),
  [
    ({'pretrain': 5}, 'pretrain'),
    ({'pretrain_bc': 5}, 'pretrain_bc'),
    ({'expert_mix': 'copy'}, 'expert_mix'),
    ({'replay.length': 3}, r'replay\.length'),
    ({'dadac.disc_encoder': 'shard'}, 'disc_encoder'),
    ({'encoder.mlp_keys': 'positon$'}, 'encoder'),
    ({'devices': 2}, 'devices'),
  ],
)
def test_refused_settings(changes, match):
  with pytest.raises(UserError, match=match):
    make(**changes)


def run_config(folder, demos, **changes):
  preset = {**presets()['dadac'], **SMALL, 'dadac.batch': 4, 'eager': True, 'steps': 60}
  preset.update({'replay': {'batch': 4, 'expert_batch': 3, 'length': 4}, 'train_every': 5})
  return loop_fixtures.run_config(folder, demos, **preset).update(changes)


def test_demonstrations_never_are_negatives(tmp_path, monkeypatch):
  """A real run, and what the discriminator is given as expert's and as policy's in it."""
  demos, given = loop_fixtures.make_demos(tmp_path / 'demos'), []
  original = dadac.FeatureDiscriminator.objective

  def record(self, expert, policy, mix):
    given.append((expert[1].numpy(), policy[1].numpy()))
    return original(self, expert, policy, mix)

  monkeypatch.setattr(dadac.FeatureDiscriminator, 'objective', record)
  config = run_config(tmp_path / 'run', demos)
  loop.train(config)
  folder = loop.run_folder(config) / 'train_episodes'
  actions = lambda where: {y.tobytes() for x in load_folder(where) for y in x['action'][1:]}
  shown, taken = actions(demos), actions(folder)
  positives, negatives = ({y.tobytes() for x in given for y in x[i]} for i in (0, 1))
  none = np.zeros(2, np.float32).tobytes()  # of the first row of an episode, which is masked
  assert len(given) == 8
  assert positives - {none} <= shown
  assert negatives - {none} <= taken
  assert not negatives & shown


# Seeds, compilation, files


def test_same_seed_same_metrics_bit_for_bit():
  runs = []
  for seed in (5, 5, 6):
    agent = make(seed=seed)
    metrics = [agent.train(*fixtures.batches(number)) for number in range(2)]
    runs.append({f'{k}{i}': np.asarray(v) for i, x in enumerate(metrics) for k, v in x.items()})
  assert fixtures.different(runs[0], runs[1]) == set()
  assert len(fixtures.different(runs[0], runs[2])) > 0.8 * len(runs[0])


def test_restored_agent_goes_on_bit_for_bit(tmp_path):
  agent = make()
  for number in range(3):
    agent.train(*fixtures.batches(number))
  agent.save(tmp_path / 'agent.npz')
  other = make(seed=0)
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
      config = run_config(tmp_path / name, demos, steps=steps)
      loop.train(config)
    states.append(Checkpoint(loop.run_folder(config) / 'checkpoints').load()[0])
  assert fixtures.different(*states) == set()


@pytest.mark.slow
@pytest.mark.parametrize('image', [False, True])
def test_xla_graph_and_eager_agree(image):
  results = []
  for changes in ({'eager': True}, {'eager': False}, {'eager': False, 'jit': True}):
    agent = make(image=image, **changes)
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
  agent = make(precision=16)
  metrics = fixtures.scalars(agent.train(*fixtures.batches()))
  assert all(np.isfinite(x) for x in metrics.values())
  assert all(x.dtype in (np.float32, np.int32) for x in agent.state().values())


# Acting


def observations(length=6, rows=3):
  data = fixtures.batch(rows, length, image=True)
  return data, [{k: v[:, i] for k, v in data.items()} for i in range(length)]


def test_acting_stacks_frames_and_takes_the_mode_in_evaluation():
  agent = make(image=True)
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
  agent = make()
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
  agent = make(**changes, **{'dadac.lr': 3e-3})
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
