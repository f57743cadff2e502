"""Runs that differ only in their seed, put together: the seeds of one method on one task."""

import dataclasses
import os
import pathlib

import numpy as np

from recon_tf.analysis.runs import RunFolder

ORDER = ('bc', 'dadac', 'vmail', 'cmil', 'iqmpc', 'no_recovery', 'recon')
# Keys that may differ inside of a group without making its runs incomparable.
FREE = (
  'seed', 'logdir', 'tasks', 'demos', 'threads', 'keep', 'keep_every', 'replay.memory',
  'video_every',
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Group:
  """All seeds of a method; variant is the folder above the task, '' if all share one."""

  variant: str
  task: str
  method: str
  runs: tuple[RunFolder, ...]

  @property
  def setting(self) -> str:
    """Variant and task, which have figures of their own."""
    return f'{self.variant} · {self.task}' if self.variant else self.task

  @property
  def name(self) -> str:
    return f'{self.setting} · {self.method}'

  @property
  def seeds(self) -> list[int]:
    return [x.seed for x in self.runs]


def group_runs(runs: list[RunFolder]) -> list[Group]:
  """Groups in the order variant, task, method, with the paper's methods first."""
  homes = {run.path: run.path.resolve().parents[2] for run in runs}
  found = {}
  for run in runs:
    # A folder that was renamed holds runs of its own, whatever their configs say.
    key = (_variant(homes[run.path], homes.values()), run.task, run.method, run.path.parent)
    found.setdefault(key, []).append(run)
  groups = [
    Group(*key[:3], tuple(sorted(members, key=lambda x: x.seed))) for key, members in found.items()
  ]
  return sorted(groups, key=lambda x: (x.variant, x.task, method_rank(x.method)))


def settings_of(groups: list[Group]) -> dict[str, list[Group]]:
  """Groups by variant and task."""
  found = {}
  for group in groups:
    found.setdefault(group.setting, []).append(group)
  return found


def method_rank(method: str) -> tuple[int, str]:
  return (ORDER.index(method) if method in ORDER else len(ORDER), method)


def differing_keys(group: Group) -> list[str]:
  """Settings that are not the same for all seeds."""
  first, *others = [x.config.flat for x in group.runs]
  return [k for k in first if k not in FREE and any(x[k] != first[k] for x in others)]


def observations(run: RunFolder) -> str:
  """What the agent sees."""
  return 'pixels' if run.config.env.render and run.config.encoder.cnn_keys != '$^' else 'vectors'


def run_score(run: RunFolder) -> str:
  """Name of what counts: success where the task has one, otherwise return."""
  known = [run.final() or {}, *run.evaluations()]
  return 'success' if any('success' in x for x in known) else 'return'


def reached_step(run: RunFolder) -> int:
  """Online steps so far."""
  records = [*run.evaluations(), run.final() or {'step': 0}]
  metrics = run.metrics()
  last = [steps.max() for steps, _ in metrics.values()]
  return int(max([x['step'] for x in records] + last))


def minutes_trace(run: RunFolder) -> tuple[np.ndarray, np.ndarray]:
  """(steps, minutes of work); the clock of a resumed run starts anew, so its parts add up."""
  steps, minutes = run.metrics().get('time/minutes', (np.zeros(0), np.zeros(0)))
  restarts = np.concatenate([[0.0], np.where(np.diff(minutes) < 0, minutes[:-1], 0.0)])
  return steps, minutes + np.cumsum(restarts[: len(minutes)])


def _variant(home: pathlib.Path, homes) -> str:
  homes = set(homes)
  if len(homes) == 1:
    return ''
  common = pathlib.Path(os.path.commonpath(homes))
  return home.relative_to(common).as_posix().removeprefix('.')
