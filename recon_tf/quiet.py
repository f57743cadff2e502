"""Keeps TensorFlow's start-up notes from burying ours; whatever else is written stays."""

import importlib.abc
import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Callable

# TensorFlow writes these before any setting for its logs counts.
NOTE = re.compile(rb'^(I0000 |WARNING: All log messages before absl::InitializeLog)')


class QuietTensorFlow(importlib.abc.MetaPathFinder):
  """Finds tensorflow as always, and has its first import run with notes left out."""

  def find_spec(self, name, path=None, target=None):
    if name != 'tensorflow':
      return None
    sys.meta_path.remove(self)
    spec = importlib.util.find_spec(name)
    if spec is not None:
      execute = spec.loader.exec_module
      spec.loader.exec_module = lambda module: without_notes(lambda: execute(module))
    return spec


def without_notes(work: Callable[[], None]) -> None:
  """Runs it with the process's stderr in a file, then passes on all but the notes."""
  sys.stderr.flush()
  before = os.dup(2)
  with tempfile.TemporaryFile() as file:
    os.dup2(file.fileno(), 2)
    try:
      work()
    finally:
      sys.stderr.flush()
      os.dup2(before, 2)
      os.close(before)
      file.seek(0)
      lines = [x for x in file.read().splitlines(keepends=True) if not NOTE.match(x)]
      os.write(2, b''.join(lines))


def install() -> None:
  if 'tensorflow' not in sys.modules:
    sys.meta_path.insert(0, QuietTensorFlow())
