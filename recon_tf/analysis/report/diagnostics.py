"""Figures of what was measured: robustness, recovery, imagination, gaps, gate, U and windows.

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
from recon_tf.analysis.regions import CELL, REGIONS, allocation
from recon_tf.analysis.report import style
from recon_tf.analysis.report.curves import common_grid
from recon_tf.analysis.report.measures import (
  GAP_COLUMNS,
  OUTCOMES,
  PLACES,
  collector_name,
  gap_value,
)
from recon_tf.analysis.runs import (
  Group,
  anchors_differ,
  command_line,
  grouped,
  method_rank,
  settings_of,
  with_data,
)
from recon_tf.analysis.stats import mean_interval, mean_of

COLLECTORS = ('cmil', 'vmail', 'no_recovery', 'recon')
ALLOCATED = ('cmil', 'no_recovery', 'recon')
POINTMAZE = ('maze_pointmaze',)
NO_PLANE = 'The runs have none of this: it needs positions in the plane (mazes).'
NO_WINDOWS = 'The runs have no windows, or no model to judge them.'
NO_POSITIONS = 'Needs collected episodes with positions, and the demonstrations.'
UNITS = {
  'distance': 'metres off the way', 'cells': 'cells off the way',
  'decisions': 'decisions with a random action',
}  # fmt: skip
BINS, LEAST = 5, 5  # of a calibration, and the states that one needs

Measured = list[tuple[Group, list[dict]]]
# Title, measurement, and a function of axes and what was measured that says why it drew nothing.
Panel = tuple[str, str, Callable[[Axes, Measured], str | None]]


@style.STYLED
def rows_figure(groups: list[Group], parts: Sequence[Panel], methods: Sequence[str] = ()) -> Figure:
  """A row for each task, a panel for each part; single panels stand side by side."""
  own = [x for x in groups if x.method in methods] if methods else groups
  found = {part: with_data(own, part) for _, part, _ in parts}
  known = [group for results in found.values() for group, _ in results]
  methods = methods or sorted({x.method for x in known}, key=method_rank)
  tasks = style.tasks_with(known, methods, [x.task for x in own[:1]] or POINTMAZE)
  panels = [(task, *part) for task in tasks for part in parts]
  titles = [f'{style.task_name(x)}: {title}' if title else style.task_name(x)
            for x, title, _, _ in panels]  # fmt: skip
  figure, made = style.make_panels(titles, len(parts) if len(parts) > 1 else 4, width=3.6)
  for axes, (task, _, part, draw) in zip(made.values(), panels, strict=True):
    _panel(axes, [x for x in found[part] if x[0].task == task], part, draw, methods)
  return style.legend_above(figure, made.values(), [style.label(x) for x in methods])


def _panel(axes: Axes, found: Measured, part: str, draw: Callable, methods: Sequence[str]) -> None:
  if not found:
    style.say(axes, f'No data yet. Make them with\n{command_line(part)}')
  elif reason := draw(axes, found):
    style.say(axes, reason)
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
  axes.set_xticks(range(len(ticks)), ticks)
  axes.set_xlim(-0.5, len(ticks) - 0.5)


def _lines(axes: Axes, group: Group, lines: list[tuple], **more) -> None:
  """The mean of (x, y) over seeds on what all of them span; thin lines are seeds."""
  look, name = _look(group), style.label(group.method)
  for line in lines if len(lines) > 1 else ():
    axes.plot(*line, lw=0.8, alpha=0.4, color=look['color'])
  places, values = common_grid([(np.asarray(x, float), np.asarray(y, float)) for x, y in lines])
  axes.plot(places, values.mean(0), lw=2, ms=4, **look, **more, label=name)


# Robustness and recovery


def robust_panel(axes: Axes, found: Measured) -> None:
  """Bars with the paper's numbers as triangles."""
  measure = found[0][1][0]['measure']
  factor = 100 if measure == 'success' else 1
  pick = lambda results, c: [factor * x['columns'][c] for x in results if c in x['columns']]
  _bars_by_group(axes, found, COLUMNS, pick)
  for place, (group, _) in enumerate(found):
    places, _ = style.side_by_side(len(COLUMNS), place, len(found))
    paper = [paper_number('robustness', group.task, c, group.method) for c in COLUMNS]
    style.mark_paper(axes, places, paper, group.method)
  axes.set_xticks(range(4), ['clean', 'noise', 'delay', 'impulse/\nscale'])
  style.score_axis(axes, measure)


