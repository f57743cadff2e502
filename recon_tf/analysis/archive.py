"""Runs small enough to commit: all that tables and figures are made from, and no more.

results/<variant>.json.gz holds configs, thinned metrics, evaluations, diagnoses and where steps
went of all runs of a variant, results/videos open-loop predictions of a few of them. Weights,
pictures and demonstrations stay where they are.
"""

import dataclasses
import gzip
import io
import json
import pathlib
import shutil
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageSequence

from recon_tf.analysis import regions
from recon_tf.analysis.commands import train_command
from recon_tf.analysis.cost import RECORDS, run_cost
from recon_tf.analysis.runs import ARCHIVE, Run, archive_home, grouped, open_archive
from recon_tf.common.files import read_lines, try_json, write_bytes

COPIED = ('eval/*.json', 'diagnose/*.json')
# Single episodes and candidates, which no table or figure shows.
LEFT_OUT = {
  'eval/recovery.json': ('episodes',),
  'diagnose/recoverability.json': ('distance', 'label', 'gate'),
}
DIGITS, METRIC_DIGITS = 6, 4  # significant ones
POINTS = 100  # records of a run's metrics, and more where the clock needs them
CLIPS = ('recon',)  # methods whose first seed keeps its newest open-loop prediction
COLOURS = 128  # of such a clip


def archive_runs(
  runs: list[Run], logdir: pathlib.Path, folder: pathlib.Path, clips: Sequence[str] = CLIPS
) -> list[pathlib.Path]:
  """Adds runs to the archives of their variants; entries of the same place are replaced."""
  variants = grouped(runs, lambda x: variant_of(x, logdir))
  return [add_runs(v, folder / f'{k}{ARCHIVE}', clips) for k, v in variants.items()]


def variant_of(run: Run, logdir: pathlib.Path) -> str:
  """The folders between logdir and task, or the logdir's name."""
  parts = run.home.relative_to(logdir.resolve()).parts if run.home != logdir.resolve() else ()
  return '-'.join(parts) or logdir.resolve().name


def add_runs(runs: list[Run], path: pathlib.Path, clips: Sequence[str] = CLIPS) -> pathlib.Path:
  """One archive with these runs in it, and what it held before at other places."""
  path.parent.mkdir(parents=True, exist_ok=True)
  place = archive_home(path)
  entries = {x.kept['path']: x.kept for x in (open_archive(path) if path.exists() else ())}
  chosen = {(x.task, x.method): x for x in reversed(sorted(runs, key=lambda x: x.seed))}
  for run in runs:
    entry = make_entry(run, place.name)
    entries[entry['path']] = entry
    if run.method in clips and run is chosen[run.task, run.method]:
      keep_clips(run, path.parent / 'videos' / place.name / entry['path'].replace('/', '-'))
  write_gzip(path, {'variant': place.name, 'runs': [entries[k] for k in sorted(entries)]})
  return path


def write_gzip(path: pathlib.Path, content: dict) -> None:
  """The same content gives the same bytes."""
  text = json.dumps(content, separators=(',', ':')).encode()
  write_bytes(path, gzip.compress(text, 9, mtime=0))


def make_entry(run: Run, variant: str) -> dict:
  """A run as the archive holds it; what Run reads from it is as in the folder."""
  names = [x for pattern in COPIED for x in sorted(run.path.glob(pattern))]
  files = {x.relative_to(run.path).as_posix(): try_json(x) for x in names}
  return {
    'path': '/'.join(run.path.resolve().parts[-3:]),
    'config': _placeless(run.config.flat),
    'command': train_command(run, f'runs/{variant}'),
    'starts': run.starts(),
    'demo_success': regions.demo_success(run),
    'cost': {k: dataclasses.asdict(run_cost(run))[k] for k in ('parts', 'checkpoint_mib')},
    'allocation': regions.allocation(run),
    'files': {k: _short(_shown(k, v)) for k, v in files.items() if v},
    'metrics': _thinned(read_lines(run.path / 'metrics.jsonl', {'step': int})),
  }


