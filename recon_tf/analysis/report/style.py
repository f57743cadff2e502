"""One look for all figures: colours, names, panels, legends, and what an empty panel says."""

import io
import pathlib
import re
import textwrap
from collections.abc import Iterable, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from scipy.spatial import cKDTree

from recon_tf.analysis.commands import usual_command
from recon_tf.analysis.paper import paper_tasks
from recon_tf.analysis.runs import Group, Run, observations, settings_of

# Okabe and Ito's palette; lines also differ in their markers, for print without colour.
COLORS = {
  'bc': '#999999', 'vmail': '#56B4E9', 'cmil': '#0072B2', 'no_recovery': '#E69F00',
  'recon': '#D55E00', 'dadac': '#009E73', 'iqmpc': '#CC79A7', 'bc_raw': '#000000',
  'random_collect': '#B8A200', 'bc_equal': '#7A4FBF',
}  # fmt: skip
SPARE = ('#8C564B', '#17BECF', '#5B8C2A', '#D2691E')
MARKERS = ('o', 's', '^', 'D', 'v', 'P', 'X', '*')
REGION_COLORS = {'support': '#009E73', 'near': '#F0E442', 'far': '#CC79A7'}
GREY = '#666666'
DPI = 130
STYLE = {
  'font.size': 9,
  'font.family': 'DejaVu Sans',
  'axes.spines.top': False,
  'axes.spines.right': False,
  'axes.grid': True,
  'grid.alpha': 0.25,
  'axes.titlesize': 9.5,
  'axes.titleweight': 'bold',
  'legend.frameon': False,
  'svg.hashsalt': 'recon_tf',  # the same figure gives the same file
}
STYLED = mpl.rc_context(STYLE)  # as a decorator, so that importing changes nobody's figures

# The paper's names of the methods and tasks.
LABELS = {
  'bc': 'BC', 'bc_equal': 'BC, equal updates', 'bc_raw': 'BC, raw vectors', 'dadac': 'DA-DAC',
  'vmail': 'V-MAIL', 'cmil': 'CMIL', 'iqmpc': 'IQ-MPC', 'recon': 'RECON',
  'no_recovery': 'without gate', 'random_collect': 'random windows', 'cmil_code': "CMIL's code",
}  # fmt: skip
TASKS = {
  'maze_umaze': 'U-Maze', 'maze_pointmaze': 'PointMaze', 'metaworld_drawer-open': 'Drawer Open',
  'metaworld_faucet-close': 'Faucet Close', 'metaworld_handle-press': 'Handle Press',
  'metaworld_hammer': 'Hammer', 'dmc_hopper_stand': 'Hopper Stand', 'dmc_walker_run': 'Walker Run',
}  # fmt: skip


def label(method: str) -> str:
  return LABELS.get(method, method.replace('_', ' '))


def task_name(task: str) -> str:
  return TASKS.get(task, task)


def titles(groups: list[Group]) -> dict[str, str]:
  """Settings as a reader names them: 'U-Maze, pixels', with the variant only where needed."""
  plain = {k: _plain_title(own[0].runs[0]) for k, own in settings_of(groups).items()}
  variants = {x.setting: x.variant.replace('_', ' ') for x in groups}
  once = lambda base: list(plain.values()).count(base) == 1
  return {k: base if once(base) else f'{base} ({variants[k]})' for k, base in plain.items()}


def _plain_title(run: Run) -> str:
  pushed = ', pushed' if run.config.eval_kicks else ''
  return f'{task_name(run.task)}, {observations(run)}{pushed}'


def method_style(methods: Sequence[str]) -> dict[str, dict]:
  """Colour and marker of each method; the paper's keep theirs in every figure."""
  others = [x for x in dict.fromkeys(methods) if x not in COLORS]
  colors = {**COLORS, **{x: SPARE[i % len(SPARE)] for i, x in enumerate(others)}}
  names = [*COLORS, *others]
  marker = lambda x: MARKERS[names.index(x) % len(MARKERS)]
  return {x: {'color': colors[x], 'marker': marker(x)} for x in dict.fromkeys(methods)}


def ranked_style(methods: Sequence[str]) -> dict[str, dict]:
  """Colours and markers by place, the first of them RECON's."""
  colors = [COLORS[x] for x in ('recon', 'cmil', 'dadac', 'iqmpc', 'no_recovery', 'vmail')]
  return {
    x: {'color': colors[i % len(colors)], 'marker': MARKERS[i % len(MARKERS)]}
    for i, x in enumerate(methods)
  }


@STYLED
def save_figure(
  figure: Figure, folder: pathlib.Path, name: str, vector: bool = True
) -> pathlib.Path:
  """Writes name.png in few colours, and name.svg too if wanted; returns the PNG."""
  folder.mkdir(parents=True, exist_ok=True)
  path = folder / f'{name}.png'
  buffer = io.BytesIO()
  figure.savefig(buffer, format='png', dpi=DPI)
  with Image.open(buffer) as image:
    few_colours(image.convert('RGB')).save(path, optimize=True)
  if vector:
    figure.savefig(path.with_suffix('.svg'), metadata={'Date': None})
  return path


