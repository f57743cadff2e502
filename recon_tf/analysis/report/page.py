"""The report of a folder of runs in one HTML page: what they reached, how, with which commands."""

import base64
import dataclasses
import pathlib

import jinja2
from PIL import Image

from recon_tf.analysis.commands import group_commands
from recon_tf.analysis.report import curves, style
from recon_tf.analysis.report.registry import Section, sections
from recon_tf.analysis.report.tables import NONE, Row, final_table, score_notes
from recon_tf.analysis.runs import (
  Group,
  Run,
  differing_keys,
  group_runs,
  minutes_trace,
  observations,
  reached_step,
  settings_of,
)
from recon_tf.common.config import load_config
from recon_tf.common.files import write_bytes
from recon_tf.common.versions import run_meta

TYPES = {b'\x89PNG': 'image/png', b'GIF8': 'image/gif'}


@dataclasses.dataclass(frozen=True)
class Picture:
  """An inline PNG or GIF; words describe it, below it or for those who cannot see it."""

  content: bytes
  words: str
  width: int | None = None
  caption: bool = True

  @property
  def source(self) -> str:
    kind = next(v for k, v in TYPES.items() if self.content.startswith(k))
    return f'data:{kind};base64,{base64.b64encode(self.content).decode()}'


@dataclasses.dataclass(frozen=True)
class Cells:
  """A table of the page; a row that is a text is a heading, `numbers` are set flush right."""

  head: tuple
  rows: list
  numbers: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Block:
  """A box of the page; templates escape all of it."""

  anchor: str
  title: str
  tables: tuple[Cells, ...] = ()
  pictures: tuple[Picture, ...] = ()
  paragraphs: tuple[str, ...] = ()
  note: str = ''
  code: str = ''
  pixels: bool = False  # small pictures stay sharp when they are enlarged


def write_report(runs: list[Run], folder: pathlib.Path, title: str) -> pathlib.Path:
  """Writes index.html and its figures as PNG and SVG; returns the page's path."""
  groups = group_runs(runs)
  rows = final_table(groups)
  done = sum(x.final() is not None for x in runs)
  lead = f'{len(runs)} run{"s" if len(runs) > 1 else ""} in {len(groups)} groups, {done} finished.'
  drawn = draw_scores(rows, folder)
  blocks = [
    _curves(drawn), _table(rows), _runs(rows, drawn), _traces(draw_traces(groups, folder)),
    *_measured(sections(groups, folder)), *_videos(groups, folder), _commands(groups),
    _versions(runs),
  ]  # fmt: skip
  loader = jinja2.FileSystemLoader(pathlib.Path(__file__).parent)
  template = jinja2.Environment(autoescape=True, loader=loader).get_template('page.html')
  path = folder / 'index.html'
  wide = len(settings_of(groups)) > 2  # curves need the room of the table beside them
  text = template.render(
    title=title, lead=lead, warnings=[*_problems(groups), *_smaller(rows)], blocks=blocks, wide=wide
  )
  write_bytes(path, text.encode())  # an older page stays whole if there is no space
  return path


def draw_scores(
  rows: list[Row], folder: pathlib.Path, names: tuple[str, ...] = ('curves', 'final', 'clock'),
  vector: bool = True,
) -> dict[str, pathlib.Path]:  # fmt: skip
  """Learning curves, final scores and wall-clock; empty before the first evaluation."""
  groups = [x.group for x in rows if x.results]
  makers = {
    'curves': lambda: curves.curves_figure(groups),
    'final': lambda: curves.final_figure(rows),
    'clock': lambda: curves.clock_figure(groups),
  }
  chosen = names if groups else ()
  return {x: style.save_figure(makers[x](), folder, x, vector) for x in chosen}


