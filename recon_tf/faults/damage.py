"""Damaged files of every kind: a sentence names them, or the result is as if nothing had been."""

import pathlib
import shutil
import typing
from collections.abc import Callable

import numpy as np

from recon_tf.common.seals import FIELD
from recon_tf.faults import runs
from recon_tf.faults.children import Result, run
from recon_tf.faults.compare import difference
from recon_tf.faults.kills import Campaign, tail

HALFWAY = 20  # steps of the run whose files are damaged
ODD = '1x.npz'  # no milestone's name

ARRAYS = ('truncate', 'flip', 'random', 'empty', 'foreign')
TEXT = (*ARRAYS, 'digit')


class Target(typing.NamedTuple):
  """Which files are damaged, how, and the command that must notice."""

  name: str
  pattern: str
  command: str
  ways: tuple[str, ...] = ARRAYS


TARGETS = (
  Target('newest checkpoint', 'run/checkpoints/*.npz', 'train'),
  Target('all checkpoints', 'run/checkpoints/*.npz', 'train'),
  Target('episode', 'run/train_episodes/*.npz', 'train'),
  Target('milestone', 'run/milestones/*.npz', 'train', ('odd name',)),
  Target('metrics.jsonl', 'run/metrics.jsonl', 'train', TEXT),
  Target('config.yaml', 'run/config.yaml', 'train', TEXT),
  Target('meta.json', 'run/meta.json', 'train', TEXT),
  Target('demonstration', 'demos/*.npz', 'train'),
  Target('demonstrations meta.json', 'demos/meta.json', 'check', (*TEXT, 'env text')),
  Target('final.json', 'run/eval/final.json', 'again', (*TEXT, 'step text', 'step too large')),
  # An empty file of metrics is that of a run that has just begun.
  Target('metrics.jsonl', 'run/metrics.jsonl', 'report', (
    'truncate', 'flip', 'random', 'foreign', 'digit', 'step text')),
  Target('evaluation', 'run/eval/000000000.json', 'report', TEXT),
  Target('final.json', 'run/eval/final.json', 'report', TEXT),
  Target('config.yaml', 'run/config.yaml', 'report', TEXT),
  Target('meta.json', 'run/meta.json', 'report', TEXT),
  Target('newest checkpoint', 'run/checkpoints/*.npz', 'evaluate'),
  Target('config.yaml', 'run/config.yaml', 'evaluate', ('digit',)),
  Target('spaces.json', 'run/spaces.json', 'export', TEXT),
)  # fmt: skip

EXACT = TARGETS[:1]  # the run must end as if it had not been damaged, whatever it says


def check_files(campaign: Campaign) -> None:
  """All targets, in all ways."""
  base = campaign.root / 'half'
  shutil.rmtree(base, ignore_errors=True)
  result = run('train', campaign.flags(base / 'runs', steps=HALFWAY))
  if result.code:
    raise RuntimeError(result.text)
  for target in TARGETS:
    for way in target.ways:
      problem = _try(campaign, base, target, way)
      campaign.table.add('files', f'{way} {target.name}, then {target.command}', problem)


def _try(campaign: Campaign, base: pathlib.Path, target: Target, way: str) -> str:
  place = campaign.root / 'damaged'
  shutil.rmtree(place, ignore_errors=True)
  shutil.copytree(base / 'runs', place / 'runs')
  shutil.copytree(campaign.demos, place / 'demos')
  (place / 'run').symlink_to(runs.folder(place / 'runs'))
  files = sorted(place.glob(target.pattern))
  files = files if target.name.startswith('all') else files[-1:]
  for path in files:
    WAYS[way](path)
  before = {str(x.relative_to(place)) for x in place.rglob('*') if x.is_file()}
  result = COMMANDS[target.command](campaign, place)
  after = {str(x.relative_to(place)).removesuffix('.corrupt') for x in place.rglob('*')}
  problem = _judge(result, [x.name for x in files], sorted(before - after))
  # If nothing was said the damage must not have mattered; an older checkpoint leads there too.
  exact = target in EXACT and not result.code
  if problem is None or (exact and not problem):
    planted = ODD if way == 'odd name' else ''
    folders = runs.folder(campaign.reference), runs.folder(place / 'runs')
    problem = difference(*folders, planted)
  return problem


def _judge(result: Result, names: list[str], lost: list[str]) -> str | None:
  """What is wrong with the answer to damaged files; None if there was no answer."""
  if result.traceback or result.orphans:
    return tail(result)
  named = any(x in result.text for x in names)
  if result.code:
    good = result.sentence and named
    return f'deleted {lost[0]}' if good and lost else '' if good else tail(result)
  if named and any(x in result.text for x in ('Warning', 'corrupt', 'unreadable')):
    return ''
  return None


def _train(campaign: Campaign, place: pathlib.Path, **changes) -> Result:
  return run('train', runs.flags(place / 'runs', place / 'demos', **changes))


COMMANDS: dict[str, Callable[[Campaign, pathlib.Path], Result]] = {
  'train': _train,
  'again': lambda campaign, place: _train(campaign, place, steps=HALFWAY),
  'check': lambda _, place: run('demos', [f'--check={place / "demos"}']),
  'report': lambda _, place: run('report', [str(place / 'runs'), '--out', str(place / 'report')]),
  'evaluate': lambda _, place: run('evaluate', [str(place / 'run'), '--episodes', '1']),
  'export': lambda _, place: run('export', [str(place / 'run'), str(place / 'exported')]),
}


def _random(path: pathlib.Path) -> None:
  path.write_bytes(np.random.default_rng(0).bytes(path.stat().st_size))


def _flip(path: pathlib.Path) -> None:
  """The top bit of a byte in the middle, which no text has; in an array that is other data."""
  data = bytearray(path.read_bytes())
  data[len(data) // 2] ^= 0x80
  path.write_bytes(data)


def _truncate(path: pathlib.Path) -> None:
  path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _foreign(path: pathlib.Path) -> None:
  """A readable file of its kind that does not belong there."""
  if path.suffix == '.npz':
    np.savez(path, action=np.zeros((5, 7), np.float32), other=np.zeros((5, 3), np.float32))
  else:
    path.write_text('a: 1\n' if path.suffix == '.yaml' else '[1]\n')


def _digit(path: pathlib.Path) -> None:
  """The last bit of the digit that is nearest to the middle: still JSON or YAML."""
  data = bytearray(path.read_bytes())
  places = [i for i, x in enumerate(data) if x in b'0123456789']
  data[min(places, key=lambda i: abs(i - len(data) // 2))] ^= 1
  path.write_bytes(data)


def _replace(old: str, new: str) -> Callable[[pathlib.Path], None]:
  """As by a writer that knows no checksums: the field itself must be looked at."""

  def apply(path: pathlib.Path) -> None:
    text = path.read_text()
    if old not in text:
      raise RuntimeError(f'{path} has no {old}')
    path.write_text(text.replace(old, new, 1).replace(f'"{FIELD}"', '"unknown"'))

  return apply


WAYS: dict[str, Callable[[pathlib.Path], None]] = {
  'truncate': _truncate,
  'flip': _flip,
  'random': _random,
  'empty': lambda path: path.write_bytes(b''),
  'foreign': _foreign,
  'digit': _digit,
  'odd name': lambda path: path.rename(path.with_name(ODD)),
  'step text': _replace('"step": ', '"step": "abc", "old": '),
  'step too large': _replace('"step": 20', '"step": 2000'),
  'env text': _replace('"env": {}', '"env": "x"'),
}
