"""Every bit of every text file of a run, flipped: what is read is refused, or what was written."""

import collections
import contextlib
import io
import pathlib
import shutil
from collections.abc import Callable, Iterable

from recon_tf.common import Config, UserError, files
from recon_tf.common.episodes import load_meta
from recon_tf.faults import runs
from recon_tf.faults.kills import Campaign

READERS: dict[str, Callable] = {
  'config.yaml': lambda path: Config.load(path).flat,
  'metrics.jsonl': files.read_lines,
  'meta.json': files.read_json,
  'spaces.json': files.read_json,
  'eval/000000020.json': files.read_json,
  'eval/final.json': files.read_json,
  'demonstrations/meta.json': lambda path: load_meta(path.parent),
}


def check_bits(campaign: Campaign) -> None:
  """The text files of the undisturbed run, and the meta.json of its demonstrations."""
  place = campaign.root / 'bits'
  shutil.rmtree(place, ignore_errors=True)
  shutil.copytree(runs.folder(campaign.reference), place)
  shutil.copytree(campaign.demos, place / 'demonstrations')
  for name, read in READERS.items():
    if name == 'metrics.jsonl':  # more lines would only take longer
      (place / name).write_bytes(b''.join((place / name).read_bytes().splitlines(True)[:2]))
    size = (place / name).stat().st_size
    counts = flip(place / name, read, range(8 * size))
    case = f'{8 * size} bits of {name}, {counts["harmless"]} of them harmless'
    campaign.table.add('bits', case, f'{counts["silent"]} silent' if counts['silent'] else '')


def flip(path: pathlib.Path, read: Callable, bits: Iterable[int]) -> collections.Counter:
  """How many flips were noticed, how many harmless, and how many neither (silent)."""
  whole, written = path.read_bytes(), read(path)
  counts = collections.Counter()
  for bit in bits:
    data = bytearray(whole)
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)
    counts[_outcome(path, read, written)] += 1
  path.write_bytes(whole)
  return counts


def _outcome(path: pathlib.Path, read: Callable, written: dict | list) -> str:
  files.warned.clear()
  said = io.StringIO()
  try:
    with contextlib.redirect_stderr(said):
      found = read(path)
  except UserError:
    return 'noticed'
  if said.getvalue():
    return 'noticed'
  return 'harmless' if _says(found, written) else 'silent'


def _says(found: dict | list, written: dict | list) -> bool:
  """The same; without a checksum if its name was hit, which then stands there as another field."""
  if isinstance(written, list):
    return len(found) == len(written) and all(map(_says, found, written))
  return (
    all(k in found and found[k] == v for k, v in written.items()) and len(found) <= len(written) + 1
  )
