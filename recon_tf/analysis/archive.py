"""Runs small enough to commit: all that tables and figures are made from, and no more.

results/<variant>.json.gz holds configs, thinned metrics, evaluations and diagnoses of all runs of
a variant, results/<variant>.npz where their steps went, results/videos clips of a few of them.
Weights, pictures and demonstrations stay where they are.
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
from recon_tf.common.logger import encode_gif
from recon_tf.common.npz import write_npz

COPIED = ('eval/*.json', 'diagnose/*.json')
DIGITS = 6  # significant ones of a metric
POINTS = 250  # records of a run's metrics, and more where the clock needs them
STEPS = 4000  # states of a run, evenly spread
CLIPS = ('recon',)  # methods whose first seed keeps its newest videos


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
  entries, arrays = {}, {}
  for run in open_archive(path) if path.exists() else []:
    entries[run.kept['path']] = run.kept
  beside = place.with_name(f'{place.name}.npz')
  if beside.exists():
    with np.load(beside, allow_pickle=False) as file:
      arrays = {k: file[k] for k in file.files}
  chosen = {(x.task, x.method): x for x in reversed(sorted(runs, key=lambda x: x.seed))}
  for run in runs:
    entry = make_entry(run, place.name)
    entries[entry['path']] = entry
    kept = make_arrays(run)
    mine = f'{entry["path"]}/'
    arrays = {k: v for k, v in arrays.items() if not k.startswith(mine)}
    arrays |= {mine + k: v for k, v in kept.items()}
    if run.method in clips and run is chosen[run.task, run.method]:
      keep_clips(run, path.parent / 'videos' / place.name / entry['path'].replace('/', '-'))
  content = {'variant': place.name, 'runs': [entries[k] for k in sorted(entries)]}
  write_gzip(path, content)
  if arrays:
    write_npz(beside, {k: arrays[k] for k in sorted(arrays)}, compress=True)
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
    'files': {k: _short(v) for k, v in files.items() if v},
    'metrics': _thinned(read_lines(run.path / 'metrics.jsonl', {'step': int})),
  }


def _placeless(config: dict) -> dict:
  """Without the paths of one machine."""
  demos = f'demos/{pathlib.Path(config["demos"]).name}' if config['demos'] else ''
  return {**{k: v for k, v in config.items() if k != 'logdir'}, 'demos': demos}


def make_arrays(run: Run) -> dict[str, np.ndarray]:
  """Where steps went: positions in a maze, distances to the expert elsewhere."""
  steps, cloud = regions.real_steps(run), regions.expert_cloud(run)
  if steps is None:
    return {}
  rows = np.linspace(0, len(steps.distance) - 1, min(STEPS, len(steps.distance))).round()
  rows = rows.astype(int)
  arrays = {'explorer': steps.explorer[rows]}
  if steps.position is None:
    return {**arrays, 'distance': steps.distance[rows].astype(np.float16)}
  whole = lambda x: np.round(x / regions.UNIT).astype(np.int16)
  return {**arrays, 'position': whole(steps.position[rows]), 'expert': whole(cloud)}


def keep_clips(run: Run, folder: pathlib.Path) -> None:
  """The newest GIF of each kind; of predictions side by side the clearest alone."""
  shutil.rmtree(folder, ignore_errors=True)
  for tag, gifs in run.gifs().items():
    width = run.config.env.size[1] if tag.startswith('open_loop/') else 0
    path = folder / f'{tag}-{max(gifs):09d}.gif'
    path.parent.mkdir(parents=True, exist_ok=True)
    gif = gifs[max(gifs)]
    path.write_bytes(encode_gif(clearest(frames_of(gif), width), 10) if width else gif)


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
  number = lambda x: x if isinstance(x, (int, float)) else None
  return {k: [_rounded(number(x.get(k))) for x in rows] for k in ['step', *keys]}


def _rounded(value):
  return float(f'{value:.{DIGITS}g}') if isinstance(value, float) else value


def _short(value):
  """JSON with fewer digits."""
  if isinstance(value, dict):
    return {k: _short(v) for k, v in value.items()}
  if isinstance(value, list):
    return [_short(x) for x in value]
  return _rounded(value)
