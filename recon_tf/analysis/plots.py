"""Figures of runs in one style: safe for colour-blind readers, as PNG and as SVG."""

import pathlib
from collections.abc import Iterable, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recon_tf.analysis.curves import Curve, clock_line, metric_line
from recon_tf.analysis.groups import Group, settings_of
from recon_tf.analysis.regions import REGIONS, Steps
from recon_tf.analysis.tables import Row

# Okabe and Ito's palette; lines also differ in their markers, for print without colour.
COLORS = {
  'bc': '#999999', 'vmail': '#56B4E9', 'cmil': '#0072B2', 'no_recovery': '#E69F00',
  'recon': '#D55E00', 'dadac': '#009E73', 'iqmpc': '#CC79A7',
}  # fmt: skip
SPARE = ('#000000', '#F0E442', '#009E73', '#CC79A7')
DPI = 140
MARKERS = ('o', 's', '^', 'D', 'v', 'P', 'X', '*')
REGION_COLORS = {'support': '#009E73', 'near': '#F0E442', 'far': '#CC79A7'}
TRACES = {
  'disc/expert': 'D on expert pairs',
  'disc/main': 'D on main imagination',
  'disc/explorer': 'D on explorer imagination',
  'gate/delta': 'δ, threshold of the gate',
  'main/uncertainty': 'U, main imagination',
  'explorer/uncertainty': 'U, explorer imagination',
  'gate/mean': 'G, mean over explorer rollouts',
  'disc/gap': 'D expert − D main',
}
STYLE = {
  'font.size': 9,
  'font.family': 'DejaVu Sans',
  'axes.spines.top': False,
  'axes.spines.right': False,
  'axes.grid': True,
  'grid.alpha': 0.25,
  'axes.titlesize': 9.5,
  'axes.titleweight': 'bold',
  'legend.frameon': False,
  'svg.hashsalt': 'recon_tf',  # the same figure gives the same file
}
STYLED = mpl.rc_context(STYLE)  # as a decorator, so that importing changes nobody's figures


@STYLED
def save_figure(figure: Figure, folder: pathlib.Path, name: str) -> pathlib.Path:
  """Writes name.png and name.svg; returns the PNG."""
  folder.mkdir(parents=True, exist_ok=True)
  path = folder / f'{name}.png'
  figure.savefig(path, dpi=DPI)
  figure.savefig(path.with_suffix('.svg'), metadata={'Date': None})
  return path


def method_style(methods: list[str]) -> dict[str, dict]:
  """Colour and marker of each method; the paper's keep theirs in every figure."""
  others = [x for x in dict.fromkeys(methods) if x not in COLORS]
  colors = {**COLORS, **{x: SPARE[i % len(SPARE)] for i, x in enumerate(others)}}
  names = [*COLORS, *others]
  return {x: {'color': colors[x], 'marker': MARKERS[names.index(x) % 8]} for x in set(methods)}


@STYLED
def curves_figure(curves: list[Curve]) -> Figure:
  """Score against steps: thin lines are seeds, thick ones their interquartile mean."""
  figure, panels = _panels([x.group for x in curves])
  style = method_style([x.group.method for x in curves])
  for curve in curves:
    draw_curve(panels[curve.group.setting], curve, style[curve.group.method], _label(curve.group))
  for setting, axes in panels.items():
    span_budget(axes, [x for x in curves if x.group.setting == setting])
  return legend_above(figure, panels.values())


def draw_curve(axes: Axes, curve: Curve, look: dict, label: str) -> None:
  """One method in a panel; `look` is its colour and marker."""
  if len(curve.lines) > 1:
    for line in curve.lines:
      axes.plot(*line, color=look['color'], lw=0.8, alpha=0.35)
    axes.fill_between(curve.steps, curve.low, curve.high, color=look['color'], alpha=0.15, lw=0)
  axes.plot(curve.steps, curve.center, lw=2, ms=4, **look, label=label)
  score_axis(axes, curve.score)
  axes.set_xlabel('environment steps')


