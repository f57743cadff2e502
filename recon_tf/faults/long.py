"""A long run of the small agent: memory and open files must not grow."""

import os
import pathlib
import time

import numpy as np

from recon_tf.faults.children import Child
from recon_tf.faults.kills import Campaign, tail

GROWTH = 0.02


def check_long(campaign: Campaign, steps: int) -> None:
  """Watches a run from outside; the last fifth is held against the second one."""
  logdir = campaign.fresh()
  changes = {'steps': steps, 'eager': False, 'env.length': 50, 'train_every': 25}
  changes |= {'eval_every': steps // 10, 'keep_every': 0, 'replay.capacity': 1000}
  child = Child('train', campaign.flags(logdir, **changes))
  rows = []
  while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
    rows.append(_sample(child.pid))
    time.sleep(0.5)
  result = child.wait()
  rows = np.array([x for x in rows if x is not None], float)
  fifth = len(rows) // 5
  names, problem = ('memory MiB', 'open files'), tail(result) if result.code else ''
  for index, name in enumerate(names):
    early, late = rows[fifth : 2 * fifth, index].mean(), rows[-fifth:, index].mean()
    print(f'{steps} steps: {name} {early:.1f} then {late:.1f} ({late / early - 1:+.1%})')
    if late > (1 + GROWTH) * early:
      problem = problem or f'{name} grew from {early:.1f} to {late:.1f}'
  campaign.table.add('long run', f'{steps} steps in {result.seconds:.0f} s', problem)


def _sample(pid: int) -> tuple[float, int] | None:
  """Memory that is the process's own, and its open files."""
  try:
    lines = pathlib.Path(f'/proc/{pid}/status').read_text().splitlines()
    memory = next(int(x.split()[1]) for x in lines if x.startswith('RssAnon'))
    return memory / 1024, len(os.listdir(f'/proc/{pid}/fd'))
  except (OSError, StopIteration):
    return None  # it has just ended
