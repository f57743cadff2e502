"""Costs of a run: parameters of real agents from their checkpoints, speed by hand."""

import numpy as np
import pytest

from recon_tf.analysis import cost
from recon_tf.analysis.report.measures import compute_table
from recon_tf.analysis.runs import find_runs, group_runs
from recon_tf.common import Checkpoint
from tests.helpers import agent_fixtures as fixtures
from tests.helpers.written_runs import make_run


@pytest.mark.parametrize('name', ['cmil', 'recon'])
def test_parameters_of_a_checkpoint_are_the_agents(tmp_path, name):
  agent = fixtures.shared_agent(name, eager=True)
  path = Checkpoint(tmp_path).save(10, agent.state(), {})
  expected = agent.parameters()
  expected['disc'] = expected.pop('discriminator')
  assert cost.parameters(path) == expected


def test_agents_of_other_parts_have_none(tmp_path):
  path = Checkpoint(tmp_path).save(1, {'model.encoder.0.kernel': np.zeros((2, 3))}, {})
  assert cost.parameters(path) is None


def test_speed_counts_training_alone(tmp_path):
  # (step, minutes): random until 100; evaluated at 300; killed and resumed after 400.
  clock = [(0, 1), (100, 2), (200, 3), (300, 5), (400, 20), (450, 1), (500, 2), (500, 2.1)]
  metrics = [{'step': step, 'time/minutes': minutes} for step, minutes in clock]
  run = make_run(tmp_path, metrics=metrics, evaluations={300: 0.5}, prefill=100)
  np.testing.assert_allclose(cost.last_fps(run), [100 / 60, 100 / 120, 50 / 60])
  np.testing.assert_allclose(cost.last_fps(run, 2), [100 / 120, 50 / 60])
  assert len(cost.last_fps(make_run(tmp_path / 'new'))) == 0


def test_table_of_a_pair(tmp_path):
  sizes = {}
  for name, minutes in (('cmil', 1), ('recon', 2)):
    metrics = [{'step': 600 * i, 'time/minutes': minutes * i} for i in range(5)]
    run = make_run(tmp_path, name, task='dmc_walker_run', metrics=metrics, prefill=0)
    agent = fixtures.shared_agent(name, eager=True)
    Checkpoint(run.path / 'checkpoints').save(1, agent.state(), {})
    sizes[name] = agent.parameters()
  table = compute_table(group_runs(find_runs(tmp_path)))
  rows = {x[1]: x[2:] for x in table.rows}
  total = {k: sum(v.values()) for k, v in sizes.items()}
  more = 100 * (total['recon'] / total['cmil'] - 1)
  share = 100 * sizes['recon']['explorer'] / total['recon']
  shown = [f'{total[x]:,}' for x in ('cmil', 'recon')]
  assert rows['all parameters'] == (*shown, f'{more:+.1f} %', '21.52 M', '25.46 M')
  assert rows['world-model parameters'][2] == '+0.0 %'
  assert rows['explorer, % of all'] == ('–', f'{share:.1f}', '–', '–', '15.5')
  assert rows['FPS'] == ('10.000', '5.000', '-50.0 %', '2.541', '2.430')
  assert float(rows['checkpoint, MiB'][0]) > 0


def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path):
  run = make_run(tmp_path)
  agent = fixtures.shared_agent('recon', eager=True)
  checkpoint = Checkpoint(run.path / 'checkpoints')
  checkpoint.save(1, agent.state(), {})
  (run.path / 'checkpoints' / '000000000002.npz').write_bytes(b'PK')
  assert cost.run_cost(run).parts == cost.parameters(checkpoint.paths()[0])