@style.STYLED
def recovery_figure(groups: list[Group]) -> Figure:
  """Score by displacement with the expert, a panel for each setting and kind; mazes' cells."""
  found = with_data(groups, 'recovery')
  if not found:
    return rows_figure(groups, [('recovery', 'recovery', recovery_by_difficulty)])
  names, parts = style.titles([x for x, _ in found]), {}
  for setting in settings_of([x for x, _ in found]):
    own = [x for x in found if x[0].setting == setting]
    for kind in displaced_kinds(own):
      parts[f'{names[setting]}: {kind}'] = recovery_by_difficulty, own, kind
    for group, results in [x for x in own if 'cells' in x[1][0]]:
      parts[f'{names[setting]}: {style.label(group.method)}'] = cell_map, results
  figure, panels = style.make_panels([*parts])
  for axes, (draw, *args) in zip(panels.values(), parts.values(), strict=True):
    draw(axes, *args)
  order = [style.label(x) for x in sorted({x.method for x, _ in found}, key=method_rank)]
  return style.legend_above(figure, panels.values(), order)


def displaced_kinds(found: Measured) -> list[str]:
  """Those with a displacement: demonstrations may cross every cell of a maze."""
  entries = [x for _, results in found for x in results[0]['by_difficulty']]
  return list(dict.fromkeys(x['kind'] for x in entries if x['difficulty'] > 0))


def recovery_by_difficulty(axes: Axes, found: Measured, kind: str = '') -> None:
  """Mean over seeds with its interval; the expert from the same states is dashed."""
  kind, expert = kind or displaced_kinds(found)[0], {}
  for group, results in found:
    entries = [x for r in results for x in r['by_difficulty'] if x['kind'] == kind]
    levels = grouped(sorted(entries, key=lambda x: x['difficulty']), lambda x: x['difficulty'])
    for level, own in levels.items():
      expert.setdefault(level, []).extend(x['expert'] for x in own)
    values = [[x['score'] for x in own if x['score'] is not None] for own in levels.values()]
    look, name = _look(group), style.label(group.method)
    axes.plot([*levels], [np.mean(x) for x in values], lw=1.8, ms=4.5, **look, label=name)
    bounds = [mean_interval(x) or (np.mean(x), np.mean(x)) for x in values]
    if levels:
      low, high = zip(*bounds, strict=True)
      axes.fill_between([*levels], low, high, color=look['color'], alpha=0.12, lw=0)
  known = {k: mean_of(v) for k, v in sorted(expert.items())}
  known = {k: v for k, v in known.items() if v is not None}
  if known:
    axes.plot([*known], [*known.values()], **style.EXPERT)
  axes.set(xlabel=UNITS.get(kind, kind), ylabel='share recovered', ylim=(-0.03, 1.05))
  axes.set_xticks(sorted(expert))


def cell_map(axes: Axes, results: list[dict]) -> None:
  """The maze: colour is the share of arrivals from a cell, the number its steps in training."""
  maze = results[0]['maze']
  free = np.array(maze['free'], bool)
  shares = np.full(free.shape, np.nan)
  cells = grouped((x for result in results for x in result['cells']), lambda x: tuple(x['cell']))
  _draw_maze(axes, free, maze['goal'])
  for place, own in cells.items():
    shares[place] = np.mean([x['score'] for x in own])
    text = f'{shares[place]:.2f}\n{np.mean([x["steps"] for x in own]):.0f}'
    axes.text(*reversed(place), text, ha='center', va='center', fontsize=6.5)
  view = axes.axis()
  axes.imshow(shares, cmap='RdYlGn', vmin=0, vmax=1, alpha=0.6, aspect='equal')
  axes.axis(view)
  axes.set(xlabel='share recovered, steps in training')


# Imagination after a displacement


@style.STYLED
def imagination_figure(groups: list[Group]) -> Figure:
  """D at the end, really and imagined; in mazes the ways that are lost, a map for each method."""
  found = with_data(groups, 'imagination')
  if not found:
    return rows_figure(groups, [('', 'imagination', imagined_end)])
  names, parts = style.titles([x for x, _ in found]), {}
  for setting in settings_of([x for x, _ in found]):
    own = [x for x in found if x[0].setting == setting]
    parts[f'{names[setting]}: D at the end'] = imagined_end, own
    for group, results in [x for x in own if x[1][0].get('paths')]:
      parts[f'{names[setting]}: {style.label(group.method)}'] = lost_ways, group, results
  figure, panels = style.make_panels([*parts])
  for axes, (draw, *args) in zip(panels.values(), parts.values(), strict=True):
    draw(axes, *args)
  order = [style.label(x) for x in sorted({x.method for x, _ in found}, key=method_rank)]
  return style.legend_above(figure, panels.values(), order)


