"""The report of a folder of runs: what they reached, how, and with which commands."""

import pathlib

from PIL import Image

from recon_tf.analysis import html, videos
from recon_tf.analysis.commands import group_commands
from recon_tf.analysis.figures import draw_predictions, draw_regions, draw_scores, draw_traces
from recon_tf.analysis.groups import (
  Group,
  differing_keys,
  group_runs,
  minutes_trace,
  observations,
  reached_step,
  settings_of,
)
from recon_tf.analysis.plots import DPI
from recon_tf.analysis.regions import expert_success
from recon_tf.analysis.runs import RunFolder
from recon_tf.analysis.sections import Section, measured_sections
from recon_tf.analysis.tables import Row, final_table, load_rliable
from recon_tf.common.versions import read_starts, run_meta


def write_report(runs: list[RunFolder], folder: pathlib.Path, title: str) -> pathlib.Path:
  """Writes index.html and its figures as PNG and SVG; returns the page's path."""
  groups = group_runs(runs)
  rows = final_table(groups)
  scores, traces = draw_scores(rows, folder), draw_traces(groups, folder)
  regions = draw_regions(groups, folder)
  draw_predictions(groups, folder)
  done = sum(x.final() is not None for x in runs)
  lead = f'{len(runs)} run{"s" if len(runs) > 1 else ""} in {len(groups)} groups, {done} finished.'
  parts = [
    html.side_by_side(_curves(scores), _table(rows)),
    *([_warnings(groups)] if _problems(groups) else []),
    _runs(rows, scores),
    _traces(traces),
    _regions(regions),
    *_measured(measured_sections(runs, folder)),
    _videos(groups),
    _commands(groups),
    _versions(runs),
  ]
  path = folder / 'index.html'
  path.write_text(html.page(title, lead, parts), encoding='utf-8')
  return path


# Essentials


def _curves(figures: dict[str, pathlib.Path]) -> str:
  if not figures:
    words = 'No run has been evaluated yet; the first evaluation comes after pretraining.'
    return html.section('Learning curves', html.text(words), anchor='curves')
  note = 'Thick: interquartile mean over seeds; band: its 95 % bootstrap interval; thin: seeds.'
  image = _figure(figures['curves'], 'Learning curves')
  return html.section('Learning curves', image, html.text(note, 'note'), anchor='curves')


def _figure(path: pathlib.Path, words: str, caption: bool = False) -> str:
  """A figure in the size that its letters are made for."""
  with Image.open(path) as image:
    width = round(image.width * 96 / DPI)
  return html.picture(path.read_bytes(), words, width, caption)


def _table(rows: list[Row]) -> str:
  head = ['method', 'seeds', 'result', '95 % interval', 'paper']
  settings = settings_of([x.group for x in rows])
  cells = []
  for setting in settings:
    cells += [setting] if len(settings) > 1 else []
    cells += [_cells(x) for x in rows if x.group.setting == setting]
  note = html.text(' '.join(table_notes(rows)), 'note')
  table = html.table(head, cells, numbers=(1, 2, 3, 4))
  return html.section('Final scores', table, note, anchor='table')


def _cells(row: Row) -> list[str]:
  known = '–' if row.paper is None else f'{row.paper:.1f}'
  if not row.results:
    return [row.group.method, len(row.group.runs), 'not yet', '–', known]
  mark = '' if row.finished else ' *'
  return [row.group.method, len(row.results), f'{row.iqm:.1f}{mark}', row.bounds, known]


