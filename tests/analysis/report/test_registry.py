"""The paper's figures by name: real presets and commands, drawn from whatever data there are."""

import pathlib
import re

import numpy as np
import pytest

from recon_tf.analysis.report import curves as paper_curves
from recon_tf.analysis.report import registry, style
from recon_tf.analysis.report.registry import FIGURES
from recon_tf.analysis.runs import find_runs, group_runs
from recon_tf.common.config import presets
from recon_tf.envs import TASKS
from tests.helpers.written_measures import (
  write_acquisition,
  write_gap,
  write_recoverability,
  write_robust,
)
from tests.helpers.written_runs import make_run, walk

ROOT = pathlib.Path(__file__).parents[3]
PATH = np.stack([np.linspace(0, 3, 30), np.zeros(30)], 1)


@pytest.fixture(scope='module')
def groups(tmp_path_factory):
  """One seed of CMIL with everything, of RECON with curves alone, and an ablation."""
  home = tmp_path_factory.mktemp('partial')
  walk(home / 'demos', PATH)
  options = {'demos': str(home / 'demos'), 'prefill': 0, 'task': 'maze_umaze'}
  cmil = make_run(home / 'runs', 'cmil', evaluations={0: 0.1}, final=(3000, 0.5), **options)
  make_run(home / 'runs', 'recon', evaluations={0: 0.2, 1500: 0.6}, **options)
  make_run(home / 'runs', 'no_recovery', **options)
  make_run(home / 'runs', 'windows_5', final=(3000, 0.4), **options)
  walk(cmil.path / 'train_episodes', PATH + 0.05, np.zeros(30))
  write_robust(cmil, {'Clean': 0.5, 'Noise': 0.25})
  write_gap(cmil, 2.0, 0.5, 0.004)
  write_recoverability(cmil, [None, *np.linspace(0.5, 0.9, 14)])
  write_acquisition(cmil, {0: 0.02, 1000: 0.01})
  return group_runs(find_runs(home / 'runs'))


def texts(figure):
  """All words of a figure: titles, labels, notes and legends."""
  found = [x for axes in figure.axes for x in (*axes.texts, axes.title, axes.xaxis.label)]
  legends = [*figure.legends, *(x.get_legend() for x in figure.axes if x.get_legend())]
  found += [x for legend in legends for x in legend.get_texts()]
  return [' '.join(x.get_text().split()) for x in found]


def test_every_figure_names_what_exists():
  scripts = {x.stem: x.read_text() for x in (ROOT / 'recon_tf' / 'commands').glob('*.py')}
  for figure in FIGURES.values():
    assert set(figure.methods) <= set(presets())
    assert figure.methods
    assert set(figure.tasks) <= set(TASKS)
    for script, *flags in figure.commands:
      for flag in [x for x in flags if x.startswith('--')]:
        assert f"'{flag}'" in scripts[script]


@pytest.mark.parametrize('name', FIGURES)
def test_drawn_from_partial_data_and_from_none(groups, tmp_path, name):
  runs = [run for group in groups for run in group.runs]
  for chosen, folder in ((runs, tmp_path / 'some'), ([], tmp_path / 'none')):
    for path in registry.draw(name, chosen, folder).values():
      assert path.parent == folder
      assert path.suffix in ('.png', '.md')
      if path.suffix == '.png':
        assert path.stat().st_size > 2000
        assert path.with_suffix('.svg').read_text().rstrip().endswith('</svg>')
      else:
        assert path.read_text().startswith('# ')


def test_variants_have_figures_of_their_own(tmp_path):
  for variant in ('pixels', 'vectors'):
    make_run(tmp_path / 'runs' / variant, final=(10, 0.5))
  paths = registry.draw('recoverability', find_runs(tmp_path / 'runs'), tmp_path)
  assert set(paths) == {'recoverability-pixels', 'recoverability-vectors'}


def test_main_curves_say_what_is_missing_and_what_the_paper_has(groups):
  figure = paper_curves.main_figure(groups)
  panels = {x.get_title(): x for x in figure.axes}
  assert set(panels) == {style.task_name(x) for x in TASKS}
  maze = panels['U-Maze']
  drawn = {x.get_label(): x for x in maze.lines if not x.get_label().startswith('_')}
  assert set(drawn) == {'CMIL', 'RECON', 'CMIL, paper', 'RECON, paper'}
  np.testing.assert_allclose(drawn['RECON'].get_ydata(), [20, 60])
  assert list(drawn['CMIL, paper'].get_ydata()) == [40.0]
  assert figure.get_supxlabel() == 'no runs of BC, DA-DAC, V-MAIL, IQ-MPC'
  words = ' '.join(panels['Walker Run'].texts[0].get_text().split())
  assert 'python scripts/train.py --configs dmc METHOD --task dmc_walker_run' in words


