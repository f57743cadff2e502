"""Panels of the paper's figures: one a task, and what to run where nothing is to be shown."""

import pathlib
import textwrap
from collections.abc import Callable, Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recon_tf.analysis import plots
from recon_tf.analysis.figures import slug
from recon_tf.analysis.groups import Group, group_runs
from recon_tf.analysis.paper import paper_tasks
from recon_tf.analysis.runs import RunFolder
from recon_tf.envs import SUITES

# The paper's names of the methods.
LABELS = {
  'bc': 'BC', 'dadac': 'DA-DAC', 'vmail': 'V-MAIL', 'cmil': 'CMIL', 'iqmpc': 'IQ-MPC',
  'recon': 'RECON', 'no_recovery': 'w/o recovery (U only)',
}  # fmt: skip
SHORT = {**LABELS, 'no_recovery': 'U only'}
GREY = '#666666'


def save_variants(
  name: str,
  figure_of: Callable[[list[Group]], Figure],
  runs: list[RunFolder],
  folder: pathlib.Path,
) -> dict[str, pathlib.Path]:
  """A figure for each variant of the runs, named after it if there are several."""
  variants = {}
  for group in group_runs(runs):
    variants.setdefault(group.variant, []).append(group)
  paths = {}
  for variant, groups in (variants or {'': []}).items():
    own = f'{name}-{slug(variant)}' if len(variants) > 1 and variant else name
    paths[own] = plots.save_figure(figure_of(groups), folder, own)
  return paths


def by_task(groups: Iterable[Group]) -> dict[str, list[Group]]:
  found = {}
  for group in groups:
    found.setdefault(group.task, []).append(group)
  return found


def in_rows(names: Sequence[str], columns: int) -> tuple[Figure, dict[str, Axes]]:
  """A titled panel for each name, in rows of so many."""
  columns = min(columns, len(names))
  rows = -(-len(names) // columns)
  figure = Figure((max(5.5, 3.0 * columns), 0.5 + 2.6 * rows), layout='constrained')
  grid = figure.subplots(rows, columns, squeeze=False)
  for axes in grid.flat[len(names) :]:
    axes.set_axis_off()
  panels = dict(zip(names, grid.flat, strict=False))
  for name, axes in panels.items():
    axes.set_title(name)
  return figure, panels


def in_grid(rows: int, columns: int, width: float = 3.6) -> tuple[Figure, list[list[Axes]]]:
  """Panels in rows, without titles."""
  figure = Figure((width * columns, 0.3 + 3.1 * rows), layout='constrained')
  return figure, figure.subplots(rows, columns, squeeze=False).tolist()


def tasks_with(groups: list[Group], methods: Iterable[str], usual: Sequence[str]) -> list[str]:
  """Tasks with a run of one of the methods, the paper's first; `usual` if there is none."""
  found = {x.task for x in groups if x.method in methods}
  order = [*paper_tasks(), *sorted(found)]
  return list(dict.fromkeys(x for x in order if x in found)) or list(usual)


def ranked_style(methods: Sequence[str]) -> dict[str, dict]:
  """Colours and markers by place, the first of them RECON's."""
  colors = [plots.COLORS[x] for x in ('recon', 'cmil', 'dadac', 'iqmpc', 'no_recovery', 'vmail')]
  return {
    x: {'color': colors[i % len(colors)], 'marker': plots.MARKERS[i % len(plots.MARKERS)]}
    for i, x in enumerate(methods)
  }


def train_command(task: str, method: str) -> str:
  """What trains a method on a task, in the paper's size."""
  suite = task.partition('_')[0]
  names = f'{suite} {method}' if suite in SUITES and suite != 'gym' else method
  return f'python scripts/train.py --configs {names} --task {task}'


def empty(axes: Axes, task: str, methods: Sequence[str]) -> None:
  """A panel without runs says how to make them."""
  command = train_command(task, 'METHOD' if len(methods) > 1 else methods[0])
  words = f'No runs yet. Make them with\n{command}'
  words += f'\nMETHOD: {", ".join(methods)}' if len(methods) > 1 else ''
  say(axes, words)


def say(axes: Axes, words: str, width: int = 32) -> None:
  """Words in place of a plot."""
  lines = [x for part in words.splitlines() for x in textwrap.wrap(
    part, width, break_long_words=False, break_on_hyphens=False)]  # fmt: skip
  axes.text(
    0.5, 0.5, '\n'.join(lines), ha='center', va='center', transform=axes.transAxes,
    color=GREY, fontsize=8,
  )  # fmt: skip
  axes.grid(visible=False)
  axes.set(xticks=[], yticks=[])
  for side in axes.spines.values():
    side.set(visible=True, color='#dddddd')


def name_missing(axes: Axes, methods: Sequence[str], what: str = 'no runs') -> None:
  """Which methods are missing, below the axis."""
  if methods:
    text = textwrap.fill(f'{what}: {", ".join(methods)}', 44)
    axes.set_xlabel(f'{axes.get_xlabel()}\n{text}'.strip(), color=GREY)
