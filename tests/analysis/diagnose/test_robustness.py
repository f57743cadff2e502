"""Robustness: averages in the paper's order, the nine shifts, and perturbations that act."""

import numpy as np
import pytest

from recon_tf import envs
from recon_tf.analysis.diagnose import robustness
from recon_tf.analysis.paper import COLUMNS
from recon_tf.analysis.report.tables import robust_table
from recon_tf.common import Driver, load_config

PAPER_TABLE = {'Faucet': (15.6, 66.1), 'Handle': (77.8, 86.1), 'Hammer': (10.0, 3.9)}


def found(**columns):
  """Configurations of uneven numbers of episodes, named as in the file."""
  return {
    f'{column} {i}': {'column': column, 'returns': values, 'successes': []}
    for column, configurations in columns.items()
    for i, values in enumerate(configurations)
  }


def test_order_of_averages_on_an_uneven_table():
  """Pooled episodes would give 4.25 and 1.75, so no other order passes."""
  first = robustness.column_means(found(Noise=[[1, 2, 3], [11]]), 'return')
  second = robustness.column_means(found(Noise=[[0, 0, 0, 2], [6]]), 'return')
  assert first == {'Noise': pytest.approx((2 + 11) / 2)}
  assert second == {'Noise': pytest.approx((0.5 + 6) / 2)}
  runs = [first, second, {'Noise': 0.0, 'Delay': 4.0}]
  table = robust_table([result('dmc_walker_run', 'cmil', x, 'return') for x in runs])
  assert table.rows == (('dmc_walker_run', 'cmil', '3', '–', '3.2', '4.0', '–'),)  # 9.75 / 3


def test_configurations_are_the_papers():
  columns = [x.column for x in robustness.CONFIGURATIONS]
  assert [columns.count(x) for x in COLUMNS] == [1, 2, 2, 9]
  shifts = {x.name: x.variants for x in robustness.CONFIGURATIONS}
  assert len(shifts) == 14
  sizes = [v[0][1]['size'] for name in shifts if 'impulse' in name for v in shifts[name]]
  assert sizes == [0.15, -0.15, 0.30, -0.30]


def test_nine_is_what_the_published_table_is_made_of():
  """20 episodes in nine configurations move a success rate by 5/9 %, in eleven by 5/11 %."""
  off = lambda value, count: abs(value - round(value * count / 5) * 5 / count)
  values = [x for pair in PAPER_TABLE.values() for x in pair]
  assert all(off(x, 9) <= 0.05 + 1e-9 for x in values)
  assert [x for x in values if off(x, 11) <= 0.05] == [10.0]


def result(task, method, columns, measure='success'):
  return {'task': task, 'method': method, 'measure': measure, 'columns': columns}


def test_pairs_with_deltas():
  rows = robust_table([
    result('maze_umaze', 'recon', {'Clean': 0.5, 'Noise': 0.25}),
    result('maze_umaze', 'recon', {'Clean': 0.7}),
    result('maze_umaze', 'cmil', {'Clean': 0.4, 'Noise': 0.5}),
    result('dmc_walker_run', 'cmil', {'Clean': 421.25}, 'return'),
    result('dmc_walker_run', 'recon', {'Clean': 593.95}, 'return'),
    result('dmc_hopper_stand', 'bc', {'Clean': 1.0}, 'return'),
  ]).rows  # fmt: skip
  none = '–/–'
  assert rows == (
    ('dmc_hopper_stand', 'bc', '1', '1.0', '–', '–', '–'),
    ('dmc_walker_run', 'cmil', '1', '421.2', '–', '–', '–'),
    ('dmc_walker_run', 'recon', '1', '594.0', '–', '–', '–'),
    ('dmc_walker_run', 'cmil/recon', '1/1', '421.2/594.0 (+172.7)', none, none, none),
    ('maze_umaze', 'cmil', '1', '40.0', '50.0', '–', '–'),
    ('maze_umaze', 'recon', '2', '60.0', '25.0', '–', '–'),
    ('maze_umaze', 'cmil/recon', '1/2', '40.0/60.0 (+20.0 pp)', '50.0/25.0 (-25.0 pp)',
     none, none),
  )  # fmt: skip


