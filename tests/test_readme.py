"""The README is one page, and its library example runs as it stands, on a user's environment."""

import json
import pathlib
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from recon_tf.common.episodes import save_episode

README = pathlib.Path(__file__).parents[1] / 'README.md'
ROBOT = """
import gymnasium
import numpy as np


class Robot(gymnasium.Env):
  metadata = {'render_modes': ['rgb_array']}
  observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
  action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

  def __init__(self, render_mode=None):
    self.render_mode = render_mode

  def reset(self, seed=None, options=None):
    super().reset(seed=seed)
    self.place = self.np_random.uniform(-0.5, 0.5, 2)
    return self.place.astype(np.float32), {}

  def step(self, action):
    self.place = np.clip(self.place + 0.1 * np.asarray(action), -1, 1)
    return self.place.astype(np.float32), -float(abs(self.place).sum()), False, False, {}

  def render(self):
    image = np.zeros((48, 48, 3), np.uint8)
    row, column = (20 + 15 * self.place).astype(int)
    image[row : row + 8, column : column + 8] = 255
    return image


gymnasium.register('Robot-v0', entry_point='my_robot:Robot', max_episode_steps=15)
"""


def example() -> str:
  blocks = re.findall(r'```python\n(.*?)```', README.read_text(), re.S)
  found = [x for x in blocks if 'my_robot' in x]
  assert len(found) == 1
  return found[0]


def write_demonstrations(folder: pathlib.Path) -> None:
  rng = np.random.default_rng(0)
  for _ in range(2):
    episode = {
      'image': rng.integers(0, 255, (16, 64, 64, 3)).astype(np.uint8),
      'vector': rng.uniform(-1, 1, (16, 2)).astype(np.float32),
      'action': rng.uniform(-1, 1, (16, 1)).astype(np.float32),
      'reward': np.zeros(16, np.float32),
    }
    save_episode(folder, episode)


def test_readme_is_short():
  assert len(README.read_text().splitlines()) <= 160


def test_example_is_ten_lines():
  lines = [x for x in example().splitlines() if x.strip()]
  assert len(lines) <= 10


@pytest.mark.slow
def test_example_trains(tmp_path):
  (tmp_path / 'my_robot.py').write_text(textwrap.dedent(ROBOT))
  (tmp_path / 'my_demonstrations').mkdir()
  write_demonstrations(tmp_path / 'my_demonstrations')
  code = example().replace("'cpu'", "'debug'").replace('steps=20000', 'steps=40')
  (tmp_path / 'example.py').write_text(code)
  command = [sys.executable, 'example.py']
  environ = {'PYTHONPATH': str(README.parent), 'PATH': '/usr/bin:/bin', 'MUJOCO_GL': 'egl'}
  result = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
  assert result.returncode == 0, result.stderr[-2000:]
  run = tmp_path / 'runs' / 'gym_my_robot-Robot-v0' / 'recon' / '0'
  assert (run / 'metrics.jsonl').exists()
  final = json.loads((run / 'eval' / 'final.json').read_text())
  assert final['length'] == 15  # the limit that Robot-v0 was registered with
  assert float(result.stdout.strip().splitlines()[-1].split()[-1]) <= 0  # the mean return
