"""Figures of training: curves, ablations, final scores, wall-clock, traces, predictions."""

import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recon_tf.analysis.archive import clearest, frames_of
from recon_tf.analysis.paper import PAIR, paper_number, paper_tasks
from recon_tf.analysis.report import style
from recon_tf.analysis.report.tables import Row, in_percent
from recon_tf.analysis.runs import (
  Group,
  Run,
  expert_line,
  grouped,
  method_rank,
  minutes_trace,
  run_score,
  settings_of,
)
from recon_tf.analysis.stats import center_and_band

MAIN = ('bc', 'dadac', 'vmail', 'cmil', 'iqmpc', 'recon')
CLONES = ('bc_raw', 'bc_equal')  # ours, beside the paper's
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
  'schedule of windows': {'recon': 'RECON: its windows'},
  'gate aggregation': {'recon': 'RECON: max of the tail'},
}
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
CONTEXT = 5  # frames that the model sees before it predicts, as in Agent.report
ROWS, COLUMNS = ('truth', 'model', 'error'), 10  # of a prediction
POINTS = 60  # of a trace
CLEAR = 3  # curves in a panel up to which single seeds can be told apart

Line = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True, eq=False)
class Curve:
  """Seeds as they are; center and band only over what all of them have reached."""

  group: Group
  score: str  # success in percent, or return
  lines: tuple[Line, ...]
  steps: np.ndarray
  center: np.ndarray
  low: np.ndarray
  high: np.ndarray


def evaluation_line(run: Run) -> Line:
  """(steps, scores) of all evaluations; the final one replaces another of the same step."""
  score = run_score(run)
  records = [*run.evaluations(), *([run.final()] if run.final() else [])]
  found = {x['step']: in_percent(x[score], score) for x in records if score in x}
  steps = sorted(found)
  return np.array(steps, float), np.array([found[x] for x in steps], float)


def clock_line(run: Run) -> Line:
  """(minutes, scores) of all evaluations, by the clock of the last line before each."""
  steps, scores = evaluation_line(run)
  known, minutes = minutes_trace(run)
  if not len(known):
    return np.zeros(0), np.zeros(0)
  index = np.searchsorted(known, steps, side='right') - 1
  return minutes[np.maximum(index, 0)], scores


def metric_line(run: Run, key: str, points: int = POINTS) -> Line:
  """(steps, values) of a logged metric, averaged in equal bins of steps."""
  steps, values = run.metrics().get(key, (np.zeros(0), np.zeros(0)))
  if len(steps) <= points:
    return steps, values
  bins = np.linspace(steps.min(), steps.max(), points + 1)[1:-1]
  place = np.digitize(steps, bins)
  used = np.unique(place)
  mean = lambda x: np.array([x[place == i].mean() for i in used])
  return mean(steps), mean(values)


def learning_curve(group: Group) -> Curve:
  """The evaluations of a group's runs, together."""
  lines = [x for x in map(evaluation_line, group.runs) if len(x[0])]
  steps, values = common_grid(lines)
  scores = {run_score(x) for x in group.runs}
  score = 'success' if 'success' in scores else 'return'
  return Curve(group, score, tuple(lines), steps, *center_and_band(values))


def area(run: Run) -> float | None:
  """Mean of the learning curve over its steps, in its unit; None with fewer than two points."""
  steps, values = evaluation_line(run)
  if len(steps) < 2 or steps[-1] == steps[0]:
    return None
  return float(np.trapezoid(values, steps) / (steps[-1] - steps[0]))


def common_grid(lines: list[Line]) -> tuple[np.ndarray, np.ndarray]:
  """Steps that all lines span, and the values there [lines, steps], by linear interpolation."""
  if not lines:
    return np.zeros(0), np.zeros((0, 0))
  start, end = max(x[0] for x, _ in lines), min(x[-1] for x, _ in lines)
  if end < start:
    return np.zeros(0), np.zeros((len(lines), 0))
  points = max(np.sum((start <= x) & (x <= end)) for x, _ in lines)
  if points < 2 or start == end:
    grid = np.array([end])
  elif len(lines) == 1:
    grid = lines[0][0]
  else:
    grid = np.linspace(start, end, points)
  return grid, np.array([np.interp(grid, *line) for line in lines])


