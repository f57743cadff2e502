"""The paper's diagnostic figures, from what evaluate.py and diagnose.py left in run folders."""

import pathlib
from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recon_tf.analysis import plots
from recon_tf.analysis.groups import Group
from recon_tf.analysis.measured import anchors_differ, command_line, with_data
from recon_tf.analysis.panels import (
  LABELS,
  SHORT,
  by_task,
  in_grid,
  name_missing,
  save_variants,
  say,
  tasks_with,
)
from recon_tf.analysis.paper import PAIR
from recon_tf.analysis.regions import REGIONS
from recon_tf.analysis.runs import RunFolder

COLLECTORS = ('cmil', 'vmail', 'no_recovery', 'recon')
POINTMAZE = ('maze_pointmaze',)

Measured = list[tuple[Group, list[dict]]]


def draw_mechanism(runs: list[RunFolder], folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """mechanism: gap by region, and predicted against real recovery at two horizons."""
  return save_variants('mechanism', mechanism_figure, runs, folder)


def draw_diagnostics(runs: list[RunFolder], folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """diagnostics: AUROC by horizon with the oracle, fall of U over online steps and by step."""
  return save_variants('diagnostics', diagnostics_figure, runs, folder)


def draw_deciles(runs: list[RunFolder], folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """deciles: held-out error by decile of U, a panel for each region."""
  return save_variants('deciles', deciles_figure, runs, folder)


@plots.STYLED
def mechanism_figure(groups: list[Group]) -> Figure:
  """A row for each task: CMIL against RECON."""
  parts = [
    ('gap', gap_by_region), ('recoverability', lambda a, x: calibration(a, x, '5')),
    ('recoverability', lambda a, x: calibration(a, x, '15')),
  ]  # fmt: skip
  titles = ('gap by region', 'G₅ and recovery', 'G₁₅ and recovery')
  return _rows(groups, PAIR, titles, parts)


@plots.STYLED
def diagnostics_figure(groups: list[Group]) -> Figure:
  """A row for each task: the methods whose collectors differ."""
  parts = [
    ('recoverability', auroc_by_horizon), ('acquisition', fall_of_uncertainty),
    ('acquisition', gain_by_step),
  ]  # fmt: skip
  titles = ('AUROC by horizon', 'fall of U on anchors', 'fall of U by step')
  return _rows(groups, COLLECTORS, titles, parts)


@plots.STYLED
def deciles_figure(groups: list[Group]) -> Figure:
  """A row for each task: a panel for each region, or one for expert states."""
  titles = [f'{x} states' for x in REGIONS]
  parts = [('gap', lambda axes, x, name=name: deciles(axes, x, name)) for name in REGIONS]
  return _rows(groups, PAIR, titles, parts)


def _rows(groups: list[Group], methods: tuple[str, ...], titles, parts) -> Figure:
  """Panels of parts by task; one without data names the command that makes them."""
  own = [x for x in groups if x.method in methods]
  found = {part: with_data(own, part) for part, _ in parts}
  known = [group for results in found.values() for group, _ in results]
  tasks = tasks_with(known, methods, list(by_task(own))[:1] or POINTMAZE)
  figure, grid = in_grid(len(tasks), len(parts))
  for task, row in zip(tasks, grid, strict=True):
    for axes, title, (part, draw) in zip(row, titles, parts, strict=True):
      axes.set_title(f'{task}: {title}')
      own = [x for x in found[part] if x[0].task == task]
      _panel(axes, own, part, draw)
      if own:
        known = {x.method for x, _ in own}
        name_missing(axes, [x for x in methods if x not in known], 'no data')
  return plots.legend_above(figure, [x for row in grid for x in row], 6)


def _panel(axes: Axes, found: Measured, part: str, draw: Callable) -> None:
  if not found:
    say(axes, f'No data yet. Make them with\n{command_line(part)}')
  elif draw(axes, found) is False:
    say(axes, 'The runs have none of this: it needs positions in the plane (mazes).')


def _look(methods: list[str], method: str) -> dict:
  return plots.method_style(methods)[method]


def _name(group: Group) -> str:
  return LABELS.get(group.method, group.method)


# Prediction gap


def gap_by_region(axes: Axes, found: Measured) -> bool | None:
  """Bars of the mean over seeds, dots are seeds."""
  found = [(g, [x['regions'] for x in r if 'regions' in x]) for g, r in found]
  found = [(g, r) for g, r in found if r]
  if not found:
    return False
  for group, results in found:
    values = [[x[name]['gap'] for x in results if name in x] for name in REGIONS]
    places = pair_places(len(REGIONS), group.method)
    bars(axes, places, values, 0.4, plots.COLORS[group.method], _name(group))
  axes.set_xticks(range(len(REGIONS)), REGIONS)
  axes.set_xlim(-0.5, len(REGIONS) - 0.5)
  axes.set_ylabel('open-loop gap, H = 15')
  return None


def pair_places(count: int, method: str) -> np.ndarray:
  """CMIL to the left and RECON to the right of each of so many places."""
  return np.arange(count) + 0.4 * PAIR.index(method) - 0.2


def bars(
  axes: Axes, places, values: list[list[float]], width: float, color: str, name: str
) -> None:
  """Means over seeds, with a dot for each seed beside the middle."""
  means = [np.mean(x) if x else np.nan for x in values]
  axes.bar(places, means, 0.92 * width, color=color, alpha=0.45, label=name)
  for place, own in zip(places, values, strict=True):
    seed_dots(axes, place, own, color)
  axes.grid(axis='x', visible=False)


def seed_dots(axes: Axes, place: float, values: list[float], color: str) -> None:
  dots = {'color': color, 'ms': 4, 'mec': 'white', 'mew': 0.6, 'ls': '', 'zorder': 3}
  axes.plot(np.full(len(values), place), values, marker='o', **dots)


def deciles(axes: Axes, found: Measured, region: str) -> bool | None:
  """Mean over seeds of the gap by decile of U, thin lines are seeds."""
  drawn = False
  for group, results in found:
    lines = [x['deciles'][region]['gap'] for x in results if region in x.get('deciles', {})]
    if not lines:
      continue
    look = _look([group.method], group.method)
    for line in lines if len(lines) > 1 else ():
      axes.plot(range(1, len(line) + 1), line, color=look['color'], lw=0.8, alpha=0.4)
    full = [x for x in lines if len(x) == max(map(len, lines))]
    mean = np.mean(full, 0)
    axes.plot(range(1, len(mean) + 1), mean, lw=2, ms=4, **look, label=_name(group))
    drawn = True
  axes.set(xlabel='decile of U, low to high', ylabel='open-loop gap, H = 15')
  axes.set_xticks([1, 4, 7, 10])
  return None if drawn else False


# Recoverability


def calibration(axes: Axes, found: Measured, horizon: str) -> None:
  """Predicted G against the frequency of real recovery; areas are numbers of states."""
  axes.plot([0, 1], [0, 1], color='#999999', lw=1, ls='--')
  for group, results in found:
    look, label = _look([group.method], group.method), _name(group)
    for x in [x['calibration'][horizon] for x in results if horizon in x['calibration']]:
      area = 150 * np.array(x['count']) / np.sum(x['count'])
      axes.plot(x['predicted'], x['frequency'], color=look['color'], lw=1, alpha=0.5)
      dots = {'color': look['color'], 'marker': look['marker'], 'alpha': 0.8}
      axes.scatter(x['predicted'], x['frequency'], 10 + area, **dots, label=label)
      label = None
  axes.set(xlabel=f'predicted G, H = {horizon}', ylabel='share that recovered')
  axes.set(xlim=(-0.03, 1.03), ylim=(-0.05, 1.05))


def auroc_by_horizon(axes: Axes, found: Measured) -> None:
  """Mean over seeds; the oracle of each method is dashed, in its colour."""
  for group, results in found:
    look = _look([group.method], group.method)
    for key, form in (('auroc', {'ls': '-', 'lw': 2, 'label': _name(group)}),
                      ('oracle', {'ls': '--', 'lw': 1, 'mfc': 'none'})):  # fmt: skip
      values = np.array([[np.nan if v is None else v for v in x[key]] for x in results])
      with np.errstate(invalid='ignore'):
        mean = np.where(np.isnan(values).all(0), np.nan, _nanmean(values))
      axes.plot(results[0]['horizons'], mean, ms=3.5, **look, **form)
  axes.axhline(0.5, color='#999999', lw=1)
  axes.plot([], [], color='#444444', ls='--', lw=1, label='oracle: true distance')
  axes.set(xlabel='imagination horizon H', ylabel='AUROC', ylim=(0, 1.03), xticks=[1, 5, 10, 15])


def _nanmean(values: np.ndarray) -> np.ndarray:
  known = ~np.isnan(values)
  return np.where(known, values, 0).sum(0) / np.maximum(known.sum(0), 1)


# Acquisition


def fall_of_uncertainty(axes: Axes, found: Measured) -> None:
  """U of the first checkpoint minus U of each later one, every seed."""
  for group, results in found:
    look, label = _look([group.method], group.method), _name(group)
    for x in results:
      fall = 1000 * (x['uncertainty'][0] - np.array(x['uncertainty']))
      axes.plot(x['steps'], fall, lw=1.5, ms=4, **look, label=label)
      label = None
  axes.axhline(0, color='#999999', lw=1)
  mixed = '\nnot the same anchors: do not compare' if anchors_differ(found) else ''
  axes.set(xlabel=f'online steps{mixed}', ylabel='ΔU × 1000')


def gain_by_step(axes: Axes, found: Measured) -> None:
  """Bars of the mean over seeds, dots are seeds."""
  for group, results in found:
    values = [1e6 * x['gain_per_step'] for x in results]
    place = COLLECTORS.index(group.method)
    bars(axes, [place], [values], 0.8, plots.COLORS[group.method], _name(group))
  axes.set_xticks(range(len(COLLECTORS)), [SHORT[x] for x in COLLECTORS])
  axes.set_xlim(-0.6, len(COLLECTORS) - 0.4)
  axes.axhline(0, color='#999999', lw=1)
  axes.set_ylabel('ΔU a step × 10⁶')
