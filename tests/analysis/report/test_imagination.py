"""Table and figure of real and imagined ways back, from written numbers."""

import numpy as np

from recon_tf.analysis.report import measures
from recon_tf.analysis.report.registry import FIGURES
from recon_tf.analysis.runs import find_runs, group_runs
from tests.helpers.written_measures import write_imagination
from tests.helpers.written_runs import make_run


def groups(home):
  return group_runs(find_runs(home))


def test_real_and_imagined_stand_side_by_side(tmp_path):
  write_imagination(make_run(tmp_path, 'recon', 0), 0.1, 0.6)
  write_imagination(make_run(tmp_path, 'recon', 1), 0.3, 0.8)
  write_imagination(make_run(tmp_path, 'cmil'), 0.2, 0.9, lost=0)
  table = measures.imagination_table(groups(tmp_path))
  rows = {(x[1], x[3]): dict(zip(table.head, x, strict=True)) for x in table.rows}
  assert set(rows) == {('recon', 'comes back'), ('recon', 'does not'), ('cmil', 'comes back')}
  lost = rows['recon', 'does not']
  assert (lost['D, real'], lost['D, imagined']) == ('0.200', '0.700')
  assert (lost['episodes'], lost['critic'], lost['in walls %']) == ('4.0', '1.40', '7.0')
  assert rows['cmil', 'comes back']['U × 1000, real'] == '500.0'
  assert 'at most 60' in table.notes[0]


def test_the_figure_shows_both_and_the_lost_ways_alone(tmp_path):
  write_imagination(make_run(tmp_path, 'recon'), 0.1, 0.6)
  bars, maze = FIGURES['imagination'].figure(groups(tmp_path)).axes
  np.testing.assert_allclose([x.get_height() for x in bars.patches], [0.5, 0.1, 0.5, 0.6])
  real, _, imagined, _ = [np.transpose(x.get_data()) for x in maze.lines]
  # Rows count downwards from the upper edge: half a metre below the middle of four rows is row 2.
  np.testing.assert_allclose(real, [[1, 2], [1, 1]])
  np.testing.assert_allclose(imagined, [[1, 2], [2, 1]])


def test_without_data_the_panel_names_the_command(tmp_path):
  make_run(tmp_path, 'recon')
  (axes,) = FIGURES['imagination'].figure(groups(tmp_path)).axes
  assert '--what imagination' in ' '.join(axes.texts[0].get_text().split())
