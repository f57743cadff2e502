"""Checksums inside text files: a changed digit is still JSON or YAML, and would be believed."""

import json
import re
import zlib
from typing import Any

from recon_tf.common.errors import UserError

FIELD = 'crc32'
FIRST_LINE = re.compile(rf'# {FIELD}: ([0-9a-f]{{8}})')


def seal(value: dict) -> dict:
  """The object with a checksum of what it says; spaces and the order of keys do not count."""
  return {**value, FIELD: _checksum(json.loads(json.dumps(value)))}


def unseal(content: Any, source: str) -> Any:
  """The content without its checksum, which must fit; files of older versions have none."""
  if not isinstance(content, dict) or FIELD not in content:
    return content
  content = dict(content)
  if content.pop(FIELD) != _checksum(content):
    raise UserError(
      f'Cannot use {source}: it was damaged or edited after it was written; restore or remove it, '
      f"or remove its field '{FIELD}' to use it as it is."
    )
  return content


def seal_text(text: str) -> str:
  """The text after a comment with its checksum."""
  return f'# {FIELD}: {zlib.crc32(text.encode()):08x}\n{text}'


def check_text(text: str, source: str) -> None:
  """Compares the checksum in the first line, if it has one."""
  first, _, rest = text.partition('\n')
  if not first.startswith(f'# {FIELD}:'):
    return
  found = FIRST_LINE.fullmatch(first)
  if not found or int(found[1], 16) != zlib.crc32(rest.encode()):
    raise UserError(
      f'{source} was damaged or edited after it was written; restore it, or remove its first '
      'line to use it as it is.'
    )


def _checksum(content: dict) -> int:
  return zlib.crc32(json.dumps(content, sort_keys=True).encode())
