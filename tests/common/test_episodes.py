import json
import os
import subprocess
import sys

import numpy as np
import pytest

from recon_tf.common import episodes
from recon_tf.common.errors import UserError

# A program of its own finds the package where this one did.
ENV = {**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)}


def make_episode(steps=10, size=64, actions=2, seed=0):
  rng = np.random.default_rng(seed)
  row = np.arange(steps + 1)
  return {
    'image': rng.integers(0, 256, (steps + 1, size, size, 3), dtype=np.uint8),
    'action': rng.uniform(-1, 1, (steps + 1, actions)).astype(np.float32),
    'reward': rng.normal(size=steps + 1).astype(np.float32),
    'is_first': row == 0,
    'is_last': row == steps,
    'is_terminal': np.zeros(steps + 1, bool),
    'position': rng.normal(size=(steps + 1, 3)).astype(np.float32),
    'log_success': (row > 5).astype(np.float32),
  }


@pytest.mark.parametrize('compress', [False, True])
def test_round_trip_is_exact(tmp_path, compress):
  episode = make_episode()
  path = episodes.save_episode(tmp_path, episode, compress)
  loaded = episodes.load_episode(path)
  assert path.name.endswith('-10.npz')
  assert loaded.keys() == episode.keys()
  for key, value in episode.items():
    assert loaded[key].dtype == value.dtype
    np.testing.assert_array_equal(loaded[key], value)
  assert os.listdir(tmp_path) == [path.name]


def test_numpy_reads_our_files(tmp_path):
  episode = make_episode()
  with np.load(episodes.save_episode(tmp_path, episode)) as file:
    np.testing.assert_array_equal(file['image'], episode['image'])


def test_numbered_files_keep_their_order(tmp_path):
  for number in (3, 1, 2):
    episodes.save_episode(tmp_path, make_episode(number + 1), number=number)
  assert [len(x['action']) - 1 for x in episodes.load_folder(tmp_path)] == [2, 3, 4]


def test_cmil_file_is_completed(tmp_path):
  episode = make_episode()
  action = episode['action'].astype(np.float64)
  np.savez_compressed(tmp_path / 'a.npz', image=episode['image'], action=action)
  loaded = episodes.load_episode(tmp_path / 'a.npz')
  assert loaded['action'].dtype == np.float32
  np.testing.assert_array_equal(loaded['action'], episode['action'])
  assert loaded['is_first'].tolist() == [True] + [False] * 10
  assert loaded['is_last'].tolist() == [False] * 10 + [True]
  assert not loaded['is_terminal'].any()
  assert loaded['reward'].shape == (11,)


def test_vmail_naming(tmp_path):
  episode = make_episode()
  discount = np.array([1.0] * 10 + [0.0])
  np.savez(tmp_path / 'a.npz', image=episode['image'], action=episode['action'], discount=discount)
  loaded = episodes.load_episode(tmp_path / 'a.npz')
  assert 'discount' not in loaded
  assert loaded['is_terminal'].tolist() == [False] * 10 + [True]


def test_other_image_size_is_resized_and_said_once(tmp_path, capsys):
  for number in range(2):
    episode = make_episode(size=84)
    episode['image'][:] = 7
    episode['wrist'] = episode['image']
    episodes.save_episode(tmp_path, episode, number=number)
  loaded = episodes.load_folder(tmp_path)
  assert loaded[1]['image'].shape == loaded[1]['wrist'].shape == (11, 64, 64, 3)
  assert (loaded[1]['image'] == 7).all()
  assert capsys.readouterr().out.count('84x84') == 1


def change(**changes):
  def edit(episode):
    episode.update(changes)

  return edit


def set_action(row, value):
  def edit(episode):
    episode['action'][row, 0] = value

  return edit


BAD = [
  (set_action(4, np.nan), ["'action'", 'row 4']),
  (set_action(3, 1.01), ["'action'", 'row 3']),
  (set_action(0, -np.inf), ["'action'", 'row 0']),
  (lambda x: x['position'].__setitem__((2, 1), np.nan), ["'position'", 'row 2']),
  (lambda x: x.pop('action'), ["no key 'action'"]),
  (lambda x: [x.pop(k) for k in ('image', 'position')], ["no 'image'"]),
  (change(image=np.zeros((11, 64, 64, 3), np.float32)), ["'image'", 'uint8']),
  (change(image=np.zeros((9, 64, 64, 3), np.uint8)), ["9 rows of 'image'"]),
  (change(reward=np.zeros(5)), ["'reward'"]),
  (change(action=np.zeros(11)), ["'action'", '(11,)']),
]


