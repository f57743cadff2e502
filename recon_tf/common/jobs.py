"""Commands, each with a log of its own; one that fails does not stop the others.

This is the way without Ray, one command after the other, and what a Ray task does on its node:
one run needs neither an extra package nor the seconds and the memory that Ray's services take.
More than one at a time, retries and other machines are Ray's part: see recon_tf/cluster/.
"""

import ctypes
import dataclasses
import os
import pathlib
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

from recon_tf.common.versions import ROOT, door

SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux


@dataclasses.dataclass(frozen=True)
class Job:
  """A script with its flags; `missing` says afterwards what it should have left, '' if nothing."""

  name: str
  script: str
  flags: tuple[str, ...]
  log: pathlib.Path
  missing: Callable[[], str] = lambda: ''

  @property
  def command(self) -> str:
    """As a user types it."""
    return shlex.join([*door(self.script), *self.flags])


@dataclasses.dataclass(frozen=True)
class Failure:
  """What went wrong, and where it is written down."""

  name: str
  reason: str
  log: pathlib.Path | None = None

  def __str__(self) -> str:
    return f'{self.name}: {self.reason}' + (f' (log: {self.log})' if self.log else '')


def run_jobs(jobs: Sequence[Job]) -> list[Failure]:
  """Runs one after the other; on an interrupt the one that runs is ended."""
  return [failure for failure in map(run_job, jobs) if failure]


def run_job(job: Job) -> Failure | None:
  """One command to its end."""
  print(f'{job.name} ... (log: {job.log})', flush=True)
  job.log.parent.mkdir(parents=True, exist_ok=True)
  job.log.write_text(f'{job.command}\n')
  code = run_command(job.script, job.flags, job.log)
  reason = failure_reason(code, job.log) if code else job.missing()
  print(f'{job.name}: {"failed" if reason else "done"}', flush=True)
  return Failure(job.name, reason, job.log) if reason else None


def run_command(script: str, flags: Sequence[str], log: pathlib.Path, cwd: str = '.') -> int:
  """Adds what the command prints to its log; the command ends when this process does."""
  path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get('PYTHONPATH')]))
  with log.open('a') as file:
    process = subprocess.Popen(
      [sys.executable, '-m', 'recon_tf', script, *flags],
      stdout=file,
      stderr=subprocess.STDOUT,
      env={**os.environ, 'PYTHONPATH': path},
      cwd=cwd,
      preexec_fn=end_with_parent,
    )
    try:
      return process.wait()
    except BaseException:
      process.terminate()
      process.wait()
      raise


def end_with_parent() -> None:
  """Has the system kill this process when its parent is gone, however that happened."""
  if sys.platform == 'linux':
    ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGKILL)


def failure_reason(code: int, log: pathlib.Path) -> str:
  """The error line of a log, or else its last one."""
  if code < 0:
    return f'ended by signal {-code}'
  lines = [x.strip() for x in log.read_text(errors='replace').splitlines()[1:] if x.strip()]
  errors = [x.removeprefix('error: ') for x in lines if x.startswith('error: ')]
  return (errors or lines or [f'ended with code {code}'])[-1]
