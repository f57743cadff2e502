import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from recon_tf.common.checkpoint import Checkpoint, Milestones, load_checkpoint
from recon_tf.common.errors import UserError

# A program of its own finds the package where this one did.
ENV = {**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)}


def test_round_trip_and_names(tmp_path):
  arrays = {
    'model/gru/kernel': np.arange(6, dtype=np.float32).reshape(2, 3),
    'file': np.int64(3),
    'rng': np.array([1, 2], np.uint32),
  }
  Checkpoint(tmp_path).save(10, arrays, {'delta': 0.25, 'task': 'maze'})
  loaded, meta = Checkpoint(tmp_path).load()
  assert meta == {'delta': 0.25, 'task': 'maze', 'step': 10}
  assert loaded.keys() == arrays.keys()
  for key, value in arrays.items():
    assert loaded[key].dtype == value.dtype
    np.testing.assert_array_equal(loaded[key], value)


def test_none_yet(tmp_path):
  assert Checkpoint(tmp_path / 'missing').load() is None


def test_last_k_are_kept_in_order_of_steps(tmp_path):
  checkpoint = Checkpoint(tmp_path, keep=2)
  for step in (5, 50, 500, 5000):
    checkpoint.save(step, {'x': np.array(step)}, {})
  assert [int(x.stem) for x in checkpoint.paths()] == [500, 5000]
  assert checkpoint.load()[1]['step'] == 5000


def test_unreadable_newest_is_reported_and_the_previous_used(tmp_path, capsys):
  checkpoint = Checkpoint(tmp_path)
  checkpoint.save(1, {'x': np.ones(1000)}, {})
  path = checkpoint.save(2, {'x': np.ones(1000)}, {})
  content = bytearray(path.read_bytes())
  content[4000] ^= 255
  path.write_bytes(content)
  assert checkpoint.load()[1]['step'] == 1
  assert path.name in capsys.readouterr().out
  path.write_bytes(content[:100])
  assert checkpoint.load()[1]['step'] == 1
  # The run goes on from 1 and its next checkpoint may not be outlived by the broken one.
  checkpoint.save(1, {'x': np.zeros(3)}, {})
  assert [int(x.stem) for x in checkpoint.paths()] == [1]


def test_nothing_is_touched_when_no_checkpoint_can_be_read(tmp_path):
  checkpoint = Checkpoint(tmp_path)
  for step in (1, 2):
    checkpoint.save(step, {'x': np.ones(1000)}, {}).write_bytes(b'damaged')
  with pytest.raises(UserError, match=r'No checkpoint .* nothing was changed'):
    checkpoint.load()
  assert [x.read_bytes() for x in checkpoint.paths()] == [b'damaged'] * 2


def test_damaged_newest_is_kept_under_another_name(tmp_path):
  checkpoint = Checkpoint(tmp_path)
  checkpoint.save(1, {}, {})
  checkpoint.save(2, {}, {}).write_bytes(b'damaged')
  checkpoint.load()
  assert sorted(x.name for x in tmp_path.iterdir()) == [
    '000000000001.npz', '000000000002.npz.corrupt',
  ]  # fmt: skip


def test_state_without_its_fields_is_damaged(tmp_path, capsys):
  checkpoint = Checkpoint(tmp_path, keep=3, fields={'replay_position': int})
  checkpoint.save(1, {}, {'replay_position': 7})
  checkpoint.save(2, {}, {'replay_position': 'x'})
  checkpoint.save(3, {}, {})
  assert checkpoint.load()[1]['replay_position'] == 7
  said = capsys.readouterr().out
  assert "'replay_position' is missing" in said
  assert '"x", not a whole number' in said


def test_files_with_odd_names_are_no_states(tmp_path):
  milestones = Milestones(tmp_path, 10)
  milestones.save(20, {}, {})
  for name in ('1x.npz', '.writing-3-000000000030.npz', '000000000040.npz.corrupt'):
    (tmp_path / name).write_bytes(b'')
  assert [x.name for x in milestones.paths()] == ['000000000020.npz']
  assert milestones.due(30)
  milestones.forget_after(5)
  assert len(list(tmp_path.iterdir())) == 3


def kept(milestones, steps):
  """The steps of the files after a run that ends episodes at these steps."""
  for step in steps:
    if milestones.due(step):
      milestones.save(step, {'x': np.array(step)}, {'updates': 2 * step})
  return [int(x.stem) for x in milestones.paths()]


def test_milestones_are_the_first_states_after_every_so_many_steps(tmp_path):
  episodes = [0, 40, 90, 130, 180, 310, 320]
  assert kept(Milestones(tmp_path / 'a', 100), episodes) == [0, 130, 310]
  assert kept(Milestones(tmp_path / 'none', 0), episodes) == []
  assert not (tmp_path / 'none').exists()
  arrays, meta = load_checkpoint(Milestones(tmp_path / 'a', 100).paths()[1])
  assert meta == {'step': 130, 'updates': 260}
  assert int(arrays['x']) == 130
  # Another object, as in a resumed run, goes on where the first was, and may keep more.
  assert kept(Milestones(tmp_path / 'a', 100), [320, 390, 410]) == [0, 130, 310, 410]
  assert kept(Milestones(tmp_path / 'a', 50), [420, 440, 460]) == [0, 130, 310, 410, 460]


def test_milestones_of_a_future_that_was_given_up_are_replaced(tmp_path):
  milestones = Milestones(tmp_path, 100)
  kept(milestones, [0, 100, 200, 300])
  milestones.forget_after(190)
  assert kept(milestones, [190, 210]) == [0, 100, 210]


def test_half_written_milestone_is_none(tmp_path):
  milestones = Milestones(tmp_path, 100)
  kept(milestones, [0])
  (tmp_path / '.writing-1-000000000100.npz').write_bytes(b'half')
  assert milestones.due(100)
  assert kept(milestones, [100]) == [0, 100]
  assert len(list(tmp_path.iterdir())) == 2


def test_objects_are_refused(tmp_path):
  with pytest.raises(TypeError, match="'x'"):
    Checkpoint(tmp_path).save(1, {'x': np.array([{}])}, {})
  assert os.listdir(tmp_path) == []


def test_unwritable_folder(tmp_path):
  (tmp_path / 'file').write_text('')
  with pytest.raises(UserError, match='file'):
    Checkpoint(tmp_path / 'file').save(1, {'x': np.ones(3)}, {})


PROGRAM = """
import sys, numpy as np
from recon_tf.common.checkpoint import Checkpoint
checkpoint = Checkpoint(sys.argv[1])
for step in range(1, 10 ** 6):
  checkpoint.save(step, {'x': np.full(2_000_000, step, np.float64)}, {'twice': 2 * step})
  print(step, flush=True)
"""


def test_kill_while_saving_never_harms_what_is_there(tmp_path):
  for attempt in range(4):
    process = subprocess.Popen(
      [sys.executable, '-c', PROGRAM, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=ENV
    )
    for _ in range(2):
      done = int(process.stdout.readline())
    deadline = time.time() + 10
    while not list(tmp_path.glob('.writing-*')) and time.time() < deadline:
      pass
    time.sleep(0.003 * attempt)
    process.send_signal(signal.SIGKILL)
    process.wait()
    arrays, meta = Checkpoint(tmp_path).load()
    assert meta['step'] >= done
    assert meta['twice'] == 2 * meta['step']
    assert (arrays['x'] == meta['step']).all()
  Checkpoint(tmp_path).save(10**6, {'x': np.ones(2)}, {})
  assert not list(tmp_path.glob('.writing-*'))
