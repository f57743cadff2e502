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
from recon_tf.analysis.stats import mean_interval

# Okabe and Ito's palette; lines also differ in their markers, for print without colour.
COLORS = {
  'bc': '#999999', 'vmail': '#56B4E9', 'cmil': '#0072B2', 'no_recovery': '#E69F00',
  'recon': '#D55E00', 'dadac': '#009E73', 'iqmpc': '#CC79A7', 'bc_raw': '#000000',
  'random_collect': '#B8A200', 'bc_equal': '#7A4FBF',
}  # fmt: skip
SPARE = ('#8C564B', '#17BECF', '#5B8C2A', '#D2691E', '#3B3B98', '#B33771')
# Ablations share colours with those of other kinds, which no panel compares them with.
for _family in (
  ('terminal_only',), ('gate_mean', 'gate_last', 'gate_stopgrad'),
  ('windows_5', 'windows_30', 'windows_early', 'windows_late', 'windows_long'),
):  # fmt: skip
  COLORS |= dict(zip(_family, SPARE, strict=False))
MARKERS = ('o', 's', '^', 'D', 'v', 'P', 'X', '*')
REGION_COLORS = {'support': '#009E73', 'near': '#F0E442', 'far': '#CC79A7'}
GREY = '#666666'
EXPERT = {'color': '#333333', 'lw': 1, 'ls': (0, (4, 3)), 'label': 'expert'}
DPI = 110
FREQUENT, SPANNING = 64, 64  # colours of a PNG
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
  """A quarter of the bytes: the frequent colours as they are, and some that span the others."""
  spanning = image.quantize(SPANNING, Image.Quantize.MAXCOVERAGE).getpalette()
  flat = np.asarray(image).reshape(-1, 3)
  colors, place, count = np.unique(flat, axis=0, return_inverse=True, return_counts=True)
  frequent = colors[np.argsort(-count, kind='stable')[:FREQUENT]]
  palette = np.concatenate([frequent, np.reshape(spanning, (-1, 3))])
  nearest = cKDTree(palette).query(colors)[1]  # Pillow's search would miss the white by a shade
  made = Image.fromarray(nearest[place].reshape(image.height, image.width).astype(np.uint8), 'P')
  made.putpalette(palette.astype(np.uint8).tobytes())
  return made


def slug(name: str) -> str:
  return re.sub(r'[^A-Za-z0-9_-]+', '-', name)


# Panels


def make_panels(
  names: Sequence[str], columns: int = 4, height: float = 2.9, width: float = 3.3
) -> tuple[Figure, dict[str, Axes]]:
  """A titled panel for each name, in rows of so many, with room for a legend above them."""
  columns = max(1, min(columns, len(names)))
  rows, width = -(-len(names) // columns), 5.6 if columns == 1 else width
  figure = Figure((width * columns, 0.45 + height * rows), layout='constrained')
  grid = figure.subplots(rows, columns, squeeze=False)
  for axes in grid.flat[len(names) :]:
    axes.set_axis_off()
  panels = dict(zip(names, grid.flat, strict=False))
  for name, axes in panels.items():
    size = min(STYLE['axes.titlesize'], 90 * width / len(name))  # no wider than its panel
    axes.set_title(name, fontsize=size)
  return figure, panels


def legend_above(figure: Figure, panels: Iterable[Axes], order: Sequence[str] = ()) -> Figure:
  """One legend for all panels, above them, where it covers no line; `order` names come first."""
  found = {}
  for axes in panels:
    handles, names = axes.get_legend_handles_labels()
    found.update({k: v for v, k in zip(handles, names, strict=True) if k not in found})
  found = {k: found[k] for k in dict.fromkeys([*(x for x in order if x in found), *found])}
  if found:
    columns = _legend_columns([*found], figure.get_figwidth())
    figure.legend(found.values(), found.keys(), loc='outside upper center', ncols=columns)
  return figure


def _legend_columns(names: list[str], width: float) -> int:
  """As many as fit into so many inches; a column is filled before the next one."""
  for columns in range(len(names), 1, -1):
    longest = [max(map(len, x)) for x in np.array_split(names, columns)]
    if sum(0.6 + 0.072 * x for x in longest) < width:
      return columns
  return 1


def step_axis(axes: Axes) -> None:
  """Few ticks, thousands with commas."""
  axes.xaxis.set_major_locator(mpl.ticker.MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
  axes.xaxis.set_major_formatter('{x:,.0f}')


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
  """Means over seeds with their intervals, and a dot beside them for each seed."""
  means = [np.mean(x) if x else np.nan for x in values]
  axes.bar(places, means, 0.92 * width, color=color, alpha=0.45, label=name)
  for place, own in zip(places, values, strict=True):
    bounds = mean_interval(own)
    if bounds:
      axes.plot([place, place], bounds, color='black', lw=1.2, zorder=3)
    seed_dots(axes, place + 0.15 * width, own, color)
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


def say(axes: Axes, words: str) -> None:
  """Words in place of a plot."""
  lines = [x for part in words.splitlines() for x in textwrap.wrap(
    part, 32, break_long_words=False, break_on_hyphens=False)]  # fmt: skip
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
    axes.set_xlabel(f'{axes.get_xlabel()}\n{text}'.strip(), color=GREY, fontsize=8)
