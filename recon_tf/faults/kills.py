"""Kills at file operations, signals, lost environments, full disks, two starts at once."""

import functools
import os
import pathlib
import resource
import shutil
import signal
import time
from collections.abc import Callable

from recon_tf.faults import runs
from recon_tf.faults.children import Child, Result, run
from recon_tf.faults.compare import difference
from recon_tf.faults.points import MOMENTS, Operation, Point, read_log, watch
from recon_tf.faults.table import Table

LINKS = 5  # kills in one run


class Campaign:
  """A reference run, never disturbed, and what disturbed ones are compared with."""

  def __init__(self, root: pathlib.Path, table: Table):
    self.root, self.table = root, table
    self.demos = runs.make_demos(root / 'demos')
    self.reference = root / 'reference'
    log = root / 'operations.jsonl'
    result = run('train', self.flags(self.reference), lambda: watch(self.reference, log))
    if result.code:
      raise RuntimeError(f'the undisturbed run failed:\n{result.text}')
    self.operations = read_log(log)
    print(f'undisturbed run: {len(self.operations)} file operations, {result.seconds:.0f} s')

  def flags(self, logdir: pathlib.Path, **changes) -> list[str]:
    return runs.flags(logdir, self.demos, **changes)

  def points(self, count: int) -> list[Point]:
    """Kill points spread evenly over the whole run; all of them if there are not more."""
    every = [Point(x, moment) for x in self.operations for moment in MOMENTS[x.kind]]
    if count >= len(every):
      return every
    return [every[i * len(every) // count] for i in range(count)]

  def one_of_each(self) -> list[Point]:
    """A point of every kind of operation and moment, of episodes where there is one: for CI."""
    found = {}
    for operation in self.operations:
      for moment in MOMENTS[operation.kind]:
        name = operation.kind, moment
        if name not in found or 'train_episodes' in operation.path:
          found[name] = Point(operation, moment)
    return sorted(found.values(), key=lambda x: self.operations.index(x.operation))

  def when_resumed(self) -> list[Point]:
    """While a resumed run removes half a line: this happens in no undisturbed run."""
    middle = self.operations[len(self.operations) // 2].lines
    path = str((runs.folder(self.reference) / 'metrics.jsonl').relative_to(self.reference))
    half, cut = Operation('append', path, middle), Operation('rename', path, -1)
    return [Point(half, 'half'), *(Point(cut, x) for x in MOMENTS['rename'])]

  def kill_all(self, points: list[Point]) -> None:
    """Several in each run, in their order, which is cheaper than a run for each."""
    chains = -(-len(points) // LINKS)
    for number in range(chains):
      self.kill(points[number::chains])

  def kill(self, points: list[Point]) -> None:
    """Dies at each point in turn, going on with the same command: must be the undisturbed run."""
    logdir, results = self.fresh(), []
    for point in points:
      watched = functools.partial(watch, logdir, kill=point)
      results.append(run('train', self.flags(logdir), watched))
      if results[-1].code != -signal.SIGKILL:
        break
    killed = [x for x in results if x.code == -signal.SIGKILL]
    problem = self.resumes(logdir, *killed)
    if not killed:
      problem, killed = f'it was not killed: {tail(results[0])}', results
    for number, point in enumerate(points[: len(killed)]):
      self.table.add('kill', f'{"then " * bool(number)}{point}', problem)
    if points[len(killed) :]:  # a kill before them made this run go another way
      self.kill(points[len(killed) :])

  def resumes(self, logdir: pathlib.Path, *before: Result) -> str:
    """Runs the same command again; empty if the run is now the undisturbed one."""
    result = run('train', self.flags(logdir))
    problem = ''
    if any(x.orphans for x in (*before, result)):
      problem = 'a process was left'
    elif result.code or result.traceback:
      problem = tail(result)
    return problem or difference(runs.folder(self.reference), runs.folder(logdir))

  def stop(self, number: int, when: str, ready: Callable[[pathlib.Path, str], bool]) -> None:
    """A signal, once its files and its output are so far: one sentence, its exit code, no loss."""
    logdir = self.fresh()
    child = Child('train', self.flags(logdir))
    wait_for(lambda: ready(runs.folder(logdir), child.said()))
    os.kill(child.pid, number)
    result = child.wait()
    name = signal.Signals(number).name
    problem = ''
    if result.code != 128 + number:
      problem = f'exit code {result.code}: {tail(result)}'
    elif result.traceback or not self._says_what_is_saved(result, logdir):
      problem = tail(result)
    self.table.add('signal', f'{name} {when}', problem or self.resumes(logdir, result))

  def _says_what_is_saved(self, result: Result, logdir: pathlib.Path) -> bool:
    last = result.text.splitlines()[-1]
    saved = any((runs.folder(logdir) / 'checkpoints').glob('*.npz'))
    return 'goes on from there' in last if saved else 'interrupted' in last

  def lose_worker(self, case: str, lost: slice, **changes) -> None:
    """Processes of environments die: their episodes are made again, the run ends well.

    They start in order, those that evaluate last.
    """
    logdir = self.fresh()
    child = Child('train', self.flags(logdir, **changes))
    wait_for(lambda: has_episodes(runs.folder(logdir), 1))
    for pid in sorted(child.members())[lost]:
      os.kill(pid, signal.SIGKILL)
    result = child.wait()
    problem = tail(result) if result.code or result.traceback or result.orphans else ''
    if not problem and 'lost an episode' not in result.text:
      problem = 'nothing was said'
    if not problem and not (runs.folder(logdir) / 'eval' / 'final.json').exists():
      problem = 'there is no result'
    self.table.add('worker', case, problem)

  def fill_disk(self, limit: int) -> None:
    """No file can grow beyond the limit, which ends like a full disk; then there is space again."""
    logdir = self.fresh()

    def before() -> None:
      signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
      resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    result = run('train', self.flags(logdir), before)
    problem = '' if result.code == 1 and 'Cannot ' in result.sentence else tail(result)
    case = f'files of at most {limit} bytes'
    self.table.add('full disk', case, problem or self.resumes(logdir, result))

  def lose_output(self) -> None:
    """What the command prints goes to a full disk: one error, a code, and no harm to the run."""
    logdir = self.fresh()
    before = lambda: os.dup2(os.open('/dev/full', os.O_WRONLY), 1)
    result = run('train', self.flags(logdir), before)
    problem = '' if result.code == 1 and 'the output' in result.sentence else tail(result)
    self.table.add('full disk', 'for the output', problem or self.resumes(logdir, result))

  def start_twice(self) -> None:
    """The second start is refused, the first one is not disturbed."""
    logdir = self.fresh()
    first = Child('train', self.flags(logdir))
    wait_for((runs.folder(logdir) / 'metrics.jsonl').exists)
    second = run('train', self.flags(logdir))
    problem = '' if 'Another process' in second.sentence else tail(second)
    problem = problem or self.resumes(logdir, first.wait())
    self.table.add('two starts', 'in one folder', problem)

  def fresh(self) -> pathlib.Path:
    logdir = self.root / 'run'
    shutil.rmtree(logdir, ignore_errors=True)
    return logdir


def has_episodes(folder: pathlib.Path, count: int) -> bool:
  return len(list(folder.glob('train_episodes/[0-9]*.npz'))) >= count


def wait_for(condition: Callable[[], bool], limit: float = 300) -> None:
  deadline = time.time() + limit
  while not condition():
    if time.time() > deadline:
      raise RuntimeError('the run did not get as far as expected')
    time.sleep(0.005)


def tail(result: Result) -> str:
  lines = [x for x in result.text.splitlines() if x.strip()]
  return f'code {result.code}: ' + ' / '.join(lines[-3:])