def imagined_end(axes: Axes, found: Measured) -> None:
  """Bars are real, black edges imagined; dots are seeds."""
  values = lambda results, name, key: [
    x['outcomes'][name][key] for x in results if x['outcomes'][name]['episodes']
  ]
  _bars_by_group(axes, found, [*OUTCOMES], lambda r, name: values(r, name, 'real_disc'))
  for number, (_, results) in enumerate(found):
    spots, width = style.side_by_side(len(OUTCOMES), number, len(found))
    imagined = [mean_of(values(results, x, 'imagined_disc')) for x in OUTCOMES]
    axes.bar(spots, np.array(imagined, float), 0.92 * width, fill=False, ec='black', lw=0.9)
  axes.set_xticks(range(len(OUTCOMES)), [*OUTCOMES.values()])
  axes.set_ylabel('D; black edges: imagined')


def lost_ways(axes: Axes, group: Group, results: list[dict]) -> None:
  """From the cells that the policy of the first seed does not come back from: dashed imagined."""
  free, color = np.array(results[0]['maze']['free'], bool), _look(group)['color']
  _draw_maze(axes, free, results[0]['maze']['goal'])
  # Metres around the middle to cells, which are one metre wide; rows count downwards.
  middle = (np.array(free.shape[::-1]) - 1) / 2
  for path in (x for x in results[0]['paths'] if not x['back']):
    for key, form in (('real', {'lw': 1.6}), ('imagined', {'lw': 1, 'ls': '--'})):
      if path[key] is not None:
        places = middle + np.array(path[key]) * [1, -1]
        axes.plot(*places.T, color=color if key == 'real' else 'black', **form)
        axes.plot(*places[-1], marker='o', ms=3, color=color if key == 'real' else 'black')
  axes.set(xlabel='lost: colour real, dashed imagined')


def _draw_maze(axes: Axes, free: np.ndarray, goal: Sequence[int]) -> None:
  axes.imshow(np.where(free, 1.0, 0.0), cmap='gray', vmin=-1.5, vmax=1, aspect='equal')
  axes.text(*reversed(goal), 'goal', ha='center', va='center', fontsize=6.5)
  rows, columns = np.nonzero(free)  # half of the outer wall is enough
  axes.set(xlim=(columns.min() - 1, columns.max() + 1), ylim=(rows.max() + 1, rows.min() - 1))
  axes.grid(visible=False)
  axes.set(xticks=[], yticks=[])


# Prediction gap


@style.STYLED
def gap_figure(groups: list[Group]) -> Figure:
  """tab:wm_diagnostics: gap on expert episodes, on the replay, and U; tasks side by side."""
  found = with_data([x for x in groups if x.method in PAIR], 'gap')
  tasks = style.tasks_with([x for x, _ in found], PAIR, ())
  names = [x for x, _ in GAP_COLUMNS.values()]
  figure, panels = style.make_panels(names, 3, width=max(3.4, 0.8 * len(tasks)))
  for axes, column in zip(panels.values(), GAP_COLUMNS, strict=True):
    if not found:
      style.say(axes, f'No data yet. Make them with\n{command_line("gap")}')
      continue
    for group, results in found:
      places, _ = style.side_by_side(len(tasks), PAIR.index(group.method), len(PAIR))
      place, look = places[tasks.index(group.task)], _look(group)
      values = [v for v in (gap_value(x, column) for x in results) if v is not None]
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
  return style.legend_above(figure, panels.values())


def gap_by_region(axes: Axes, found: Measured) -> str:
  """Bars of the mean over seeds, dots are seeds."""
  found = [(g, [x['regions'] for x in r if 'regions' in x]) for g, r in found]
  found = [(g, r) for g, r in found if r]
  if not found:
    return NO_PLANE
  _bars_by_group(axes, found, REGIONS, lambda r, name: [x[name]['gap'] for x in r if name in x])
  axes.set_ylabel('open-loop gap, H = 15')
  return ''


def deciles(axes: Axes, found: Measured, region: str) -> str:
  """Mean over seeds of the gap by decile of U, thin lines are seeds."""
  for group, results in found:
    lines = [x['deciles'][region]['gap'] for x in results if region in x.get('deciles', {})]
    if lines:
      _lines(axes, group, [(range(1, len(x) + 1), x) for x in lines])
  axes.set(xlabel='decile of U, low to high', ylabel='open-loop gap, H = 15', xticks=[1, 4, 7, 10])
  return '' if axes.lines else NO_PLANE


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


