"""Parts of a page that a program writes: what stands between two marks in it."""

import pathlib

from recon_tf.common.errors import UserError
from recon_tf.common.files import write_bytes


def marks(name: str) -> tuple[str, str]:
  return f'<!-- {name} -->', f'<!-- end of {name} -->'


def has_marks(page: pathlib.Path, name: str) -> bool:
  return page.is_file() and all(x in page.read_text(encoding='utf-8') for x in marks(name))


def split_page(page: pathlib.Path, name: str) -> tuple[str, str]:
  """The page up to the first mark of that name and from the second on, both included."""
  begin, end = marks(name)
  try:
    text = page.read_text(encoding='utf-8')
  except OSError as error:
    raise UserError(f"Cannot read '{page}': {error.strerror}.") from error
  if begin not in text or end not in text:
    raise UserError(f"'{page}' has no lines {begin} and {end} to put the table between.")
  return text.split(begin)[0] + begin, end + text.split(end)[1]


def replace_between(page: pathlib.Path, name: str, content: str) -> None:
  """Puts the content between the marks of that name."""
  head, foot = split_page(page, name)
  write_bytes(page, f'{head}\n{content}\n{foot}'.encode())
