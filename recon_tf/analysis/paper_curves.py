"""The paper's figures of learning curves: main results, recoverability and design ablations."""

import pathlib
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recon_tf.analysis import plots
from recon_tf.analysis.curves import Curve, learning_curve
from recon_tf.analysis.groups import Group
from recon_tf.analysis.panels import (
  LABELS,
  empty,
  in_rows,
  name_missing,
  ranked_style,
  save_variants,
  tasks_with,
)
from recon_tf.analysis.paper import paper_number, paper_tasks
from recon_tf.analysis.runs import RunFolder

MAIN = ('bc', 'dadac', 'vmail', 'cmil', 'iqmpc', 'recon')
RECOVERABILITY = ('no_recovery', 'recon')
DESIGN = {
  'exploration signal': ('recon', 'no_recovery', 'terminal_only', 'random_collect'),
  'schedule of windows': (
    'recon', 'windows_5', 'windows_30', 'windows_early', 'windows_late', 'windows_long',
  ),
  'gate aggregation': ('recon', 'gate_mean', 'gate_last', 'gate_stopgrad'),
}  # fmt: skip
DESIGN_METHODS = tuple(dict.fromkeys(x for methods in DESIGN.values() for x in methods))
# Drawn where no task has a run yet: those on which the paper shows the ablations.
ABLATED = ('dmc_walker_run', 'maze_pointmaze')
NAMES = {
  'schedule of windows': {'recon': 'RECON: its own windows'},
  'gate aggregation': {'recon': 'RECON: max of the tail'},
}


def draw_main(runs: list[RunFolder], folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """main: a panel for each of the eight tasks, with all methods of the paper."""
  return save_variants('main', main_figure, runs, folder)


def draw_recoverability(runs: list[RunFolder], folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """recoverability: with and without the gate, a panel for each task that has such runs."""
  return save_variants('recoverability', recoverability_figure, runs, folder)


def draw_design(runs: list[RunFolder], folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """design: signals, schedules and gates, a row for each task that has such runs."""
  return save_variants('design', design_figure, runs, folder)


@plots.STYLED
def main_figure(groups: list[Group]) -> Figure:
  """Score against steps, two rows of four panels."""
  figure, panels = in_rows(paper_tasks(), 4)
  _fill(panels, groups, MAIN)
  return plots.legend_above(figure, panels.values(), 8, [LABELS[x] for x in MAIN])


@plots.STYLED
def recoverability_figure(groups: list[Group]) -> Figure:
  """Score against steps of RECON and of the same explorer without a gate."""
  figure, panels = in_rows(tasks_with(groups, {'no_recovery'}, ABLATED), 4)
  _fill(panels, groups, RECOVERABILITY)
  return plots.legend_above(figure, panels.values(), 4)


@plots.STYLED
def design_figure(groups: list[Group]) -> Figure:
  """Three panels a task, each with RECON and its alternatives and with a legend below."""
  tasks = tasks_with(groups, DESIGN_METHODS[1:], ABLATED[:1])
  known = curves_of(groups, DESIGN_METHODS)
  figure = Figure((11, 0.2 + 3.9 * len(tasks)), layout='constrained')
  grid = figure.subplots(2 * len(tasks), 3, squeeze=False, height_ratios=[3, 1] * len(tasks))
  for number, task in enumerate(tasks):
    for column, (part, methods) in enumerate(DESIGN.items()):
      axes, below = grid[2 * number : 2 * number + 2, column]
      axes.set_title(f'{task}: {part}')
      names = {x: x for x in methods} | LABELS | NAMES.get(part, {})
      draw_panel(axes, task, known.get(task, {}), methods, ranked_style(methods), names)
      below.set_axis_off()
      if axes.lines:
        below.legend(*axes.get_legend_handles_labels(), loc='upper center', ncols=2, fontsize=8)
  return figure


def _fill(panels: dict[str, Axes], groups: list[Group], methods: Sequence[str]) -> None:
  known, style = curves_of(groups, methods), plots.method_style(methods)
  for task, axes in panels.items():
    draw_panel(axes, task, known.get(task, {}), methods, style)


def curves_of(groups: list[Group], methods: Sequence[str]) -> dict[str, dict[str, Curve]]:
  """Curves by task and method, of groups that were evaluated."""
  found = {}
  for group in groups:
    if group.method in methods:
      curve = learning_curve(group)
      if curve.lines:
        found.setdefault(group.task, {})[group.method] = curve
  return found


def draw_panel(
  axes: Axes, task: str, curves: dict[str, Curve], methods: Sequence[str], style: dict[str, dict],
  names: dict[str, str] = LABELS,
) -> None:  # fmt: skip
  """Curves of these methods on one task; the panel says which are missing."""
  curves = {x: curves[x] for x in methods if x in curves}
  if not curves:
    empty(axes, task, methods)
    return
  for method, curve in curves.items():
    plots.draw_curve(axes, curve, style[method], names[method])
  end = plots.span_budget(axes, list(curves.values()))
  _mark_paper(axes, task, methods, style, end)
  name_missing(axes, [x for x in methods if x not in curves])


def _mark_paper(axes: Axes, task: str, methods: Sequence[str], style: dict, end: float) -> None:
  """What the paper reports for the last policies, at the right edge."""
  for method in methods:
    value = paper_number('robustness', task, 'Clean', method)
    if value is not None:
      look = {'color': style[method]['color'], 'marker': '<', 'ms': 8, 'mfc': 'none', 'ls': ''}
      label = f'{LABELS[method]}, paper'
      axes.plot([end], [value], **look, mew=1.5, clip_on=False, label=label)
