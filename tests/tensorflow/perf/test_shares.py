"""Seconds of a run by kind of work, counted once each."""

from recon_tf.perf.shares import Totals


class Work:
  """Has a clock that only work moves."""

  now = 0.0

  def outer(self):
    self.now += 2
    return self.inner()

  def inner(self):
    self.now += 5
    return 'done'


def test_a_second_counts_for_the_innermost_kind():
  work, kind = Work(), ['first']
  totals = Totals(lambda: work.now)
  totals.watch(work, 'inner', lambda: kind[0])
  totals.watch(work, 'outer', 'outer')
  assert work.outer() == 'done'
  kind[0] = 'second'
  work.inner()
  assert totals.seconds == {'outer': 2, 'first': 5, 'second': 5}
  assert totals.calls == {'outer': 1, 'first': 1, 'second': 1}
