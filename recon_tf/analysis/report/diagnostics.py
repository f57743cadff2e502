"""Figures of what was measured: robustness, recovery, gaps, recoverability, acquisition, places.

Every figure takes groups, so that one run is drawn with the paper's function; panels take what the
groups measured. A panel without data names the command that makes them.
"""

from collections.abc import Callable, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import binomtest

from recon_tf.analysis.paper import COLUMNS, PAIR, paper_number
from recon_tf.analysis.regions import REGIONS, Steps, expert_cloud, real_steps
from recon_tf.analysis.report import style
from recon_tf.analysis.report.curves import common_grid
from recon_tf.analysis.report.measures import GAP_COLUMNS, collector_name, gap_value, recovery_at
from recon_tf.analysis.runs import (
  Group,
  anchors_differ,
  command_line,
  method_rank,
  settings_of,
  with_data,
)
from recon_tf.analysis.stats import mean_interval

COLLECTORS = ('cmil', 'vmail', 'no_recovery', 'recon')
ALLOCATED = ('cmil', 'no_recovery', 'recon')
POINTMAZE = ('maze_pointmaze',)
NO_POSITIONS = 'Needs collected episodes with positions, and the demonstrations.'
UNITS = {
  'distance': 'metres off the way', 'cells': 'cells off the way',
  'decisions': 'decisions with a random action',
}  # fmt: skip

Measured = list[tuple[Group, list[dict]]]


def _rows(
  groups: list[Group], methods: Sequence[str], parts: Sequence[tuple[str, str, Callable]]
) -> Figure:
  """A row for each task, a panel for each (title, measurement, function)."""
  own = [x for x in groups if x.method in methods] if methods else groups
  methods = methods or sorted({x.method for x in own}, key=method_rank)
  found = {part: with_data(own, part) for _, part, _ in parts}
  known = [group for results in found.values() for group, _ in results]
  tasks = style.tasks_with(known, methods, [x.task for x in own[:1]] or POINTMAZE)
  figure, grid = style.make_grid(len(tasks), len(parts), 3.6, 2.9)
  for task, row in zip(tasks, grid, strict=True):
    for axes, (title, part, draw) in zip(row, parts, strict=True):
      axes.set_title(f'{style.task_name(task)}: {title}')
      _panel(axes, [x for x in found[part] if x[0].task == task], part, draw, methods)
  order = [style.label(x) for x in methods]
  return style.legend_above(figure, grid.flat, 6, order)


def _panel(axes: Axes, found: Measured, part: str, draw: Callable, methods: Sequence[str]) -> None:
  if not found:
    style.say(axes, f'No data yet. Make them with\n{command_line(part)}')
  elif draw(axes, found) is False:
    style.say(axes, 'The runs have none of this: it needs positions in the plane (mazes).')
  else:
    known = {x.method for x, _ in found}
    style.name_missing(axes, [x for x in methods if x not in known], 'no data')


def _look(group: Group) -> dict:
  return style.method_style([group.method])[group.method]


def _bars_by_group(axes: Axes, found: Measured, ticks: Sequence[str], pick: Callable) -> None:
  """Bars side by side, one colour for each group; pick(results, tick) gives the seeds' values."""
  for place, (group, results) in enumerate(found):
    places, width = style.side_by_side(len(ticks), place, len(found))
    values = [pick(results, x) for x in ticks]
    style.bars(axes, places, values, width, _look(group)['color'], style.label(group.method))
  axes.set_xlim(-0.5, len(ticks) - 0.5)


# What each measurement of one run, or of a few, shows


@style.STYLED
def part_figure(groups: list[Group], part: str) -> Figure | None:
  """The panels that belong to one measurement, for whatever methods there are."""
  parts = {
    'gap': [('gap by region', 'gap', gap_by_region), *_DECILES],
    'recoverability': [('AUROC by horizon', 'recoverability', auroc_by_horizon), *_CALIBRATION],
    'acquisition': _ACQUISITION,
    'recovery': _RECOVERY,
  }
  return _rows(groups, (), parts[part]) if part in parts else None


@style.STYLED
def mechanism_figure(groups: list[Group]) -> Figure:
  """fig:recovery_mechanism: gap by region, predicted against real recovery at two horizons."""
  return _rows(groups, PAIR, [('gap by region', 'gap', gap_by_region), *_CALIBRATION])


