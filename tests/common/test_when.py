from recon_tf.common.counter import Counter
from recon_tf.common.when import Every


def test_counter():
  counter = Counter(3)
  counter.increment(2)
  assert counter == 5
  assert int(counter) == 5
  assert counter < 6
  assert counter >= Counter(5)
  assert counter - 1 == 4
  counter.reset(7)
  assert range(10)[counter] == 7


def test_every_counts_multiples_however_the_steps_fall():
  every = Every(5)
  hits = [step for step in (0, 1, 4, 5, 6, 11, 12, 14, 16, 30) if every(Counter(step))]
  assert hits == [0, 5, 11, 16, 30]


def test_every_can_skip_the_first_call_and_resume():
  every = Every(5, initial=False)
  assert not every(0)
  resumed = Every(5)
  resumed.last = 10
  assert [resumed(x) for x in (12, 14, 15)] == [False, False, True]


def test_every_zero_is_never():
  assert not any(Every(0)(x) for x in range(5))
