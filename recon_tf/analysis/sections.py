"""Tables with their figures for report and results: what was measured, and what could be."""

import dataclasses
import pathlib

from recon_tf.analysis import paper_diagnostics, paper_results
from recon_tf.analysis.groups import group_runs
from recon_tf.analysis.panels import save_variants
from recon_tf.analysis.paper_tables import all_tables
from recon_tf.analysis.runs import RunFolder
from recon_tf.analysis.texts import Table

# Figures by table; steps by region have theirs in every report.
FIGURES = {
  'robustness': ('robustness', paper_results.robustness_figure),
  'gap': ('gap', paper_results.gap_figure),
  'deciles': ('deciles', paper_diagnostics.deciles_figure),
  'recoverability': ('mechanism', paper_diagnostics.mechanism_figure),
  'acquisition': ('diagnostics', paper_diagnostics.diagnostics_figure),
}


@dataclasses.dataclass(frozen=True)
class Section:
  """A table and the figures that belong to it, none where it is empty."""

  table: Table
  figures: dict[str, pathlib.Path]


def measured_sections(runs: list[RunFolder], folder: pathlib.Path) -> list[Section]:
  """All tables; figures are drawn where there are data of the methods that they compare."""
  sections = []
  for table in all_tables(group_runs(runs)):
    figures = {}
    if table.rows and table.name in FIGURES:
      name, figure_of = FIGURES[table.name]
      figures = save_variants(name, figure_of, runs, folder)
    sections.append(Section(table, figures))
  return sections