@style.STYLED
def diagnostics_figure(groups: list[Group]) -> Figure:
  """fig:additional_diagnostics: AUROC with the oracle, fall of U, the methods that differ."""
  parts = [('AUROC by horizon', 'recoverability', auroc_by_horizon), *_ACQUISITION]
  return _rows(groups, COLLECTORS, parts)


@style.STYLED
def deciles_figure(groups: list[Group]) -> Figure:
  """fig:uncertainty_deciles: held-out error by decile of U, a panel for each region."""
  return _rows(groups, PAIR, _DECILES)


# Robustness and recovery


@style.STYLED
def robustness_figure(groups: list[Group]) -> Figure:
  """tab:robustness as bars: a panel for each task, four columns, triangles are the paper's."""
  found = with_data([x for x in groups if x.method in PAIR], 'robust')
  usual = [x.task for x in groups[:1]] or POINTMAZE
  tasks = style.tasks_with([x for x, _ in found], PAIR, usual)
  figure, panels = style.make_panels([style.task_name(x) for x in tasks])
  for task, axes in zip(tasks, panels.values(), strict=True):
    draw = lambda axes, own, task=task: robust_panel(axes, own, task)
    _panel(axes, [x for x in found if x[0].task == task], 'robust', draw, PAIR)
  order = [style.label(x) for x in PAIR]
  return style.legend_above(figure, panels.values(), 4, order)


def robust_panel(axes: Axes, found: Measured, task: str) -> None:
  measure = found[0][1][0]['measure']
  factor = 100 if measure == 'success' else 1
  pick = lambda results, c: [factor * x['columns'][c] for x in results if c in x['columns']]
  _bars_by_group(axes, found, COLUMNS, pick)
  for place, (group, _) in enumerate(found):
    places, _ = style.side_by_side(len(COLUMNS), place, len(found))
    paper = [paper_number('robustness', task, c, group.method) for c in COLUMNS]
    style.mark_paper(axes, places, paper, group.method)
  axes.set_xticks(range(4), ['clean', 'noise', 'delay', 'impulse/\nscale'])
  style.score_axis(axes, measure)