def pooled(parts: list[dict]) -> np.ndarray:
  """[bins, 5] of prediction, frequency, its 95 % interval and count; few states are left out."""
  keys, rows = ('predicted', 'frequency', 'count'), []
  entries = [x for part in parts for x in zip(*(part[k] for k in keys), strict=True)]
  for _, members in sorted(grouped(entries, lambda x: min(int(BINS * x[0]), BINS - 1)).items()):
    predicted, frequency, count = np.array(members).T
    whole = int(count.sum())
    if whole >= LEAST:
      means = [float(np.average(x, weights=count)) for x in (predicted, frequency)]
      bounds = binomtest(round(means[1] * whole), whole).proportion_ci(method='wilson')
      rows.append((*means, bounds.low, bounds.high, whole))
  return np.array(rows)


def auroc_by_horizon(axes: Axes, found: Measured) -> None:
  """Mean over seeds; the oracle of each method is dashed, in its colour."""
  for group, results in found:
    look = _look(group)
    for key, form in (('auroc', {'ls': '-', 'lw': 2, 'label': style.label(group.method)}),
                      ('oracle', {'ls': '--', 'lw': 1, 'mfc': 'none'})):  # fmt: skip
      values = np.ma.masked_invalid(np.array([x[key] for x in results], float))
      mean = values.mean(0).filled(np.nan)
      axes.plot(results[0]['horizons'], mean, ms=3.5, **look, **form)
  axes.axhline(0.5, color='#999999', lw=1)
  axes.plot([], [], color='#444444', ls='--', lw=1, label='oracle: true distance')
  axes.set(xlabel='imagination horizon H', ylabel='AUROC', ylim=(0, 1.03), xticks=[1, 5, 10, 15])


# Acquisition and windows


def fall_of_uncertainty(axes: Axes, found: Measured) -> None:
  """U of the first checkpoint minus U of each later one: the mean, thin lines are seeds."""
  for group, results in found:
    fall = lambda x: 1000 * (x['uncertainty'][0] - np.array(x['uncertainty']))
    _lines(axes, group, [(x['steps'], fall(x)) for x in results])
  axes.axhline(0, color='#999999', lw=1)
  style.step_axis(axes)
  mixed = '\nnot the same anchors: do not compare' if anchors_differ(found) else ''
  axes.set(xlabel=f'environment steps{mixed}', ylabel='ΔU × 1000')


def gain_by_step(axes: Axes, found: Measured) -> None:
  """Bars of the mean over seeds, dots are seeds."""
  for place, (group, results) in enumerate(found):
    values = [1e6 * x['gain_per_step'] for x in results]
    style.bars(axes, [place], [values], 0.8, _look(group)['color'], style.label(group.method))
  axes.set_xticks(range(len(found)), [style.label(x.method) for x, _ in found], fontsize=8)
  axes.set_xlim(-0.6, len(found) - 0.4)
  axes.axhline(0, color='#999999', lw=1)
  axes.set_ylabel('ΔU per step × 10⁶')


def window_uncertainty(axes: Axes, found: Measured) -> str:
  """Bars are U under the newest weights, black edges U before; dots are seeds."""
  found = [(g, [x['who']['windows'] for x in r if 'windows' in x['who']]) for g, r in found]
  part = lambda x, place: x if place == 'all' else x.get(place, {})
  values = lambda results, place, key: [
    1000 * v for v in (part(x, place).get(key) for x in results) if v is not None
  ]
  places = [x for x in ('all', *PLACES) if any(values(r, x, 'after') for _, r in found)]
  _bars_by_group(axes, found, places, lambda r, place: values(r, place, 'after'))
  for number, (_, results) in enumerate(found):
    spots, width = style.side_by_side(len(places), number, len(found))
    before = [mean_of(values(results, x, 'before')) for x in places]
    axes.bar(spots, np.array(before, float), 0.92 * width, fill=False, ec='black', lw=0.9)
  axes.set_xticks(range(len(places)), [PLACES.get(x, x) for x in places])
  axes.set_ylabel('U × 1000; black edges: before')
  return '' if places else NO_WINDOWS


def window_returns(axes: Axes, found: Measured) -> str:
  """Share of the windows that ended outside of the tube after which the main policy is back."""
  for group, results in found:
    lines = [x['returns']['curve'] for x in results if 'curve' in x.get('returns', {})]
    if lines:
      line = 100 * np.mean(lines, 0)
      look = {**_look(group), 'markevery': 5, 'lw': 1.8, 'ms': 4}
      axes.plot(range(len(line)), line, **look, label=style.label(group.method))
  axes.set(xlabel='decisions after the window', ylabel='back in the tube (%)', ylim=(-3, 103))
  return '' if axes.lines else NO_WINDOWS


# Places


