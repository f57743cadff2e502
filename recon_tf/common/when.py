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
