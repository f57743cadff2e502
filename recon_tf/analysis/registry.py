"""The paper's figures and tables by name: what each needs, and what draws it from run folders."""

import dataclasses
import pathlib
from collections.abc import Callable

from recon_tf.analysis import paper_curves
from recon_tf.analysis.paper import paper_tasks
from recon_tf.analysis.runs import RunFolder


@dataclasses.dataclass(frozen=True)
class Figure:
  """A figure or table of the paper.

  methods are presets of configs.yaml; tasks are those that the paper shows it on, any others work
  too. commands are the scripts that run on every run folder before drawing, as words: the script's
  name and its flags, ('diagnose', '--what', 'gap') for `python scripts/diagnose.py RUN --what gap`.
  draw(runs, folder) writes files into the folder and returns them by name; it works on any runs,
  and what is missing is said in the figure.
  """

  label: str  # in the paper
  title: str
  methods: tuple[str, ...]
  tasks: tuple[str, ...]
  commands: tuple[tuple[str, ...], ...]
  draw: Callable[[list[RunFolder], pathlib.Path], dict[str, pathlib.Path]]


TASKS = tuple(paper_tasks())
POINTMAZE = ('maze_pointmaze',)

FIGURES: dict[str, Figure] = {
  'main': Figure(
    'fig:main_curves', 'Main experiments', paper_curves.MAIN, TASKS, (), paper_curves.draw_main
  ),
  'recoverability': Figure(
    'fig:recovery_ablation', 'Recoverability ablation', paper_curves.RECOVERABILITY,
    paper_curves.ABLATED, (), paper_curves.draw_recoverability,
  ),
  'design': Figure(
    'fig:walker_controls', 'Design ablation', paper_curves.DESIGN_METHODS,
    paper_curves.ABLATED[:1], (), paper_curves.draw_design,
  ),
}  # fmt: skip