def table_notes(rows: list[Row]) -> list[str]:
  """What a reader must know to read the final table."""
  rated = [x for x in rows if x.results]
  notes = ['Result: interquartile mean over seeds, success in percent or return (DMC, Gymnasium).']
  if any(len(x.results) < 4 for x in rated):
    notes[0] += ' Below four seeds nothing is cut off: it is the mean.'
  episodes = sorted({r.episodes for x in rated for r in x.results})
  if episodes:
    span = f'{episodes[0]} to {episodes[-1]}' if len(episodes) > 1 else f'{episodes[0]}'
    notes.append(f'Each score is the mean over {span} episodes of the deterministic main policy.')
  if any(not x.finished for x in rated):
    notes.append('* Not all runs are finished: the newest evaluation of each counts.')
  if any(len(x.results) == 1 for x in rated):
    notes.append('A single seed has no interval.')
  # Asked last, because loading it takes seconds.
  if any(len(x.results) > 1 for x in rated) and load_rliable() is None:
    notes.append("No intervals: rliable is not usable here; run pip install '.[sweeps]'.")
  return notes + _expert_notes(rows)


def _expert_notes(rows: list[Row]) -> list[str]:
  """Settings with the same record share a sentence."""
  notes = {}
  for setting, groups in settings_of([x.group for x in rows]).items():
    found = expert_success(groups[0].runs[0])
    if found:
      notes.setdefault(found, []).append(setting)
  words = 'The expert succeeded in {} of {} attempts while it demonstrated ({}).'
  return [words.format(*found, ', '.join(settings)) for found, settings in notes.items()]


def _problems(groups: list[Group]) -> list[str]:
  found = []
  for group in groups:
    keys = differing_keys(group)
    if keys:
      found.append(f'The seeds of {group.name} differ in more than their seed: {", ".join(keys)}.')
  return found


def _warnings(groups: list[Group]) -> str:
  return ''.join(html.text(x, 'warning') for x in _problems(groups))


# Details


def _runs(rows: list[Row], figures: dict[str, pathlib.Path]) -> str:
  head = ['run', 'method', 'seed', 'sees', 'result', 'episodes', 'steps', 'minutes', 'state']
  cells = [_run_cells(row, run) for row in rows for run in row.group.runs]
  table = html.table(head, cells, numbers=(2, 4, 5, 6, 7))
  images = [
    _figure(figures[k], words, caption=True)
    for k, words in (('final', 'Final scores; dots are seeds'), ('clock', 'Scores by wall-clock'))
    if k in figures
  ]
  return html.section('Runs and wall-clock', table, html.pictures(images), anchor='runs')


def _run_cells(row: Row, run: RunFolder) -> list[str]:
  # The same results as in the table above, though a run may have gone on meanwhile.
  result = next((x for x in row.results if x.run is run), None)
  value, episodes = (f'{result.value:.1f}', result.episodes) if result else ('–', '–')
  state = 'finished' if result and result.finished else 'unfinished'
  reached = result.step if result else reached_step(run)
  _, minutes = minutes_trace(run)
  spent = f'{minutes[-1]:.1f}' if len(minutes) else '–'
  cells = [row.group.setting, run.method, run.seed, observations(run), value, episodes]
  return [*cells, f'{reached:,} of {run.config.steps:,}', spent, state]


def _traces(figures: dict[str, pathlib.Path]) -> str:
  images = [_figure(v, f'D, G, U and δ: {k}', caption=True) for k, v in figures.items()]
  if not images:
    return html.section('D, G, U and δ', html.text('Nothing was logged yet.'), anchor='traces')
  note = 'From metrics.jsonl, mean over seeds; bands span the seeds. D is without its input noise.'
  return html.section('D, G, U and δ', *images, html.text(note, 'note'), anchor='traces')


def _regions(figures: dict[str, pathlib.Path]) -> str:
  if not figures:
    words = (
      'Nothing to show: this needs collected episodes with log_position (mazes), beyond the '
      'random ones, and the demonstrations of the run.'
    )
    return html.section('Explorer steps by region', html.text(words), anchor='regions')
  note = (
    'States that real steps led to, random prefill left out, by distance to the nearest state of '
    'the demonstrations: support up to 0.025, near up to 0.10, far beyond (as in the paper).'
  )
  images = [
    _figure(figures['regions'], 'Real steps by region'),
    _figure(figures['visits'], 'Where the real steps went'),
  ]
  return html.section('Explorer steps by region', *images, html.text(note, 'note'),
                      anchor='regions')  # fmt: skip