# Figures


@style.STYLED
def curves_figure(groups: list[Group]) -> Figure:
  """Score against steps, a panel for each variant and task with all methods that it has."""
  acting = {x.setting for x in groups if not without_steps(x)}
  groups = [x for x in groups if x.setting in acting] or groups  # a level alone is no curve
  settings, names = settings_of(groups), style.titles(groups)
  figure, panels = style.make_panels([names[x] for x in settings], 3)
  for setting, own in settings.items():
    methods = sorted({x.method for x in own}, key=method_rank)
    draw_panel(panels[names[setting]], own[0].task, own, methods)
  order = [style.label(x) for x in sorted({x.method for x in groups}, key=method_rank)]
  return style.legend_above(figure, panels.values(), order)


def _task_figure(
  groups: list[Group], tasks: Sequence[str], methods: Sequence[str], paper: Sequence[str]
) -> Figure:
  """Score against steps, a panel for each task, with the paper's numbers of some methods."""
  figure, panels = style.make_panels([style.task_name(x) for x in tasks])
  for task, axes in zip(tasks, panels.values(), strict=True):
    draw_panel(axes, task, groups, methods, paper=paper)
  return style.legend_above(figure, panels.values(), [style.label(x) for x in methods])


@style.STYLED
def main_figure(groups: list[Group]) -> Figure:
  """fig:main_curves: two rows of four panels."""
  known = {x.method for x in groups if x.task in paper_tasks()}
  methods = [x for x in (*CLONES, *MAIN) if x in known] or MAIN
  figure = _task_figure(groups, paper_tasks(), methods, PAIR)
  # One sentence for what no panel has; a panel names only what others have.
  instead = ('bc',) if set(CLONES) & known else ()
  missing = [style.label(x) for x in MAIN if x not in (*methods, *instead)]
  if missing:
    figure.supxlabel(f'no runs of {", ".join(missing)}', fontsize=9, color=style.GREY)
  return figure


@style.STYLED
def recoverability_figure(groups: list[Group]) -> Figure:
  """fig:recovery_ablation: RECON and the same explorer without a gate."""
  tasks = style.tasks_with(groups, {'no_recovery'}, ABLATED)
  return _task_figure(groups, tasks, RECOVERABILITY, PAIR[1:])


@style.STYLED
def design_figure(groups: list[Group]) -> Figure:
  """fig:walker_controls: three panels per task, RECON and its alternatives, a legend below."""
  tasks = style.tasks_with(groups, DESIGN_METHODS[1:], ABLATED[:1])
  figure = Figure((11, 0.2 + 3.9 * len(tasks)), layout='constrained')
  grid = figure.subplots(2 * len(tasks), 3, squeeze=False, height_ratios=[3, 1] * len(tasks))
  for number, task in enumerate(tasks):
    for column, (part, methods) in enumerate(DESIGN.items()):
      axes, below = grid[2 * number : 2 * number + 2, column]
      axes.set_title(f'{style.task_name(task)}: {part}')
      draw_panel(axes, task, groups, methods, NAMES.get(part, {}), paper=PAIR[1:])
      below.set_axis_off()
      if axes.lines:
        below.legend(*axes.get_legend_handles_labels(), loc='upper center', ncols=2, fontsize=8)
  return figure


def draw_panel(
  axes: Axes, task: str, groups: list[Group], methods: Sequence[str],
  names: dict[str, str] | None = None, paper: Sequence[str] = (),
) -> None:  # fmt: skip
  """Curves of these methods on one task, the expert, the paper; names the methods that lack."""
  own = [x for x in groups if x.task == task and x.method in methods]
  curves = [x for x in map(learning_curve, own) if x.lines]
  if not curves:
    style.empty(axes, task, methods)
    return
  label = lambda method: (names or {}).get(method, style.label(method))
  looks, clones = style.method_style(methods), [x for x in curves if without_steps(x.group)]
  for curve in sorted(curves, key=lambda x: methods.index(x.group.method)):
    method = curve.group.method
    if curve not in clones:
      draw_curve(axes, curve, looks[method], label(method), seeds=len(curves) <= CLEAR)
  expert = expert_line(own)
  if expert is not None:
    axes.axhline(in_percent(expert, curves[0].score), **style.EXPERT)
  end = span_budget(axes, curves)
  for curve in clones:
    draw_level(axes, curve, looks[curve.group.method], label(curve.group.method))
  for method in paper:
    value = paper_number('robustness', task, 'Clean', method)
    if value is not None:
      style.mark_paper(axes, [end], [value], method)
  known = {x.group.method for x in curves}
  style.score_axis(axes, curves[0].score)
  style.name_missing(axes, [x for x in methods if x not in known])