class Recorder:
  """Acts by a fixed rule and keeps what the environment executed."""

  def __init__(self):
    self.wanted = np.random.default_rng(0).uniform(-0.6, 0.6, (60, 2)).astype(np.float32)

  def policy(self, obs, state, mode):
    assert mode == 'eval'
    step = 0 if state is None else state
    action = np.repeat(self.wanted[step % 60][None], len(obs['is_first']), 0)
    return {'action': action}, step + 1


@pytest.fixture(scope='module')
def workers():
  config = load_config('maze', 'state').update({'env.length': 60})
  made = [envs.Worker('maze_umaze', config, 0, wait=False) for _ in range(2)]
  yield made
  for worker in made:
    worker.close()


def episodes(workers, shifts):
  """One episode of each worker under some shifts."""
  made, agent, driver = {}, Recorder(), Driver(workers, 5)
  driver.on_episode(lambda episode, i: made.update({i: episode}))
  with robustness.perturbed(workers, shifts):
    driver(lambda obs, state: agent.policy(obs, state, 'eval'), len(workers))
  return made


def test_perturbations_are_applied_as_specified_and_taken_off(workers):
  names = {x.name: x for x in robustness.CONFIGURATIONS}
  wanted = np.concatenate([np.zeros((1, 2)), Recorder().wanted])
  clean = episodes(workers, ())
  differs = lambda name, i: episodes(workers, names[name].variants[i])[0]['log_action'] - wanted
  for i, size in enumerate((0.30, -0.30)):
    expected = np.zeros_like(wanted)
    expected[51] = size  # row t holds what led to it, and decisions count from 0
    np.testing.assert_allclose(differs('impulse 0.3', i), expected, atol=1e-6)
  np.testing.assert_allclose(differs('scale 0.85', 0), -0.15 * wanted, atol=1e-6)
  delayed = np.concatenate([np.zeros((2, 2)), wanted[:-2]])
  np.testing.assert_allclose(differs('delay 2', 0), delayed - wanted, atol=1e-6)
  noise = differs('noise 0.1', 0)[1:]
  assert 0.08 < noise.std() < 0.12
  dropped = differs('dropout 0.1', 0)[1:] + wanted[1:] == 0
  assert 0.03 < dropped.mean() < 0.2
  for name in ('mass 1.25', 'friction 0.7', 'mass 1.25 friction 1.5'):
    other = episodes(workers, names[name].variants[0])
    np.testing.assert_allclose(other[0]['log_action'], wanted, atol=1e-6)
    assert np.abs(other[0]['position'] - clean[0]['position']).max() > 1e-3, name
  again = episodes(workers, ())
  for i in clean:
    assert all(clean[i][k].tobytes() == again[i][k].tobytes() for k in clean[i])


@pytest.mark.parametrize(('count', 'shares'), [(3, [2, 1]), (4, [2, 2]), (1, [1])])
def test_both_signs_share_the_episodes(workers, monkeypatch, count, shares):
  asked = []

  def evaluate(agent, envs, episodes, seed, video):
    asked.append((episodes, [x._perturb[0][1]['size'] for x in envs], seed))
    return {'returns': [0.0] * episodes, 'successes': []}

  monkeypatch.setattr(robustness, 'evaluate', evaluate)
  impulse = robustness.CONFIGURATIONS[5]
  result = robustness.evaluate_configuration(None, workers, impulse, count, 7)
  assert [x[0] for x in asked] == shares
  assert [x[1] for x in asked] == [[0.15, 0.15], [-0.15, -0.15]][: len(shares)]
  assert {x[2] for x in asked} == {7}  # the same starts
  assert len(result['returns']) == count


def test_configuration_is_the_training_evaluation_under_shifts(workers):
  """Whole episodes of all workers, each counted once."""
  result = robustness.evaluate_configuration(
    Recorder(), workers, robustness.CONFIGURATIONS[1], 3, 1
  )
  assert result['column'] == 'Noise'
  assert result['lengths'] == [60, 60, 60]
  assert result['successes'] == [0, 0, 0]
