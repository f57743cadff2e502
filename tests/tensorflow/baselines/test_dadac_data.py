"""What DA-DAC is given: transitions, crops, and demonstrations that are never negatives."""

import numpy as np
import pytest
import tensorflow as tf

from recon_tf import loop
from recon_tf.baselines.dadac import agent as dadac
from recon_tf.common import Replay, UserError
from recon_tf.common.episodes import load_folder
from tests.helpers import agent_fixtures as fixtures
from tests.helpers import dadac_fixtures as da
from tests.helpers import loop_fixtures


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
  agent, replay = da.make(image=True, **{'dadac.batch': 400}), Replay(None, seed=1)
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
  agent = da.make(**{'dadac.batch': 6})
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
  agent = da.make(image=True, **{'dadac.disc_aug': augmented, 'dadac.batch': 8})
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
    da.make(**changes)


def test_demonstrations_never_are_negatives(tmp_path, monkeypatch):
  """A real run, and what the discriminator is given as expert's and as policy's in it."""
  demos, given = loop_fixtures.make_demos(tmp_path / 'demos'), []
  original = dadac.FeatureDiscriminator.objective

  def record(self, expert, policy, mix):
    given.append((expert[1].numpy(), policy[1].numpy()))
    return original(self, expert, policy, mix)

  monkeypatch.setattr(dadac.FeatureDiscriminator, 'objective', record)
  config = da.run_config(tmp_path / 'run', demos)
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