def _placeless(config: dict) -> dict:
  """Without the paths of one machine."""
  demos = f'demos/{pathlib.Path(config["demos"]).name}' if config['demos'] else ''
  return {**{k: v for k, v in config.items() if k != 'logdir'}, 'demos': demos}


def _shown(name: str, content: dict) -> dict:
  return {k: v for k, v in content.items() if k not in LEFT_OUT.get(name, ())}


def keep_clips(run: Run, folder: pathlib.Path) -> None:
  """The newest open-loop GIF: of predictions side by side the clearest, in few colours."""
  shutil.rmtree(folder, ignore_errors=True)
  for tag, gifs in run.gifs().items():
    if tag.startswith('open_loop/'):
      path = folder / f'{tag}-{max(gifs):09d}.gif'
      path.parent.mkdir(parents=True, exist_ok=True)
      write_clip(path, clearest(frames_of(gifs[max(gifs)]), run.config.env.size[1]))


def write_clip(path: pathlib.Path, frames: np.ndarray) -> None:
  """One palette for all frames: a third of the bytes."""
  _, height, width, _ = frames.shape
  film = Image.fromarray(frames.reshape(-1, width, 3))
  # Median cuts would give a ball of a few pixels the colour of another.
  film = film.quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
  first, *others = [film.crop((0, i * height, width, (i + 1) * height)) for i in range(len(frames))]
  first.save(path, save_all=True, append_images=others, duration=100, loop=0)


def frames_of(gif: bytes) -> np.ndarray:
  """uint8 [time, height, width, 3]."""
  with Image.open(io.BytesIO(gif)) as image:
    return np.stack([np.array(x.convert('RGB')) for x in ImageSequence.Iterator(image)])


def clearest(frames: np.ndarray, width: int) -> np.ndarray:
  """Of predictions side by side the one that shows most: moving, and without a break.

  Sequences of the replay may run over the end of an episode, where the picture jumps.
  """
  parts = [frames[:, :, x : x + width] for x in range(0, frames.shape[2], width)]
  truth = [x[:, : frames.shape[1] // 3].astype(np.float32) for x in parts]
  moves = [np.abs(np.diff(x, axis=0)).mean((1, 2, 3)) for x in truth]
  usual = np.array([np.median(x) for x in moves])
  whole = np.array([x.max() for x in moves]) <= 3 * np.maximum(usual, 1e-3)
  return parts[int(np.argmax(np.where(whole, usual, -1) if whole.any() else usual))]


def _thinned(records: list[dict]) -> dict[str, list]:
  """Columns of at most about POINTS records.

  The last ones, which the speed is taken from, and those on both sides of a restart, which the
  minutes are, are always there.
  """
  chosen = set(np.linspace(0, len(records) - 1, min(POINTS, len(records))).round().astype(int))
  chosen |= set(range(max(0, len(records) - 2 * RECORDS), len(records)))
  clock = [x.get('time/minutes') or 0.0 for x in records]
  for i in np.flatnonzero(np.diff(clock) < 0):
    chosen |= {int(i), int(i) + 1}
  rows = [records[i] for i in sorted(chosen)]
  keys = dict.fromkeys(k for x in rows for k in x)
  places = lambda key: DIGITS if key == 'time/minutes' else METRIC_DIGITS
  number = lambda x: x if isinstance(x, (int, float)) else None
  return {k: [_short(number(x.get(k)), places(k)) for x in rows] for k in ['step', *keys]}


def _short(value, digits: int = DIGITS):
  """JSON with fewer digits."""
  if isinstance(value, dict):
    return {k: _short(v, digits) for k, v in value.items()}
  if isinstance(value, list):
    return [_short(x, digits) for x in value]
  return float(f'{value:.{digits}g}') if isinstance(value, float) else value
