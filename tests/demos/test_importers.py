"""Foreign data becomes our format, with its actions moved by one row."""

import gymnasium
import h5py
import minari
import numpy as np
import pytest

from recon_tf import demos, offline
from recon_tf.common import UserError
from recon_tf.common.episodes import load_folder, load_meta

STEPS = 6


def write_hdf5(path, demos_=2, change=None, **options):
  """robomimic's layout; obs row t has the number t everywhere."""
  with h5py.File(path, 'w') as file:
    for i in range(demos_):
      group = file.create_group(f'data/demo_{i}')
      fill_demo(group, **options)
      if change and i == demos_ - 1:
        change(group)


def fill_demo(group, next_obs=True, cameras=('agentview_image',), scale=1.0):
  time = np.arange(STEPS)
  for name, offset in (('obs', 0), ('next_obs', 1))[: 1 + next_obs]:
    frames = np.zeros((STEPS, 84, 84, 3), np.uint8) + (
      10 * (time + offset)[:, None, None, None]
    ).astype(np.uint8)
    for camera in cameras:
      group[f'{name}/{camera}'] = frames
    group[f'{name}/eef_pos'] = np.repeat(time[:, None] + offset, 3, 1).astype(np.float64)
  group['actions'] = scale * np.stack([time, -time], 1) / 10
  group['rewards'] = (time == STEPS - 1).astype(np.float64)
  group['dones'] = (time == STEPS - 1).astype(np.int64)


def test_hdf5_rows_actions_and_rewards(tmp_path):
  write_hdf5(tmp_path / 'demo.hdf5')
  meta = demos.import_hdf5(str(tmp_path / 'demo.hdf5'), str(tmp_path / 'out'), 'lift')
  assert meta['returns'] == [1.0, 1.0]
  assert load_meta(tmp_path / 'out')['task'] == 'lift'
  episode = load_folder(tmp_path / 'out')[0]
  assert episode['image'].shape == (STEPS + 1, 64, 64, 3)
  np.testing.assert_array_equal(episode['image'][:, 0, 0, 0], 10 * np.arange(STEPS + 1))
  np.testing.assert_array_equal(episode['eef_pos'][:, 0], np.arange(STEPS + 1))
  np.testing.assert_allclose(episode['action'][:, 0], [0, 0, 0.1, 0.2, 0.3, 0.4, 0.5])
  np.testing.assert_array_equal(episode['reward'], [0] * STEPS + [1])
  np.testing.assert_array_equal(episode['is_terminal'], [False] * STEPS + [True])


def test_hdf5_without_next_obs_loses_only_the_last_action(tmp_path):
  write_hdf5(tmp_path / 'demo.hdf5', next_obs=False)
  demos.import_hdf5(str(tmp_path / 'demo.hdf5'), str(tmp_path / 'out'))
  episode = load_folder(tmp_path / 'out')[0]
  assert len(episode['action']) == STEPS
  np.testing.assert_allclose(episode['action'][:, 0], [0, 0, 0.1, 0.2, 0.3, 0.4])
  np.testing.assert_array_equal(episode['eef_pos'][:, 0], np.arange(STEPS))


def test_hdf5_with_two_cameras_needs_a_choice(tmp_path):
  path = str(tmp_path / 'demo.hdf5')
  write_hdf5(path, cameras=('agentview_image', 'wrist_image'))
  with pytest.raises(UserError, match='agentview_image, wrist_image; choose with --image-key'):
    demos.import_hdf5(path, str(tmp_path / 'out'))
  with pytest.raises(UserError, match="no image 'wrist'"):
    demos.import_hdf5(path, str(tmp_path / 'out'), image_key='wrist')
  demos.import_hdf5(path, str(tmp_path / 'out'), image_key='wrist_image')
  assert 'agentview_image' not in load_folder(tmp_path / 'out')[0]


