"""Counts in the text of an XLA program: kernels, loops, and the steps that follow each other."""

import dataclasses
import re

from recon_tf.common.errors import UserError

# No kernel of its own: names for memory, and what only holds other computations.
FREE = (
  'parameter', 'constant', 'tuple', 'get-tuple-element', 'bitcast', 'while', 'call', 'conditional',
  'after-all', 'partition-id', 'replica-id', 'reshape', 'opt-barrier',
)  # fmt: skip
HEAD = re.compile(r'^(ENTRY )?%?([\w.-]+) .*\{$')
INSTRUCTION = re.compile(r'^\s+(?:ROOT )?%?([\w.-]+) = .*?[\])}] ([a-z][\w-]*)\((.*)$')
CALLED = re.compile(r'(?:body|to_apply)=%?([\w.-]+)')
TRIPS = re.compile(r'known_trip_count\W+n\W+(\d+)')
CONDITION = re.compile(r'condition=%?([\w.-]+)')
FUSED = re.compile(r'calls=%?([\w.-]+)')
BACKWARD = re.compile(r'(\w+_body_\d+)(?:_rewritten)*_grad_')
LIMIT = re.compile(r' s32\[\]\S* constant\((\d+)\)')


@dataclasses.dataclass
class Counts:
  """Of one run of a program."""

  kernels: int = 0
  loops: int = 0  # while loops in the program
  trips: int = 0  # of all of them, inner ones as often as they run
  unknown: int = 0  # of these, in loops whose length XLA does not know

  def add(self, other: 'Counts', times: int = 1) -> None:
    self.kernels += times * other.kernels
    self.loops += other.loops
    self.trips += times * other.trips
    self.unknown += times * other.unknown


def count(text: str) -> Counts:
  """What running the program takes, loops counted as often as they turn."""
  computations, entry = parse(text)
  return total(entry, computations)


def parse(text: str) -> tuple[dict[str, list[str]], str]:
  """The lines of every computation, and the name of the first one to run."""
  computations, entry, name = {}, '', ''
  for line in text.splitlines():
    head = HEAD.match(line)
    if head:
      name = head[2]
      computations[name] = []
      entry = name if head[1] else entry
    elif name:
      computations[name].append(line)
  return computations, entry


def total(name: str, computations: dict[str, list[str]]) -> Counts:
  counts = Counts()
  for line in computations[name]:
    found = INSTRUCTION.match(line)
    if not found:
      continue
    kind = found[2]
    if kind == 'while':
      times, known = trip_count(line, computations)
      counts.loops += 1
      counts.trips += times
      counts.unknown += 0 if known else times
      counts.add(total(CALLED.search(line)[1], computations), times)
    elif kind == 'call':
      counts.add(total(CALLED.search(line)[1], computations))
    elif kind not in FREE:
      counts.kernels += 1
  return counts


def trip_count(line: str, computations: dict[str, list[str]]) -> tuple[int, bool]:
  """How often a loop turns, and whether XLA knows it.

  A backward loop turns as often as the forward loop says that it did, which is the same number.
  """
  said = TRIPS.search(line)
  if said:
    return int(said[1]), True
  condition = computations[CONDITION.search(line)[1]]
  fused = [x for name in FUSED.findall(' '.join(condition)) for x in computations[name]]
  limit = first(LIMIT, [*condition, *fused])
  if limit:
    return int(limit[1]), True
  forward = BACKWARD.search(line)
  for other in (x for lines in computations.values() for x in lines if ' while(' in x):
    if forward and f'{forward[1]}_' in other and not BACKWARD.search(other):
      return trip_count(other, computations)[0], False
  name = CALLED.search(line)[1]
  raise UserError(f"the program does not say how often its loop '{name}' turns.")


def first(pattern: re.Pattern, lines: list[str]) -> re.Match | None:
  return next((x for x in map(pattern.search, lines) if x), None)