def draw_traces(
  groups: list[Group], folder: pathlib.Path, vector: bool = True
) -> dict[str, pathlib.Path]:
  """D, G, U and delta, one figure for each variant and task that has logged any."""
  logged = lambda group: any(curves.TRACES.keys() & run.metrics().keys() for run in group.runs)
  found = settings_of([x for x in groups if logged(x)])
  names = style.titles(groups)
  name = lambda setting: 'traces' if len(found) == 1 else f'traces-{style.slug(setting)}'
  return {
    names[k]: style.save_figure(curves.traces_figure(v), folder, name(k), vector)
    for k, v in found.items()
  }


def _figure(path: pathlib.Path, words: str, caption: bool = True) -> Picture:
  """A figure in the size that its letters are made for."""
  with Image.open(path) as image:
    width = round(image.width * 96 / style.DPI)
  return Picture(path.read_bytes(), words, width, caption)


def _curves(figures: dict[str, pathlib.Path]) -> Block:
  if not figures:
    words = 'No run has been evaluated yet; the first evaluation comes after pretraining.'
    return Block('curves', 'Learning curves', paragraphs=(words,))
  note = 'Thick: interquartile mean over seeds; band: its 95 % bootstrap interval; thin: seeds.'
  image = _figure(figures['curves'], 'Learning curves', caption=False)
  return Block('curves', 'Learning curves', pictures=(image,), note=note)


def _table(rows: list[Row]) -> Block:
  head = ('method', 'seeds', 'result', '95 % interval', 'paper')
  settings, cells = settings_of([x.group for x in rows]), []
  names = style.titles([x.group for x in rows])
  for setting in settings:
    cells += [names[setting]] if len(settings) > 1 else []
    cells += [_cells(x) for x in rows if x.group.setting == setting]
  note = ' '.join(score_notes(rows))
  return Block('table', 'Final scores', (Cells(head, cells, (1, 2, 3, 4)),), note=note)


def _cells(row: Row) -> list:
  known = NONE if row.paper is None else f'{row.paper:.1f}'
  name = style.label(row.group.method)
  if not row.results:
    return [name, len(row.group.runs), 'not yet', NONE, known]
  mark = '' if row.finished else ' *'
  return [name, len(row.results), f'{row.iqm:.1f}{mark}', row.bounds, known]


def _problems(groups: list[Group]) -> list[str]:
  words = 'The seeds of {} differ in more than their seed: {}.'
  found = {x.name: differing_keys(x) for x in groups}
  return [words.format(name, ', '.join(keys)) for name, keys in found.items() if keys]


def _smaller(rows: list[Row]) -> list[str]:
  """Says so where scores of other sizes or budgets stand beside the paper's."""
  paper, keys = load_config().flat, ('steps', 'rssm.deter')
  small = lambda run: any(run.config.flat.get(k, paper[k]) < paper[k] for k in keys)
  if not any(row.paper is not None and any(map(small, row.group.runs)) for row in rows):
    return []
  return [
    "The column 'paper' has its numbers for other settings than these runs: smaller networks, "
    'fewer steps, often other observations. They are no reproduction of one another.'
  ]


def _runs(rows: list[Row], figures: dict[str, pathlib.Path]) -> Block:
  head = ('run', 'method', 'seed', 'sees', 'result', 'episodes', 'steps', 'minutes', 'state')
  cells = [_run_cells(row, run) for row in rows for run in row.group.runs]
  words = {'final': 'Final scores; dots are seeds', 'clock': 'Scores by wall-clock'}
  images = tuple(_figure(figures[k], v) for k, v in words.items() if k in figures)
  table = Cells(head, cells, (2, 4, 5, 6, 7))
  return Block('runs', 'Runs and wall-clock', (table,), images)


def _run_cells(row: Row, run: Run) -> list:
  # The same results as in the table above, though a run may have gone on meanwhile.
  result = next((x for x in row.results if x.run is run), None)
  value, episodes = (f'{result.value:.1f}', result.episodes) if result else (NONE, NONE)
  state = 'finished' if result and result.finished else 'unfinished'
  reached = result.step if result else reached_step(run)
  _, minutes = minutes_trace(run)
  spent = f'{minutes[-1]:.1f}' if len(minutes) else NONE
  cells = [row.group.setting, run.method, run.seed, observations(run), value, episodes]
  return [*cells, f'{reached:,} of {run.config.steps:,}', spent, state]


