import os
import time

import numpy as np
import pytest

from recon_tf.common.episodes import load_episode, save_episode
from recon_tf.common.errors import UserError
from recon_tf.common.replay import Replay
from recon_tf.common.slices import FILES


def make_episode(steps, number=0, size=4):
  """Every row can be told from every other one: `id` is 1000 * number + row."""
  row = np.arange(steps + 1)
  ids = (1000 * number + row).astype(np.float32)
  return {
    'image': np.broadcast_to(
      (ids % 256).astype(np.uint8)[:, None, None, None], (steps + 1, size, size, 3)
    ),
    'id': ids[:, None],
    'action': np.tanh(ids[:, None] / 1e4) * np.ones((1, 2), np.float32),
    'reward': ids / 7,
    'is_first': row == 0,
    'is_last': row == steps,
    'is_terminal': np.zeros(steps + 1, bool),
    'log_who': ids + 0.5,
  }


def fill(replay, lengths):
  for number, steps in enumerate(lengths):
    replay.add_episode(make_episode(steps, number))
  return replay


def assert_equal(first, second):
  assert first.keys() == second.keys()
  for key, value in first.items():
    assert value.dtype == second[key].dtype
    np.testing.assert_array_equal(value, second[key])


def content(replay, count=200):
  """All row ids that sampling can reach."""
  return set(replay.sample(count, 50, (0, 0))['id'].ravel().astype(int).tolist())


