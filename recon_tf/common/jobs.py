"""Commands side by side, each with a log of its own; one that fails does not stop the others."""

import concurrent.futures
import dataclasses
import os
import pathlib
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence

from recon_tf.common.versions import ROOT


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
    return shlex.join(['python', f'scripts/{self.script}.py', *self.flags])


@dataclasses.dataclass(frozen=True)
class Failure:
  """What went wrong, and where it is written down."""

  name: str
  reason: str
  log: pathlib.Path | None = None

  def __str__(self) -> str:
    return f'{self.name}: {self.reason}' + (f' (log: {self.log})' if self.log else '')


def run_jobs(jobs: Sequence[Job], workers: int = 1) -> list[Failure]:
  """Runs all of them, that many at a time; on an interrupt those that run are ended."""
  running, failures = set(), []
  pool = concurrent.futures.ThreadPoolExecutor(workers)
  try:
    futures = [pool.submit(run_job, x, running) for x in jobs]
    for future in concurrent.futures.as_completed(futures):
      failure = future.result()
      failures += [failure] if failure else []
  except BaseException:
    pool.shutdown(wait=False, cancel_futures=True)
    for process in list(running):
      process.terminate()
    raise
  finally:
    pool.shutdown()
  return failures


def run_job(job: Job, running: set) -> Failure | None:
  """One command to its end."""
  print(f'{job.name} ... (log: {job.log})', flush=True)
  job.log.parent.mkdir(parents=True, exist_ok=True)
  command = [sys.executable, '-m', 'recon_tf', job.script, *job.flags]
  path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get('PYTHONPATH')]))
  with job.log.open('w') as file:
    file.write(f'{job.command}\n')
    file.flush()
    process = subprocess.Popen(
      command, stdout=file, stderr=subprocess.STDOUT, env={**os.environ, 'PYTHONPATH': path}
    )
    running.add(process)
    code = process.wait()
    running.discard(process)
  reason = failure_reason(code, job.log) if code else job.missing()
  print(f'{job.name}: {"failed" if reason else "done"}', flush=True)
  return Failure(job.name, reason, job.log) if reason else None


def failure_reason(code: int, log: pathlib.Path) -> str:
  """The error line of a log, or else its last one."""
  if code < 0:
    return f'ended by signal {-code}'
  lines = [x.strip() for x in log.read_text(errors='replace').splitlines()[1:] if x.strip()]
  errors = [x.removeprefix('error: ') for x in lines if x.startswith('error: ')]
  return (errors or lines or [f'ended with code {code}'])[-1]
