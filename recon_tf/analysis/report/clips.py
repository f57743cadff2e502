"""GIFs of runs: the newest of each kind, and open-loop predictions as labelled strips."""

import pathlib

import numpy as np
from matplotlib.figure import Figure

from recon_tf.analysis.archive import clearest, frames_of
from recon_tf.analysis.report import style
from recon_tf.analysis.runs import Group, Run

CONTEXT = 5  # frames that the model sees before it predicts, as in Agent.report
ROWS = ('truth', 'model', 'error')


def newest(run: Run, prefix: str) -> dict[str, tuple[int, bytes]]:
  """Step and GIF by tag."""
  found = {k: v for k, v in run.gifs().items() if k.startswith(prefix)}
  return {k: (max(v), v[max(v)]) for k, v in found.items()}


def draw_predictions(
  groups: list[Group], folder: pathlib.Path, vector: bool = False
) -> dict[str, pathlib.Path]:
  """The newest open-loop prediction of each group's first run that has one; none for vectors."""
  found, names = {}, style.titles(groups)
  for group in groups:
    for run in group.runs:
      for tag, (step, gif) in newest(run, 'open_loop/').items():
        name = f'{style.slug(tag)}-{style.slug(group.name)}'
        title = f'{names[group.setting]}: {style.label(group.method)}, step {step:,}'
        figure = prediction_figure(clearest(frames_of(gif), run.config.env.size[1]), title)
        found[title] = style.save_figure(figure, folder, name, vector)
      if newest(run, 'open_loop/'):
        break
  return found


@style.STYLED
def prediction_figure(frames: np.ndarray, title: str, columns: int = 10) -> Figure:
  """A prediction [time, 3 * height, width, 3]: rows by kind, columns by time."""
  count = min(columns, len(frames))
  times = np.unique(np.linspace(0, len(frames) - 1, count).round().astype(int))
  height = frames.shape[1] // len(ROWS)
  figure = Figure((1.05 * len(times) + 0.6, 1.05 * len(ROWS) + 0.75), layout='constrained')
  figure.get_layout_engine().set(w_pad=0.015, h_pad=0.015, hspace=0, wspace=0)
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
