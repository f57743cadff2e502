"""The paper's numbers: transcribed without slips, under names that exist here."""

import pathlib

import numpy as np
import pytest

from recon_tf.analysis import regions
from recon_tf.analysis.diagnose import robustness
from recon_tf.analysis.paper import (
  COLUMNS,
  load_paper,
  paper_compute,
  paper_number,
  paper_tasks,
)
from recon_tf.analysis.report.registry import FIGURES
from recon_tf.common import load_config
from recon_tf.common.config import Config, presets
from recon_tf.envs import TASKS

TABLES = ('robustness', 'gap')
# What the paper says of its protocol and hyperparameters; nothing but these tests reads it.
STATED = Config.load(pathlib.Path(__file__).with_name('paper_protocol.yaml')).to_dict()


def cells(table):
  return [
    (task, column, values)
    for task, columns in load_paper()[table]['tasks'].items()
    for column, values in columns.items()
  ]


def test_names_are_ours():
  assert set(paper_tasks()) == set(TASKS)
  for table in TABLES:
    assert [*load_paper()[table]['tasks']] == paper_tasks()
  for columns in load_paper()['robustness']['tasks'].values():
    assert tuple(columns) == COLUMNS
  methods = {x for name in (*TABLES, 'compute') for x in load_paper()[name]['values'][:2]}
  assert methods | set(STATED['protocol']['acquisition']) <= set(presets())


def test_numbers_at_random_places():
  assert paper_number('robustness', 'maze_pointmaze', 'Delay', 'cmil') == 30.3
  assert paper_number('robustness', 'metaworld_hammer', 'Delay', 'recon') == 26.3
  assert paper_number('robustness', 'dmc_walker_run', 'Impulse/scale', 'recon') == 514.6
  assert paper_number('gap', 'maze_pointmaze', 'replay_h5', 'recon') == 0.0070
  assert paper_number('gap', 'dmc_hopper_stand', 'expert_h15', 'cmil') == 1.229
  assert paper_compute('parameters', 'recon') == 25.46e6
  assert paper_compute('fps', 'cmil') == 2.541
  assert paper_number('robustness', 'maze_umaze', 'Clean', 'vmail') is None
  assert paper_number('robustness', 'gym_Robot-v0', 'Clean', 'cmil') is None
  assert paper_compute('nothing', 'cmil') is None


@pytest.mark.parametrize(('task', 'column', 'values'), cells('robustness'))
def test_printed_differences_fit_their_terms(task, column, values):
  """The paper prints them too, each rounded to a tenth: a slip in any digit shows."""
  first, second, difference = values
  assert abs(second - first - difference) < 0.1 + 1e-9


@pytest.mark.parametrize(('task', 'column', 'values'), cells('gap'))
def test_printed_changes_fit_their_terms(task, column, values):
  """In percent, of terms that are rounded: as far off as the rounding allows."""
  first, second, change = values
  digits = max(len(str(x).partition('.')[2]) for x in (first, second))
  # 0.250 and 2.8 are read without their last zero; the neighbours tell the table's digits.
  half = 0.5 * 10.0 ** -max(digits, 1 if column == 'uncertainty' else 3)
  bounds = [100 * ((second + b) / (first + a) - 1) for a in (-half, half) for b in (-half, half)]
  assert min(bounds) - 0.051 <= change <= max(bounds) + 0.051


def test_compute_table_fits_together():
  compute = load_paper()['compute']
  cmil, recon = compute['quantities']['parameters']
  assert 100 * (recon / cmil - 1) == pytest.approx(
    compute['recon_only']['parameters_change'], abs=0.06
  )
  assert 4e-6 * (recon - cmil) == pytest.approx(compute['recon_only']['added_mb'], abs=0.05)
  assert 100 * (recon - cmil) / recon == pytest.approx(
    compute['recon_only']['explorer_share'], abs=0.06
  )
  slow, fast = compute['quantities']['fps'][::-1]
  assert 100 * (slow / fast - 1) == pytest.approx(compute['recon_only']['fps_change'], abs=0.06)


def test_our_defaults_are_the_papers():
  stated = Config(STATED['hyperparameters']['keys']).flat
  ours = load_config().flat
  assert len(stated) > 45
  assert {k: ours[k] for k in stated} == stated


def test_our_protocol_is_the_papers():
  protocol = STATED['protocol']
  assert protocol['regions'] == {'support': regions.SUPPORT, 'near': regions.NEAR}
  ours = {}
  for configuration in robustness.CONFIGURATIONS[1:]:
    ((kind, options), *_) = configuration.variants[0]
    kinds = ours.setdefault(configuration.column, {})
    kinds.setdefault(kind, []).extend(v for k, v in options.items() if k != 'at')
  assert ours == protocol['perturbations']
  factors = protocol['acquisition']
  main = lambda name: -load_config(name).main.alpha
  explorer = lambda name: load_config(name).explorer.beta
  found = [main('cmil'), main('vmail'), explorer('no_recovery'), explorer('recon')]
  np.testing.assert_array_equal([*factors.values()], found)


def test_every_source_is_a_table_that_can_be_made():
  paper = load_paper()
  labels = {x.label for x in FIGURES.values()}
  assert {paper[x]['source'] for x in (*TABLES, 'compute')} < labels
