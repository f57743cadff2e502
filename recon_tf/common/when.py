"""Conditions on a step counter."""


class Every:
  """True when another `every` steps have passed (and at the first call); 0 means never."""

  def __init__(self, every: int, initial: bool = True):
    self.every = int(every)
    self.initial = initial
    self.last = None  # the multiple of `every` last reached; saved to resume exactly

  def __call__(self, step) -> bool:
    if self.every <= 0:
      return False
    reached = int(step) // self.every * self.every
    if self.last is None:
      self.last = reached
      return self.initial
    if reached <= self.last:
      return False
    self.last = reached
    return True


class Once:
  """True at the first call only."""

  def __init__(self):
    self.fresh = True

  def __call__(self) -> bool:
    fresh, self.fresh = self.fresh, False
    return fresh


class Until:
  """True while the step is below `until`; 0 means forever."""

  def __init__(self, until: int):
    self.until = int(until)

  def __call__(self, step) -> bool:
    return self.until <= 0 or int(step) < self.until
