"""Tables of texts, for Markdown and HTML, and the forms that their numbers take."""

import dataclasses

from recon_tf.analysis.measured import command_line

NONE = '–'


@dataclasses.dataclass(frozen=True)
class Table:
  """Texts in rows; without rows there is a sentence on how to get them."""

  name: str
  title: str
  head: tuple[str, ...]
  rows: tuple[tuple[str, ...], ...]
  notes: tuple[str, ...]
  missing: str  # the sentence

  def markdown(self) -> str:
    """Rows and notes, or the sentence."""
    if not self.rows:
      return self.missing
    line = lambda cells: f'| {" | ".join(cells)} |'
    lines = [line(self.head), line(['---'] * len(self.head)), *map(line, self.rows)]
    return '\n'.join([*lines, '', *(f'- {x}' for x in self.notes)]).rstrip()


def make_table(name: str, title: str, head, rows, notes, part: str) -> Table:
  """A table of what `part` of the measurements gives."""
  missing = f'No data yet; `{command_line(part)}` makes them.'
  return Table(name, title, tuple(head), tuple(rows), tuple(notes), missing)


def digits(value: float | None) -> str:
  """Three digits that count."""
  return NONE if value is None else f'{value:.3g}'


def fixed(value: float | None, places: int = 3) -> str:
  return NONE if value is None else f'{value:.{places}f}'


def change(first: float | None, second: float | None) -> str:
  """In percent of the first."""
  known = first is not None and second is not None and first
  return f'{100 * (second / first - 1):+.1f} %' if known else NONE
