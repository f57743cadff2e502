"""The paper's figures of learning curves: main results, recoverability and design ablations."""

import pathlib
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recon_tf.analysis import plots
from recon_tf.analysis.curves import learning_curve
from recon_tf.analysis.groups import Group
from recon_tf.analysis.panels import LABELS, by_task, empty, in_rows, name_missing, save_variants
from recon_tf.analysis.paper import paper_number, paper_tasks
from recon_tf.analysis.runs import RunFolder

MAIN = ('bc', 'dadac', 'vmail', 'cmil', 'iqmpc', 'recon')


def draw_main(runs: list[RunFolder], folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """main: a panel for each of the eight tasks, with all methods of the paper."""
  return save_variants('main', main_figure, runs, folder)


@plots.STYLED
def main_figure(groups: list[Group]) -> Figure:
  """Score against steps, two rows of four panels."""
  figure, panels = in_rows(paper_tasks(), 4)
  style = {x: plots.method_style(MAIN)[x] for x in MAIN}
  known = by_task(groups)
  for task, axes in panels.items():
    draw_panel(axes, task, known.get(task, []), MAIN, style)
  return plots.legend_above(figure, panels.values(), 8, [LABELS[x] for x in MAIN])


def draw_panel(
  axes: Axes, task: str, groups: list[Group], methods: Sequence[str], style: dict[str, dict]
) -> None:
  """Curves of these methods on one task; the panel says which are missing."""
  chosen = {x.method: x for x in groups if x.method in methods}
  curves = {k: learning_curve(v) for k, v in chosen.items()}
  curves = {k: curves[k] for k in methods if k in curves and curves[k].lines}
  if not curves:
    empty(axes, task, methods)
    return
  for method, curve in curves.items():
    plots.draw_curve(axes, curve, style[method], LABELS.get(method, method))
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