def test_hdf5_faults_leave_nothing_behind(tmp_path):
  path = str(tmp_path / 'demo.hdf5')

  def replace_actions(group):
    del group['actions']
    group['actions'] = np.zeros((STEPS, 3))

  def not_a_number(group):
    group['actions'][3, 1] = np.nan

  def lost_camera(group):
    del group['next_obs/agentview_image']

  cases = [
    ({'change': lost_camera}, 'demo_1.*damaged.*agentview_image'),
    ({'scale': 10.0}, r"demo_0.* 'action' of .*row \d.*--rescale LOW HIGH"),
    ({'change': replace_actions}, r"demo_1.*'action' of shape \(3,\), the first episode \(2,\)"),
    ({'change': not_a_number}, "demo_1.*NaN.*'action' in row 4"),
    ({'demos_': 0}, r'no groups data/demo_'),
  ]
  for options, sentence in cases:
    write_hdf5(path, **options)
    with pytest.raises(UserError, match=sentence):
      demos.import_hdf5(path, str(tmp_path / 'out'))
    assert [x.name for x in tmp_path.iterdir()] == ['demo.hdf5']
  (tmp_path / 'demo.hdf5').write_bytes(b'nonsense')
  with pytest.raises(UserError, match='damaged or not HDF5'):
    demos.import_hdf5(path, str(tmp_path / 'out'))


def test_rescale_brings_actions_into_bounds(tmp_path):
  write_hdf5(tmp_path / 'demo.hdf5', scale=10.0)
  demos.import_hdf5(str(tmp_path / 'demo.hdf5'), str(tmp_path / 'out'), rescale=(-10, 10))
  np.testing.assert_allclose(load_folder(tmp_path / 'out')[0]['action'][2], [0.1, -0.1])


@pytest.fixture
def minari_home(tmp_path, monkeypatch):
  monkeypatch.setenv('MINARI_DATASETS_PATH', str(tmp_path / 'minari'))
  return tmp_path


def create_minari(name, spaces, episodes=2, low=-1.0, high=1.0):
  """A dataset of samples from the spaces, written by Minari itself."""
  spaces.seed(0)
  action_space = gymnasium.spaces.Box(np.float32(low), np.float32(high), (2,), np.float32)
  action_space.seed(0)
  buffers = []
  for i in range(episodes):
    rows = [spaces.sample() for _ in range(STEPS + 1)]
    if isinstance(spaces, gymnasium.spaces.Dict):
      observations = {k: np.stack([x[k] for x in rows]) for k in spaces}
    else:
      observations = np.stack(rows)
    actions = np.stack([action_space.sample() for _ in range(STEPS)])
    last = np.arange(STEPS) == STEPS - 1
    buffers.append(
      minari.data_collector.EpisodeBuffer(
        id=i,
        observations=observations,
        actions=actions,
        rewards=np.arange(STEPS) / 10,
        terminations=last,
        truncations=~last & False,
      )
    )
  return minari.create_dataset_from_buffers(
    name, buffers, observation_space=spaces, action_space=action_space, jpeg_encoding=False
  )


VECTOR = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
PIXELS = gymnasium.spaces.Box(0, 255, (64, 64, 3), np.uint8)


