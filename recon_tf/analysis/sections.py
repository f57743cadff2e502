"""Tables with their figures for report and results: what was measured, and what could be."""

import dataclasses
import pathlib

from recon_tf.analysis import paper_diagnostics, paper_results
from recon_tf.analysis.groups import Group, group_runs
from recon_tf.analysis.measured import measured
from recon_tf.analysis.panels import save_variants
from recon_tf.analysis.paper import PAIR
from recon_tf.analysis.paper_tables import all_tables
from recon_tf.analysis.runs import RunFolder
from recon_tf.analysis.texts import Table

# Name, methods, measurement and function of each table's figure; steps by region have theirs
# in every report.
FIGURES = {
  'robustness': ('robustness', PAIR, 'robust', paper_results.robustness_figure),
  'gap': ('gap', PAIR, 'gap', paper_results.gap_figure),
  'deciles': ('deciles', PAIR, 'gap', paper_diagnostics.deciles_figure),
  'recoverability': ('mechanism', PAIR, 'recoverability', paper_diagnostics.mechanism_figure),
  'acquisition': (
    'diagnostics', paper_diagnostics.COLLECTORS, 'acquisition',
    paper_diagnostics.diagnostics_figure,
  ),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Section:
  """A table and the figures that belong to it, none where it is empty."""

  table: Table
  figures: dict[str, pathlib.Path]


def measured_sections(runs: list[RunFolder], folder: pathlib.Path) -> list[Section]:
  """All tables; figures are drawn where there are data of the methods that they compare."""
  groups = group_runs(runs)
  return [Section(x, _figures(x.name, groups, folder)) for x in all_tables(groups)]


def _figures(table: str, groups: list[Group], folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """Those of the variants with data."""
  if table not in FIGURES:
    return {}
  name, methods, part, figure_of = FIGURES[table]
  has = lambda group: group.method in methods and any(measured(x, part) for x in group.runs)
  variants = {x.variant for x in groups if has(x)}
  chosen = [run for x in groups if x.variant in variants for run in x.runs]
  return save_variants(name, figure_of, chosen, folder) if chosen else {}