def _measured(sections: list[Section]) -> list[str]:
  """What evaluate.py and diagnose.py measured; a line each for what they did not."""
  parts = []
  for section in [x for x in sections if x.table.rows]:
    table = section.table
    images = [_figure(path, table.title) for path in section.figures.values()]
    numbers = range(2, len(table.head))
    rows = html.table(table.head, table.rows, numbers)
    notes = html.text(' '.join(table.notes), 'note')
    parts.append(html.section(table.title, rows, *images, notes, anchor=table.name))
  missing = [x.table for x in sections if not x.table.rows]
  if missing:
    lines = [html.text(f'{x.title}: {x.missing.replace("`", "")}') for x in missing]
    parts.append(html.section('Not measured yet', *lines, anchor='unmeasured'))
  return parts


def _videos(groups: list[Group]) -> str:
  films, predictions = [], []
  for group in groups:
    for run in group.runs:
      gifs = videos.read_gifs(run)
      name = f'{group.name}, seed {run.seed}'
      films += _newest(gifs, 'eval/', name, 160)
      if run is group.runs[0]:
        predictions += _newest(gifs, 'open_loop/', name, 560)
  if not films and not predictions:
    words = 'No videos were recorded: vectors only, or not that far yet (video_every).'
    return html.section('Videos', html.text(words), anchor='videos')
  note = (
    'Open loop: rows are truth, model and error; after five observed frames the model sees only '
    'the actions. The first seed of each group.'
  )
  return ''.join((
    html.section('Evaluation episodes', html.pictures(films, pixels=True), anchor='videos'),
    html.section('Open-loop predictions', html.pictures(predictions, pixels=True),
                 html.text(note, 'note'), anchor='open_loop'),
  ))  # fmt: skip


def _newest(gifs: dict[str, dict[int, bytes]], prefix: str, name: str, width: int) -> list[str]:
  found = []
  for tag, steps in gifs.items():
    if tag.startswith(prefix):
      step = max(steps)
      found.append(html.picture(steps[step], f'{name}, step {step:,}', width, caption=True))
  return found


def _commands(groups: list[Group]) -> str:
  lines = group_commands(groups)
  note = 'Worked out from each config.yaml: presets, then what they leave open.'
  return html.section('Commands', html.code('\n'.join(lines)), html.text(note, 'note'),
                      anchor='commands')  # fmt: skip


def _versions(runs: list[RunFolder]) -> str:
  """Runs of the same code and packages share a row."""
  rows = {}
  for run in runs:
    for start in read_starts(run.path):
      rows.setdefault(version_cells(start), []).append(f'{run.task} {run.method} {run.seed}')
  head = ['commit', 'python', 'packages', 'machine', 'runs']
  parts = []
  if rows:
    cells = [[*k, ', '.join(dict.fromkeys(v))] for k, v in rows.items()]
    parts.append(html.table(head, cells))
  if any(not read_starts(x.path) for x in runs):
    own = version_cells(run_meta())
    words = 'Some runs did not record their versions. This page was made with:'
    parts += [html.text(words), html.table(head[:4], [own])]
  return html.section('Versions and commit', *parts, anchor='versions')


def version_cells(start: dict) -> tuple[str, str, str, str]:
  """Commit, Python, packages and machine of a recorded start."""
  commit = start.get('commit') or 'unknown'
  commit += ' with changes' if start.get('changed') else ''
  packages = ', '.join(f'{k} {v}' for k, v in start.get('versions', {}).items())
  machine = f'{start.get("system", "")}, {start.get("cores", "?")} cores'
  return commit, start.get('python', ''), packages, machine
