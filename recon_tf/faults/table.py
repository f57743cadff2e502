"""Counts of what was tried and what held, and every case that did not."""

import collections
import time


class Table:
  """Rows by section; a failure is kept with its reason."""

  def __init__(self):
    self._tried = collections.Counter()
    self._held = collections.Counter()
    self._started = {}
    self.failures = []

  def add(self, section: str, case: str, problem: str) -> None:
    """One case; no problem means that it held."""
    self._started.setdefault(section, time.time())
    self._tried[section] += 1
    self._held[section] += not problem
    print(f'{"ok  " if not problem else "FAIL"} {section}: {case}', flush=True)
    if problem:
      print(f'     {problem}', flush=True)
      self.failures.append(f'{section}: {case}: {problem}')

  def text(self) -> str:
    """Markdown."""
    lines = ['| section | tried | held |', '|---|---|---|']
    lines += [f'| {x} | {self._tried[x]} | {self._held[x]} |' for x in self._tried]
    total = f'| all | {self._tried.total()} | {self._held.total()} |'
    return '\n'.join([*lines, total])
