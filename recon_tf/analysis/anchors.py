"""Anchors: transitions of main policies, recorded once and kept beside the run they are from."""

import hashlib
import pathlib
from collections.abc import Iterable

FOLDER = pathlib.Path('diagnose') / 'anchors'  # in a run
EPISODES = 5  # of a run


def anchor_folder(run: pathlib.Path) -> pathlib.Path:
  return run / FOLDER


def anchor_files(folders: Iterable[str | pathlib.Path]) -> list[pathlib.Path]:
  """The episodes in these folders, in their order."""
  return [x for folder in folders for x in sorted(pathlib.Path(folder).glob('*.npz'))]


def digest(files: Iterable[pathlib.Path]) -> str:
  """Tells sets of anchors apart, wherever they lie and in whatever order they are named."""
  single = sorted(hashlib.sha256(x.read_bytes()).hexdigest() for x in files)
  return hashlib.sha256(''.join(single).encode()).hexdigest()[:16]