@style.STYLED
def allocation_figure(groups: list[Group]) -> Figure:
  """fig:pointmaze_model: where each method's real steps went in the plane, and by region."""
  names, panels = style.titles(groups), {}
  found = [(x, [y for y in map(allocation, x.runs) if y and 'map' in y]) for x in groups]
  settings = grouped([x for x in found if x[1]], lambda x: x[0].setting)
  for setting, own in settings.items():
    place = f'{names[setting]}: ' if len(settings) > 1 else ''
    panels |= {f'{place}{style.label(g.method)}': (visits_panel, r) for g, r in own}
    panels[f'{place}real steps by region'] = shares_panel, own
  if not panels:
    methods = [x for x in ALLOCATED if x not in {g.method for g in groups}]
    task = groups[0].task if groups else POINTMAZE[0]
    panels = {style.label(x): (style.empty, task, [x]) for x in methods}
    panels['real steps by region'] = style.say, NO_POSITIONS
  figure, axes = style.make_panels([*panels])
  for own, (draw, *args) in zip(axes.values(), panels.values(), strict=True):
    draw(own, *args)
  handles = [mpl.patches.Patch(color=style.REGION_COLORS[x], label=x) for x in REGIONS]
  handles += [mpl.lines.Line2D([], [], color='#D55E00', ls='', marker='.', label='expert')]
  figure.legend(handles=handles, loc='outside upper center', ncols=4)
  return figure


def visits_panel(axes: Axes, results: list[dict]) -> None:
  """How often the plane was visited, darker is more often, on a logarithmic scale."""
  maps = [x['map'] for x in results]
  ends = [np.add(x['low'], np.shape(x['counts'])) for x in maps]
  low, high = np.min([x['low'] for x in maps], 0), np.max(ends, 0)
  counts = np.zeros(high - low)
  for x, end in zip(maps, ends, strict=True):
    (left, bottom), (right, top) = x['low'] - low, end - low
    counts[left:right, bottom:top] += x['counts']
  seen = np.ma.masked_equal(counts.T, 0)
  extent = CELL * np.array([low[0], high[0], low[1], high[1]])
  axes.imshow(seen, origin='lower', extent=extent, cmap='Greys', interpolation='nearest',
              norm=mpl.colors.LogNorm(0.5, max(2, seen.max())))  # fmt: skip
  axes.plot(*np.transpose(maps[0]['expert']), ls='', marker='.', ms=2, color='#D55E00')
  axes.set(xlabel='x (m)', ylabel='y (m)')
  axes.grid(visible=False)


def shares_panel(axes: Axes, found: Measured) -> None:
  """Stacked bars: the windows of each method, and its main policy."""
  names = []
  for group, results in found:
    for who, name in (('explorer', collector_name(group)), ('main', 'main')):
      own = [x[who] for x in results if who in x]
      left, steps = 0.0, [x['steps'] for x in own]
      for region in REGIONS if own else ():
        width = 100 * np.average([x[region] for x in own], weights=steps)
        color = style.REGION_COLORS[region]
        axes.barh(len(names), width, left=left, color=color, height=0.7, lw=0)
        if width >= 10:
          text = {'ha': 'center', 'va': 'center', 'fontsize': 7}
          axes.text(left + width / 2, len(names), f'{width:.0f}', **text)
        left += width
      names += [f'{style.label(group.method)}, {name}'] if own else []
  axes.set_yticks(range(len(names)), names, fontsize=7)
  axes.set(ylim=(len(names) - 0.5, -0.5), xlim=(0, 100), xlabel='% of real steps')
  axes.grid(visible=False)


# What one measurement shows, and what the paper's figures put together

DECILES = [
  (f'{name} states', 'gap', lambda axes, x, name=name: deciles(axes, x, name)) for name in REGIONS
]
CALIBRATION = [
  (f'{sign} and recovery', 'recoverability', lambda axes, x, h=h: calibration(axes, x, h))
  for h, sign in (('5', 'G₅'), ('15', 'G₁₅'))
]
REGION_GAPS = ('gap by region', 'gap', gap_by_region)
AUROC = ('AUROC by horizon', 'recoverability', auroc_by_horizon)
ACQUISITION = [
  ('fall of U on anchors', 'acquisition', fall_of_uncertainty),
  ('fall of U per step', 'acquisition', gain_by_step),
]
PARTS: dict[str, list[Panel]] = {
  'gap': [REGION_GAPS, *DECILES],
  'recoverability': [AUROC, *CALIBRATION],
  'acquisition': ACQUISITION,
  'windows': [
    ('U of window steps', 'windows', window_uncertainty),
    ('back after a window', 'windows', window_returns),
  ],
}
