"""One table of all jobs while they run, from what the runs write into their folders."""

import json
import pathlib
import sys
import time
from collections.abc import Sequence

from recon_tf.cluster.work import read_attempt
from recon_tf.common.errors import UserError
from recon_tf.common.flags import Flags
from recon_tf.common.folders import read_json, run_folder
from recon_tf.common.jobs import Job

HEAD = ('run', 'state', 'step', 'score', 'ETA', 'node')


class Progress:
  """Call `show` again and again; a terminal sees one table, a file only what changed."""

  def __init__(self, jobs: Sequence[Job], stream=None):
    self._stream = stream or sys.stdout
    self._jobs = [(job, *target(job)) for job in jobs]
    self._begun = {}  # name → (time, step) when it was first seen running
    self._drawn, self._known = 0, {}

  def show(self, states: dict[str, str]) -> None:
    rows = [self.row(job, folder, steps, states[job.name]) for job, folder, steps in self._jobs]
    lines = table([HEAD, *rows])
    if self._stream.isatty():
      up = f'\x1b[{self._drawn}A' if self._drawn else ''
      self._stream.write(up + ''.join(f'\x1b[2K{x}\n' for x in lines))
      self._drawn = len(lines)
    else:
      for row, line in zip(rows, lines[1:], strict=True):
        news = (row[1], row[3], row[5])  # steps alone are no news
        if self._known.get(row[0]) != news:
          self._known[row[0]] = news
          self._stream.write(f'{line.rstrip()}\n')
    self._stream.flush()

  def row(self, job: Job, folder: pathlib.Path | None, steps: int, state: str) -> tuple[str, ...]:
    attempt = read_attempt(job.log)
    if state == 'waiting' and attempt:
      state = 'running' if attempt['attempt'] == 1 else f'running, {attempt["attempt"]}.'
    step = last_step(folder) if folder else None
    shown = '' if step is None else f'{step}/{steps}'
    score = '' if folder is None else last_score(folder)
    eta = self._eta(job.name, step, steps) if state.startswith('running') else ''
    return job.name, state, shown, score, eta, attempt.get('node', '')

  def _eta(self, name: str, step: int | None, steps: int) -> str:
    """From the steps since this table first saw the run: it may have been resumed."""
    if step is None:
      return ''
    began, first = self._begun.setdefault(name, (time.monotonic(), step))
    if step <= first:
      return ''
    left = (steps - step) * (time.monotonic() - began) / (step - first)
    return f'{left / 3600:.1f} h' if left > 5400 else f'{left / 60:.0f} min'


def target(job: Job) -> tuple[pathlib.Path | None, int]:
  """The folder of a training and its last step; other jobs have none."""
  if job.script != 'train':
    return None, 0
  try:
    config = Flags().parse_tasks(job.flags)[0]
  except (UserError, IndexError):
    return None, 0  # its own error will say so
  return run_folder(config), config.steps


def last_step(folder: pathlib.Path) -> int | None:
  """The step of the last whole line of metrics."""
  try:
    with (folder / 'metrics.jsonl').open('rb') as file:
      file.seek(max(0, file.seek(0, 2) - 20_000))
      lines = file.read().decode(errors='replace').splitlines()
  except OSError:
    return None
  for line in reversed(lines):
    try:
      return int(json.loads(line)['step'])
    except (ValueError, KeyError, TypeError):
      continue
  return None


def last_score(folder: pathlib.Path) -> str:
  """Success, or return where there is none, of the newest evaluation."""
  found = read_json(folder / 'eval' / 'final.json')
  numbered = sorted((folder / 'eval').glob('0*.json'))
  if found is None and numbered:
    found = read_json(numbered[-1])
  value = (found or {}).get('success', (found or {}).get('return'))
  return '' if value is None else f'{value:.2f}'


def table(rows: Sequence[Sequence[str]]) -> list[str]:
  widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
  line = lambda row: '  '.join(x.ljust(w) for x, w in zip(row, widths, strict=True))
  return [line(row) for row in rows]
