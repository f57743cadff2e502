"""What is said before training, with and without an environment, and how long it may take."""

import dataclasses
import re
import subprocess
import sys
import time
import types

import numpy as np
import pytest
from gymnasium.spaces import Box

from recon_tf import check, envs, offline
from recon_tf.common import UserError, load_config
from tests.helpers import policy_fixtures


def episodes(keys, rows=31):
  rng = np.random.default_rng(0)
  draw = lambda size: rng.uniform(-1, 1, (rows, size)).astype(np.float32)
  return [{**{k: draw(v) for k, v in keys.items()}, 'action': draw(2)} for _ in range(3)]


def test_says_what_is_learned_from_what():
  config = load_config('maze', 'cpu', 'state').update(task='maze_umaze')
  env = envs.make('maze_umaze', config)
  shown = episodes({'position': 2, 'velocity': 2, 'goal': 2, 'extra': 1})
  text = check.check_training(config, env, shown)
  assert 'position [2], from -0.' in text
  assert 'leaves out      extra' in text
  assert '2 numbers, -1 to 1 is -1 to 1; demonstrations use -' in text
  assert '3 of 30 to 30 steps' in text
  assert f'of {env.length} decisions of an episode for the explorer' in text
  work = (
    '500 joint updates on demonstrations, 2,000 of cloning, 4,000 in 3,000 steps of interaction'
  )
  assert f'{work}; 190 episodes of evaluations' in text
  assert re.search(r'minutes on one free core \(updates \d+\.\d\)', text)
  text = check.check_training(config, env, shown, decision=0.019)
  # 3,000 steps and 190 episodes of 30, at 19 ms and 1 ms for the policy.
  assert 'environment 1.0, evaluations 1.9)' in text
  with pytest.raises(UserError, match='demonstrations lack goal: the task has position'):
    check.check_training(config, env, episodes({'position': 2, 'velocity': 2}))


def test_each_action_has_bounds_of_its_own():
  spaces = dataclasses.replace(policy_fixtures.own_spaces(), low=(0.0, -0.2), high=(5.0, 0.1))
  assert '-1 to 1 is [0, -0.2] to [5, 0.1]; ' in check.action_text(spaces, episodes({'place': 3}))


def test_windows_that_fill_short_episodes_are_named():
  """A task of 60 decisions has room for 15 windows of four, not of ten."""
  config = load_config('cpu', 'state')
  short = types.SimpleNamespace(length=60, full=60)
  text = check.window_text(config, short)
  assert '60 of 60 decisions of an episode for the explorer; --windows.full 500 shrinks' in text
  text = check.window_text(config.update({'windows.full': 500}), short)
  assert text == '18 of 60 decisions of an episode for the explorer'


def test_shorter_episodes_to_learn_from_are_said_and_longer_ones_refused():
  config = load_config('maze', 'cpu', 'state', 'cmil').update(task='maze_umaze', train_length=40)
  env, shown = envs.make('maze_umaze', config), episodes({'position': 2, 'velocity': 2, 'goal': 2})
  text = check.check_training(config, env, shown)
  assert 'episodes        40 decisions to learn from, 75 in evaluations' in text
  config = config.update({'env.length': 30})
  with pytest.raises(UserError, match="train_length: 40 is longer than the task's episodes of 30 "):
    check.check_training(config, env, shown)


def test_speed_is_that_of_one_core_on_a_busy_machine():
  """NumPy's threads wait for each other, so other programs made this six times too slow."""
  load = [subprocess.Popen([sys.executable, '-c', 'while True: pass']) for _ in range(4)]
  try:
    busy = check.product_speed()
  finally:
    for process in load:
      process.kill()
      process.wait()
  assert busy > 0.4 * check.product_speed()


def test_offline_needs_no_environment(tmp_path):
  config = load_config('cpu', 'state', 'bc').update(task='gym_Nothing-v0', offline=True)
  shown = episodes({'vector': 4})
  text = check.check_training(config, offline.Recorded('gym_Nothing-v0', shown, tmp_path), shown)
  assert 'units not recorded' in text
  assert 'in the environment' not in text
  assert 'windows' not in text


def test_time_grows_with_the_model():
  spaces = policy_fixtures.own_spaces(image=64)
  small = check.update_seconds(load_config('cpu', 'pixels64'), spaces, 1e11)
  large = check.update_seconds(load_config(), spaces, 1e11)
  assert 0.02 < small['joint'] < large['joint']
  assert small['clone'] < 0.3 * small['joint']  # the model is left as it is
  assert check.update_seconds(load_config('dadac'), spaces) is None


def test_methods_without_imagination_are_quick():
  spaces = policy_fixtures.own_spaces()
  recon, equal, frozen = (
    check.update_seconds(load_config('cpu', 'state', x), spaces, 1e11)
    for x in ('recon', 'bc_equal', 'bc')
  )
  assert frozen['watch'] < frozen['joint'] <= equal['joint'] < 0.5 * recon['joint']
  assert equal['joint'] <= recon['follow'] < 0.6 * recon['joint']


def test_decisions_are_timed_in_the_environment():
  class Slow:
    act_space = {'action': Box(-1, 1, (2,))}
    steps = 0

    def reset(self):
      return {'is_last': False}

    def step(self, action):
      time.sleep(0.02)
      self.steps += 1
      return {'is_last': self.steps == 5}

  assert 0.02 <= check.decision_seconds(Slow()) < 0.2
