"""The paper's figures and tables by name: what each needs, and what draws it from run folders."""

import dataclasses
import pathlib
from collections.abc import Callable

from recon_tf.analysis import paper_curves, paper_diagnostics, paper_results
from recon_tf.analysis.measured import COMMANDS
from recon_tf.analysis.paper import PAIR, paper_tasks
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
POINTMAZE = paper_diagnostics.POINTMAZE

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
  'robustness': Figure(
    'tab:robustness', 'Robust deployment', PAIR, TASKS, (COMMANDS['robust'],),
    paper_results.draw_robustness,
  ),
  'gap': Figure(
    'tab:wm_diagnostics', 'World-model diagnostics', PAIR, TASKS, (COMMANDS['gap'],),
    paper_results.draw_gap,
  ),
  'allocation': Figure(
    'fig:pointmaze_model', 'Visitation and acquisition', paper_results.ALLOCATED, POINTMAZE, (),
    paper_results.draw_allocation,
  ),
  'mechanism': Figure(
    'fig:recovery_mechanism', 'Diagnostics of recoverability conditioning', PAIR, POINTMAZE,
    (COMMANDS['gap'], COMMANDS['recoverability']), paper_diagnostics.draw_mechanism,
  ),
  'diagnostics': Figure(
    'fig:additional_diagnostics', 'Recoverability prediction and acquisition efficiency',
    paper_diagnostics.COLLECTORS, POINTMAZE,
    (COMMANDS['recoverability'], COMMANDS['acquisition']), paper_diagnostics.draw_diagnostics,
  ),
  'deciles': Figure(
    'fig:uncertainty_deciles', 'Disagreement ranking and held-out model error', PAIR, POINTMAZE,
    (COMMANDS['gap'],), paper_diagnostics.draw_deciles,
  ),
  'compute': Figure(
    'tab:compute_overhead', 'Compute overhead', PAIR, ('dmc_walker_run',), (),
    paper_results.draw_compute,
  ),
}  # fmt: skip
