"""What windows bring home: a written run against plain NumPy, and returns counted by hand."""

import types

import numpy as np
import pytest

from recon_tf.analysis.diagnose import windows
from recon_tf.analysis.diagnose.loaded import Trained
from recon_tf.analysis.runs import Run
from recon_tf.common import Milestones, UserError, save_episode
from tests.helpers import agent_fixtures as fixtures

PREFILL = 4
LENGTHS = (8, 9, 7)  # rows of the episodes, so 7, 8 and 6 steps
MARKS = (0, 7)  # the second milestone lies between the first two episodes
WINDOWS = ((5, 6), (1, 2, 7), (3,))  # rows that a window led to


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
  """Two demonstrations, three episodes, two milestones; no plane, so vectors count."""
  home = tmp_path_factory.mktemp('windows')
  for number in range(2):
    save_episode(home / 'demos', episode(10 + number, 50 + number), number=number)
  folder = home / 'run'
  for number, (length, rows) in enumerate(zip(LENGTHS, WINDOWS, strict=True)):
    explorer = np.isin(np.arange(length), rows).astype(np.float32)
    row = {**episode(length, number), 'log_explorer': explorer}
    save_episode(folder / 'train_episodes', row, number=number)
  # A step that the weights below have not seen.
  late = {**episode(5, 9), 'log_explorer': np.ones(5, np.float32)}
  save_episode(folder / 'train_episodes', late, number=3)
  agent = fixtures.make_agent(eager=True)
  for step in MARKS:
    fixtures.jitter_biases(agent, seed=step)
    Milestones(folder / 'milestones', 1).save(step, agent.weights(), {})
  fixtures.jitter_biases(agent, seed=1)
  config = fixtures.tiny_config(demos=str(home / 'demos'), prefill=PREFILL, demo_episodes=2)
  return Trained(Run(folder, config), agent, {'step': 21}, types.SimpleNamespace())


def episode(length, seed):
  rows = {k: v[0] for k, v in fixtures.batch(1, length, seed).items()}
  return {k: rows[k] for k in ('position', 'velocity', 'action', 'reward')}


def beliefs(agent, data):
  """Means of the belief in every row in NumPy, and U of what led there."""
  model, found = agent.world_model, []
  rssm, state = model.rssm, {'deter': np.zeros(10), 'stoch': np.zeros(4)}
  for t, action in enumerate(data['action']):
    deter = fixtures.recur(rssm, state, action * (t > 0))
    seen = np.concatenate([data['position'][t], data['velocity'][t]])
    inputs = np.concatenate([deter, fixtures.mlp(model.encoder.mlp, seen)])
    hidden = fixtures.elu(fixtures.dense(rssm.obs_in, inputs))
    state = {'deter': deter, 'stoch': fixtures.dense(rssm.obs_out, hidden)[:4]}
    found.append((state, fixtures.head_means(rssm, deter).std(0).mean()))
  return found


def gap(agent, data, start):
  """Five open-loop steps from one row, by hand."""
  truth, rssm = [x for x, _ in beliefs(agent, data)], agent.world_model.rssm
  state, total = truth[start], 0.0
  join = lambda x: np.concatenate([x['stoch'], x['deter']])
  for h in range(1, 6):
    deter = fixtures.recur(rssm, state, data['action'][start + h])
    state = {'deter': deter, 'stoch': fixtures.head_means(rssm, deter).mean(0)}
    total += 0.99 ** (h - 1) * np.mean((join(state) - join(truth[start + h])) ** 2)
  return total


def test_a_written_run_against_numpy(trained):
  agent, newest = trained.agent, trained.agent.state()
  found = windows.diagnose(trained)
  assert fixtures.different(agent.state(), newest) == set()
  assert found['left_out'] == {}
  assert 'cells_off' not in found
  data = [episode(length, number) for number, length in enumerate(LENGTHS)]
  shown = [states(episode(10 + i, 50 + i)) for i in range(2)]
  scale = np.concatenate(shown).std(0) * np.sqrt(5)
  expected = {k: {x: [] for x in ('distance', 'speed', 'length', 'cosine', 'before', 'after', 'gap',
                                  'action')} for k in windows.WHO}  # fmt: skip
  number = 0
  for e, row in enumerate(data):
    points, now = states(row) / scale, beliefs(agent, row)
    agent.restore_weights(weights(trained, MARKS[min(e, 1)]))
    old = beliefs(agent, row)
    agent.restore_weights(newest)
    last = None
    for t in range(1, LENGTHS[e]):
      who = 'windows' if t in WINDOWS[e] else 'main'
      who = 'prefill' if number < PREFILL else who
      own, action = expected[who], row['action'][t]
      away = np.linalg.norm(np.concatenate(shown) / scale - points[t], axis=1).min()
      own['distance'].append(away)
      own['speed'].append(np.linalg.norm(points[t] - points[t - 1]))
      own['length'].append(np.linalg.norm(action))
      own['action'].append(action)
      if last == who:
        before = row['action'][t - 1]
        own['cosine'].append(action @ before / np.linalg.norm(action) / np.linalg.norm(before))
      own['before'].append(old[t][1])
      own['after'].append(now[t][1])
      if t + 5 < LENGTHS[e]:
        own['gap'].append(gap(agent, row, t))
      last, number = who, number + 1
  for who, own in expected.items():
    result = found['who'][who]
    assert result['steps'] == len(own['distance'])
    names = {'length': 'action_length', 'cosine': 'persistence'}
    for key in ('distance', 'speed', 'length', 'cosine', 'before', 'after', 'gap'):
      assert result[names.get(key, key)] == pytest.approx(np.mean(own[key]), rel=1e-3), (who, key)
    assert result['removed'] == pytest.approx(result['before'] - result['after'], rel=1e-3)
    assert result['distance_90'] == pytest.approx(np.percentile(own['distance'], 90), rel=1e-4)
    assert result['spread'] == pytest.approx(np.std(own['action'], 0).mean(), rel=1e-4)
  assert found['returns']['windows'] == 4
  nearest = [np.linalg.norm((a[:, None] - b[None]) / scale, axis=2).min(1)
             for a, b in (shown, shown[::-1])]  # fmt: skip
  tube = np.percentile(np.concatenate(nearest), 90)
  assert found['returns']['tube'] == pytest.approx(tube, rel=1e-4)


