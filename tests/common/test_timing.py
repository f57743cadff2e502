"""Time left: kinds of work apart, without compilation, and silent about what was never seen."""

import pytest

from recon_tf.common.timing import Timing


class Clock:
  now = 0.0

  def __call__(self) -> float:
    return self.now


@pytest.fixture
def timed():
  clock = Clock()
  timing = Timing(clock)

  def spend(kind, seconds, count=1):
    with timing.measure(kind, lambda: count):
      clock.now += seconds

  return timing, clock, spend


def test_kinds_are_told_apart_and_compilation_is_left_out(timed):
  timing, _, spend = timed
  for kind, first, later in (('joint', 40.0, 2.0), ('clone', 9.0, 0.1)):
    spend(kind, first)
    spend(kind, later)
  assert timing.mean('joint') == 2.0
  assert timing.mean('clone') == pytest.approx(0.1)
  assert timing.left({'joint': 3, 'clone': 10}) == pytest.approx(7.0)


def test_updates_inside_of_steps_do_not_count_twice(timed):
  timing, clock, spend = timed
  spend('joint', 30.0)
  with timing.measure('steps', lambda: 10):
    clock.now += 5.0
    spend('joint', 3.0)
  assert timing.mean('steps') == 0.5
  assert timing.mean('joint') == 3.0


def test_no_promise_before_all_was_seen_but_evaluations(timed):
  timing, _, spend = timed
  work = {'watch': 0, 'joint': 10, 'steps': 20, 'episodes': 5}
  spend('joint', 9.0)
  spend('joint', 1.0)
  assert timing.left(work) is None
  spend('steps', 2.0, count=4)
  assert timing.left(work) == 10 * 1.0 + 20 * 0.5
  spend('episodes', 6.0, count=2)
  assert timing.left(work) == 10 * 1.0 + 20 * 0.5 + 5 * 3.0


def test_a_machine_that_gets_busy_is_noticed(timed):
  timing, _, spend = timed
  for _ in range(201):
    spend('joint', 1.0)
  for _ in range(200):
    spend('joint', 4.0)
  assert timing.mean('joint') == 4.0
