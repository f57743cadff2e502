"""The figures of a folder of runs, drawn from what is there."""

import pathlib
import re

import numpy as np

from recon_tf.analysis import plots, videos
from recon_tf.analysis.curves import learning_curve
from recon_tf.analysis.groups import Group, settings_of
from recon_tf.analysis.regions import Steps, expert_cloud, real_steps
from recon_tf.analysis.tables import Row


def draw_scores(rows: list[Row], folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """curves, final and clock; empty before the first evaluation."""
  groups = [x.group for x in rows if x.results]
  if not groups:
    return {}
  scores = {x.group.setting: x.score for x in rows if x.results}
  figures = {
    'curves': plots.curves_figure([learning_curve(x) for x in groups]),
    'final': plots.final_figure(rows),
    'clock': plots.clock_figure(groups, scores),
  }
  return {k: plots.save_figure(v, folder, k) for k, v in figures.items()}


def draw_traces(groups: list[Group], folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """D, G, U and delta, one figure for each variant and task that has logged any."""
  logged = lambda group: any(plots.TRACES.keys() & run.metrics().keys() for run in group.runs)
  settings = settings_of([x for x in groups if logged(x)])
  name = lambda setting: 'traces' if len(settings) == 1 else f'traces-{slug(setting)}'
  return {
    setting: plots.save_figure(plots.traces_figure(members), folder, name(setting))
    for setting, members in settings.items()
  }


def draw_regions(groups: list[Group], folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """regions and visits; empty for tasks without a position in the plane."""
  visits, clouds, shares = {}, {}, {}
  for group in groups:
    found = [x for x in map(real_steps, group.runs) if x]
    if not found:
      continue
    visits[group.name] = joined(found)
    clouds[group.name] = expert_cloud(group.runs[0])
    shares.update(_bars(group, visits[group.name]))
  if not visits:
    return {}
  figures = {'regions': plots.regions_figure(shares), 'visits': plots.visits_figure(visits, clouds)}
  return {k: plots.save_figure(v, folder, k) for k, v in figures.items()}


def draw_predictions(groups: list[Group], folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """The newest open-loop prediction of each group's first run; empty for vectors."""
  found = {}
  for group in groups:
    run = group.runs[0]
    for tag, gifs in videos.read_gifs(run).items():
      if tag.startswith('open_loop/'):
        name = f'{slug(tag)}-{slug(group.name)}'
        found[name] = folder / f'{name}.png'
        folder.mkdir(parents=True, exist_ok=True)
        videos.open_loop_sheet(gifs[max(gifs)], run.config.env.size[1]).save(found[name])
  return found


def joined(parts: list[Steps]) -> Steps:
  """The steps of several seeds."""
  pick = lambda name: np.concatenate([getattr(x, name) for x in parts])
  return Steps(pick('position'), pick('explorer'), pick('distance'))


def _bars(group: Group, steps: Steps) -> dict[str, dict]:
  collector = 'random' if group.runs[0].config.windows.collector == 'random' else 'explorer'
  bars = {f'{group.name} · {collector}': steps.shares(True)}
  bars[f'{group.name} · main'] = steps.shares(False)
  return {k: v for k, v in bars.items() if v}


def slug(name: str) -> str:
  return re.sub(r'[^A-Za-z0-9_-]+', '-', name)
