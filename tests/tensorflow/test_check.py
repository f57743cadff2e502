"""What is said before training, with and without an environment, and how long it may take."""

import numpy as np
import pytest

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
  assert f'{check.total_updates(config):,} updates and 3,000 steps' in text
  assert 'minutes of updates' in text
  with pytest.raises(UserError, match='demonstrations lack goal: the task has position'):
    check.check_training(config, env, episodes({'position': 2, 'velocity': 2}))


def test_offline_needs_no_environment(tmp_path):
  config = load_config('cpu', 'state', 'bc').update(task='gym_Nothing-v0', offline=True)
  shown = episodes({'vector': 4})
  text = check.check_training(config, offline.Recorded('gym_Nothing-v0', shown, tmp_path), shown)
  assert 'units not recorded' in text
  assert 'in the environment' not in text
  assert 'windows' not in text


def test_updates_are_counted_as_the_loop_does():
  config = load_config().update(pretrain=10, pretrain_bc=5, steps=1000, prefill=200)
  config = config.update(train_every=10, train_steps=3)
  assert check.total_updates(config) == 10 + 5 + 80 * 3
  assert check.total_updates(config.update(offline=True)) == 15


def test_time_grows_with_the_model():
  spaces = policy_fixtures.own_spaces(image=64)
  small = load_config('cpu', 'pixels64')
  times = [check.update_seconds(x, spaces) for x in (small, load_config())]
  assert 0.01 < times[0] < times[1]
  assert check.update_seconds(load_config('dadac'), spaces) is None