def _traces(figures: dict[str, pathlib.Path]) -> Block:
  if not figures:
    return Block('traces', 'D, G, U and δ', paragraphs=('Nothing was logged yet.',))
  note = 'From metrics.jsonl, mean over seeds; bands span the seeds. D is without its input noise.'
  images = tuple(_figure(v, f'D, G, U and δ: {k}') for k, v in figures.items())
  return Block('traces', 'D, G, U and δ', pictures=images, note=note)


def _measured(found: list[Section]) -> list[Block]:
  """What evaluate and diagnose measured; a line each for what they did not."""
  blocks, missing = [], []
  for section in found:
    images = tuple(_figure(v, k, caption=False) for k, v in section.figures.items())
    for table in section.tables:
      if not table.rows:
        missing.append(f'{table.title}: {table.missing.replace("`", "")}')
        continue
      cells = Cells(table.head, list(table.rows), tuple(range(2, len(table.head))))
      note = ' '.join(table.notes)
      blocks.append(Block(table.name, table.title, (cells,), images, note=note))
      images = ()  # with the first table of the section
  if missing:
    blocks.append(Block('unmeasured', 'Not measured yet', paragraphs=tuple(missing)))
  return blocks


def _videos(groups: list[Group], folder: pathlib.Path) -> list[Block]:
  films = []
  for group in groups:
    for run in group.runs:
      name = f'{group.name}, seed {run.seed}'
      for step, gif in curves.newest(run, 'eval/').values():
        films.append(Picture(gif, f'{name}, step {step:,}', 160))
  strips = curves.draw_predictions(groups, folder)
  if not films and not strips:
    words = 'No videos were recorded: vectors only, or not that far yet (video_every).'
    return [Block('videos', 'Videos', paragraphs=(words,))]
  note = 'After five observed frames the model sees only the actions. The first seed of each group.'
  images = tuple(_figure(v, k) for k, v in strips.items())
  blocks = [
    Block('videos', 'Evaluation episodes', pictures=tuple(films), pixels=True),
    Block('open_loop', 'Open-loop predictions', pictures=images, note=note),
  ]
  return [x for x in blocks if x.pictures]


def _commands(groups: list[Group]) -> Block:
  note = 'Worked out from each config.yaml: presets, then what they leave open.'
  return Block('commands', 'Commands', code='\n'.join(group_commands(groups)), note=note)


def _versions(runs: list[Run]) -> Block:
  """Runs of the same code and packages share a row."""
  rows = {}
  for run in runs:
    for start in run.starts():
      rows.setdefault(version_cells(start), []).append(f'{run.task} {run.method} {run.seed}')
  head = ('commit', 'python', 'packages', 'machine', 'runs')
  tables, words = (), ()
  if rows:
    tables += (Cells(head, [[*k, ', '.join(dict.fromkeys(v))] for k, v in rows.items()]),)
  if any(not x.starts() for x in runs):
    words = ('Some runs did not record their versions. This page was made with the last row.',)
    tables += (Cells(head[:4], [version_cells(run_meta())]),)
  return Block('versions', 'Versions and commit', tables, paragraphs=words)


def version_cells(start: dict) -> tuple[str, str, str, str]:
  """Commit, Python, packages and machine of a recorded start."""
  commit = start.get('commit') or 'unknown'
  commit += ' with changes' if start.get('changed') else ''
  packages = ', '.join(f'{k} {v}' for k, v in start.get('versions', {}).items())
  machine = f'{start.get("system", "")}, {start.get("cores", "?")} cores'
  return commit, start.get('python', ''), packages, machine