def test_a_clone_that_never_acts_is_a_level_and_no_curve(tmp_path):
  make_run(tmp_path, 'bc_raw', final=(0, 0.75), steps=0)
  figure = paper_curves.main_figure(group_runs(find_runs(tmp_path)))
  panels = {x.get_title(): x for x in figure.axes}
  alone = panels['PointMaze']
  (level,) = [x for x in alone.lines if x.get_label() == 'BC, raw vectors']
  assert level.get_ydata() == [75, 75]
  assert alone.get_xlabel() == 'without environment steps'
  make_run(tmp_path, 'recon', final=(1000, 0.5), evaluations={0: 0.1}, steps=1000)
  figure = paper_curves.main_figure(group_runs(find_runs(tmp_path)))
  beside = next(x for x in figure.axes if x.get_title() == 'PointMaze')
  assert {'BC, raw vectors', 'RECON'} <= {x.get_label() for x in beside.lines}
  assert beside.get_xlim()[1] > 1000


def test_design_compares_with_recon_in_every_panel(groups):
  figure = paper_curves.design_figure(groups)
  panels = [x for x in figure.axes if x.get_title()]
  assert [x.get_title() for x in panels] == [f'U-Maze: {x}' for x in paper_curves.DESIGN]
  labels = [[x.get_label() for x in axes.lines] for axes in panels]
  assert all(any('RECON' in x for x in own) for own in labels)
  assert 'windows 5' in labels[1]
  assert 'no runs: gate mean; gate last; gate stopgrad' in panels[2].get_xlabel()


def test_panels_without_data_name_the_command(groups):
  recon = [x for x in groups if x.method == 'recon']
  for figure, commands in (
    (FIGURES['robustness'].figure(recon), ['evaluate.py RUN --robust']),
    (FIGURES['gap'].figure(recon), ['diagnose.py RUN --what gap']),
    (FIGURES['diagnostics'].figure(recon), ['--what recoverability', '--what acquisition']),
  ):
    words = ' '.join(texts(figure))
    assert all(x in words for x in commands)


def test_robustness_bars_are_percent_beside_the_papers(groups):
  (axes,) = FIGURES['robustness'].figure(groups).axes
  heights = [x.get_height() for x in axes.patches]
  np.testing.assert_allclose(heights, [50, 25, np.nan, np.nan])
  (paper,) = [x for x in axes.lines if x.get_label() == 'CMIL, paper']
  np.testing.assert_allclose(paper.get_ydata(), [40.0, 31.7, 36.7, 32.5])
  assert 'no data: RECON' in axes.get_xlabel()


def test_diagnostics_draw_the_numbers_of_the_files(groups):
  curves, fall, gain = FIGURES['diagnostics'].figure(groups).axes
  lines = {x.get_label(): x for x in curves.lines}
  np.testing.assert_allclose(lines['CMIL'].get_ydata(), [np.nan, *np.linspace(0.5, 0.9, 14)])
  np.testing.assert_allclose(fall.lines[0].get_ydata(), [0, 10])
  assert gain.patches[0].get_height() == pytest.approx(10)  # 0.01 in 1000 steps, in millionths
  regions = FIGURES['mechanism'].figure(groups).axes[0]
  np.testing.assert_allclose([x.get_height() for x in regions.patches], [2, 3, 6])


def test_sections_have_figures_only_where_there_is_something_to_draw(tmp_path):
  write_robust(make_run(tmp_path / 'runs', 'bc'), {'Clean': 0.5})
  write_gap(make_run(tmp_path / 'runs', 'recon'), 1.0, 1.0, 1.0)
  found = registry.sections(group_runs(find_runs(tmp_path / 'runs')), tmp_path)
  sections = {x.name: x for x in found}
  assert sections['robustness'].tables[0].rows
  assert not sections['robustness'].figures
  assert set(sections['gap'].figures) == {'gap'}
  assert not sections['diagnostics'].tables[0].rows


def test_names_of_the_paper_are_in_the_registry_once():
  labels = [x.label for x in FIGURES.values()]
  assert len(set(labels)) == len(labels)
  assert all(re.fullmatch('(fig|tab|ours):[a-z_]+', x) for x in labels)