@style.STYLED
def recovery_figure(groups: list[Group]) -> Figure:
  """A row for each task: score by displacement with the expert, then in mazes the cells."""
  found = with_data(groups, 'recovery')
  if not found:
    return _rows(groups, (), _RECOVERY)
  names, parts = style.titles([x for x, _ in found]), []
  for setting in settings_of([x for x, _ in found]):
    own = [x for x in found if x[0].setting == setting]
    for kind in dict.fromkeys(x['kind'] for _, r in own for x in r[0]['by_difficulty']):
      line = lambda axes, own=own, kind=kind: recovery_by_difficulty(axes, own, kind)
      parts.append((f'{names[setting]}: {kind}', line))
    for group, results in [x for x in own if 'cells' in x[1][0]]:
      cells = lambda axes, results=results: cell_map(axes, results)
      parts.append((f'{names[setting]}: {style.label(group.method)}', cells))
  columns = min(4, len(parts))
  figure, grid = style.make_grid(-(-len(parts) // columns), columns, 3.3, 2.9)
  for axes, (title, draw) in zip(grid.flat, parts, strict=False):
    axes.set_title(title, fontsize=8.5)
    draw(axes)
  for axes in grid.flat[len(parts) :]:
    axes.set_axis_off()
  order = [style.label(x) for x in sorted({x.method for x, _ in found}, key=method_rank)]
  return style.legend_above(figure, grid.flat, 7, order)


def recovery_by_difficulty(axes: Axes, found: Measured, kind: str = '') -> None:
  """Mean over seeds with its interval; the expert from the same states is dashed."""
  kind = kind or found[0][1][0]['by_difficulty'][0]['kind']
  expert = {}
  for group, results in found:
    levels = sorted({
      x['difficulty'] for r in results for x in r['by_difficulty'] if x['kind'] == kind
    })  # fmt: skip
    if not levels:
      continue
    own = [recovery_at(results, kind, x) for x in levels]
    values = [[x['score'] for x in level if x['score'] is not None] for level in own]
    look = _look(group)
    name = style.label(group.method)
    axes.plot(levels, [np.mean(x) for x in values], lw=1.8, ms=4.5, **look, label=name)
    bounds = [mean_interval(x) or (np.mean(x), np.mean(x)) for x in values]
    axes.fill_between(levels, *zip(*bounds, strict=True), color=look['color'], alpha=0.12, lw=0)
    for level, entries in zip(levels, own, strict=True):
      expert.setdefault(level, []).extend(x['expert'] for x in entries if x['expert'] is not None)
  known = {k: np.mean(v) for k, v in sorted(expert.items()) if v}
  if known:
    line = {'color': '#333333', 'lw': 1, 'ls': (0, (4, 3))}
    axes.plot([*known], [*known.values()], **line, label='expert')
  axes.set(xlabel=UNITS.get(kind, kind), ylabel='recovered', ylim=(-0.03, 1.05))


def cell_map(axes: Axes, results: list[dict]) -> None:
  """The maze: colour is the share of arrivals from a cell, the number its steps in training."""
  maze = results[0]['maze']
  free = np.array(maze['free'], bool)
  shares, steps = np.full(free.shape, np.nan), np.zeros(free.shape)
  for x in (x for result in results for x in result['cells']):
    place = tuple(x['cell'])
    own = [y for r in results for y in r['cells'] if tuple(y['cell']) == place]
    shares[place] = np.mean([y['score'] for y in own])
    steps[place] = np.mean([y['steps'] for y in own])
  axes.imshow(np.where(free, 1.0, 0.0), cmap='gray', vmin=-1.5, vmax=1, aspect='equal')
  axes.imshow(shares, cmap='RdYlGn', vmin=0, vmax=1, alpha=0.6, aspect='equal')
  for (row, column), share in np.ndenumerate(shares):
    if np.isfinite(share):
      text = f'{share:.2f}\n{steps[row, column]:.0f}'
      axes.text(column, row, text, ha='center', va='center', fontsize=6.5)
  axes.text(*reversed(maze['goal']), 'goal', ha='center', va='center', fontsize=6.5)
  axes.grid(visible=False)
  axes.set(xticks=[], yticks=[], xlabel='arrivals; steps in training')


# Prediction gap


@style.STYLED
def gap_figure(groups: list[Group]) -> Figure:
  """tab:wm_diagnostics: gap on expert episodes, on the replay, and U; tasks side by side."""
  found = with_data([x for x in groups if x.method in PAIR], 'gap')
  tasks = style.tasks_with([x for x, _ in found], PAIR, ())
  figure, (panels,) = style.make_grid(1, 3, max(3.4, 0.8 * len(tasks)))
  for axes, (column, (title, _)) in zip(panels, GAP_COLUMNS.items(), strict=True):
    axes.set_title(title)
    if not found:
      style.say(axes, f'No data yet. Make them with\n{command_line("gap")}')
      continue
    for group, results in found:
      places, _ = style.side_by_side(len(tasks), PAIR.index(group.method), len(PAIR))
      place = places[tasks.index(group.task)]
      values = [v for v in (gap_value(x, column) for x in results) if v is not None]
      look = _look(group)
      if values:
        name = style.label(group.method)
        axes.plot([place], [np.mean(values)], **look, ms=8, ls='', label=name)
      style.seed_dots(axes, place + 0.12, values, look['color'])
      paper = [paper_number('gap', group.task, column, group.method)]
      style.mark_paper(axes, [place], paper, group.method)
    tilt = {'rotation': 25, 'ha': 'right'} if len(tasks) > 2 else {}
    axes.set_xticks(range(len(tasks)), [style.task_name(x) for x in tasks], **tilt)
    axes.set_xlim(-0.6, len(tasks) - 0.4)
    axes.set_yscale('log')  # tasks lie apart by factors of a hundred
    axes.yaxis.set_major_formatter('{x:g}')
    axes.yaxis.set_minor_locator(mpl.ticker.LogLocator(subs=(2, 5)))
    axes.yaxis.set_minor_formatter('{x:g}')
  return style.legend_above(figure, panels, 4)


def gap_by_region(axes: Axes, found: Measured) -> bool | None:
  """Bars of the mean over seeds, dots are seeds."""
  found = [(g, [x['regions'] for x in r if 'regions' in x]) for g, r in found]
  found = [(g, r) for g, r in found if r]
  if not found:
    return False
  _bars_by_group(axes, found, REGIONS, lambda r, name: [x[name]['gap'] for x in r if name in x])
  axes.set_xticks(range(len(REGIONS)), REGIONS)
  axes.set_ylabel('open-loop gap, H = 15')
  return None


def deciles(axes: Axes, found: Measured, region: str) -> bool | None:
  """Mean over seeds of the gap by decile of U, thin lines are seeds."""
  drawn = False
  for group, results in found:
    lines = [x['deciles'][region]['gap'] for x in results if region in x.get('deciles', {})]
    if not lines:
      continue
    look = _look(group)
    for line in lines if len(lines) > 1 else ():
      axes.plot(range(1, len(line) + 1), line, color=look['color'], lw=0.8, alpha=0.4)
    full = [x for x in lines if len(x) == max(map(len, lines))]
    mean = np.mean(full, 0)
    name = style.label(group.method)
    axes.plot(range(1, len(mean) + 1), mean, lw=2, ms=4, **look, label=name)
    drawn = True
  axes.set(xlabel='decile of U, low to high', ylabel='open-loop gap, H = 15')
  axes.set_xticks([1, 4, 7, 10])
  return None if drawn else False


# Recoverability


def calibration(axes: Axes, found: Measured, horizon: str) -> None:
  """Predicted G against the frequency of real recovery, seeds pooled, with binomial intervals."""
  axes.plot([0, 1], [0, 1], color='#999999', lw=1, ls='--')
  for number, (group, results) in enumerate(found):
    bins = pooled([x['calibration'][horizon] for x in results if horizon in x['calibration']])
    if not len(bins):
      continue
    predicted, frequency, low, high, count = bins.T
    look, shift = _look(group), 0.012 * (number - (len(found) - 1) / 2)
    errors = np.maximum([frequency - low, high - frequency], 0)
    bars = {'fmt': 'none', 'ecolor': look['color'], 'elinewidth': 1, 'alpha': 0.6}
    axes.errorbar(predicted + shift, frequency, errors, **bars)
    axes.plot(predicted + shift, frequency, lw=1.3, ms=0, **look)
    area = 12 + 110 * count / count.sum()
    axes.scatter(predicted + shift, frequency, area, **look, label=style.label(group.method))
  axes.set(xlabel=f'predicted G, H = {horizon}', ylabel='share that recovered')
  axes.set(xlim=(-0.04, 1.04), ylim=(-0.05, 1.05))


def pooled(parts: list[dict], least: int = 5, number: int = 5) -> np.ndarray:
  """[bins, 5] of prediction, frequency, its 95 % interval and count; few states are left out."""
  bins = {}
  for x in parts:
    for predicted, frequency, count in zip(x['predicted'], x['frequency'], x['count'], strict=True):
      place = min(int(number * predicted), number - 1)
      bins.setdefault(place, []).append((predicted, frequency, count))
  rows = []
  for _, members in sorted(bins.items()):
    predicted, frequency, count = np.array(members).T
    whole = int(count.sum())
    if whole >= least:
      mean = lambda x, count=count: float(np.average(x, weights=count))
      hits = round(mean(frequency) * whole)
      bounds = binomtest(hits, whole).proportion_ci(method='wilson')
      rows.append((mean(predicted), mean(frequency), bounds.low, bounds.high, whole))
  return np.array(rows)


def auroc_by_horizon(axes: Axes, found: Measured) -> None:
  """Mean over seeds; the oracle of each method is dashed, in its colour."""
  for group, results in found:
    look = _look(group)
    for key, form in (('auroc', {'ls': '-', 'lw': 2, 'label': style.label(group.method)}),
                      ('oracle', {'ls': '--', 'lw': 1, 'mfc': 'none'})):  # fmt: skip
      values = np.array([[np.nan if v is None else v for v in x[key]] for x in results])
      known = ~np.isnan(values)
      mean = np.where(known, values, 0).sum(0) / np.where(known.any(0), known.sum(0), np.nan)
      axes.plot(results[0]['horizons'], mean, ms=3.5, **look, **form)
  axes.axhline(0.5, color='#999999', lw=1)
  axes.plot([], [], color='#444444', ls='--', lw=1, label='oracle: true distance')
  axes.set(xlabel='imagination horizon H', ylabel='AUROC', ylim=(0, 1.03), xticks=[1, 5, 10, 15])


# Acquisition


def fall_of_uncertainty(axes: Axes, found: Measured) -> None:
  """U of the first checkpoint minus U of each later one: the mean, thin lines are seeds."""
  for group, results in found:
    look = _look(group)
    falls = [1000 * (x['uncertainty'][0] - np.array(x['uncertainty'])) for x in results]
    lines = [(np.array(x['steps'], float), y) for x, y in zip(results, falls, strict=True)]
    for line in lines if len(lines) > 1 else ():
      axes.plot(*line, lw=0.8, alpha=0.4, color=look['color'])
    steps, values = common_grid(lines)
    axes.plot(steps, values.mean(0), lw=2, ms=4, **look, label=style.label(group.method))
  axes.axhline(0, color='#999999', lw=1)
  mixed = '\nnot the same anchors: do not compare' if anchors_differ(found) else ''
  axes.set(xlabel=f'online steps{mixed}', ylabel='ΔU × 1000')


def gain_by_step(axes: Axes, found: Measured) -> None:
  """Bars of the mean over seeds, dots are seeds."""
  for place, (group, results) in enumerate(found):
    values = [1e6 * x['gain_per_step'] for x in results]
    style.bars(axes, [place], [values], 0.8, _look(group)['color'], style.label(group.method))
  axes.set_xticks(range(len(found)), [style.label(x.method) for x, _ in found], fontsize=8)
  axes.set_xlim(-0.6, len(found) - 0.4)
  axes.axhline(0, color='#999999', lw=1)
  axes.set_ylabel('ΔU per step × 10⁶')


# Places


@style.STYLED
def allocation_figure(groups: list[Group]) -> Figure:
  """fig:pointmaze_model: where each method's real steps went in the plane, and by region."""
  found = {}
  for group in groups:
    steps = [x for x in map(real_steps, group.runs) if x and x.position is not None]
    if steps:
      found.setdefault(group.setting, []).append((group, joined(steps)))
  names = style.titles(groups)
  if not found:
    figure, grid = style.make_grid(1, len(ALLOCATED) + 1)
    task = groups[0].task if groups else POINTMAZE[0]
    for axes, method in zip(grid.flat, ALLOCATED, strict=False):
      axes.set_title(f'{style.task_name(task)}: {style.label(method)}', fontsize=8.5)
      has = any(x.method == method for x in groups)
      style.say(axes, NO_POSITIONS) if has else style.empty(axes, task, [method])
    style.say(grid.flat[-1], NO_POSITIONS)
    return figure
  columns = min(4, max(len(x) for x in found.values()) + 1)
  lines = [-(-(len(x) + 1) // columns) for x in found.values()]
  figure, grid = style.make_grid(sum(lines), columns, 3.1, 2.7)
  for number, (setting, own) in enumerate(found.items()):
    place = f'{names[setting]}: ' if len(found) > 1 else ''
    panels = grid[sum(lines[:number]) : sum(lines[: number + 1])].reshape(-1)
    for axes, (group, steps) in zip(panels, own, strict=False):
      axes.set_title(f'{place}{style.label(group.method)}', fontsize=8.5)
      visits_panel(axes, group, steps)
    panels[len(own)].set_title(f'{place}real steps by region', fontsize=8.5)
    shares_panel(panels[len(own)], own)
    for axes in panels[len(own) + 1 :]:
      axes.set_axis_off()
  handles = [mpl.patches.Patch(color=style.REGION_COLORS[x], label=x) for x in REGIONS]
  handles += [mpl.lines.Line2D([], [], color='#D55E00', ls='', marker='.', label='expert')]
  figure.legend(handles=handles, loc='outside upper center', ncols=4)
  return figure


def joined(parts: list[Steps]) -> Steps:
  """The steps of several seeds."""
  pick = lambda name: np.concatenate([getattr(x, name) for x in parts])
  return Steps(pick('explorer'), pick('distance'), pick('position'))


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
      shares[f'{style.label(group.method)}, {who}'] = steps.shares(explorer)
  shares = {k: v for k, v in shares.items() if v}
  for place, share in enumerate(shares.values()):
    left = 0.0
    for region in REGIONS:
      width = 100 * share[region]
      axes.barh(place, width, left=left, color=style.REGION_COLORS[region], height=0.7, lw=0)
      if width >= 10:
        axes.text(left + width / 2, place, f'{width:.0f}', ha='center', va='center', fontsize=7)
      left += width
  axes.set_yticks(range(len(shares)), list(shares), fontsize=7)
  axes.set(ylim=(len(shares) - 0.5, -0.5), xlim=(0, 100), xlabel='% of real steps')
  axes.grid(visible=False)


_DECILES = [
  (f'{name} states', 'gap', lambda axes, x, name=name: deciles(axes, x, name)) for name in REGIONS
]
_CALIBRATION = [
  (f'{sign} and recovery', 'recoverability', lambda axes, x, h=h: calibration(axes, x, h))
  for h, sign in (('5', 'G₅'), ('15', 'G₁₅'))
]
_ACQUISITION = [
  ('fall of U on anchors', 'acquisition', fall_of_uncertainty),
  ('fall of U per step', 'acquisition', gain_by_step),
]
_RECOVERY = [('recovery', 'recovery', recovery_by_difficulty)]