def span_budget(axes: Axes, curves: list[Curve]) -> float:
  """Shows the whole budget, so that unfinished runs look unfinished; returns its last step."""
  end = max(_last_step(x) for x in curves)
  axes.set_xlim(-0.02 * end, 1.03 * end)
  return end


def _last_step(curve: Curve) -> float:
  reached = [steps[-1] for steps, _ in curve.lines]
  return max([1, *reached, *(x.config.steps for x in curve.group.runs)])


@STYLED
def clock_figure(groups: list[Group], scores: dict[str, str]) -> Figure:
  """Score against minutes of wall-clock, every seed; `scores` by setting."""
  figure, panels = _panels(groups)
  style = method_style([x.method for x in groups])
  for group in groups:
    axes = panels[group.setting]
    for i, run in enumerate(group.runs):
      label = _label(group) if i == 0 else None
      axes.plot(*clock_line(run), lw=1.2, ms=3.5, alpha=0.8, **style[group.method], label=label)
    score_axis(axes, scores[group.setting])
    axes.set_xlabel('minutes, pretraining included')
  for axes in panels.values():  # last, because it ends the automatic scale
    axes.set_xlim(left=0)
  return legend_above(figure, panels.values())


@STYLED
def final_figure(rows: list[Row]) -> Figure:
  """Final scores: bars to the interquartile mean, dots are seeds."""
  rows = [x for x in rows if x.results]
  figure, panels = _panels([x.group for x in rows])
  style = method_style([x.group.method for x in rows])
  for setting, axes in panels.items():
    own = [x for x in rows if x.group.setting == setting]
    for place, row in enumerate(own):
      look = style[row.group.method]
      axes.barh(place, row.iqm, color=look['color'], alpha=0.45, height=0.65)
      values = [x.value for x in row.results]
      dots = {'color': look['color'], 'ms': 5, 'mec': 'white', 'clip_on': False, 'zorder': 3}
      axes.plot(values, np.full(len(values), place + 0.18), 'o', **dots)  # beside the interval
      if row.interval:
        axes.plot(row.interval, [place] * 2, color='black', lw=1.5)
    axes.set_yticks(range(len(own)), [x.group.method for x in own])
    axes.set_ylim(len(own) - 0.4, -0.6)
    axes.grid(axis='y', visible=False)
    axes.set_xlabel(score_name(own[0].score) if own else '')
    if own and own[0].score == 'success':
      axes.set_xlim(0, 103)
  return figure


@STYLED
def traces_figure(groups: list[Group]) -> Figure:
  """D, G, U and delta over a run, one panel each; bands span the seeds."""
  figure = Figure((11.5, 5), layout='constrained')
  panels = dict(zip(TRACES, figure.subplots(2, 4).flat, strict=True))
  style = method_style([x.method for x in groups])
  for key, axes in panels.items():
    axes.set_title(TRACES[key])
    for group in groups:
      _trace(axes, group, key, style[group.method]['color'])
    if not axes.lines:
      axes.text(0.5, 0.5, 'not logged', ha='center', transform=axes.transAxes, color='#777777')
    axes.ticklabel_format(axis='x', style='sci', scilimits=(-3, 4))
  return legend_above(figure, panels.values())


def _trace(axes: Axes, group: Group, key: str, color: str) -> None:
  lines = [x for x in (metric_line(run, key) for run in group.runs) if len(x[0])]
  if not lines:
    return
  start, end = max(x[0] for x, _ in lines), min(x[-1] for x, _ in lines)
  grid = np.linspace(start, end, 80) if end > start else np.array([end])
  values = np.array([np.interp(grid, *line) for line in lines])
  if len(lines) > 1:
    axes.fill_between(grid, values.min(0), values.max(0), color=color, alpha=0.15, lw=0)
  marker = 'o' if len(grid) == 1 else ''
  axes.plot(grid, values.mean(0), color=color, lw=1.4, marker=marker, label=group.method)


@STYLED
def regions_figure(shares: dict[str, dict[str, float]]) -> Figure:
  """Stacked bars of the steps' shares by region, one bar a label."""
  figure = Figure((7.5, 0.9 + 0.33 * len(shares)), layout='constrained')
  axes = figure.subplots()
  draw_shares(axes, shares)
  handles = [mpl.patches.Patch(color=REGION_COLORS[x], label=x) for x in REGIONS]
  figure.legend(handles=handles, loc='outside upper center', ncols=3)
  return figure