def few_colours(image: Image.Image) -> Image.Image:
  """A third of the bytes: the frequent colours as they are, and some that span the others."""
  spanning = np.array(image.quantize(96, Image.Quantize.MAXCOVERAGE).getpalette()).reshape(-1, 3)
  flat = np.asarray(image).reshape(-1, 3)
  colors, place, count = np.unique(flat, axis=0, return_inverse=True, return_counts=True)
  frequent = colors[np.argsort(-count, kind='stable')[:160]]
  palette = np.concatenate([frequent, spanning])[:256]
  nearest = cKDTree(palette).query(colors)[1]  # Pillow's search would miss the white by a shade
  made = Image.fromarray(nearest[place].reshape(image.height, image.width).astype(np.uint8), 'P')
  made.putpalette(palette.astype(np.uint8).tobytes())
  return made


def slug(name: str) -> str:
  return re.sub(r'[^A-Za-z0-9_-]+', '-', name)


# Panels


def make_grid(
  rows: int, columns: int, width: float = 3.4, height: float = 2.9
) -> tuple[Figure, np.ndarray]:
  """Panels [rows, columns], with room for a legend above them."""
  figure = Figure((width * columns, 0.45 + height * rows), layout='constrained')
  return figure, figure.subplots(rows, columns, squeeze=False)


def make_panels(
  names: Sequence[str], columns: int = 4, height: float = 2.9
) -> tuple[Figure, dict[str, Axes]]:
  """A titled panel for each name, in rows of so many."""
  columns = max(1, min(columns, len(names)))
  width = 5.6 if columns == 1 else 3.3
  figure, grid = make_grid(-(-len(names) // columns), columns, width, height)
  for axes in grid.flat[len(names) :]:
    axes.set_axis_off()
  panels = dict(zip(names, grid.flat, strict=False))
  for name, axes in panels.items():
    axes.set_title(name)
  return figure, panels


def legend_above(
  figure: Figure, panels: Iterable[Axes], columns: int = 0, order: Sequence[str] = ()
) -> Figure:
  """One legend for all panels, above them, where it covers no line; `order` names come first."""
  found, panels = {}, list(panels)
  for axes in panels:
    handles, names = axes.get_legend_handles_labels()
    found.update({k: v for v, k in zip(handles, names, strict=True) if k not in found})
  found = {k: found[k] for k in dict.fromkeys([*(x for x in order if x in found), *found])}
  if found:
    columns = columns or max(2, int(figure.get_figwidth() / 1.15))
    columns = min(columns, len(found))
    figure.legend(found.values(), found.keys(), loc='outside upper center', ncols=columns)
  return figure


def score_axis(axes: Axes, score: str) -> None:
  """From nothing up; the last call of a panel, because it ends the automatic scale."""
  axes.set_ylabel(score_name(score))
  if score == 'success':
    axes.set_ylim(-3, 103)
  elif axes.get_ylim()[0] > 0:
    axes.set_ylim(0, 1.05 * axes.get_ylim()[1])


def score_name(score: str) -> str:
  return 'success (%)' if score == 'success' else 'return'


def tasks_with(groups: list[Group], methods: Iterable[str], usual: Sequence[str]) -> list[str]:
  """Tasks with a run of one of the methods, the paper's first; `usual` if there is none."""
  found = {x.task for x in groups if x.method in methods}
  order = [*paper_tasks(), *sorted(found)]
  return list(dict.fromkeys(x for x in order if x in found)) or list(usual)


# Marks


def bars(
  axes: Axes, places, values: list[list[float]], width: float, color: str, name: str
) -> None:
  """Means over seeds, with a dot for each seed."""
  means = [np.mean(x) if x else np.nan for x in values]
  axes.bar(places, means, 0.92 * width, color=color, alpha=0.45, label=name)
  for place, own in zip(places, values, strict=True):
    seed_dots(axes, place, own, color)
  axes.grid(axis='x', visible=False)


def seed_dots(axes: Axes, place: float, values: list[float], color: str) -> None:
  dots = {'color': color, 'ms': 4, 'mec': 'white', 'mew': 0.6, 'ls': '', 'zorder': 3}
  axes.plot(np.full(len(values), place), values, marker='o', **dots)


def side_by_side(count: int, place: int, of: int) -> tuple[np.ndarray, float]:
  """Where bar number `place` of `of` stands at each of so many ticks, and its width."""
  width = 0.8 / max(of, 1)
  return np.arange(count) + width * (place - (of - 1) / 2), width


def mark_paper(axes: Axes, places, values: list[float | None], method: str) -> None:
  """Hollow triangles, where the paper has a number."""
  known = [(x, y) for x, y in zip(places, values, strict=True) if y is not None]
  if known:
    look = {'ls': '', 'marker': '<', 'ms': 7, 'mfc': 'none', 'mec': COLORS[method], 'mew': 1.4}
    axes.plot(*zip(*known, strict=True), **look, clip_on=False, label=f'{label(method)}, paper')


# Panels without data


def empty(axes: Axes, task: str, methods: Sequence[str]) -> None:
  """A panel without runs says how to make them."""
  command = usual_command(task, 'METHOD' if len(methods) > 1 else methods[0])
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
    text = textwrap.fill(f'{what}: {"; ".join(map(label, methods))}', 44)
    axes.set_xlabel(f'{axes.get_xlabel()}\n{text}'.strip(), color=GREY)
