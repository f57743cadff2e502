"""Where the wall time of a run goes: its parts are timed from outside, the loop knows nothing."""

import collections
import functools
import time
from collections.abc import Callable

from recon_tf.common.timing import Timing


class Totals(Timing):
  """All seconds by kind of work, each second counted once."""

  def __init__(self, clock: Callable[[], float] = time.perf_counter):
    super().__init__(clock)
    self.seconds, self.calls = collections.Counter(), collections.Counter()

  def _add(self, kind: str, seconds: float, count: int) -> None:
    self.seconds[kind] += seconds
    self.calls[kind] += count

  def watch(self, owner, name: str, kind: str | Callable[[], str]) -> None:
    """From now on calls of owner.name count as that kind, or as what it says by then."""
    fn = getattr(owner, name)

    @functools.wraps(fn)
    def timed(*args, **kwargs):
      with self.measure(kind() if callable(kind) else kind):
        return fn(*args, **kwargs)

    setattr(owner, name, timed)


class Shares:
  """Watches a run of loop.Run; `totals` then has its kinds of work."""

  def __init__(self, run):
    self.totals, self._evaluating = Totals(), False
    watch, seen = self.totals.watch, set()

    def update(name: str) -> str:  # the first call of each compiles it
      first = name not in seen
      seen.add(name)
      return 'compiling updates' if first else 'updates'

    for name in ('train', 'clone'):
      watch(run.agent, name, lambda name=name: update(name))
    for replay in (run.replay, run.expert):
      watch(replay, 'sample', 'waiting for batches')
    watch(run.agent, 'policy', lambda: self._of('acting'))
    for env in [*run.envs, *run.eval_envs]:
      for name in ('ready', 'send_reset', 'send_step', 'receive'):
        watch(env, name, lambda: self._of('simulators'))
    watch(run.replay, 'add_episode', 'writing episodes')
    watch(run, '_save', 'writing checkpoints')
    watch(run, '_keep_milestone', 'writing checkpoints')
    watch(run, '_write', 'writing logs')
    watch(run.logger, 'write', 'writing logs')
    run._evaluate = self._evaluation(run._evaluate)

  def _of(self, what: str) -> str:
    return f'evaluation, {what}' if self._evaluating else f'interaction, {what}'

  def _evaluation(self, evaluate: Callable) -> Callable:
    def call(*args, **kwargs):
      self._evaluating = True
      try:
        with self.totals.measure('evaluation, rest'):
          return evaluate(*args, **kwargs)
      finally:
        self._evaluating = False

    return call
