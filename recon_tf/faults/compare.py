"""Two run folders, bit for bit; only clocks may differ."""

import json
import pathlib

from recon_tf.common.files import TEMPORARY
from recon_tf.common.npz import UNREADABLE, read_npz
from recon_tf.common.seals import unseal


def difference(first: pathlib.Path, second: pathlib.Path, planted: str = '') -> str:
  """The first thing in which the second run is not the first one; empty if they are equal.

  `planted` is the name of a foreign file in the second one, which must still be there.
  """
  left = [str(x) for x in second.rglob(f'{TEMPORARY}*')]
  if left:
    return f'temporary file {left[0]}'
  for part in ('checkpoints', 'milestones', 'train_episodes'):
    found = [sorted((x / part).glob('*.npz'), key=_order) for x in (first, second)]
    problem = _arrays(part, found[0], [x for x in found[1] if x.name != planted])
    if problem:
      return problem
  if planted and not any(second.rglob(planted)):
    return f'{planted} is gone'
  evaluations = [
    {x.name: x.read_bytes() for x in (folder / 'eval').glob('*.json')} for folder in (first, second)
  ]
  if evaluations[0] != evaluations[1]:
    return f'evaluations {sorted(evaluations[0])} and {sorted(evaluations[1])} differ'
  lines = [_metrics(x / 'metrics.jsonl') for x in (first, second)]
  if lines[0] != lines[1]:
    return f'metrics of {len(lines[0])} and {len(lines[1])} lines differ'
  return ''


def _order(path: pathlib.Path) -> list[str]:
  return path.name.split('-')[1:] or [path.name]  # without the time in an episode's name


def _arrays(part: str, first: list[pathlib.Path], second: list[pathlib.Path]) -> str:
  names = [[_order(x) for x in paths] for paths in (first, second)]
  if names[0] != names[1]:
    return f'{part}: {len(first)} and {len(second)} files'
  for one, other in zip(first, second, strict=True):
    try:
      a, b = read_npz(one), read_npz(other)
    except UNREADABLE as error:
      return f'{other}: {error}'
    unequal = [k for k in {*a, *b} if k not in a or k not in b or a[k].tobytes() != b[k].tobytes()]
    if unequal:
      return f'{part}: {unequal[0]} in {other.name}'
  return ''


def _metrics(path: pathlib.Path) -> list[dict]:
  lines = [unseal(json.loads(x), f"'{path}'") for x in path.read_text().splitlines()]
  return [{k: v for k, v in x.items() if not k.startswith('time/')} for x in lines]
