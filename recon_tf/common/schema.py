"""What configs.yaml says about its keys in the comments after them: meaning and allowed values.

A comment may begin with what is allowed:  `[1, inf)` a range, `{a, b}` choices, `<name>` a text
that can name a folder, `<regex>` a regular expression. Of a list, `x 2` or `x 1+` after it gives
the number of entries and the range holds for each of them. Types come from the default values.
"""

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from recon_tf.common.errors import UserError, nearest

RANGE = re.compile(r'^([\[(])([^,\])]+), ([^\])]+)([\])])')
COUNT = re.compile(r'^ x (\d+)(\+|\|\d+)?')
CHOICES = re.compile(r'^\{([^}]+)\}')
NAMED = re.compile(r'^<(name|regex)>')


@dataclasses.dataclass(frozen=True)
class Limit:
  """Allowed values of a key; `text` is how configs.yaml writes them."""

  text: str = ''
  low: float = -math.inf
  high: float = math.inf
  closed: tuple[bool, bool] = (True, True)
  choices: tuple = ()
  kind: str = ''
  counts: tuple[int, ...] = ()
  open_count: bool = False  # that many entries or more

  def check(self, key: str, value: Any) -> None:
    """Refuses a value outside, with key, value and what is allowed."""
    values = value if isinstance(value, tuple) else (value,)
    if isinstance(value, tuple) and self.counts and not self._counts(len(value)):
      raise UserError(f"Key '{key}' has {len(value)} entries: {list(value)}; allowed: {self.text}.")
    for x in values:
      if not self._holds(x):
        shown = f'{x!r} in {list(value)}' if isinstance(value, tuple) else repr(x)
        hint = nearest(x, self.choices) if isinstance(x, str) else ''
        raise UserError(f"Key '{key}' is {shown}; allowed: {self._allowed()}.{hint}")

  def _allowed(self) -> str:
    kinds = {
      'name': "a name of letters, digits and . _ + -, without '/'",
      'regex': 'a regular expression',
    }
    return kinds.get(self.kind, self.text)

  def _counts(self, count: int) -> bool:
    return count >= self.counts[0] if self.open_count else count in self.counts

  def _holds(self, value: Any) -> bool:
    if self.choices:
      return value in self.choices
    if self.kind == 'name':
      return re.fullmatch(r'[A-Za-z0-9_+-][A-Za-z0-9_.+-]*', value) is not None
    if self.kind == 'regex':
      return _compiles(value)
    if isinstance(value, (bool, str)):
      return not self.text
    above = value >= self.low if self.closed[0] else value > self.low
    return above and (value <= self.high if self.closed[1] else value < self.high)


def parse_limit(comment: str) -> tuple[Limit, str]:
  """The limit that a comment begins with, and the rest of it."""
  if match := RANGE.match(comment):
    left, low, high, right = match.groups()
    count = COUNT.match(comment[match.end() :])
    end = match.end() + (count.end() if count else 0)
    counts = _counts(count) if count else ()
    limit = Limit(
      comment[:end], float(low), float(high), (left == '[', right == ']'), counts=counts,
      open_count=bool(count and count[2] == '+'),
    )  # fmt: skip
  elif match := CHOICES.match(comment):
    end = match.end()
    limit = Limit(comment[:end], choices=tuple(_scalar(x) for x in match[1].split(', ')))
  elif match := NAMED.match(comment):
    end = match.end()
    limit = Limit(comment[:end], kind=match[1])
  else:
    return Limit(), comment
  return limit, comment[end:].strip()


def comments_by_line(tree) -> dict[int, str]:
  """All comments of a document that ruamel has loaded for a round trip."""
  found = {}
  for token in _tokens(tree):
    line = token.start_mark.line  # of its first comment, whatever empty lines come before it
    for number, text in enumerate(token.value.lstrip('\n').split('\n')):
      if text.strip().startswith('#'):
        found[line + number] = text.strip().lstrip('#').strip()
  return found


def key_lines(tree: Mapping, prefix: str = '') -> Iterator[tuple[str, int]]:
  """Every dotted key of a document, groups included, with the line it stands in."""
  for key, value in tree.items():
    yield f'{prefix}{key}', tree.lc.data[key][0]
    if isinstance(value, Mapping):
      yield from key_lines(value, f'{prefix}{key}.')


def _tokens(node) -> Iterator:
  """Comment tokens below a node, wherever ruamel has attached them."""
  places = [node.ca.comment, *node.ca.items.values()]
  stack = [x for place in places if place for x in place]
  while stack:
    item = stack.pop()
    if isinstance(item, list):
      stack += item
    elif item is not None:
      yield item
  for value in node.values() if isinstance(node, Mapping) else node:
    if hasattr(value, 'ca'):
      yield from _tokens(value)


def _counts(match: re.Match) -> tuple[int, ...]:
  other = match[2]
  return (int(match[1]), int(other[1:])) if other and other != '+' else (int(match[1]),)


def _scalar(text: str) -> Any:
  return int(text) if text.isdecimal() else text


def _compiles(text: str) -> bool:
  try:
    re.compile(text)
  except (re.error, RecursionError, OverflowError):
    return False
  return True