def draw_curve(axes: Axes, curve: Curve, look: dict, name: str, seeds: bool) -> None:
  """One method in a panel: its interquartile mean over seeds, the interval as a band."""
  if len(curve.lines) > 1:
    for line in curve.lines if seeds else ():
      axes.plot(*line, color=look['color'], lw=0.7, alpha=0.35)
    axes.fill_between(curve.steps, curve.low, curve.high, color=look['color'], alpha=0.12, lw=0)
  axes.plot(curve.steps, curve.center, lw=1.8, ms=4, **look, label=name)


def without_steps(group: Group) -> bool:
  """Whether its method never acts, as a clone: then its score is a level, not a curve."""
  return all(run.config.steps == 0 for run in group.runs)


def draw_level(axes: Axes, curve: Curve, look: dict, name: str) -> None:
  """A dotted line over the whole budget of the others, with its interval."""
  if curve.high[-1] > curve.low[-1]:
    axes.axhspan(curve.low[-1], curve.high[-1], color=look['color'], alpha=0.12, lw=0)
  axes.axhline(curve.center[-1], color=look['color'], lw=1.8, ls=':', label=name)


def span_budget(axes: Axes, curves: list[Curve]) -> float:
  """Shows the whole budget, so that unfinished runs look unfinished; returns its last step."""
  last = lambda x: [steps[-1] for steps, _ in x.lines] + [run.config.steps for run in x.group.runs]
  end = max(step for x in curves for step in last(x))
  axes.set_xlabel('environment steps')
  style.step_axis(axes)
  if not end:  # clones alone
    axes.set(xticks=[], xlabel='without environment steps')
  end = end or 1
  axes.set_xlim(-0.02 * end, 1.03 * end)
  return end


@style.STYLED
def clock_figure(groups: list[Group]) -> Figure:
  """Score against minutes of wall-clock, every seed."""
  settings, names = settings_of(groups), style.titles(groups)
  figure, panels = style.make_panels([names[x] for x in settings], 3)
  looks = style.method_style([x.method for x in groups])
  for group in groups:
    axes, name = panels[names[group.setting]], style.label(group.method)
    for run in group.runs:
      axes.plot(*clock_line(run), lw=1.2, ms=3.5, alpha=0.8, **looks[group.method], label=name)
    axes.set_xlabel('minutes, pretraining included')
  for setting, own in settings.items():
    style.score_axis(panels[names[setting]], run_score(own[0].runs[0]))
    panels[names[setting]].set_xlim(left=0)
  return style.legend_above(figure, panels.values())


@style.STYLED
def final_figure(rows: list[Row]) -> Figure:
  """Final scores: bars to the interquartile mean, dots are seeds, the expert is a line."""
  rows = [x for x in rows if x.results]
  names = style.titles([x.group for x in rows])
  settings = grouped(rows, lambda x: x.group.setting)
  figure, panels = style.make_panels([names[x] for x in settings], 3, height=2.0, width=3.7)
  looks = style.method_style([x.group.method for x in rows])
  for setting, own in settings.items():
    axes = panels[names[setting]]
    for place, row in enumerate(own):
      _final_bar(axes, place, row, looks[row.group.method]['color'])
    expert = expert_line([x.group for x in own])
    if expert is not None:
      axes.axvline(in_percent(expert, own[0].score), **style.EXPERT)
    axes.set_yticks(range(len(own)), [style.label(x.group.method) for x in own])
    axes.set_ylim(max(len(own), 3) - 0.4, -0.6)
    axes.grid(axis='y', visible=False)
    axes.set_xlabel(style.score_name(own[0].score))
    if own[0].score == 'success':
      axes.set_xlim(0, 103)
  return style.legend_above(figure, panels.values())


