"""Jobs as Ray tasks: Ray places them, moves those of a lost node and retries what failed."""

import contextlib
import fcntl
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence

from recon_tf.cluster import nodes, work
from recon_tf.cluster.progress import Progress
from recon_tf.cluster.settings import Settings
from recon_tf.common import jobs as plain
from recon_tf.common.errors import UserError
from recon_tf.common.jobs import Failure, Job

EVERY = 2.0  # seconds between looks at the runs
GRACE = 30  # seconds for commands to end after an interrupt

Runner = Callable[[Sequence[Job]], list[Failure]]


@contextlib.contextmanager
def session(settings: Settings, logdir: str | pathlib.Path) -> Iterator[Runner]:
  """Something that runs jobs: by Ray, or one after the other where that is all that was asked."""
  logdir = pathlib.Path(logdir).absolute()
  with sole(logdir):
    if settings.workers == 1 and not settings.address:
      yield plain.run_jobs
      return
    with nodes.connected(settings, logdir):
      yield lambda jobs: run_jobs(jobs, settings)


@contextlib.contextmanager
def sole(logdir: pathlib.Path) -> Iterator[None]:
  """Refuses a second sweep in a folder; the system lets go of the lock when this process ends."""
  try:
    logdir.mkdir(parents=True, exist_ok=True)
    handle = os.open(logdir, os.O_RDONLY)
  except OSError as error:
    raise UserError(f"Cannot write to '{logdir}': {error.strerror}; set --logdir.") from error
  try:
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    yield
  except BlockingIOError:
    raise UserError(
      f"another sweep works in '{logdir}'; wait for its end, or set another --logdir."
    ) from None
  finally:
    os.close(handle)


def run_jobs(jobs: Sequence[Job], settings: Settings) -> list[Failure]:
  """All of them; what fails is returned, and on an interrupt those that run are ended."""
  import ray

  tasks, progress = submit(ray, jobs, settings), Progress(jobs)
  failures, states = {}, {x.name: 'waiting' for x in jobs}
  try:
    while tasks:
      progress.show(states)
      ready, _ = ray.wait(list(tasks), num_returns=len(tasks), timeout=EVERY)
      for ref in ready:
        job = tasks.pop(ref)
        reason = outcome(ray, ref) or job.missing()
        states[job.name] = 'failed' if reason else 'done'
        if reason:
          failures[job.name] = Failure(job.name, reason, job.log)
    progress.show(states)
  except BaseException:
    stop(ray, list(tasks))
    raise
  return list(failures.values())


def submit(ray, jobs: Sequence[Job], settings: Settings) -> dict:
  """A task per job, in their order; it is the node's loss or a failure that starts it again."""
  task = ray.remote(work.execute).options(
    num_cpus=settings.cpus,
    num_gpus=settings.gpus,
    memory=settings.memory * 1e9 or None,
    max_retries=settings.retries,
    retry_exceptions=[work.CommandError],
  )
  tasks = {}
  for job in jobs:
    log = job.log.absolute()
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(f'{job.command}\n')
    log.with_suffix('.json').unlink(missing_ok=True)
    tasks[task.remote(job.script, job.flags, str(log), os.getcwd())] = job
  return tasks


def outcome(ray, ref) -> str:
  """Why a task failed for good, '' if it did not."""
  try:
    ray.get(ref)
  except ray.exceptions.RayTaskError as error:
    return str(error.cause)
  except ray.exceptions.RayError as error:
    return f'its node was lost ({type(error).__name__})'
  return ''


def stop(ray, refs: list) -> None:
  """Ends what runs: a training goes on from its checkpoint the next time."""
  for ref in refs:
    ray.cancel(ref)
  if refs:
    ray.wait(refs, num_returns=len(refs), timeout=GRACE)
