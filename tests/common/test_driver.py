import os
import signal

import gymnasium
import numpy as np
import pytest

from recon_tf.common.config import load_config
from recon_tf.common.driver import Driver
from recon_tf.common.errors import UserError
from recon_tf.common.replay import Replay
from recon_tf.envs import Worker

Box = gymnasium.spaces.Box


class Counting:
  """In-process environment that shows its seed, its step and the last action."""

  task = 'counting'

  def __init__(self, length):
    self.length = length
    self.obs_space = {
      'seed': Box(0, 2**32, (), np.float64),
      'count': Box(0, 100, (1,), np.float32),
      'reward': Box(0, 1, (), np.float32),
      **{k: Box(0, 1, (), bool) for k in ('is_first', 'is_last', 'is_terminal')},
    }
    self.act_space = {'action': Box(-1, 1, (2,), np.float32)}
    self.actions = []

  def reset(self, seed=None):
    self.seed, self.count = seed, 0
    return self._observe()

  def step(self, action):
    assert self.count < self.length, 'stepped after its end'
    self.count += 1
    self.actions.append(action['action'])
    return self._observe()

  def _observe(self):
    return {
      'seed': np.float64(self.seed),
      'count': np.array([self.count], np.float32),
      'reward': np.float32(self.count > 0),
      'is_first': np.bool_(self.count == 0),
      'is_last': np.bool_(self.count == self.length),
      'is_terminal': np.bool_(False),
    }


class Policy:
  """Acts by a counter that it carries as state, and says who acted."""

  def __init__(self, envs):
    self.envs = envs
    self.seen = []

  def __call__(self, obs, state):
    state = np.where(obs['is_first'], 0, 0 if state is None else state + 1)
    self.seen.append(obs)
    action = np.stack([state / 100, np.full(self.envs, 2.0)], 1)
    return {'action': action, 'log_who': state + 1}, state


def collect(driver):
  steps, episodes, dropped = [], [], []
  driver.on_step(lambda x, i: steps.append((i, x)))
  driver.on_episode(lambda x, i: episodes.append((i, x)))
  driver.on_drop(dropped.append)
  return steps, episodes, dropped


def test_rows_hold_the_action_that_led_to_them():
  env = Counting(4)
  driver = Driver([env])
  steps, episodes, _ = collect(driver)
  driver(Policy(1), episodes=1)
  ((index, episode),) = episodes
  assert index == 0
  assert episode['action'].dtype == np.float32
  expected = [[0, 0], [0, 1], [0.01, 1], [0.02, 1], [0.03, 1]]  # the first row is zero
  np.testing.assert_allclose(episode['action'], expected)
  np.testing.assert_array_equal(episode['action'][1:], env.actions)
  assert episode['log_who'].tolist() == [0, 1, 2, 3, 4]
  assert episode['is_first'].tolist() == [True, False, False, False, False]
  assert episode['count'][:, 0].tolist() == [0, 1, 2, 3, 4]
  assert [x['count'][0] for _, x in steps] == [0, 1, 2, 3, 4]


def test_rounds_of_whole_episodes():
  policy = Policy(3)
  driver = Driver([Counting(2), Counting(5), Counting(3)])
  steps, episodes, _ = collect(driver)
  driver(policy, episodes=4)
  assert [i for i, _ in episodes] == [0, 2, 1, 0]
  assert len(steps) == 3 + 6 + 4 + 3
  assert all(x['count'].shape == (3, 1) for x in policy.seen)
  # The second round has one episode; the others neither step nor restart.
  assert len(policy.seen) == 5 + 2


def test_episode_seeds_follow_from_the_counter():
  driver = Driver([Counting(2), Counting(3)], seed=5)
  _, episodes, _ = collect(driver)
  driver(Policy(2), episodes=4)
  seeds = {int(x['seed'][0]) for _, x in episodes}
  assert len(seeds) == 4
  assert driver.episodes == 4
  resumed = Driver([Counting(2), Counting(3)], seed=5)
  _, later, _ = collect(resumed)
  resumed.episodes = 2
  resumed(Policy(2), episodes=2)
  assert [int(x['seed'][0]) for _, x in later] == [int(x['seed'][0]) for _, x in episodes[2:]]
  other = Driver([Counting(2)], seed=6)
  _, others, _ = collect(other)
  other(Policy(1))
  assert int(others[0][1]['seed'][0]) not in seeds


@pytest.fixture
def workers():
  config = load_config(env={'length': 12, 'render': False})
  found = [Worker('maze_umaze', config, seed, wait=False) for seed in range(2)]
  yield found
  for worker in found:
    worker.close()


def zero_policy(obs, state):
  return {'action': np.zeros((len(obs['is_first']), 2))}, state


def test_crashed_worker_is_replaced_and_only_its_episode_lost(workers, tmp_path, capsys):
  driver = Driver(workers)
  replay = Replay(tmp_path)
  _, episodes, dropped = collect(driver)
  driver.on_step(replay.add_step)
  driver.on_drop(replay.drop)
  count = [0]

  def kill(transition, index):
    count[0] += 1
    if count[0] == 15:
      os.kill(workers[1].pid, signal.SIGKILL)

  driver.on_step(kill)
  driver(zero_policy, episodes=4)
  assert dropped == [1]
  assert sorted(i for i, _ in episodes) == [0, 0, 1, 1]
  assert all(len(x['action']) == 13 for _, x in episodes)
  assert all(x['is_first'].sum() == 1 for _, x in episodes)
  assert replay.stats == {'replay_steps': 48, 'replay_episodes': 4}
  assert driver.episodes == 5
  line = capsys.readouterr().out
  assert 'Worker 1 (maze_umaze)' in line
  assert 'SIGKILL' in line
  assert line.count('\n') == 1


def test_gives_up_after_three_crashes_in_a_row(workers):
  driver = Driver(workers)
  driver.on_step(lambda x, i: i == 0 and os.kill(workers[0].pid, signal.SIGKILL))
  with pytest.raises(UserError, match=r"Worker 0 of task 'maze_umaze': 3 crashes .* SIGKILL"):
    driver(zero_policy, episodes=2)
