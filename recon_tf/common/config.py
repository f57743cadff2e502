"""Immutable nested configuration, checked against the defaults and presets in configs.yaml."""

import functools
import io
import numbers
import os
import pathlib
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from .aliases import RENAMED, modernize
from .errors import UserError, nearest
from .files import write_bytes
from .schema import Limit, comments_by_line, key_lines, parse_limit
from .seals import check_text, seal_text

KEYS = '# keys:'  # in the first line of configs from before the checksum
PACKAGE = pathlib.Path(__file__).parents[1]


class Config(Mapping):
  """Nested dict, read by attribute (`config.rssm.deter`) or dotted key, that never changes."""

  def __init__(self, *args, **kwargs):
    values = _nest(_flatten(dict(*args, **kwargs)))
    nested = {k: Config(v) if isinstance(v, dict) else _freeze(v) for k, v in values.items()}
    object.__setattr__(self, '_nested', nested)
    object.__setattr__(self, '_limits', {})

  @property
  def flat(self) -> dict[str, Any]:
    """All values under their dotted keys."""
    return _flatten(self)

  def to_dict(self) -> dict[str, Any]:
    """Plain nested dicts and lists, as YAML and JSON want them."""
    return {
      k: v.to_dict() if isinstance(v, Config) else list(v) if isinstance(v, tuple) else v
      for k, v in self._nested.items()
    }

  def update(self, changes: Mapping | None = None, /, **kwargs) -> 'Config':
    """Copy with some values changed; keys may be nested or dotted, types and limits must hold."""
    values = self.flat
    for key, value in _flatten({**(changes or {}), **kwargs}).items():
      check_key(key, values)
      values[key] = convert(key, value, values[key])
      if key in self._limits:
        self._limits[key].check(key, values[key])
    return Config(values).limited(self._limits)

  def limited(self, limits: Mapping[str, Limit]) -> 'Config':
    """The same config; from now on its updates, and theirs, are held against these limits."""
    object.__setattr__(self, '_limits', limits)
    return self

  def save(self, path: str | os.PathLike) -> None:
    """Writes YAML whole or not at all; the first line tells whether it was changed later."""
    text = io.StringIO()
    _yaml().dump(self.to_dict(), text)
    write_bytes(path, seal_text(text.getvalue()).encode())

  @classmethod
  def load(cls, path: str | os.PathLike) -> 'Config':
    """Reads a saved config exactly as it was written."""
    return cls(_read_yaml(path))

  def __getattr__(self, name: str) -> Any:
    if name.startswith('_'):
      raise AttributeError(name)
    try:
      return self._nested[name]
    except KeyError:
      raise AttributeError(f"Config has no key '{name}'.{nearest(name, self._nested)}") from None

  def __setattr__(self, name: str, value: Any) -> None:
    raise AttributeError(f"Config is immutable; use config.update({{'{name}': ...}}).")

  def __delattr__(self, name: str) -> None:
    raise AttributeError(f"Config is immutable; '{name}' cannot be deleted.")

  def __getitem__(self, key: str) -> Any:
    node = self._nested
    for part in key.split('.'):
      if not isinstance(node, Mapping):
        raise KeyError(key)
      node = node[part]
    return node

  def __iter__(self) -> Iterator[str]:
    return iter(self._nested)

  def __len__(self) -> int:
    return len(self._nested)

  def __repr__(self) -> str:
    return f'Config({self.to_dict()})'

  def __str__(self) -> str:
    width = max((len(key) for key in self.flat), default=0)
    return '\n'.join(f'{key:<{width}}  {show(value)}' for key, value in self.flat.items())


def config_file() -> pathlib.Path:
  """configs.yaml of the installed package, or of the repository when run from a checkout."""
  inside = PACKAGE / 'configs.yaml'
  return inside if inside.exists() else PACKAGE.parent / 'configs.yaml'


def default_config() -> Config:
  """The `defaults` of configs.yaml, with the limits in their comments."""
  return Config(_presets_of(config_file())['defaults']).limited(documented().limits)


def presets() -> dict[str, dict]:
  """The presets of configs.yaml, by name."""
  return {k: v for k, v in _presets_of(config_file()).items() if k != 'defaults'}


def apply_presets(config: Config, names: list[str] | tuple[str, ...]) -> Config:
  """Merges presets left to right; the task lists of several suites add up.

  A preset 'a+b' is where the two meet: it is merged as soon as both have been named.
  """
  known = presets()
  tasks = []
  for place, name in enumerate(names):
    if name == 'defaults' and name == names[0]:
      continue  # DreamerV2's users write `--configs defaults ...`; it is the base anyway
    if name not in known:
      raise UserError(f"Unknown preset '{name}' in --configs.{nearest(name, known)} See --help.")
    _check_order(name, names[:place], known)
    config = _merge(config, name, known)
    for meeting in _meetings(name, names[:place], known):
      config = _merge(config, meeting, known)
    if 'tasks' in known[name]:
      tasks += [task for task in config.tasks if task not in tasks]
      config = config.update(tasks=tasks)
  return config


