"""Contact sheet and GIF show the right frames in the right places."""

import numpy as np
import pytest
from PIL import Image

from recon_tf import demos
from recon_tf.common import UserError
from recon_tf.common.episodes import save_episode


def save(folder, rows, value=None, image=True):
  action = np.zeros((rows, 2), np.float32)
  episode = {'action': action, 'state': np.zeros((rows, 3), np.float32)}
  if image:
    frames = np.zeros((rows, 64, 64, 3), np.uint8)
    frames += (
      np.arange(rows, dtype=np.uint8)[:, None, None, None] if value is None else np.uint8(value)
    )
    episode['image'] = frames
  save_episode(folder, episode)


def test_rows_are_episodes_and_columns_times(tmp_path):
  save(tmp_path, 101)
  save(tmp_path, 31, value=200)
  png, gif = demos.write_preview(tmp_path, columns=5)
  sheet = np.asarray(Image.open(png))
  assert sheet.shape == (2 * 64 + 2, 5 * 64 + 8, 3)
  assert [int(sheet[30, 66 * i + 30, 0]) for i in range(5)] == [0, 25, 50, 75, 100]
  assert (sheet[66 + 30, 30::66, 0] == 200).all()
  with Image.open(gif) as film:
    assert film.size == (2 * 64 + 2, 64)
    assert film.n_frames > 50


def test_vectors_alone_cannot_be_shown(tmp_path):
  save(tmp_path, 5, image=False)
  with pytest.raises(UserError, match='have no images'):
    demos.write_preview(tmp_path)