def states(row):
  return np.concatenate([row['position'], row['velocity']], 1).astype(float)


def weights(trained, step):
  with np.load(trained.run.path / 'milestones' / f'{step:012d}.npz') as file:
    return {k: file[k] for k in file.files if k != '__meta__'}


def steps(who, away, done=()):
  """An episode with these distances of its rows, one more than steps."""
  names = {'w': windows.WINDOWS, 'm': windows.MAIN, 'p': windows.PREFILL}
  away = np.array(away, float)
  solved = np.isin(np.arange(len(who)), done)
  who = np.array([names[x] for x in who])
  return {'who': who, 'start': away[:-1], 'distance': away[1:], 'solved': solved}


def test_variety_by_hand():
  """Two squares of 0.25 m, one of them below zero; left and nearly left are one direction."""
  place = np.array([[0.1, 0.1], [0.2, 0.05], [0.24, 0.2], [-0.1, 0.1]])
  action = np.array([[1.0, 0.1], [-1.0, -0.1], [-0.5, -0.2], [0.1, 1.0]])
  assert windows.variety(place, action) == {'places': 2, 'directions': 1.5}


def test_returns_by_hand():
  #                     w  w  m  m  m  w  m  w  w  m  w
  away = [0.1, 0.2, 0.6, 0.5, 0.3, 0.2, 0.9, 0.8, 0.1, 0.2, 0.1, 0.7]
  found = windows.windows_of(steps('wwmmmwmwwmw', away), 0.25)
  assert [(x['begin'], x['end']) for x in found] == [(0.1, 0.6), (0.2, 0.9), (0.8, 0.2), (0.1, 0.7)]
  assert [x['decisions'] for x in found] == [3, None, 0, None]
  assert [x['cut'] for x in found] == [False, True, False, False]
  assert [x['followed'] for x in found] == [True, True, True, False]
  result = windows.returns(found, 0.25)
  assert (result['windows'], result['outside']) == (4, 2)
  assert (result['back'], result['cut'], result['median']) == (0.5, 0.5, 3)
  assert result['curve'][:5] == [0, 0, 0, 0.5, 0.5]
  # The goal is reached outside of the tube after the second window.
  found = windows.windows_of(steps('wwmmmwmwwmw', away, [6]), 0.25)
  assert [x['solved'] for x in found] == [False, True, False, False]
  assert not any(x['cut'] for x in found)
  assert windows.returns(found, 0.25)['solved'] == 0.5
  assert windows.windows_of(steps('pmm', [0.1, 0.2, 0.6, 0.5]), 0.25) == []


def test_returns_without_a_tube_and_with_none_outside():
  found = windows.windows_of(steps('pwm', [0.3, 0.2, 0.1, 0.2]), None)
  result = windows.returns(found, None)
  assert result == {'windows': 1, 'begin': 0.2, 'end': 0.1, 'tube': None}
  found = windows.windows_of(steps('pwm', [0.3, 0.2, 0.1, 0.2]), 0.25)
  assert windows.returns(found, 0.25)['outside'] == 0
  assert 'back' not in windows.returns(found, 0.25)


def test_without_milestones_or_demonstrations(trained, tmp_path):
  folder = tmp_path / 'run'
  (folder / 'train_episodes').mkdir(parents=True)
  run = Run(folder, trained.run.config)
  alone = Trained(run, trained.agent, trained.meta, trained.env)
  with pytest.raises(UserError, match='no collected episodes'):
    windows.diagnose(alone)
  row = {**episode(8, 0), 'log_explorer': np.ones(8, np.float32)}
  save_episode(folder / 'train_episodes', row, number=0)
  broken = folder / 'train_episodes' / '20260101T000000F000000-00000001-7.npz'
  broken.write_bytes(b'no episode')
  found = windows.diagnose(alone)
  assert found['who']['windows']['before'] is None
  assert found['who']['windows']['after'] > 0
  assert set(found['left_out']) == {'U before', broken.name}
  gone = Run(folder, trained.run.config.update({'demos': str(tmp_path / 'nowhere')}))
  with pytest.raises(UserError, match='demonstrations'):
    windows.diagnose(Trained(gone, trained.agent, trained.meta, trained.env))