def _merge(config: Config, name: str, known: dict) -> Config:
  try:
    return config.update(known[name])
  except UserError as error:
    raise UserError(f"Preset '{name}' in {config_file().name}: {error}") from error


def _meetings(name: str, before: list[str] | tuple[str, ...], known: dict) -> list[str]:
  """The presets 'a+b' of this name and one that was named before it."""
  return [
    x for x in known if '+' in x and set(x.split('+')) <= {name, *before} and name in x.split('+')
  ]


def of_task(names: list[str] | tuple[str, ...], task: str) -> list[str]:
  """The presets without the suites that this task is not of, so that none overwrites its own."""
  known = presets()
  suites = [x for x in names if 'tasks' in known.get(x, ())]
  own = [x for x in suites if task in known[x]['tasks']]
  return [x for x in names if x not in suites or x in own or not own]


def _check_order(name: str, before: list[str] | tuple[str, ...], known: dict) -> None:
  """Refuses a preset that undoes what an agent of its own kind, such as DA-DAC, was given."""
  groups = lambda x: {key.split('.')[0] for key in known[x]}
  for earlier in before:
    if 'agent' in known.get(earlier, ()) and 'agent' not in known[name]:
      undone = sorted(groups(name) & groups(earlier))
      if undone:
        raise UserError(
          f"Preset '{name}' in --configs would undo {', '.join(undone)} of '{earlier}'; "
          f"name '{earlier}' after it."
        )


def load_config(*names: str, **overrides) -> Config:
  """Defaults, presets, overrides: `load_config('maze', 'cpu', seed=1, rssm={'deter': 64})`."""
  return apply_presets(default_config(), names).update(overrides)


def load_saved(path: str | os.PathLike) -> Config:
  """Config of an earlier run in terms of this version's keys, of which new ones have defaults."""
  return default_config().update(saved_values(path))


def saved_values(path: str | os.PathLike) -> dict[str, Any]:
  """What the config.yaml of a run sets, under the names of this version, checked."""
  saved = modernize(Config.load(path).flat)
  try:
    checked = default_config().update(saved).flat
  except UserError as error:
    raise UserError(f"'{path}' is damaged or of another version: {error}") from error
  return {k: checked[k] for k in saved}


class Documented(typing.NamedTuple):
  """What the comments of configs.yaml say."""

  helps: dict[str, str]  # key of the defaults, or of a preset with a colon, `cpu:` -> meaning
  headings: dict[str, str]  # the same keys -> heading above
  limits: dict[str, Limit]


def documented() -> Documented:
  return _comments_of(config_file())


def check_key(key: str, known: Mapping[str, Any], flag: str = '') -> None:
  """Refuses a key that is not among the known dotted ones, with the nearest that is."""
  if key in known:
    return
  inside = [name for name in known if name.startswith(f'{key}.')]
  if inside:
    raise UserError(f"'{flag}{key}' is a group of keys; set one of them, such as '{inside[0]}'.")
  if key in RENAMED:
    raise UserError(f"Unknown key '{flag}{key}'; it is called '{RENAMED[key]}' now.")
  # `--deter 200` most likely means rssm.deter, which a comparison of whole names may miss.
  leaves = [name for name in known if name.split('.')[-1] == key.split('.')[-1]]
  hint = nearest(key, known) or nearest(key, leaves)
  if leaves and '.' not in key:
    hint = f" Did you mean '{leaves[0]}'?"
  raise UserError(f"Unknown key '{flag}{key}'.{hint}")


def convert(key: str, value: Any, like: Any) -> Any:
  """The value in the type of `like`, or a UserError that names key, value and type."""
  if isinstance(like, tuple):
    if not isinstance(value, (list, tuple)):
      raise _wrong_type(key, value, 'a list')
    element = like[0] if like else None
    return tuple(v if element is None else convert(key, v, element) for v in value)
  if isinstance(like, bool):
    if not isinstance(value, bool):
      raise _wrong_type(key, value, 'True or False')
    return value
  if isinstance(like, str):
    if not isinstance(value, str):
      raise _wrong_type(key, value, 'a text')
    return value
  wanted = 'a whole number' if isinstance(like, int) else 'a number'
  if isinstance(value, bool) or not isinstance(value, numbers.Real) or value != value:
    raise _wrong_type(key, value, wanted)
  if isinstance(like, float):
    return float(value)
  if value in (float('inf'), -float('inf')) or value != int(value):
    raise _wrong_type(key, value, wanted)
  return int(value)


