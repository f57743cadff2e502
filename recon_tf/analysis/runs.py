"""Runs as data, from their folders or from archives, without TensorFlow.

A run is a folder logdir/<task>/<method>/<seed>, or an entry of results/<variant>.json.gz
(archive.py). Groups are the seeds of one method; what evaluate and diagnose measured is JSON.
"""

import dataclasses
import gzip
import hashlib
import json
import os
import pathlib
from collections.abc import Callable, Iterable

import numpy as np

from recon_tf.common.config import Config, load_config, load_saved
from recon_tf.common.episodes import load_meta
from recon_tf.common.errors import UserError
from recon_tf.common.files import check_fields, read_lines, try_json
from recon_tf.common.versions import START, door, read_starts

ARCHIVE = '.json.gz'
EVALUATION = {'step': int, 'returns': [float], 'return?': float, 'success?': float}
ENTRY = {  # of an archive
  'path': str, 'config': dict, 'files': dict, 'metrics': dict, 'starts': [dict], 'command': str,
  'demo_success': object, 'cost': dict,
}  # fmt: skip
ORDER = ('bc_raw', 'bc', 'bc_equal', 'dadac', 'vmail', 'cmil', 'iqmpc', 'no_recovery', 'recon')
# Keys that may differ inside of a group without making its runs incomparable.
FREE = (
  'seed', 'logdir', 'tasks', 'demos', 'threads', 'keep', 'keep_every', 'replay.memory',
  'video_every',
)  # fmt: skip
# What evaluate and diagnose leave in a run folder, and the command that writes it.
FILES = {
  'robust': 'eval/robust.json',
  'recovery': 'eval/recovery.json',
  'gap': 'diagnose/gap.json',
  'recoverability': 'diagnose/recoverability.json',
  'acquisition': 'diagnose/acquisition.json',
  'windows': 'eval/windows.json',
  'imagination': 'diagnose/imagination.json',
}
# What the report needs of them; a file without it is named and left out.
CONTENTS = {
  'eval/robust.json': {'task': str, 'method': str, 'measure': str, 'columns': dict},
  'eval/clean.json': {'columns': dict},
  'eval/pushed.json': {'columns': dict},
  'eval/recovery.json': {'by_difficulty': [dict], 'score': object, 'expert': object},
  'diagnose/gap.json': {'expert?': dict, 'replay?': dict, 'regions?': dict, 'deciles?': dict},
  'diagnose/recoverability.json': {
    'calibration': dict, 'horizons': [int], 'auroc': list, 'oracle': list, 'tube': float,
    'candidates': int, 'recovered': object,
  },
  'diagnose/acquisition.json': {
    'steps': [int], 'uncertainty': [float], 'gain': float, 'gain_per_step': float,
    'online_steps': int, 'anchors': int,
  },
  'diagnose/expert.json': {'kicks': float, 'score': float},
  'eval/windows.json': {'who': dict},
  'diagnose/imagination.json': {'outcomes': dict, 'steps': int},
}  # fmt: skip
COMMANDS = {
  'robust': ('evaluate', '--robust'),
  'recovery': ('evaluate', '--recovery'),
  'gap': ('diagnose', '--what', 'gap'),
  'recoverability': ('diagnose', '--what', 'recoverability'),
  'acquisition': ('diagnose', '--what', 'acquisition'),
  'windows': ('diagnose', '--what', 'windows'),
  'imagination': ('diagnose', '--what', 'imagination'),
}
PUSHED = 'Pushed'  # a column of ours beside those of the paper's robustness table


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
  """One run; `kept` is its entry in an archive, None for a folder."""

  path: pathlib.Path
  config: Config
  kept: dict | None = dataclasses.field(default=None, repr=False)

  @property
  def task(self) -> str:
    return self.config.task

  @property
  def method(self) -> str:
    return self.config.method

  @property
  def seed(self) -> int:
    return self.config.seed

  @property
  def identity(self) -> dict[str, str | int]:
    """What measurements of it begin with."""
    return {'task': self.task, 'method': self.method, 'seed': self.seed}

  @property
  def home(self) -> pathlib.Path:
    """The logdir, which is the archive's name without its ending."""
    return self.path.resolve().parents[2]

  def read(self, name: str) -> dict | None:
    """A JSON file of the run, None if it is missing, damaged or something else."""
    if self.kept:
      return self.kept['files'].get(name)
    return try_json(self.path / name, CONTENTS.get(name))

  def metrics(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """(steps, values) of every scalar."""
    if self.kept:
      return _columns(self.kept['metrics'])
    found = {}
    for record in read_lines(self.path / 'metrics.jsonl', {'step': int}):
      for key, value in record.items():
        if key != 'step' and isinstance(value, (int, float)):
          found.setdefault(key, []).append((record['step'], value))
    return {k: tuple(np.array(v, float).T) for k, v in found.items()}

  def evaluations(self) -> list[dict]:
    """Every evaluation on the way, by step; each has its episodes' returns and successes."""
    if self.kept:
      names = [x for x in sorted(self.kept['files']) if x.startswith('eval/')]
      return [self.kept['files'][x] for x in names if x[len('eval/')].isdigit()]
    paths = sorted((self.path / 'eval').glob('[0-9]*.json'))
    return [x for x in (try_json(path, EVALUATION) for path in paths) if x]

  def final(self) -> dict | None:
    """The evaluation of the last policy, None while the run is not finished."""
    name = 'eval/final.json'
    return self.read(name) if self.kept else try_json(self.path / name, EVALUATION)

  def episodes(self) -> list[pathlib.Path]:
    """Files of the collected episodes, oldest first."""
    return sorted((self.path / 'train_episodes').glob('[!.]*.npz'))  # others are half-written

  def starts(self) -> list[dict]:
    """Versions and machine at every start."""
    return self.kept['starts'] if self.kept else read_starts(self.path)

  def gifs(self) -> dict[str, dict[int, bytes]]:
    """GIFs by tag and step."""
    folder = self.path / 'videos'
    if self.kept:
      folder = self.home.parent / 'videos' / self.home.name / self.kept['path'].replace('/', '-')
    found = {}
    for path in sorted(folder.rglob('*.gif')):
      tag, _, step = path.relative_to(folder).with_suffix('').as_posix().rpartition('-')
      if step.isdecimal():  # others are not the run's
        found.setdefault(tag, {})[int(step)] = path.read_bytes()
    return found


def open_run(path: str | pathlib.Path) -> Run:
  """The run in this folder."""
  path = pathlib.Path(path)
  config = path / 'config.yaml'
  if not config.exists():
    raise UserError(
      f"'{path}' holds no run (no config.yaml in it); a run is a folder logdir/task/method/seed."
    )
  return Run(path, load_saved(config))


def open_archive(path: pathlib.Path) -> list[Run]:
  """The runs in a results/<variant>.json.gz; keys that only their version knew stay."""
  try:
    content = json.loads(gzip.decompress(path.read_bytes()))
  except (OSError, ValueError, EOFError) as error:
    raise UserError(f"'{path}' is no readable archive of runs ({error}).") from error
  for entry in check_fields(content, {'runs': [dict]}, f"'{path}'")['runs']:
    _check_entry(entry, f"'{path}'")
  home, usual = archive_home(path), load_config().flat
  make = lambda x: Run(home / x['path'], Config({**usual, **x['config']}), x)
  return [make(x) for x in content['runs']]


def _check_entry(entry: dict, source: str) -> None:
  check_fields(entry, ENTRY, source)
  columns = check_fields(entry['metrics'], {k: list for k in ('step', *entry['metrics'])}, source)
  for key, column in columns.items():
    numbers = all(x is None or isinstance(x, int | float) for x in column)
    if not numbers or len(column) != len(columns['step']):
      raise UserError(f"Cannot use {source}: its metric '{key}' is damaged; restore or remove it.")
  for name, content in entry['files'].items():
    check_fields(content, CONTENTS.get(name, {}), f"'{name}' in {source}")
  for start in entry['starts']:
    check_fields(start, START, source)


def archive_home(path: pathlib.Path) -> pathlib.Path:
  """results/pixels for results/pixels.json.gz."""
  return path.with_name(path.name.removesuffix(ARCHIVE))


def find_runs(logdir: str | pathlib.Path) -> list[Run]:
  """All runs in or below a folder, or in an archive, sorted by task, method and seed."""
  logdir = pathlib.Path(logdir)
  if logdir.is_file() and logdir.name.endswith(ARCHIVE):
    runs = open_archive(logdir)
  elif logdir.is_dir():
    runs = [open_run(x.parent) for x in logdir.rglob('config.yaml')]
    runs += [x for path in sorted(logdir.glob(f'*{ARCHIVE}')) for x in open_archive(path)]
  else:
    raise UserError(f"There is no folder '{logdir}'.")
  if not runs:
    raise UserError(f"'{logdir}' holds no runs; a run is a folder logdir/task/method/seed.")
  return sorted(runs, key=lambda x: (x.task, x.method, x.seed, str(x.path)))


def _columns(kept: dict) -> dict[str, tuple[np.ndarray, np.ndarray]]:
  steps, found = np.array(kept['step'], float), {}
  for key, column in kept.items():
    values = np.array(column, float)  # None becomes NaN
    known = np.isfinite(values)
    if key != 'step' and known.any():
      found[key] = steps[known], values[known]
  return found


# Groups


@dataclasses.dataclass(frozen=True, eq=False)
class Group:
  """All seeds of a method; variant is the folder above the task, '' if all share one."""

  variant: str
  task: str
  method: str
  runs: tuple[Run, ...]

  @property
  def setting(self) -> str:
    """Variant and task, which have figures of their own."""
    return f'{self.variant} · {self.task}' if self.variant else self.task

  @property
  def name(self) -> str:
    return f'{self.setting} · {self.method}'

  def measured(self, part: str) -> list[dict]:
    """What its runs have of one of FILES."""
    return [x for x in (run.read(FILES[part]) for run in self.runs) if x]


def group_runs(runs: list[Run]) -> list[Group]:
  """Groups in the order variant, task, method, with the paper's methods first."""
  homes = {run.home for run in runs}
  # A folder that was renamed holds runs of its own, whatever their configs say.
  key = lambda run: (_variant(run.home, homes), run.task, run.method, run.path.parent)
  by_seed = lambda members: tuple(sorted(members, key=lambda x: x.seed))
  groups = [Group(*k[:3], by_seed(members)) for k, members in grouped(runs, key).items()]
  return sorted(groups, key=lambda x: (x.variant, x.task, method_rank(x.method)))


def settings_of(groups: list[Group]) -> dict[str, list[Group]]:
  """Groups by variant and task."""
  return grouped(groups, lambda x: x.setting)


def grouped(items: Iterable, key: Callable) -> dict:
  """Lists of items by what key says of them, in the order of the first of each."""
  found = {}
  for item in items:
    found.setdefault(key(item), []).append(item)
  return found


def method_rank(method: str) -> tuple[int, str]:
  return (ORDER.index(method) if method in ORDER else len(ORDER), method)


def differing_keys(group: Group) -> list[str]:
  """Settings that are not the same for all seeds."""
  first, *others = [x.config.flat for x in group.runs]
  return [k for k in first if k not in FREE and any(x.get(k) != first[k] for x in others)]


def _variant(home: pathlib.Path, homes: set[pathlib.Path]) -> str:
  if len(homes) == 1:
    return ''
  common = pathlib.Path(os.path.commonpath(homes))
  return home.relative_to(common).as_posix().removeprefix('.')


# Of one run


def observations(run: Run) -> str:
  """What the agent sees."""
  return 'pixels' if run.config.env.render and run.config.encoder.cnn_keys != '$^' else 'vectors'


def run_score(run: Run) -> str:
  """Name of what counts: success where the task has one, otherwise return."""
  known = [run.final() or {}, *run.evaluations()]
  return 'success' if any('success' in x for x in known) else 'return'


def reached_step(run: Run) -> int:
  """Online steps so far."""
  records = [*run.evaluations(), run.final() or {'step': 0}]
  last = [steps.max() for steps, _ in run.metrics().values()]
  return int(max([x['step'] for x in records] + last))


def minutes_trace(run: Run) -> tuple[np.ndarray, np.ndarray]:
  """(steps, minutes of work); the clock of a resumed run starts anew, so its parts add up."""
  steps, minutes = run.metrics().get('time/minutes', (np.zeros(0), np.zeros(0)))
  restarts = np.concatenate([[0.0], np.where(np.diff(minutes) < 0, minutes[:-1], 0.0)])
  return steps, minutes + np.cumsum(restarts[: len(minutes)])


# Measurements


def command_line(part: str, run: str = 'RUN') -> str:
  """The command that measures a part, as a user types it."""
  script, *flags = COMMANDS[part]
  return ' '.join([*door(script), run, *flags])


def with_data(groups: list[Group], part: str) -> list[tuple[Group, list[dict]]]:
  """Groups of which at least one run has it."""
  found = [(x, x.measured(part)) for x in groups]
  return [(group, results) for group, results in found if results]


def expert_score(groups: list[Group]) -> float | None:
  """What the expert reaches under the pushes of these runs' evaluations, if it was measured."""
  for run in (run for group in groups for run in group.runs):
    found = run.read('diagnose/expert.json')
    if found and found['kicks'] == run.config.eval_kicks:
      return found['score']
  return None


def expert_line(groups: list[Group]) -> float | None:
  """Where figures draw the expert: as it was measured, or as an own task was shown."""
  measured = expert_score(groups)
  if measured is not None:
    return measured
  shown = [shown_score(run) for group in groups for run in group.runs]
  return next((x for x in shown if x is not None), None)


def shown_score(run: Run) -> float | None:
  """Of who showed an own task, which has no expert to evaluate: failed attempts count."""
  if run.kept or run.config.eval_kicks or not run.config.demos:
    return None
  try:
    meta = load_meta(run.config.demos)
  except UserError:
    return None
  if not meta or meta.get('expert') != 'recorded' or not meta['returns']:
    return None
  if run_score(run) == 'success':
    return sum(meta['successes']) / (len(meta['successes']) + meta['rejected'])
  return float(np.mean(meta['returns']))


def anchors_differ(found: list[tuple[Group, list[dict]]]) -> list[str]:
  """Settings in which runs of one seed were measured on different anchors, so do not compare."""
  seen = {}
  for group, results in found:
    for x in results:
      if 'anchor_digest' in x:
        seen.setdefault((group.setting, x['seed']), set()).add(x['anchor_digest'])
  return list(dict.fromkeys(setting for (setting, _), digests in seen.items() if len(digests) > 1))


# Anchors: transitions of main policies, recorded once and kept beside the run they are from


def anchor_folder(run: pathlib.Path) -> pathlib.Path:
  return run / 'diagnose' / 'anchors'


def anchor_files(folders: Iterable[str | pathlib.Path]) -> list[pathlib.Path]:
  """The episodes in these folders, in their order."""
  return [x for folder in folders for x in sorted(pathlib.Path(folder).glob('*.npz'))]


def anchor_digest(files: Iterable[pathlib.Path]) -> str:
  """Tells sets of anchors apart, wherever they lie and in whatever order they are named."""
  single = sorted(hashlib.sha256(x.read_bytes()).hexdigest() for x in files)
  return hashlib.sha256(''.join(single).encode()).hexdigest()[:16]