def _final_bar(axes: Axes, place: int, row: Row, color: str) -> None:
  axes.barh(place, row.iqm, color=color, alpha=0.45, height=0.65)
  values = row.values
  dots = {'color': color, 'ms': 5, 'mec': 'white', 'clip_on': False, 'zorder': 3}
  axes.plot(values, np.full(len(values), place + 0.18), 'o', **dots)  # beside the interval
  if row.interval:
    axes.plot(row.interval, [place] * 2, color='black', lw=1.5)


@style.STYLED
def traces_figure(groups: list[Group]) -> Figure:
  """D, G, U and delta over a run, one panel each; bands span the seeds."""
  figure, panels = style.make_panels([*TRACES.values()], height=2.3, width=2.9)
  looks = style.method_style([x.method for x in groups])
  for key, axes in zip(TRACES, panels.values(), strict=True):
    for group in groups:
      _trace(axes, group, key, looks[group.method])
    if axes.lines:
      style.step_axis(axes)
    else:
      style.say(axes, 'not logged')
  figure.supxlabel('environment steps', fontsize=9)
  return style.legend_above(figure, panels.values())


def _trace(axes: Axes, group: Group, key: str, look: dict) -> None:
  lines = [x for x in (metric_line(run, key) for run in group.runs) if len(x[0])]
  if not lines:
    return
  steps, values = common_grid(lines)
  if len(lines) > 1:
    axes.fill_between(steps, values.min(0), values.max(0), color=look['color'], alpha=0.12, lw=0)
  look = {**look, 'marker': 'o' if len(steps) == 1 else ''}
  axes.plot(steps, values.mean(0), lw=1.4, **look, label=style.label(group.method))


# Open-loop predictions


def newest(run: Run, prefix: str) -> dict[str, tuple[int, bytes]]:
  """Step and GIF by tag."""
  found = {k: v for k, v in run.gifs().items() if k.startswith(prefix)}
  return {k: (max(v), v[max(v)]) for k, v in found.items()}


def draw_predictions(groups: list[Group], folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """The newest open-loop prediction of each group's first run that has one; none for vectors."""
  found, names = {}, style.titles(groups)
  for group in groups:
    for run in group.runs:
      for tag, (step, gif) in newest(run, 'open_loop/').items():
        name = f'{style.slug(tag)}-{style.slug(group.name)}'
        title = f'{names[group.setting]}: {style.label(group.method)}, step {step:,}'
        figure = prediction_figure(clearest(frames_of(gif), run.config.env.size[1]), title)
        found[title] = style.save_figure(figure, folder, name, vector=False)
      if newest(run, 'open_loop/'):
        break
  return found


@style.STYLED
def prediction_figure(frames: np.ndarray, title: str) -> Figure:
  """A prediction [time, 3 * height, width, 3]: rows by kind, columns by time."""
  count = min(COLUMNS, len(frames))
  times = np.unique(np.linspace(0, len(frames) - 1, count).round().astype(int))
  height = frames.shape[1] // len(ROWS)
  figure = Figure((1.05 * len(times) + 0.6, 1.05 * len(ROWS) + 0.75), layout='constrained')
  figure.get_layout_engine().set(w_pad=0.015, h_pad=0.03, hspace=0, wspace=0)
  grid = figure.subplots(len(ROWS), len(times), squeeze=False)
  for row, (name, line) in enumerate(zip(ROWS, grid, strict=True)):
    for time, axes in zip(times, line, strict=True):
      axes.imshow(frames[time, row * height : (row + 1) * height], interpolation='nearest')
      axes.set(xticks=[], yticks=[])
      axes.grid(visible=False)
      if row == 0:
        ahead = time - CONTEXT + 1
        axes.set_title('seen' if ahead <= 0 else f'+{ahead}', fontsize=8.5, fontweight='normal')
    line[0].set_ylabel(name)
  figure.suptitle(title, fontsize=9.5, fontweight='bold')
  return figure
