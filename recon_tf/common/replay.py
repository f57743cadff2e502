"""Replay on disk: episodes are files, sequences are read from them by offset."""

import array
import bisect
import collections
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import threading

import numpy as np

from recon_tf.common.episodes import (
  ALIASES,
  FLAGS,
  Episode,
  complete_episode,
  list_files,
  load_episode,
  save_episode,
)
from recon_tf.common.errors import UserError
from recon_tf.common.files import remove_temporary
from recon_tf.common.npz import UNREADABLE
from recon_tf.common.slices import Damaged, Field, SliceReader, is_plain, read_fields

AHEAD = 8  # batches that may be loading or waiting in the background
COMPACT = 1024  # removed entries that are cleared from the index at once


@dataclasses.dataclass(slots=True)
class Entry:
  """An episode of the replay: a plain file, a file to decode (no fields) or arrays."""

  path: str
  rows: int
  fields: dict[str, Field] | None = None
  sums: array.array | None = None
  data: Episode | None = None
  number: int = -1


class Replay:
  """Stores episodes and samples sequences; without a directory it lives in memory.

  A run that goes on from a checkpoint gives the position it had there in `until`: later files
  wait, in `waiting`, until admit() takes them up or an episode of the same number replaces them.
  With `hold`, files beyond the capacity stay on the disk until release(), because an older
  checkpoint may need them. `spec` is what fits, key -> (dtype, shape of a row), from the task.
  """

  def __init__(
    self,
    directory: str | pathlib.Path | None,
    capacity: float = 5e6,
    memory: float = 1.0,
    seed: int = 0,
    until: int | None = None,
    hold: bool = False,
    spec: dict | None = None,
    openings: float = 0.0,
    absorb: bool = False,
  ):
    self.directory = None if directory is None else pathlib.Path(directory)
    self.capacity = int(capacity)
    self.seed = int(seed)
    self.openings, self.absorb = openings, absorb
    self.position = 0  # number of the next episode; a checkpoint keeps it
    self.waiting = {}  # number -> file that is on the disk but not in the replay yet
    self._until, self._hold, self._held = until, hold, []
    self._entries, self._ends = [], []  # _ends: stored rows up to and with each entry
    self._head, self._base = 0, 0  # entries and rows removed at the front
    self._version = 0  # of the content
    self._spec = dict(spec or {})
    self._layouts = {}  # equal layouts are stored once
    self._ongoing = collections.defaultdict(list)
    self._ahead = collections.OrderedDict()
    self._reader = SliceReader(memory)
    self._lock = threading.RLock()
    self._thread = concurrent.futures.ThreadPoolExecutor(1, 'replay')
    if self.directory is not None:
      self._load_directory()

  @property
  def steps(self) -> int:
    """Stored transitions; an episode of T + 1 rows has T."""
    return self._rows - self.episodes

  @property
  def episodes(self) -> int:
    return len(self._entries) - self._head

  @property
  def first(self) -> int:
    """Number of the oldest episode."""
    return self._entries[self._head].number if self.episodes else self.position

  @property
  def stats(self) -> dict[str, int]:
    return {'replay_steps': self.steps, 'replay_episodes': self.episodes}

  def contents(self) -> list[Episode]:
    """The episodes that live in memory, as demonstrations do."""
    return [x.data for x in self._entries[self._head :] if x.data is not None]

  def add_step(self, transition: dict, worker: int = 0) -> None:
    """Gathers a worker's episode and stores it when it is over."""
    if transition['is_first']:
      self.drop(worker)
    self._ongoing[worker].append({k: np.array(v) for k, v in transition.items()})
    if transition['is_last']:
      steps = self._ongoing.pop(worker)
      self.add_episode({k: np.stack([x[k] for x in steps]) for k in steps[0]})

  def drop(self, worker: int = 0) -> None:
    """Forgets the episode in progress, for example of a crashed worker."""
    self._ongoing.pop(worker, None)

  def add_episode(self, episode: Episode) -> None:
    """Checks and stores an episode, then removes the oldest beyond the capacity."""
    episode = complete_episode(episode, f'episode {self.position}')
    self._check_spec({k: (v.dtype, v.shape[1:]) for k, v in episode.items()})
    rows = len(episode['action'])
    if self.directory is None:
      entry = Entry('', rows, data=episode, number=self.position)
    else:
      path = save_episode(self.directory, episode, number=self.position)
      entry = self._open_entry(path)
      self._reader.trust(entry.path)
      if self.position in self.waiting:  # it was made before, but not all of its round
        self.waiting.pop(self.position).unlink(missing_ok=True)
    with self._lock:
      self._append(entry)
      self._evict()

  def sample(self, batch: int, length: int, key: int | tuple, log: bool = False) -> Episode:
    """Sequences [batch, length, ...]: a function of the seed, the key and the content alone.

    They start uniformly over all stored rows, a share of `openings` at the first row of its
    episode instead; after the end of an episode a sequence goes on
    with the beginning of another one, or with `absorb`, where the task ended it, stays in its last
    state. `log` keeps the log_* keys, which are never trained on.
    `log_episode` tells which episode a row is of: those in memory, as demonstrations are, count
    downwards from -1.
    """
    args = (batch, length, _as_tuple(key), log)
    version, future = self._ahead.pop(args, (None, None))
    if future is not None:
      result = future.result()
      if version == self._version and result is not None:
        return result
    return self._sample(*args)

  def prefetch(self, batch: int, length: int, key: int | tuple, log: bool = False) -> None:
    """Starts to load what a later `sample` with the same arguments will ask for."""
    args = (batch, length, _as_tuple(key), log)
    if args not in self._ahead and self.episodes:
      future = self._thread.submit(self._sample_ahead, args, self._version)
      self._ahead[args] = (self._version, future)
      while len(self._ahead) > AHEAD:
        self._ahead.popitem(last=False)

  def peek(self) -> Episode | None:
    """The next episode that waits to be taken up, None if there is none or it is damaged."""
    path = self.waiting.get(self.position)
    if path is None:
      return None
    try:
      episode = load_episode(path, None)
      self._check_spec({k: (v.dtype, v.shape[1:]) for k, v in episode.items()})
      return episode
    except UserError as error:
      self._set_aside(self.waiting.pop(self.position), error)
      return None

  def admit(self) -> None:
    """Takes up the episode that peek() returned, as if it were stored now."""
    entry = self._open_entry(self.waiting.pop(self.position))
    with self._lock:
      self._append(entry)
      self._evict()

  def release(self, first: int) -> None:
    """Deletes held files of episodes before this number; no checkpoint needs them any more."""
    for entry in [x for x in self._held if x.number < first]:
      self._held.remove(entry)
      self._delete(entry)

  def close(self) -> None:
    self._thread.shutdown(cancel_futures=True)
    self._reader.close()

  @property
  def _rows(self) -> int:
    return (self._ends[-1] if self._ends else self._base) - self._base

  def _sample_ahead(self, args: tuple, version: int) -> Episode | None:
    return self._sample(*args) if version == self._version else None

  def _sample(self, batch: int, length: int, key: tuple, log: bool) -> Episode:
    with self._lock:
      while True:
        if not self.episodes:
          raise UserError(f"The replay '{self.directory or 'in memory'}' holds no episode yet.")
        try:
          return self._gather(batch, length, np.random.default_rng([self.seed, *key]), log)
        except _DamagedEntry as error:
          self._remove(error.entry)
          self._set_aside(error.entry.path, error)

  def _gather(self, batch: int, length: int, rng: np.random.Generator, log: bool) -> Episode:
    spec = {k: v for k, v in self._spec.items() if log or not k.startswith('log_')}
    out = {k: np.empty((batch, length, *shape), dtype) for k, (dtype, shape) in spec.items()}
    out['log_episode'] = np.empty((batch, length), np.int32)
    starts = rng.integers(self._rows, size=batch)
    openings = rng.random(batch) < self.openings if self.openings else np.zeros(batch, bool)
    for row, (position, opening) in enumerate(zip(starts, openings, strict=True)):
      index = bisect.bisect_right(self._ends, self._base + position, self._head)
      entry = self._entries[index]
      start = 0 if opening else int(self._base + position) - self._ends[index] + entry.rows
      filled = 0
      while filled < length:
        stop = min(length, filled + entry.rows - start)
        self._copy(entry, start, {k: out[k][row, filled:stop] for k in spec})
        out['is_first'][row, filled] = True
        out['log_episode'][row, filled:stop] = (
          entry.number if entry.data is None else -1 - entry.number
        )
        filled, start = stop, 0
        if self.absorb and out['is_terminal'][row, filled - 1]:
          _stay({k: v[row, filled - 1 :] for k, v in out.items()})
          break
        if filled < length:
          entry = self._entries[self._head + int(rng.integers(self.episodes))]
    return out

  def _copy(self, entry: Entry, start: int, out: Episode) -> None:
    try:
      data = entry.data
      if entry.fields is None and data is None:
        data = self._reader.decode(entry.path)
        self._check_spec({k: (v.dtype, v.shape[1:]) for k, v in data.items()})
      elif data is None:
        self._reader.verify(entry.path, entry.fields.values(), entry.sums)
      for key, target in out.items():
        if data is None and key in entry.fields:
          self._reader.read(entry.path, entry.fields[key], start, target)
        elif data is not None and key in data:
          target[:] = data[key][start : start + len(target)]
        else:
          target[:] = 0  # a log_* key that only other episodes have
    except (Damaged, UserError) as error:
      raise _DamagedEntry(entry, error) from error

  def _load_directory(self) -> None:
    try:
      self.directory.mkdir(parents=True, exist_ok=True)
      paths = list_files(self.directory)
    except OSError as error:
      raise UserError(f"Cannot use '{self.directory}' as replay: {error.strerror}.") from error
    remove_temporary(self.directory)
    for path in paths:
      number = _number(path)
      if self._until is not None and number >= self._until:
        # Of two with one number, the later replaces the other: its writer was killed in between.
        if number in self.waiting:
          self.waiting[number].unlink(missing_ok=True)
        self.waiting[number] = path
        continue
      try:
        entry = self._open_entry(path)
        if entry.fields is not None:
          self._check_spec({k: (v.dtype, v.shape) for k, v in entry.fields.items()})
        elif self._spec:
          self._check_headers(path)
        else:
          data = self._reader.decode(entry.path)
          self._check_spec({k: (v.dtype, v.shape[1:]) for k, v in data.items()})
      except (*UNREADABLE, UserError) as error:
        self._set_aside(path, error)
        continue
      self._append(entry)
    if self._until is not None:
      self.position = self._until
    self._evict()

  def _open_entry(self, path: pathlib.Path) -> Entry:
    rows, fields, sums = read_fields(path)
    layout = None
    if is_plain(fields):
      layout = self._layouts.setdefault(fields, {x.key: x for x in fields})
    return Entry(str(path), rows, layout, sums, number=_number(path))

  def _check_spec(self, spec: dict) -> None:
    trained = {k: v for k, v in spec.items() if not k.startswith('log_')}
    known = {k: v for k, v in self._spec.items() if not k.startswith('log_')}
    for key in sorted({*trained, *known}) if known else ():
      if trained.get(key) != known.get(key):
        raise UserError(
          f"An episode does not fit the replay '{self.directory or 'in memory'}': '{key}' is "
          f'{_describe(trained.get(key))} in it and {_describe(known.get(key))} in the others.'
        )
    for key, value in spec.items():
      self._spec.setdefault(key, value)

  def _check_headers(self, path: pathlib.Path) -> None:
    """Of a file in another form, which is decoded later: it must not be kept, or evicted, as ours.

    Types may still change when it is decoded, and flags and rewards may be added.
    """
    found = {ALIASES.get(x.key, x.key): x.shape for x in read_fields(path)[1]}
    for key, (dtype, shape) in self._spec.items():
      optional = key in (*FLAGS, 'reward') or key.startswith('log_')
      if not optional and found.get(key) != shape:
        has = 'missing' if key not in found else _describe((dtype, found[key]))
        raise UserError(f"'{key}' is {has} in it and {_describe((dtype, shape))} in the others.")

  def _append(self, entry: Entry) -> None:
    self._ends.append((self._ends[-1] if self._ends else self._base) + entry.rows)
    self._entries.append(entry)
    self.position = max(self.position, entry.number + 1)
    self._version += 1

  def _evict(self) -> None:
    """Removes the oldest episodes beyond the capacity, but never the last one."""
    while self.steps > self.capacity and self.episodes > 1:
      entry = self._entries[self._head]
      self._base = self._ends[self._head]
      self._entries[self._head] = None
      self._head += 1
      self._version += 1
      if self._hold and entry.path:
        self._reader.forget(entry.path)
        self._held.append(entry)
      else:
        self._delete(entry)
    if self._head > COMPACT and self._head > len(self._entries) // 2:
      del self._entries[: self._head], self._ends[: self._head]
      self._head = 0

  def _remove(self, entry: Entry) -> None:
    """Takes one entry out of the middle; rare, so the index is simply built anew."""
    entries = [x for x in self._entries[self._head :] if x is not entry]
    ends = np.cumsum([x.rows for x in entries], dtype=int).tolist()
    self._entries, self._ends, self._head, self._base = entries, ends, 0, 0
    self._version += 1
    self._reader.forget(entry.path)

  def _delete(self, entry: Entry) -> None:
    if entry.path:
      self._reader.forget(entry.path)
      pathlib.Path(entry.path).unlink(missing_ok=True)

  def _set_aside(self, path: str | pathlib.Path, reason: Exception) -> None:
    print(f"Warning: the episode '{path}' is set aside as '{path}.corrupt': {reason}")
    if os.path.exists(path):
      os.replace(path, f'{path}.corrupt')


class _DamagedEntry(Exception):
  def __init__(self, entry: Entry, reason: Exception):
    super().__init__(str(reason))
    self.entry = entry


def _stay(rows: Episode) -> None:
  """Goes on in the first row, which is then no end: the same observation and action again.

  Actions of zero would tell these rows from all others, and D would pay for standing anywhere.
  """
  for key, value in rows.items():
    value[1:] = 0 if key in ('reward', *FLAGS) else value[:1]
  rows['is_terminal'][0] = False


def _as_tuple(key: int | tuple) -> tuple[int, ...]:
  return tuple(int(x) for x in key) if isinstance(key, tuple | list) else (int(key),)


def _number(path: pathlib.Path) -> int:
  match = re.search(r'-(\d{8})-\d+\.npz$', path.name)
  return int(match[1]) if match else -1


def _describe(spec: tuple | None) -> str:
  return 'missing' if spec is None else f'{spec[0]} {list(spec[1])}'
