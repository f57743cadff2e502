"""The paper's tables as files and as figures: robustness, gaps, compute, allocation."""

import pathlib

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recon_tf.analysis import plots, robustness
from recon_tf.analysis.compute import compute_table
from recon_tf.analysis.figures import joined
from recon_tf.analysis.groups import Group, group_runs
from recon_tf.analysis.measured import command_line, with_data
from recon_tf.analysis.panels import (
  LABELS,
  SHORT,
  by_task,
  empty,
  in_grid,
  in_rows,
  name_missing,
  save_variants,
  say,
  tasks_with,
)
from recon_tf.analysis.paper import PAIR, paper_number
from recon_tf.analysis.paper_diagnostics import POINTMAZE, bars, pair_places, seed_dots
from recon_tf.analysis.paper_tables import GAP_COLUMNS, gap_table, gap_value, robustness_table
from recon_tf.analysis.recovery_tables import allocation_table, collector_name
from recon_tf.analysis.regions import REGIONS, Steps, expert_cloud, real_steps
from recon_tf.analysis.runs import RunFolder
from recon_tf.analysis.texts import Table

NO_POSITIONS = 'Needs collected episodes with positions, and the demonstrations.'
ALLOCATED = ('cmil', 'no_recovery', 'recon')


def draw_robustness(runs: list[RunFolder], folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """robustness: the table, and its bars with the paper's numbers."""
  table = save_table(robustness_table(group_runs(runs)), folder)
  return {**save_variants('robustness', robustness_figure, runs, folder), **table}


def draw_gap(runs: list[RunFolder], folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """gap: the table, and its bars."""
  table = save_table(gap_table(group_runs(runs)), folder)
  return {**save_variants('gap', gap_figure, runs, folder), **table}


def draw_compute(runs: list[RunFolder], folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """compute: the table."""
  return save_table(compute_table(group_runs(runs)), folder)


def draw_allocation(runs: list[RunFolder], folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """allocation: where steps went in the plane, their shares by region, and the table."""
  table = save_table(allocation_table(group_runs(runs)), folder)
  return {**save_variants('allocation', allocation_figure, runs, folder), **table}


def save_table(table: Table, folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """Writes NAME.md."""
  folder.mkdir(parents=True, exist_ok=True)
  path = folder / f'{table.name}.md'
  path.write_text(f'# {table.title}\n\n{table.markdown()}\n', encoding='utf-8')
  return {f'{table.name}_table': path}


# Bars


@plots.STYLED
def robustness_figure(groups: list[Group]) -> Figure:
  """A panel for each task: four columns, bars are methods, triangles the paper's."""
  found = with_data([x for x in groups if x.method in PAIR], 'robust')
  tasks = tasks_with([x for x, _ in found], PAIR, list(by_task(groups))[:1] or POINTMAZE)
  figure, panels = in_rows(tasks, 4)
  for task, axes in panels.items():
    own = [(g, r) for g, r in found if g.task == task]
    if not own:
      say(axes, f'No data yet. Make them with\n{command_line("robust")}')
      continue
    _robust_panel(axes, task, own)
  return plots.legend_above(figure, panels.values(), 4)


def _robust_panel(axes: Axes, task: str, found: list[tuple[Group, list[dict]]]) -> None:
  measure = found[0][1][0]['measure']
  factor = 100 if measure == 'success' else 1
  for group, results in found:
    places = pair_places(len(robustness.COLUMNS), group.method)
    values = [
      [factor * x['columns'][c] for x in results if c in x['columns']] for c in robustness.COLUMNS
    ]
    bars(axes, places, values, 0.4, plots.COLORS[group.method], LABELS[group.method])
    paper = [paper_number('robustness', task, c, group.method) for c in robustness.COLUMNS]
    mark_paper(axes, places, paper, group.method)
  axes.set_xticks(range(4), ['clean', 'noise', 'delay', 'impulse/\nscale'])
  axes.set_xlim(-0.5, 3.5)
  plots.score_axis(axes, measure)
  known = {x.method for x, _ in found}
  name_missing(axes, [x for x in PAIR if x not in known], 'no data')


def mark_paper(axes: Axes, places, values: list[float | None], method: str) -> None:
  """Hollow triangles, where the paper has a number."""
  known = [(x, y) for x, y in zip(places, values, strict=True) if y is not None]
  if known:
    look = {'ls': '', 'marker': '<', 'ms': 6, 'mfc': 'none', 'mec': plots.COLORS[method]}
    axes.plot(*zip(*known, strict=True), **look, mew=1.3, label=f'{LABELS[method]}, paper')


@plots.STYLED
def gap_figure(groups: list[Group]) -> Figure:
  """Three panels: gap on expert episodes, on the replay, and U; tasks side by side."""
  found = with_data([x for x in groups if x.method in PAIR], 'gap')
  tasks = tasks_with([x for x, _ in found], PAIR, ())
  figure, (panels,) = in_grid(1, 3, max(3.6, 0.9 * len(tasks)))
  for axes, (column, (title, _)) in zip(panels, GAP_COLUMNS.items(), strict=True):
    axes.set_title(title)
    if not found:
      say(axes, f'No data yet. Make them with\n{command_line("gap")}')
      continue
    for group, results in found:
      place = pair_places(len(tasks), group.method)[tasks.index(group.task)]
      values = [v for v in (gap_value(x, column) for x in results) if v is not None]
      look = plots.method_style([group.method])[group.method]
      if values:
        axes.plot([place], [np.mean(values)], **look, ms=8, ls='', label=LABELS[group.method])
      seed_dots(axes, place + 0.12, values, look['color'])
      paper = [paper_number('gap', group.task, column, group.method)]
      mark_paper(axes, [place], paper, group.method)
    axes.set_xticks(range(len(tasks)), tasks, rotation=20 if len(tasks) > 2 else 0)
    axes.set_xlim(-0.6, len(tasks) - 0.4)
    axes.set_yscale('log')  # tasks lie apart by factors of a hundred
    axes.yaxis.set_major_formatter('{x:g}')
    axes.yaxis.set_minor_formatter(mpl.ticker.LogFormatter(minor_thresholds=(1.5, 0.5)))
  return plots.legend_above(figure, panels, 4)


# Allocation


@plots.STYLED
def allocation_figure(groups: list[Group]) -> Figure:
  """A row for each task: visits of each method, then shares of real steps by region."""
  found = {}
  for group in [x for x in groups if x.method in ALLOCATED]:
    steps = [x for x in map(real_steps, group.runs) if x]
    if steps:
      found.setdefault(group.task, []).append((group, joined(steps)))
  tasks = tasks_with([x for x in groups if x.task in found], ALLOCATED, POINTMAZE)
  figure, grid = in_grid(len(tasks), len(ALLOCATED) + 1)
  for task, row in zip(tasks, grid, strict=True):
    own = found.get(task, [])
    for axes, method in zip(row, ALLOCATED, strict=False):
      axes.set_title(f'{task}: {LABELS[method]}', fontsize=8.5)
      mine = [x for x in own if x[0].method == method]
      if mine:
        visits_panel(axes, *mine[0])
      elif any((x.task, x.method) == (task, method) for x in groups):
        say(axes, NO_POSITIONS)
      else:
        empty(axes, task, [method])
    row[-1].set_title(f'{task}: real steps by region', fontsize=8.5)
    if own:
      shares_panel(row[-1], own)
    else:
      say(row[-1], NO_POSITIONS)
  handles = [mpl.patches.Patch(color=plots.REGION_COLORS[x], label=x) for x in REGIONS]
  handles += [mpl.lines.Line2D([], [], color='#D55E00', ls='', marker='.', label='expert')]
  figure.legend(handles=handles, loc='outside upper center', ncols=4)
  return figure


def visits_panel(axes: Axes, group: Group, steps: Steps) -> None:
  """How often the plane was visited, darker is more often, on a logarithmic scale."""
  x, y = steps.position.T
  axes.hexbin(x, y, gridsize=45, bins='log', cmap='Greys', mincnt=1, lw=0.1, rasterized=True)
  cloud = expert_cloud(group.runs[0])
  axes.plot(*cloud.T, ls='', marker='.', ms=1.5, color='#D55E00', rasterized=True)
  axes.set_aspect('equal')
  axes.grid(visible=False)


def shares_panel(axes: Axes, found: list[tuple[Group, Steps]]) -> None:
  """Stacked bars: the windows of each method, and its main policy."""
  shares = {}
  for group, steps in found:
    for who, explorer in ((collector_name(group), True), ('main', False)):
      shares[f'{SHORT[group.method]}, {who}'] = steps.shares(explorer)
  plots.draw_shares(axes, {k: v for k, v in shares.items() if v})
