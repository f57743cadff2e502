"""How long each kind of work takes in this run, and how long what is left will take."""

import collections
import contextlib
import time
from collections.abc import Callable, Iterator

RECENT = 200  # measurements that count: the machine may be busier now than it was
COMPILES = ('joint', 'follow', 'watch', 'clone')  # the first of these says nothing about the rest


class Timing:
  """Seconds by kind of work; the kinds are those of work_left."""

  def __init__(self, clock: Callable[[], float] = time.perf_counter):
    self._clock = clock
    self._inside = [0.0]  # seconds that were measured within each open measurement
    self._first, self._recent = set(), {}

  @contextlib.contextmanager
  def measure(self, kind: str, count: Callable[[], int] = lambda: 1) -> Iterator[None]:
    """Counts what happens inside, but for what is measured there as another kind."""
    start = self._clock()
    self._inside.append(0.0)
    try:
      yield
    finally:
      seconds = self._clock() - start
      own = seconds - self._inside.pop()
      self._inside[-1] += seconds
      self._add(kind, own, count())

  def _add(self, kind: str, seconds: float, count: int) -> None:
    if kind in COMPILES and kind not in self._first:
      self._first.add(kind)
    else:
      recent = self._recent.setdefault(kind, collections.deque(maxlen=RECENT))
      recent.append((seconds, count))

  def mean(self, kind: str) -> float | None:
    """Seconds of one; None if none was made yet."""
    recent = self._recent.get(kind, ())
    count = sum(x for _, x in recent)
    return sum(x for x, _ in recent) / count if count else None

  def left(self, work: dict[str, int]) -> float | None:
    """Seconds of what is left; None while a kind of it was never seen, evaluations apart."""
    means = {kind: self.mean(kind) for kind, count in work.items() if count}
    if any(x is None for kind, x in means.items() if kind != 'episodes'):
      return None
    return sum(work[kind] * (x or 0.0) for kind, x in means.items())
