"""Tables and figure of what windows bring home, from written numbers."""

import numpy as np

from recon_tf.analysis.report import measures
from recon_tf.analysis.report.registry import FIGURES
from recon_tf.analysis.runs import find_runs, group_runs
from tests.helpers.written_measures import write, write_windows
from tests.helpers.written_runs import make_run


def groups(home):
  return group_runs(find_runs(home))


def test_methods_stand_side_by_side_with_means_over_seeds(tmp_path):
  for seed in (0, 1):
    write_windows(make_run(tmp_path, 'recon', seed), 0.4 + 0.2 * seed, 0.02, 0.01)
  write_windows(make_run(tmp_path, 'random_collect'), 0.3, 0.04, 0.01)
  found = groups(tmp_path)
  table = measures.brought_table(found)
  rows = {x[1:4]: x[4:] for x in table.rows}
  assert set(rows) == {
    ('recon', '2', 'explorer'), ('recon', '2', 'main'),
    ('random_collect', '1', 'random'), ('random_collect', '1', 'main'),
  }  # fmt: skip
  at = lambda row, column: row[table.head.index(column) - 4]
  assert at(rows['recon', '2', 'explorer'], 'distance') == '0.500'
  assert at(rows['recon', '2', 'explorer'], '90 % below') == '1.000'
  assert at(rows['random_collect', '1', 'random'], 'distance') == '0.300'
  assert at(rows['recon', '2', 'main'], 'steps') == '50'
  assert at(rows['recon', '2', 'explorer'], 'at walls %') == '25.0'
  assert at(rows['recon', '2', 'explorer'], 'places') == '60'
  assert at(rows['recon', '2', 'main'], 'directions') == '2.0'
  assert '14 cells' in table.notes[1]
  taught = {x[1:5:2] + x[4:5]: x[6:] for x in measures.taught_table(found).rows}
  assert taught['random_collect', 'random', 'all'] == ('40', '10', '30', '1')
  assert taught['random_collect', 'random', 'at walls'] == ('80', '20', '60', '2')
  assert taught['recon', 'main', 'free'] == ('10', '5', '5', '0.5')
  returned = {x[1]: x[4:] for x in measures.returned_table(found).rows}
  assert returned['recon'] == ('0.250', '10', '0.100', '0.500', '8', '75.0', '5.0', '12.5', '4.0')


def test_tasks_without_a_plane_have_no_columns_of_mazes(tmp_path):
  run = make_run(tmp_path, 'recon', task='dmc_walker_run')
  write_windows(run, 0.4, 0.02, 0.01, maze=False)
  table = measures.brought_table(groups(tmp_path))
  assert 'at walls %' not in table.head
  assert len(table.notes) == 1
  assert [x[4] for x in measures.taught_table(groups(tmp_path)).rows] == ['all', 'all']


def test_a_method_without_windows_or_model_has_what_is_left(tmp_path):
  """DA-DAC has neither."""
  run = make_run(tmp_path, 'dadac')
  write_windows(run, 0.4, 0.02, 0.01)
  kept = run.read('eval/windows.json')
  judged = ('before', 'after', 'removed', 'gap', 'wall', 'free')
  main = {k: v for k, v in kept['who']['main'].items() if k not in judged}
  kept = {k: v for k, v in kept.items() if k != 'returns'} | {'who': {'main': main}}
  write(run, 'windows', kept)
  found = groups(tmp_path)
  assert [x[3] for x in measures.brought_table(found).rows] == ['main']
  assert measures.taught_table(found).rows == ()
  assert measures.returned_table(found).rows == ()
  words = [x.get_text() for axes in FIGURES['windows'].figure(found).axes for x in axes.texts]
  assert len(words) == 2
  assert all('no windows' in ' '.join(x.split()) for x in words)


def test_the_figure_shows_before_after_and_returns(tmp_path):
  write_windows(make_run(tmp_path, 'recon'), 0.4, 0.02, 0.01)
  falls, curve = FIGURES['windows'].figure(groups(tmp_path)).axes
  heights = [x.get_height() for x in falls.patches]
  np.testing.assert_allclose(heights, [10, 20, 10, 20, 40, 20])
  (line,) = curve.lines
  np.testing.assert_allclose(line.get_ydata()[:9], 75 * np.arange(9) / 8)