def draw_shares(axes: Axes, shares: dict[str, dict[str, float]]) -> None:
  """A stacked bar a label, with the numbers that have room."""
  for place, share in enumerate(shares.values()):
    left = 0.0
    for region in REGIONS:
      width = 100 * share[region]
      axes.barh(place, width, left=left, color=REGION_COLORS[region], height=0.7, lw=0)
      if width >= 8:
        axes.text(left + width / 2, place, f'{width:.0f}', ha='center', va='center')
      left += width
  axes.set_yticks(range(len(shares)), list(shares))
  axes.set(ylim=(len(shares) - 0.5, -0.5), xlim=(0, 100), xlabel='% of real steps')
  axes.grid(visible=False)


@STYLED
def visits_figure(visits: dict[str, Steps], clouds: dict[str, np.ndarray]) -> Figure:
  """Positions of real steps in the plane: grey main policy, orange explorer, black expert."""
  columns = min(4, len(visits))
  rows = -(-len(visits) // columns)
  figure = Figure((max(4.2, 2.9 * columns), 2.9 * rows + 0.3), layout='constrained')
  grid = figure.subplots(rows, columns, squeeze=False)
  for axes in grid.flat[len(visits) :]:
    axes.set_axis_off()
  dots = {'ls': '', 'marker': '.', 'mew': 0, 'rasterized': True}
  for axes, (label, steps) in zip(grid.flat, visits.items(), strict=False):
    main, explorer = steps.position[~steps.explorer], steps.position[steps.explorer]
    axes.plot(*main.T, ms=3, color='#999999', alpha=0.5, **dots)
    axes.plot(*explorer.T, ms=3, color=COLORS['recon'], alpha=0.6, **dots)
    axes.plot(*clouds[label].T, ms=2.5, color='black', **dots)
    axes.set_title(label, fontsize=8)
    axes.set_aspect('equal')
    axes.tick_params(labelsize=7)
  colors = {'main policy': '#999999', 'explorer': COLORS['recon'], 'expert': 'black'}
  handles = [mpl.patches.Patch(color=v, label=k) for k, v in colors.items()]
  figure.legend(handles=handles, loc='outside upper center', ncols=3)
  return figure


def _panels(groups: list[Group]) -> tuple[Figure, dict[str, Axes]]:
  """One panel for each variant and task."""
  settings = settings_of(groups)
  columns = min(3, len(settings))
  rows = -(-len(settings) // columns)
  width = 6.2 if columns == 1 else 3.9 * columns
  figure = Figure((width, 3.4 * rows), layout='constrained')
  grid = figure.subplots(rows, columns, squeeze=False)
  for axes in grid.flat[len(settings) :]:
    axes.set_axis_off()
  panels = dict(zip(settings, grid.flat, strict=False))
  for setting, axes in panels.items():
    axes.set_title(setting)
  return figure, panels


def score_axis(axes: Axes, score: str) -> None:
  axes.set_ylabel(score_name(score))
  if score == 'success':
    axes.set_ylim(-3, 103)


def score_name(score: str) -> str:
  return 'success (%)' if score == 'success' else 'return'


def _label(group: Group) -> str:
  amount = len(group.runs)
  return f'{group.method} ({amount} seed{"s" if amount > 1 else ""})'


def legend_above(
  figure: Figure, panels: Iterable[Axes], columns: int = 0, order: Sequence[str] = ()
) -> Figure:
  """One legend for all panels, above them, where it covers no line; `order` names come first."""
  found, panels = {}, list(panels)
  for axes in panels:
    handles, labels = axes.get_legend_handles_labels()
    found.update({k: v for v, k in zip(handles, labels, strict=True) if k not in found})
  found = {k: found[k] for k in dict.fromkeys([*(x for x in order if x in found), *found])}
  if found:
    columns = columns or min(len(found), 3 if len(panels) == 1 else 5)
    figure.legend(found.values(), found.keys(), loc='outside upper center', ncols=columns)
  return figure