def show(value: Any) -> str:
  """A value as it may be typed after its flag."""
  if isinstance(value, tuple):
    return f'[{", ".join(str(v) for v in value)}]'
  if isinstance(value, float) and abs(value) >= 1e5:
    return f'{value:g}'.replace('e+0', 'e').replace('e+', 'e')
  return "''" if value == '' else str(value)


def _wrong_type(key: str, value: Any, wanted: str) -> UserError:
  return UserError(f"Key '{key}' wants {wanted}, not {value!r}.")


def _freeze(value: Any) -> Any:
  if isinstance(value, (list, tuple)):
    return tuple(_freeze(v) for v in value)
  if isinstance(value, (bool, int, float, str)):
    return value
  if hasattr(value, 'item'):
    return value.item()  # a NumPy scalar
  raise UserError(f'A config holds texts, numbers, booleans and lists of them, not {value!r}.')


def _flatten(values: Mapping, prefix: str = '') -> dict[str, Any]:
  flat = {}
  for key, value in values.items():
    if isinstance(value, Mapping):
      flat.update(_flatten(value, f'{prefix}{key}.'))
    else:
      flat[f'{prefix}{key}'] = value
  return flat


def _nest(flat: Mapping[str, Any]) -> dict[str, Any]:
  nested = {}
  for key, value in flat.items():
    *groups, name = key.split('.')
    node = nested
    for group in groups:
      node = node.setdefault(group, {})
      if not isinstance(node, dict):
        raise UserError(f"Key '{key}': '{group}' is a value and a group of keys at once.")
    if isinstance(node.get(name), dict):
      raise UserError(f"Key '{key}' is a value and a group of keys at once.")
    node[name] = value
  return nested


def _yaml() -> YAML:
  # YAML 1.2 (ruamel's default) reads 3e-4 and 5e6 as numbers, which 1.1 would not.
  yaml = YAML(typ='safe', pure=True)
  yaml.default_flow_style = None
  yaml.width = 100
  yaml.sort_base_mapping_type_on_output = False
  return yaml


def _read_yaml(path: str | os.PathLike) -> dict[str, Any]:
  try:
    text = pathlib.Path(path).read_text(encoding='utf-8')
  except (OSError, UnicodeDecodeError) as error:
    reason = getattr(error, 'strerror', None) or 'it is not a text file'
    raise UserError(f'Cannot read the config {path}: {reason}.') from error
  check_text(text, f"'{path}'")
  try:
    content = _yaml().load(text)
  except YAMLError as error:
    mark = getattr(error, 'problem_mark', None)
    where = f' in line {mark.line + 1}' if mark else ''
    problem = getattr(error, 'problem', None) or 'syntax error'
    raise UserError(f'{path} is not valid YAML{where}: {problem.splitlines()[0]}.') from error
  if not isinstance(content, dict):
    raise UserError(f'{path} holds no keys; a config is a YAML mapping.')
  first = text.partition('\n')[0]
  wanted, found = first.split()[-1:], len(_flatten(content))
  if first.startswith(KEYS) and wanted != [str(found)]:
    raise UserError(
      f'{path} was cut off or edited: it has {found} keys and should have {wanted[0]}; restore it.'
    )
  return content


@functools.lru_cache(maxsize=4)
def _comments_of(path: pathlib.Path) -> Documented:
  tree = YAML().load(path.read_text(encoding='utf-8'))
  comments, lines = comments_by_line(tree), dict(key_lines(tree))
  result = Documented({}, {}, {})
  for key, line in lines.items():
    name = key.removeprefix('defaults.') if '.' in key else f'{key}:'
    if key.startswith('defaults.'):
      limit, result.helps[name] = parse_limit(comments.get(line, ''))
      if limit.text:
        result.limits[name] = limit
      if line - 1 in comments and line - 1 not in lines.values():
        result.headings[name] = comments[line - 1]
    elif '.' not in key:
      _describe_preset(name, line, comments, result)
  return result


def _describe_preset(name: str, line: int, comments: dict[int, str], result: Documented) -> None:
  """Directly above a preset stands what it is; a heading has an empty line below."""
  above = []
  while line - 1 - len(above) in comments:
    above.insert(0, comments[line - 1 - len(above)])
  result.helps[name] = ' '.join(above)
  gap = line - 1 - len(above)
  if gap - 1 in comments and gap not in comments and gap - 2 not in comments:
    result.headings[name] = comments[gap - 1]


@functools.lru_cache(maxsize=4)
def _presets_of(path: pathlib.Path) -> dict[str, Any]:
  content = _read_yaml(path)
  if not isinstance(content.get('defaults'), dict):
    raise UserError(f"{path} has no 'defaults'.")
  broken = [name for name, values in content.items() if not isinstance(values, dict)]
  if broken:
    raise UserError(f"Preset '{broken[0]}' in {path} holds no keys.")
  return content