@pytest.mark.parametrize(('edit', 'words'), BAD)
def test_bad_values_are_named(tmp_path, edit, words):
  episode = make_episode()
  edit(episode)
  np.savez(tmp_path / 'bad.npz', **episode)
  with pytest.raises(UserError) as error:
    episodes.load_episode(tmp_path / 'bad.npz')
  for word in ['bad.npz', *words]:
    assert word in str(error.value)


def test_rounding_of_actions_is_forgiven(tmp_path):
  episode = make_episode()
  episode['action'] = np.full((11, 2), 1 + 5e-7)
  np.savez(tmp_path / 'a.npz', **episode)
  assert episodes.load_episode(tmp_path / 'a.npz')['action'].max() == 1


def test_unreadable_files_are_named(tmp_path):
  path = episodes.save_episode(tmp_path, make_episode())
  content = path.read_bytes()
  (tmp_path / 'cut.npz').write_bytes(content[: len(content) // 2])
  (tmp_path / 'text.npz').write_text('hello')
  (tmp_path / 'empty.npz').write_bytes(b'')
  with open(tmp_path / 'array.npz', 'wb') as file:
    np.save(file, np.zeros(3))
  np.savez(tmp_path / 'objects.npz', action=np.array([{}, {}]))
  damaged = bytearray(content)
  damaged[len(content) // 2] ^= 255
  (tmp_path / 'flipped.npz').write_bytes(damaged)
  for name in ('cut', 'text', 'empty', 'array', 'objects', 'flipped', 'missing'):
    with pytest.raises(UserError, match=f'{name}.npz'):
      episodes.load_episode(tmp_path / f'{name}.npz')


def test_bad_folders(tmp_path):
  with pytest.raises(UserError, match='nowhere'):
    episodes.load_folder(tmp_path / 'nowhere')
  with pytest.raises(UserError, match=r'no \.npz'):
    episodes.load_folder(tmp_path)
  episodes.save_episode(tmp_path, make_episode(actions=2), number=0)
  episodes.save_episode(tmp_path, make_episode(actions=3), number=1)
  with pytest.raises(UserError, match=r'action sizes: 2 before .* and 3 in it'):
    episodes.load_folder(tmp_path)
  with pytest.raises(UserError, match='action sizes'):
    episodes.summary(tmp_path)


def test_mixed_observations_are_refused(tmp_path):
  episodes.save_episode(tmp_path, make_episode(), number=0)
  episode = make_episode()
  del episode['position']
  episodes.save_episode(tmp_path, episode, number=1)
  with pytest.raises(UserError, match="'position'"):
    episodes.load_folder(tmp_path)


def test_unwritable_folder(tmp_path):
  (tmp_path / 'file').write_text('')
  with pytest.raises(UserError, match='file/folder'):
    episodes.save_episode(tmp_path / 'file' / 'folder', make_episode())


def test_full_disk_leaves_nothing_behind(tmp_path):
  # A limit on the file size makes the kernel refuse the write half-way, as a full disk does.
  program = (
    'import resource, numpy as np\n'
    'from recon_tf.common.episodes import save_episode\n'
    'from recon_tf.common.errors import UserError\n'
    'resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n'
    'episode = dict(image=np.zeros((50, 64, 64, 3), np.uint8), action=np.zeros((50, 2)))\n'
    'try:\n'
    f'  save_episode({str(tmp_path)!r}, episode)\n'
    'except UserError as error:\n'
    '  print(error)\n'
  )
  result = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True, env=ENV)
  assert result.returncode == 0, result.stderr
  assert str(tmp_path) in result.stdout
  assert 'File too large' in result.stdout
  assert os.listdir(tmp_path) == []


def test_summary(tmp_path):
  for number in range(3):
    episodes.save_episode(tmp_path, make_episode(4 + 2 * number), number=number)
  (tmp_path / 'meta.json').write_text(json.dumps({'task': 'maze_umaze'}))
  result = episodes.summary(tmp_path)
  assert result['episodes'] == 3
  assert result['lengths'] == [4, 6, 8]
  assert result['steps'] == 18
  assert result['successes'] == 2
  assert result['shapes']['image'] == ('uint8', (64, 64, 3))
  assert result['meta'] == {'task': 'maze_umaze'}
  low, high = result['action_range']
  assert -1 <= low < high <= 1
