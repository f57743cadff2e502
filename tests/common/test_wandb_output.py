"""Weights & Biases, offline: what is logged arrives in its files, and a second start goes on."""

import numpy as np
import pytest

from recon_tf.common import load_config
from recon_tf.common.wandb_output import WandbOutput

pytest.importorskip('wandb', reason="the extra 'wandb' is not installed")


def test_offline_files_hold_what_was_logged(tmp_path, monkeypatch):
  monkeypatch.setenv('WANDB_MODE', 'offline')
  config = load_config('maze', 'cpu').update(task='maze_umaze')
  for step in (1, 2):
    output = WandbOutput('recon', tmp_path, config)
    frames = np.zeros((3, 8, 8, 3), np.uint8)
    others = [('video', 'eval/video', (frames, 10)), ('histogram', 'gate', np.arange(5.0))]
    output(step, {'eval/success': 0.25 * step}, others)
    output.close()
  ids = (tmp_path / 'wandb_id.txt').read_text()
  files = list((tmp_path / 'wandb').glob(f'offline-run-*/run-{ids}.wandb'))
  assert files
  content = b''.join(x.read_bytes() for x in files)
  for part in (b'eval/success', b'0.25', b'0.5', b'maze_umaze-recon-0'):
    assert part in content