@pytest.mark.parametrize('where', ['disk', 'memory'])
def test_sequences_are_consecutive_rows_of_the_files(tmp_path, where):
  replay = fill(Replay(tmp_path if where == 'disk' else None), [20, 7, 33])
  data = replay.sample(64, 16, (1, 2))
  assert 'log_who' not in data
  assert data['image'].shape == (64, 16, 4, 4, 3)
  assert data['is_first'][:, 0].all()
  ids = data['id'][..., 0].astype(int)
  rows = ids % 1000
  # Either the next row of the same episode, or the first row of one after the last row.
  jumps = np.diff(ids, axis=1) != 1
  assert jumps.any()
  np.testing.assert_array_equal(jumps, data['is_first'][:, 1:])
  assert (rows[:, 1:][jumps] == 0).all()
  assert data['is_last'][:, :-1][jumps].all()
  for key in ('reward', 'action', 'is_last', 'image'):
    expected = np.stack(
      [make_episode(33, n)[key][r] for n, r in zip(ids.ravel() // 1000, rows.ravel(), strict=True)]
    )
    if key == 'is_last':
      expected = np.array([[20, 7, 33][n] for n in ids.ravel() // 1000]) == rows.ravel()
    np.testing.assert_array_equal(data[key].reshape(expected.shape), expected)


def test_log_keys_on_request(tmp_path):
  data = fill(Replay(tmp_path), [20]).sample(4, 8, 0, log=True)
  np.testing.assert_array_equal(data['log_who'], data['id'][..., 0] + 0.5)


def test_starts_are_uniform_over_stored_rows(tmp_path):
  replay = fill(Replay(None), [9, 29])
  starts = replay.sample(40_000, 1, 0)['id'].ravel().astype(int)
  counts = np.unique_counts(starts).counts
  assert len(counts) == 40
  assert 850 < counts.min() <= counts.max() < 1150  # 1000 each, five standard deviations


def test_openings_begin_where_their_episodes_do():
  """A quarter: of 40,000 sequences 10,000, by the episodes' lengths, besides those by chance."""
  replay = fill(Replay(None, openings=0.25), [9, 29])
  starts = replay.sample(40_000, 3, 0)['id'][:, 0, 0].astype(int)
  counts = dict(zip(*np.unique(starts, return_counts=True), strict=True))
  first, second = counts.pop(0), counts.pop(1000)
  assert abs(first - (2500 + 750)) < 300
  assert abs(second - (7500 + 750)) < 430
  assert len(counts) == 38
  assert 610 < min(counts.values()) <= max(counts.values()) < 890
  everything = fill(Replay(None, openings=1.0), [9, 29]).sample(50, 3, 0)['id'][:, 0, 0]
  assert set(everything.astype(int).tolist()) == {0, 1000}


def test_absorbing_ends_stay_where_the_task_ended_the_episode():
  """Episode 0 ends by the task and stays in its last row; the other by time, another follows it."""
  replay = Replay(None, absorb=True)
  ended = make_episode(9, 0)
  ended['is_terminal'] = np.arange(10) == 9
  for episode in (ended, make_episode(29, 1)):
    replay.add_episode(episode)
  data = replay.sample(200, 12, 0)
  ids = data['id'][..., 0].astype(int)
  assert not data['is_terminal'].any()
  stays = np.zeros_like(ids, bool)
  stays[:, 1:] = (ids[:, 1:] == 9) & (ids[:, :-1] == 9)
  assert stays.any()
  for key in ('reward', 'is_first', 'is_last'):
    assert not data[key][stays].any()
  for key in ('image', 'action'):
    expected = np.broadcast_to(ended[key][9], data[key][stays].shape)
    np.testing.assert_array_equal(data[key][stays], expected)
  assert (data['log_episode'][stays] == -1).all()
  # Nothing follows the end, and what is not after one is as it was.
  assert not ((ids[:, :-1] == 9) & (ids[:, 1:] != 9)).any()
  assert ((ids[:, :-1] == 1029) & data['is_first'][:, 1:]).any()
  row = (ids % 1000)[~stays & (ids < 1000)]
  np.testing.assert_array_equal(data['action'][~stays & (ids < 1000)], ended['action'][row])


def test_a_sample_is_a_function_of_seed_key_and_content(tmp_path):
  first = fill(Replay(tmp_path / 'a', seed=3), [20, 7, 33])
  second = fill(Replay(tmp_path / 'b', seed=3), [20, 7, 33])
  second.sample(8, 8, 5)  # what was sampled before does not matter
  assert_equal(first.sample(8, 16, (4, 1)), second.sample(8, 16, (4, 1)))
  other_key = first.sample(8, 16, (4, 2))
  assert (other_key['id'] != first.sample(8, 16, (4, 1))['id']).any()
  other_seed = Replay(tmp_path / 'a', seed=4).sample(8, 16, (4, 1))
  assert (other_seed['id'] != first.sample(8, 16, (4, 1))['id']).any()


def test_restart_continues_with_the_same_content_and_order(tmp_path):
  first = fill(Replay(tmp_path), [20, 7, 33])
  second = Replay(tmp_path)
  assert second.stats == first.stats == {'replay_steps': 60, 'replay_episodes': 3}
  assert_equal(first.sample(8, 16, 1), second.sample(8, 16, 1))
  second.add_episode(make_episode(5, 3))
  first.add_episode(make_episode(5, 3))
  assert second.position == 4
  assert_equal(first.sample(8, 16, 1), second.sample(8, 16, 1))


def test_steps_become_an_episode_at_its_end_per_worker(tmp_path):
  replay = Replay(tmp_path)
  episodes = [make_episode(6, n) for n in range(3)]
  for row in range(7):
    for worker, episode in enumerate(episodes):
      assert replay.episodes == (worker if row == 6 else 0)
      if worker == 2 and row == 6:
        replay.drop(2)
      else:
        replay.add_step({k: v[row] for k, v in episode.items()}, worker)
  assert replay.stats == {'replay_steps': 12, 'replay_episodes': 2}
  assert content(replay) == {1000 * n + r for n in range(2) for r in range(7)}


def test_a_new_first_step_drops_the_unfinished_episode(tmp_path):
  replay = Replay(None)
  episode = make_episode(6)
  for row in [0, 1, 2, 0, 1, 2, 3, 4, 5, 6]:
    replay.add_step({k: v[row] for k, v in episode.items()})
  assert replay.steps == 6


def test_capacity_removes_the_oldest_files(tmp_path):
  replay = fill(Replay(tmp_path, capacity=100), [40] * 5)
  assert replay.stats == {'replay_steps': 80, 'replay_episodes': 2}
  assert len(os.listdir(tmp_path)) == 2
  assert content(replay) == {1000 * n + r for n in (3, 4) for r in range(41)}
  assert_equal(replay.sample(8, 8, 1), Replay(tmp_path, capacity=100).sample(8, 8, 1))


def test_capacity_with_many_small_episodes():
  replay = fill(Replay(None, capacity=50), [5] * 4000)
  assert replay.stats == {'replay_steps': 50, 'replay_episodes': 10}
  assert len(replay._entries) < 3000  # the index does not grow forever
  assert content(replay) == {1000.0 * n + r for n in range(3990, 4000) for r in range(6)}


def test_episodes_after_a_checkpoint_wait_until_they_are_taken_up(tmp_path):
  replay = fill(Replay(tmp_path), [10, 10])
  before, position = replay.sample(8, 8, 1), replay.position
  replay.add_episode(make_episode(10, 7))
  resumed = Replay(tmp_path, until=position)
  assert (resumed.episodes, resumed.position, list(resumed.waiting)) == (2, 2, [2])
  assert_equal(before, resumed.sample(8, 8, 1))
  assert resumed.peek()['id'].tolist() == make_episode(10, 7)['id'].tolist()
  resumed.admit()
  assert (resumed.episodes, resumed.position, resumed.waiting) == (3, 3, {})
  assert resumed.peek() is None
  assert_equal(replay.sample(8, 8, 2), resumed.sample(8, 8, 2))


def test_waiting_episode_is_replaced_by_one_of_its_number(tmp_path):
  """A round of several workers is made anew; its files stay until then."""
  fill(Replay(tmp_path), [10, 10])
  resumed = Replay(tmp_path, until=1)
  assert len(list(tmp_path.iterdir())) == 2
  resumed.add_episode(make_episode(10, 7))
  assert len(list(tmp_path.iterdir())) == 2
  assert resumed.waiting == {}


def test_damaged_waiting_episode_is_set_aside(tmp_path, capsys):
  fill(Replay(tmp_path), [10, 10])
  path = sorted(tmp_path.iterdir())[1]
  path.write_bytes(path.read_bytes()[:-40])
  resumed = Replay(tmp_path, until=1)
  assert resumed.peek() is None
  assert path.name in capsys.readouterr().out
  assert [x.suffix for x in sorted(tmp_path.iterdir())] == ['.npz', '.corrupt']


def test_held_files_outlive_the_capacity_until_no_checkpoint_needs_them(tmp_path):
  replay = fill(Replay(tmp_path, capacity=30, hold=True), [10] * 5)
  assert (replay.episodes, replay.first) == (3, 2)
  assert len(list(tmp_path.iterdir())) == 5
  # An older checkpoint, from before the last two episodes, finds what it had.
  older = Replay(tmp_path, capacity=30, hold=True, until=3)
  assert (older.episodes, older.first) == (3, 0)
  replay.release(1)
  assert len(list(tmp_path.iterdir())) == 4
  replay.release(9)
  assert len(list(tmp_path.iterdir())) == 3


def test_every_flipped_bit_of_the_data_is_noticed(tmp_path):
  """Either the bytes that are trained on are the same, or the file is set aside."""
  fill(Replay(tmp_path), [10])
  path = next(tmp_path.iterdir())
  good, rng = path.read_bytes(), np.random.default_rng(0)
  expected = Replay(tmp_path).sample(4, 8, 1, log=True)
  aside = 0
  for place in rng.integers(len(good), size=300):
    data = bytearray(good)
    data[place] ^= 1 << int(rng.integers(8))
    path.write_bytes(data)
    replay = Replay(tmp_path)
    try:
      assert_equal(expected, replay.sample(4, 8, 1, log=True))
    except UserError:
      aside += 1
      path.with_name(f'{path.name}.corrupt').rename(path)
    replay.close()
  assert aside > 200


@pytest.mark.parametrize('key', ['action', 'reward', 'id'])
def test_not_a_number_is_refused_when_stored_and_when_read(tmp_path, key):
  episode = make_episode(10, 0)
  episode = {**episode, key: np.array(episode[key], np.float32)}
  episode[key].flat[3] = np.nan
  with pytest.raises(UserError, match=f"NaN or infinite '{key}'"):
    Replay(tmp_path).add_episode(episode)
  save_episode(tmp_path, episode, number=0)
  with pytest.raises(UserError, match='no episode yet'):
    Replay(tmp_path).sample(2, 5, 0)
  assert [x.suffix for x in tmp_path.iterdir()] == ['.corrupt']


def test_header_that_claims_a_trillion_rows(tmp_path, capsys):
  """Neither by offset nor decoded: no memory is asked for."""
  fill(Replay(tmp_path), [10])
  path = next(tmp_path.iterdir())
  data = path.read_bytes()
  assert data.count(b"'shape': (11,), }  ") > 3
  path.write_bytes(data.replace(b"'shape': (11,), }            ", b"'shape': (1000000000000,), } "))
  with pytest.raises(UserError, match='damaged'):
    load_episode(path)
  assert Replay(tmp_path).episodes == 0
  assert 'set aside' in capsys.readouterr().out


def test_foreign_episode_that_sorts_first_leaves_the_others_alone(tmp_path):
  replay = fill(Replay(tmp_path), [10, 10])
  spec = {k: v for k, v in replay._spec.items() if not k.startswith('log_')}
  foreign = {**make_episode(10, 5), 'action': np.zeros((11, 5), np.float32)}
  save_episode(tmp_path, foreign)  # no number: it sorts first
  again = Replay(tmp_path, spec=spec)
  assert again.episodes == 2
  assert len(list(tmp_path.glob('*.corrupt'))) == 1


@pytest.mark.parametrize('changes', [{'action': np.zeros((6, 7), np.float32)}, {'image': None}])
def test_foreign_episode_of_another_form_is_set_aside_before_it_is_evicted(tmp_path, changes):
  replay = fill(Replay(tmp_path), [10, 10])
  spec = {k: v for k, v in replay._spec.items() if not k.startswith('log_')}
  foreign = {k: v for k, v in {**make_episode(5, 5), **changes}.items() if v is not None}
  name = '00000000T000000F000000-00000000-5.npz'
  np.savez_compressed(tmp_path / name, **foreign)
  again = Replay(tmp_path, capacity=20, spec=spec)
  assert again.episodes == 2
  assert [x.name for x in tmp_path.glob('*.corrupt')] == [f'{name}.corrupt']


def test_compressed_episode_that_fits_is_taken(tmp_path):
  replay = fill(Replay(tmp_path), [10])
  spec = {k: v for k, v in replay._spec.items() if not k.startswith('log_')}
  save_episode(tmp_path, make_episode(7, 1), compress=True, number=1)
  foreign = {k: v for k, v in make_episode(5, 2).items() if k in ('image', 'id')}
  np.savez(tmp_path / '20990101T000000-abc-5.npz', actions=np.zeros((6, 2)), **foreign)
  assert Replay(tmp_path, spec=spec).stats == {'replay_steps': 22, 'replay_episodes': 3}


def test_compressed_and_foreign_files_load(tmp_path):
  save_episode(tmp_path, make_episode(20, 0), compress=True, number=0)
  foreign = {k: v for k, v in make_episode(7, 1).items() if k in ('image', 'id', 'reward')}
  np.savez(tmp_path / '20200101T000000-abc-7.npz', action=np.zeros((8, 2)), **foreign)
  replay = Replay(tmp_path)
  assert replay.stats == {'replay_steps': 27, 'replay_episodes': 2}
  assert content(replay) == {*range(21), *range(1000, 1008)}
  plain = fill(Replay(tmp_path / 'plain'), [20])
  packed = Replay(tmp_path / 'packed')
  save_episode(tmp_path / 'packed', make_episode(20, 0), compress=True, number=0)
  packed = Replay(tmp_path / 'packed')
  assert_equal(plain.sample(8, 8, 1), packed.sample(8, 8, 1))


def test_memory_for_decoded_episodes_is_bounded(tmp_path):
  for number in range(8):
    save_episode(tmp_path, make_episode(50, number, size=64), compress=True, number=number)
  size = sum(x.nbytes for x in make_episode(50, 0, size=64).values())
  replay = Replay(tmp_path, memory=3.5 * size / 2**30)
  for key in range(5):
    replay.sample(8, 20, key)
    assert 2 * size < replay._reader.used <= 3.5 * size
  assert replay._reader.used == sum(
    x.nbytes for episode in replay._reader._decoded.values() for x in episode.values()
  )


def test_corrupt_files_are_named_and_set_aside(tmp_path, capsys):
  fill(Replay(tmp_path), [20, 7])
  good = sorted(tmp_path.glob('*.npz'))[0].read_bytes()
  (tmp_path / '0-cut-9.npz').write_bytes(good[:-100])
  (tmp_path / '0-text-9.npz').write_text('no zip')
  np.savez(tmp_path / '0-foreign-9.npz', weights=np.zeros(3))
  replay = Replay(tmp_path)
  printed = capsys.readouterr().out
  assert replay.episodes == 2
  for name in ('cut', 'text', 'foreign'):
    assert f'0-{name}-9.npz' in printed
    assert (tmp_path / f'0-{name}-9.npz.corrupt').exists()
  assert content(replay) == {*range(21), *range(1000, 1008)}


def test_damage_found_while_sampling_is_not_fatal(tmp_path, capsys):
  replay = fill(Replay(tmp_path), [20, 7])
  first = sorted(tmp_path.glob('*.npz'))[0]
  with open(first, 'r+b') as file:
    file.truncate(100)
  assert content(replay) == {*range(1000, 1008)}
  assert first.name in capsys.readouterr().out
  assert replay.stats == {'replay_steps': 7, 'replay_episodes': 1}
  compressed = save_episode(tmp_path / 'c', make_episode(20, 0), compress=True, number=0)
  save_episode(tmp_path / 'c', make_episode(7, 1), number=1)
  save_episode(tmp_path / 'c', make_episode(7, 2), number=2)
  replay = Replay(tmp_path / 'c')
  replay._reader.close()
  data = bytearray(compressed.read_bytes())
  data[150:300] = bytes(150)
  compressed.write_bytes(data)
  assert content(replay) == {*range(1000, 1008), *range(2000, 2008)}


def test_an_unlike_episode_is_refused(tmp_path):
  replay = fill(Replay(tmp_path), [20])
  episode = make_episode(20)
  episode['action'] = np.zeros((21, 3), np.float32)
  with pytest.raises(UserError, match=r"'action' is float32 .3. in it and float32 .2."):
    replay.add_episode(episode)
  episode = make_episode(20)
  episode['action'][3] = np.nan
  with pytest.raises(UserError, match='row 3'):
    replay.add_episode(episode)


def test_empty_and_impossible_directories(tmp_path):
  with pytest.raises(UserError, match='no episode yet'):
    Replay(tmp_path).sample(2, 2, 0)
  (tmp_path / 'file').write_text('')
  with pytest.raises(UserError, match='file'):
    Replay(tmp_path / 'file')


def test_prefetch_gives_the_same_and_never_the_old(tmp_path):
  replay = fill(Replay(tmp_path), [20, 7])
  expected = replay.sample(8, 8, (1, 5))
  replay.prefetch(8, 8, (1, 5))
  assert_equal(replay.sample(8, 8, (1, 5)), expected)
  replay.prefetch(8, 8, (1, 6))
  replay._ahead[8, 8, (1, 6), False][1].result()
  replay.add_episode(make_episode(40, 2))
  changed = replay.sample(8, 8, (1, 6))
  assert_equal(changed, Replay(tmp_path).sample(8, 8, (1, 6)))


def test_prefetch_while_files_are_evicted(tmp_path):
  replay = fill(Replay(tmp_path, capacity=100), [20] * 5)
  for number in range(30):
    for key in range(3):
      replay.prefetch(16, 16, (number, key))
    replay.add_episode(make_episode(20, 100 + number))
    for key in range(3):
      ids = replay.sample(16, 16, (number, key))['id'][..., 0].astype(int)
      assert number < 4 or (ids // 1000 >= 96 + number).all()
  assert len(os.listdir(tmp_path)) == 5


def link_many(folder, count, steps, size):
  """Many files on the disk for the price of one; each is opened and read on its own."""
  first = save_episode(folder / 'one', make_episode(steps, 0, size), number=0)
  (folder / 'many').mkdir()
  for number in range(count):
    os.link(first, folder / 'many' / f'x-{number:08d}-{steps}.npz')
  replay = Replay(folder / 'many')
  for entry in replay._entries:
    replay._reader.trust(entry.path)  # verifying is done once, this is about what comes then
  return replay


def sampling_seconds(replay, batch, length):
  times = []
  for key in range(30):
    start = time.perf_counter()
    replay.sample(batch, length, key)
    times.append(time.perf_counter() - start)
  return float(np.median(times[5:]))


def test_sampling_time_does_not_grow_with_the_content(tmp_path):
  small = link_many(tmp_path / 'a', 20, 500, 8)
  large = link_many(tmp_path / 'b', 10_000, 500, 8)
  assert small.steps == 10_000
  assert large.steps == 5_000_000
  few, many = sampling_seconds(small, 32, 50), sampling_seconds(large, 32, 50)
  assert len(large._reader._files) == FILES
  assert len(large._layouts) == 1
  assert large._reader.used == 0
  # Opening a file costs tens of microseconds; a search through the content would cost far more.
  assert many < 3 * few + 0.005, (few, many)


def test_sequences_tell_which_episode_a_row_is_of(tmp_path):
  """On disk by the episode's number, in memory counting downwards."""
  for folder, expected in ((tmp_path, lambda x: x), (None, lambda x: -1 - x)):
    replay = fill(Replay(folder, seed=3), [7] * 5)
    data = replay.sample(16, 20, 0)
    number = (data['id'][..., 0] // 1000).astype(int)
    np.testing.assert_array_equal(data['log_episode'], expected(number))
    assert len(np.unique(number)) == 5
    replay.close()
