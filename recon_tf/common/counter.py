"""A number that several objects share."""

import functools


@functools.total_ordering
class Counter:
  """A mutable integer; compares and converts like one."""

  def __init__(self, initial: int = 0):
    self.value = int(initial)

  def __int__(self) -> int:
    return self.value

  __index__ = __int__

  def __eq__(self, other) -> bool:
    return self.value == int(other)

  def __lt__(self, other) -> bool:
    return self.value < int(other)

  __hash__ = None  # its value changes

  def __add__(self, other) -> int:
    return self.value + int(other)

  def __sub__(self, other) -> int:
    return self.value - int(other)

  def __repr__(self) -> str:
    return f'Counter({self.value})'

  def increment(self, count: int = 1) -> None:
    self.value += count

  def reset(self, value: int = 0) -> None:
    """Sets the value, for example to that of a checkpoint."""
    self.value = int(value)
