"""Folders of demonstrations made with real experts."""

import numpy as np
import pytest

from recon_tf import demos
from recon_tf.common import UserError, load_config
from recon_tf.common.episodes import episode_files, load_folder, load_meta

TASK = 'maze_umaze'


def config(**env):
  return load_config(env={'render': False, **env})


def make(folder, episodes=2, seed=0, task=TASK, **env):
  return demos.make_demos(task, episodes, folder, config(**env), seed, progress=False)


def test_episodes_follow_the_convention_and_meta_describes_them(tmp_path):
  make(tmp_path)
  meta = load_meta(tmp_path)
  assert (meta['task'], meta['expert'], meta['seed']) == (TASK, 'waypoints', 0)
  assert meta['successes'] == [True, True]
  assert meta['returns'] == [1.0, 1.0]
  assert meta['rejected'] == 0
  assert meta['versions']['mujoco']
  for episode in load_folder(tmp_path):
    assert not episode['action'][0].any()
    assert episode['is_first'].tolist() == [True] + [False] * (len(episode['action']) - 1)
    assert episode['is_last'].nonzero()[0].tolist() == [len(episode['action']) - 1]
    # The stored action is the one that led to the row: velocity changes along with it.
    push = np.diff(episode['velocity'], axis=0)[:20]
    assert np.corrcoef(push[:, 0], episode['action'][1:21, 0])[0, 1] > 0.95


def test_same_seed_same_episodes_and_continuing_equals_one_run(tmp_path):
  make(tmp_path / 'once', 3, seed=5)
  make(tmp_path / 'twice', 1, seed=5)
  make(tmp_path / 'twice', 3, seed=5)
  make(tmp_path / 'other', 1, seed=6)
  once, twice = load_folder(tmp_path / 'once'), load_folder(tmp_path / 'twice')
  for left, right in zip(once, twice, strict=True):
    for key in left:
      np.testing.assert_array_equal(left[key], right[key])
  other = load_folder(tmp_path / 'other')[0]
  assert not np.array_equal(other['position'][0], once[0]['position'][0])
  assert not np.array_equal(once[1]['position'][0], once[0]['position'][0])


def test_full_folder_is_left_alone(tmp_path, capsys):
  make(tmp_path)
  before = [(x, x.stat().st_mtime_ns) for x in sorted(tmp_path.iterdir())]
  make(tmp_path)
  assert [(x, x.stat().st_mtime_ns) for x in sorted(tmp_path.iterdir())] == before
  assert 'holds 2 demonstrations' in capsys.readouterr().out


def test_folder_of_another_task_or_setting_is_refused(tmp_path):
  make(tmp_path, 1)
  with pytest.raises(UserError, match="of 'maze_umaze', not of 'maze_pointmaze'"):
    make(tmp_path, 1, task='maze_pointmaze')
  with pytest.raises(UserError, match=r'env.maze.start_noise 0.25, not 0.1'):
    make(tmp_path, 2, maze={'start_noise': 0.1})
  (tmp_path / 'meta.json').unlink()
  with pytest.raises(UserError, match=r'without a meta.json'):
    make(tmp_path, 2)


def test_imported_folder_is_used_but_not_topped_up(tmp_path):
  make(tmp_path / 'made', 1)
  demos.import_npz(str(tmp_path / 'made'), str(tmp_path / 'in'), TASK)
  assert len(make(tmp_path / 'in', 1)['returns']) == 1
  with pytest.raises(UserError, match='1 imported demonstrations, fewer than 2'):
    make(tmp_path / 'in', 2)


def test_lost_meta_entry_is_found_again_from_the_files(tmp_path):
  meta = make(tmp_path, 2)
  episode_files(tmp_path)[1].unlink()  # as if stopped between the two writes, the other way round
  assert make(tmp_path, 2)['returns'] == meta['returns']
  assert len(episode_files(tmp_path)) == 2


def test_failures_are_rejected_counted_and_finally_given_up(tmp_path):
  # In 183 steps only the luckier starts reach the goal.
  meta = make(tmp_path / 'some', 3, length=183)
  assert meta['rejected'] > 0
  assert all(x['log_success'][-1] for x in load_folder(tmp_path / 'some'))
  with pytest.raises(UserError, match=r'failed \d+ times .*--env.length'):
    make(tmp_path / 'none', 1, length=20)
  assert not list((tmp_path / 'none').glob('*.npz'))


def test_task_without_success_keeps_every_episode(tmp_path):
  meta = make(tmp_path, 1, task='dmc_walker_run', length=20)
  assert meta['successes'] == []
  assert len(meta['returns']) == 1
