"""Command line: `--configs` picks presets, and every config key is a flag."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, overload

from .config import Config, apply_presets, check_key, convert, default_config, of_task
from .errors import UserError
from .helptext import help_text
from .schema import parse_limit


class Flags:
  """Turns command line arguments into a Config; `about` heads the --help text."""

  def __init__(self, config: Config | None = None, about: str = ''):
    self.config = default_config() if config is None else config
    self.about = about

  @overload
  def parse(self, argv: Sequence[str] | None = None) -> Config: ...
  @overload
  def parse(
    self, argv: Sequence[str] | None = None, *, extra: Mapping[str, Any]
  ) -> tuple[Config, Config]: ...
  def parse(self, argv=None, *, extra=None):
    """The config, or (config, own) where `extra` lists a script's own flags.

    An extra flag is `name: default` or `name: (default, 'meaning')`, where the meaning may begin
    with a limit as in configs.yaml. Prints and exits on --help.
    """
    names, given, own = self._read(argv, extra)
    config = apply_presets(self.config, names)
    config = config.update({k: v for k, v in given.items() if k not in own})
    if extra is None:
      return config
    return config, own.update({k: v for k, v in given.items() if k in own})

  def parse_tasks(self, argv: Sequence[str] | None = None) -> list[Config]:
    """A config for each task to train on, with the settings of its own suite alone."""
    names, given, _ = self._read(argv, None)
    config = apply_presets(self.config, names).update(given)
    tasks = [config.task] if config.task else config.tasks
    each = lambda task: apply_presets(self.config, of_task(names, task)).update(given)
    return [each(task).update(task=task) for task in tasks]

  def _read(self, argv, extra) -> tuple[list[str], dict, Config]:
    """Names of presets, given values, and the script's own flags; answers --help."""
    argv = sys.argv[1:] if argv is None else [str(arg) for arg in argv]
    own, meanings = _split_extra(extra or {})
    clash = [name for name in own if name in self.config.flat or name == 'configs']
    if clash:
      raise ValueError(f'Extra flags are config keys already: {clash}.')
    if '--help' in argv or '-h' in argv:
      print(help_text(self.config, self.about, own, meanings))
      sys.exit(0)
    known = {**self.config.flat, **own}
    names, given = [], {}
    for key, texts in _split_flags(argv):
      if key == 'configs':
        names += _names(texts)
      else:
        check_key(key, {**known, 'configs': ()}, flag='--')
        given[key] = parse_value(key, texts, known[key])
    return names, given, own


def parse_value(key: str, texts: Sequence[str], like: Any) -> Any:
  """What was typed after a flag, in the type of `like`."""
  if isinstance(like, tuple):
    if not texts:
      raise UserError(f"Flag '--{key}' needs a value, such as [] for an empty list.")
    return _parse_list(key, texts, like)
  if isinstance(like, bool) and not texts:
    return True
  if len(texts) != 1:
    many = f'takes one value, not {len(texts)}: {" ".join(texts)}' if texts else 'needs a value'
    raise UserError(f"Flag '--{key}' {many}.")
  return _parse_scalar(key, texts[0], like)


def _parse_list(key: str, texts: Sequence[str], like: tuple) -> tuple:
  # `64 64`, `64,64`, `[64,64]` and an unquoted `[64, 64]` all arrive as words with commas between.
  text = ','.join(texts).strip()
  if text.startswith('[') != text.endswith(']'):
    raise UserError(f"Flag '--{key}' has a list without its other bracket: {' '.join(texts)}.")
  inside = text.removeprefix('[').removesuffix(']')
  words = [word.strip().strip('\'"') for word in inside.split(',')]
  return tuple(_parse_scalar(key, w, like[0]) if like else _guess(w) for w in words if w)


def _parse_scalar(key: str, text: str, like: Any) -> Any:
  if isinstance(like, str):
    return text
  return convert(key, _guess(text), like)


def _guess(text: str) -> bool | int | float | str:
  if text.lower() in ('true', 'false'):
    return text.lower() == 'true'
  for kind in (int, float):
    try:
      return kind(text)
    except ValueError:
      pass
  return text


def _names(texts: Sequence[str]) -> list[str]:
  names = [name for text in texts for name in text.split(',') if name]
  if not names:
    raise UserError("Flag '--configs' needs the name of at least one preset; --help lists them.")
  return names


def _split_flags(argv: Sequence[str]) -> list[tuple[str, list[str]]]:
  flags = []
  for arg in argv:
    # A single dash is a negative number or a text, never a flag.
    if arg.startswith('--') and len(arg) > 2:
      key, equals, value = arg[2:].partition('=')
      flags.append((key, [value] if equals else []))
    elif flags:
      flags[-1][1].append(arg)
    else:
      raise UserError(f"'{arg}' belongs to no flag; write --key value; --help lists the keys.")
  return flags


def _split_extra(extra: Mapping[str, Any]) -> tuple[Config, dict[str, str]]:
  pairs = {k: v if isinstance(v, tuple) else (v, '') for k, v in extra.items()}
  limits = {k: parse_limit(meaning)[0] for k, (_, meaning) in pairs.items()}
  free = [k for k, (v, _) in pairs.items() if type(v) in (int, float) and not limits[k].text]
  if free:
    raise ValueError(f'Extra flags that are numbers need a range: {free}.')
  own = Config({k: v for k, (v, _) in pairs.items()}).limited(limits)
  return own, {k: m for k, (_, m) in pairs.items()}