def test_minari_dataset_made_here(minari_home):
  dataset = create_minari('arm/random-v0', VECTOR, low=-2.0, high=2.0)
  demos.import_minari('arm/random-v0', str(minari_home / 'out'), 'arm')
  episodes = load_folder(minari_home / 'out')
  for episode, original in zip(episodes, dataset.iterate_episodes(), strict=True):
    assert len(episode['action']) == STEPS + 1
    np.testing.assert_array_equal(episode['vector'], original.observations)
    # Actions from [-2, 2] become actions in [-1, 1], one row later.
    assert np.abs(original.actions).max() > 1
    np.testing.assert_allclose(episode['action'][1:], original.actions / 2, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(episode['reward'][1:], original.rewards, rtol=1e-6)
    assert episode['is_terminal'].tolist() == [False] * STEPS + [True]


def test_minari_actions_are_scaled_as_the_environment_scales_them(minari_home):
  """Narrow bounds too, and the folder says what -1 and 1 are, for training without it."""
  bounds = {'low': np.array([0.0, -0.2]), 'high': np.array([5.0, 0.1])}
  dataset = create_minari('crane/random-v0', VECTOR, **bounds)
  demos.import_minari('crane/random-v0', str(minari_home / 'out'), 'gym_Crane-v0')
  original = next(iter(dataset.iterate_episodes())).actions
  expected = (original - [2.5, -0.05]) / [2.5, 0.15]
  (episode, _), meta = load_folder(minari_home / 'out'), load_meta(minari_home / 'out')
  np.testing.assert_allclose(episode['action'][1:], expected, atol=1e-5)
  recorded = offline.Recorded('gym_Crane-v0', [episode], minari_home / 'out').spaces
  assert recorded.bounds_known
  np.testing.assert_allclose(recorded.low, [0, -0.2], rtol=1e-6)
  assert meta['spaces']['shape'] == [2]
  narrow = create_minari('crane/narrow-v0', VECTOR, low=-0.5, high=0.5)
  demos.import_minari('crane/narrow-v0', str(minari_home / 'narrow'))
  found = load_folder(minari_home / 'narrow')[0]['action'][1:]
  np.testing.assert_allclose(found, 2 * next(iter(narrow.iterate_episodes())).actions, atol=1e-6)


def test_minari_dict_observations_keep_their_keys_and_the_image(minari_home):
  spaces = gymnasium.spaces.Dict({'camera': PIXELS, 'arm': VECTOR})
  dataset = create_minari('arm/pixels-v0', spaces)
  demos.import_minari('arm/pixels-v0', str(minari_home / 'out'))
  episode = load_folder(minari_home / 'out')[0]
  original = next(iter(dataset.iterate_episodes()))
  np.testing.assert_array_equal(episode['image'], original.observations['camera'])
  np.testing.assert_array_equal(episode['arm'], original.observations['arm'])
  np.testing.assert_array_equal(episode['action'][1:], original.actions)


def test_unknown_minari_dataset_names_the_nearest(minari_home):
  create_minari('arm/random-v0', VECTOR, episodes=1)
  with pytest.raises(UserError, match=r"Did you mean 'arm/random-v0'.*minari download"):
    demos.import_minari('arm/randm-v0', str(minari_home / 'out'))


def write_cmil(folder, count=2, steps=5, actions=9):
  folder.mkdir()
  for i in range(count):
    rows = steps + 1
    action = np.random.default_rng(i).uniform(-0.99, 0.99, (rows, actions)).astype(np.float32)
    action[0] = 0
    flags = {k: np.zeros(rows, bool) for k in ('is_first', 'is_last', 'is_terminal')}
    image = np.full((rows, 64, 64, 3), i, np.uint8)
    name = f'20230101T00000{i}-abc{i}-{steps}.npz'
    reward = np.ones(rows, np.float32)
    np.savez_compressed(folder / name, image=image, action=action, reward=reward, **flags)


def test_cmil_folder_is_copied_row_by_row(tmp_path):
  write_cmil(tmp_path / 'kitchen')
  meta = demos.import_npz(str(tmp_path / 'kitchen'), str(tmp_path / 'out'), 'kitchen')
  assert meta['returns'] == [6.0, 6.0]
  for left, right in zip(
    load_folder(tmp_path / 'kitchen'), load_folder(tmp_path / 'out'), strict=True
  ):
    for key in ('image', 'action', 'reward'):
      np.testing.assert_array_equal(left[key], right[key])


def test_import_into_a_used_folder_is_refused(tmp_path):
  write_cmil(tmp_path / 'kitchen')
  with pytest.raises(UserError, match='not an empty folder'):
    demos.import_npz(str(tmp_path / 'kitchen'), str(tmp_path / 'kitchen'))
  assert len(list((tmp_path / 'kitchen').iterdir())) == 2
