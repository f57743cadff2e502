"""The --help text: presets and keys with the comments that stand after them in configs.yaml."""

import pathlib
import shutil
import sys
import textwrap
from collections.abc import Mapping

from .config import Config, documented, presets, show

WIDEST = 100


def help_text(config: Config, about: str, own: Mapping, meanings: Mapping[str, str]) -> str:
  """Usage, presets in their groups, the script's own flags and all keys with defaults."""
  comments, headings, limits = documented()
  name = sys.argv[0] if len(sys.argv[0]) < 40 else pathlib.Path(sys.argv[0]).name
  lines = [f'usage: {name} [--configs PRESET ...] [--KEY VALUE ...]']
  lines += ['', *textwrap.wrap(about, width())] if about else []
  if own:
    lines += ['', 'Flags of this script:']
    for key, value in own.items():
      lines += _row(f'--{key}', show(value), meanings.get(key, ''))
  lines += ['', 'Presets, merged left to right over the defaults:']
  for preset, values in presets().items():
    if f'{preset}:' in headings:
      lines += ['', f'  {headings[f"{preset}:"]}']
    what = comments.get(f'{preset}:') or _summary(values)
    lines += _wrap(f'    {preset:<18}', what)
  lines += ['', 'Keys, each a flag, with default and meaning:']
  group = ''
  for key, value in config.flat.items():
    top = key.rpartition('.')[0]
    if _first_of(key, config) in headings:
      lines += ['', f'  {headings[_first_of(key, config)]}']
    if top != group and comments.get(top):
      lines += _wrap(f'    {top} ', f'({comments[top]})')
    group = top
    allowed = limits[key].text if key in limits else ''
    lines += _row(f'--{key}', show(value), f'{allowed} {comments.get(key, "")}'.strip())
  return '\n'.join(line.rstrip() for line in lines)


def width() -> int:
  """Of the terminal, COLUMNS or 80 columns; longer lines than the widest are hard to read."""
  return max(60, min(shutil.get_terminal_size().columns, WIDEST))


def _first_of(key: str, config: Config) -> str:
  """The group that begins with this key, since a heading may stand above a whole group."""
  top = key.split('.')[0]
  first = next(name for name in config.flat if name.split('.')[0] == top)
  return top if first == key else key


def _summary(values: Mapping) -> str:
  if 'tasks' in values:
    return 'tasks ' + ', '.join(values['tasks'])
  flat = Config(values).flat
  return ', '.join(f'{k} {show(v)}' for k, v in flat.items() if k != 'method') or 'the defaults'


def _row(flag: str, default: str, meaning: str) -> list[str]:
  return _wrap(f'    {flag:<26} {default:<18} ', meaning)


def _wrap(head: str, text: str) -> list[str]:
  indent = ' ' * min(len(head), 50)
  return textwrap.wrap(
    text, width(), initial_indent=head, subsequent_indent=indent, break_on_hyphens=False
  ) or [head]
