"""Every figure and table by name: what it needs, and what draws it from runs."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable

from matplotlib.figure import Figure as Drawing

from recon_tf.analysis.paper import PAIR, paper_tasks
from recon_tf.analysis.regions import allocation
from recon_tf.analysis.report import curves, diagnostics, measures, style
from recon_tf.analysis.report.tables import Table
from recon_tf.analysis.runs import COMMANDS, Group, Run, group_runs, grouped, with_data

TASKS = tuple(paper_tasks())
POINTMAZE = diagnostics.POINTMAZE


@dataclasses.dataclass(frozen=True)
class Figure:
  """A figure or table, of the paper or ours.

  methods are presets of configs.yaml; tasks are those that the paper shows it on, any others work
  too. parts are measurements (runs.COMMANDS) that every run needs before drawing. figure(groups)
  draws whatever there is of it and says what is missing; tables(groups) likewise.
  """

  label: str  # in the paper, 'ours:...' where it has none
  title: str
  methods: tuple[str, ...]
  tasks: tuple[str, ...]
  parts: tuple[str, ...] = ()
  figure: Callable[[list[Group]], Drawing] | None = None
  tables: tuple[Callable[[list[Group]], Table], ...] = ()

  @property
  def commands(self) -> tuple[tuple[str, ...], ...]:
    """The scripts that measure its parts, as words: the script's name and its flags."""
    return tuple(COMMANDS[x] for x in self.parts)


def _rows(parts: list[diagnostics.Panel], methods: tuple[str, ...] = ()) -> Callable:
  return functools.partial(diagnostics.rows_figure, parts=parts, methods=methods)


FIGURES: dict[str, Figure] = {
  'main': Figure(
    'fig:main_curves', 'Main experiments', curves.MAIN, TASKS, figure=curves.main_figure
  ),
  'recoverability': Figure(
    'fig:recovery_ablation', 'Recoverability ablation', curves.RECOVERABILITY, curves.ABLATED,
    figure=curves.recoverability_figure,
  ),
  'design': Figure(
    'fig:walker_controls', 'Design ablation', curves.DESIGN_METHODS, curves.ABLATED[:1],
    figure=curves.design_figure,
  ),
  'robustness': Figure(
    'tab:robustness', 'Robust deployment', PAIR, TASKS, ('robust',),
    _rows([('', 'robust', diagnostics.robust_panel)], PAIR), (measures.robustness_table,),
  ),
  'recovery': Figure(
    'ours:recovery', 'Recovery from displaced states', PAIR, TASKS, ('recovery',),
    diagnostics.recovery_figure, (measures.recovery_table,),
  ),
  'imagination': Figure(
    'ours:imagination', 'Coming back, really and imagined', PAIR, TASKS, ('imagination',),
    diagnostics.imagination_figure, (measures.imagination_table,),
  ),
  'gap': Figure(
    'tab:wm_diagnostics', 'World-model diagnostics', PAIR, TASKS, ('gap',),
    diagnostics.gap_figure, (measures.gap_table,),
  ),
  'deciles': Figure(
    'fig:uncertainty_deciles', 'Disagreement ranking and held-out model error', PAIR, POINTMAZE,
    ('gap',), _rows(diagnostics.DECILES, PAIR), (measures.deciles_table,),
  ),
  'mechanism': Figure(
    'fig:recovery_mechanism', 'Diagnostics of recoverability conditioning', PAIR, POINTMAZE,
    ('gap', 'recoverability'),
    _rows([diagnostics.REGION_GAPS, *diagnostics.CALIBRATION], PAIR),
    (measures.recoverability_table, measures.tube_table),
  ),
  'diagnostics': Figure(
    'fig:additional_diagnostics', 'Recoverability prediction and acquisition efficiency',
    diagnostics.COLLECTORS, POINTMAZE, ('recoverability', 'acquisition'),
    _rows([diagnostics.AUROC, *diagnostics.ACQUISITION], diagnostics.COLLECTORS),
    (measures.acquisition_table,),
  ),
  'allocation': Figure(
    'fig:pointmaze_model', 'Visitation and acquisition', diagnostics.ALLOCATED, POINTMAZE,
    figure=diagnostics.allocation_figure, tables=(measures.allocation_table,),
  ),
  'windows': Figure(
    'ours:windows', 'What windows bring home', ('random_collect', 'no_recovery', 'recon'), TASKS,
    ('windows',), _rows(diagnostics.PARTS['windows']),
    (measures.brought_table, measures.taught_table, measures.returned_table),
  ),
  'compute': Figure(
    'tab:compute_overhead', 'Compute overhead', PAIR, ('dmc_walker_run',),
    tables=(measures.compute_table,),
  ),
}  # fmt: skip


def draw(
  name: str, runs: list[Run], folder: pathlib.Path, vector: bool = True
) -> dict[str, pathlib.Path]:
  """Writes a figure for each variant of the runs, and its tables as Markdown; paths by name."""
  groups, entry = group_runs(runs), FIGURES[name]
  paths = draw_variants(name, groups, folder, vector) if entry.figure else {}
  folder.mkdir(parents=True, exist_ok=True)
  for table in (make(groups) for make in entry.tables):
    path = folder / f'{table.name}.md'
    path.write_text(f'# {table.title}\n\n{table.markdown()}\n', encoding='utf-8')
    paths[f'{table.name}_table'] = path
  return paths


def draw_variants(
  name: str, groups: list[Group], folder: pathlib.Path, vector: bool = True
) -> dict[str, pathlib.Path]:
  """A figure for each variant, named after it if there are several."""
  variants, paths = grouped(groups, lambda x: x.variant), {}
  for variant, own in (variants or {'': []}).items():
    title = f'{name}-{style.slug(variant)}' if len(variants) > 1 and variant else name
    paths[title] = style.save_figure(FIGURES[name].figure(own), folder, title, vector)
  return paths


@dataclasses.dataclass(frozen=True)
class Section:
  """Tables of an entry and the figures that belong to them, none where there are no data."""

  name: str
  tables: tuple[Table, ...]
  figures: dict[str, pathlib.Path]


def sections(groups: list[Group], folder: pathlib.Path, vector: bool = True) -> list[Section]:
  """All entries with tables; figures are drawn where there are data of what they compare."""
  found = []
  for name, entry in FIGURES.items():
    if entry.tables:
      tables = tuple(make(groups) for make in entry.tables)
      chosen = drawable(entry, groups) if tables[0].rows and entry.figure else []
      figures = draw_variants(name, chosen, folder, vector) if chosen else {}
      found.append(Section(name, tables, figures))
  return found


def drawable(entry: Figure, groups: list[Group]) -> list[Group]:
  """The groups of those variants that have something to show."""
  variants = lambda found: {x.variant for x in found}
  if not entry.parts:  # where steps went: a map, and a single method is no comparison
    known = [x for x in groups if any('map' in (allocation(run) or ()) for run in x.runs)]
    methods = grouped({(x.variant, x.method) for x in groups}, lambda x: x[0])
    several = {k for k, v in methods.items() if len(v) > 1} & variants(known)
    return [x for x in known if x.variant in (several or variants(known))]
  ours = entry.label.startswith('ours:')
  own = groups if ours else [x for x in groups if x.method in entry.methods]
  known = variants(x for x, _ in with_data(own, entry.parts[-1]))
  return [x for x in groups if x.variant in known]
