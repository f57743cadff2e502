"""Metrics to the terminal, to metrics.jsonl and to TensorBoard."""

import io
import json
import math
import os
import pathlib
import time
from collections.abc import Callable, Iterable

import numpy as np

from recon_tf.common.errors import UserError
from recon_tf.common.files import warn_once, write_bytes
from recon_tf.common.seals import seal, unseal


class Logger:
  """Collects metrics until write(); a slash in a name makes a group."""

  def __init__(self, step, outputs: Iterable):
    self.step = step
    self.outputs = list(outputs)
    self._scalars = {}
    self._others = []

  def scalar(self, name: str, value) -> None:
    """A number; several of one name before a write are averaged."""
    total = self._scalars.setdefault(name, [0.0, 0])
    total[0] += float(value)
    total[1] += 1

  def histogram(self, name: str, values) -> None:
    self._others.append(('histogram', name, np.asarray(values).reshape(-1)))

  def image(self, name: str, image: np.ndarray) -> None:
    """uint8 [height, width, 3]."""
    self._others.append(('image', name, _check_pixels(name, image, 3)))

  def video(self, name: str, frames: np.ndarray, fps: int = 20) -> None:
    """uint8 [time, height, width, 3]."""
    self._others.append(('video', name, (_check_pixels(name, frames, 4), fps)))

  def text(self, name: str, text: str) -> None:
    """Markdown."""
    self._others.append(('text', name, text))

  def hyperparameters(self, values: dict) -> None:
    """A table of all settings, from Config.flat."""
    rows = [f'| {key} | {value} |' for key, value in values.items()]
    self.text('hyperparameters', '\n'.join(['| key | value |', '| --- | --- |', *rows]))

  def add(self, metrics: dict, prefix: str = '') -> None:
    """Many at once: numbers, histograms [n], images [h, w, 3], videos [t, h, w, 3]."""
    kinds = {0: self.scalar, 1: self.histogram, 3: self.image, 4: self.video}
    for name, value in metrics.items():
      kinds[np.ndim(value)](f'{prefix}/{name}' if prefix else name, value)

  def write(self) -> None:
    """Hands everything to the outputs, under the present step."""
    scalars = {name: total / count for name, (total, count) in self._scalars.items()}
    others = self._others
    self._scalars, self._others = {}, []
    for output in self.outputs:
      output(int(self.step), scalars, others)

  @property
  def pending(self) -> dict[str, list]:
    """Sum and count of the scalars that wait for a write; a checkpoint keeps them."""
    return {name: list(total) for name, total in self._scalars.items()}

  @pending.setter
  def pending(self, totals: dict[str, list]) -> None:
    self._scalars = {name: list(total) for name, total in totals.items()}

  def close(self) -> None:
    for output in self.outputs:
      output.close()


class Progress:
  """The line a human reads: step, speed, how well it goes, how long it takes."""

  # In this order; the first that has ever been reported is shown.
  RESULTS = ('eval/success', 'eval/return', 'train/success', 'train/return')

  def __init__(
    self,
    total: int,
    name: str = '',
    clock: Callable[[], float] = time.time,
    left: Callable[[], float | None] | None = None,
  ):
    self.total = int(total)
    self._left = left  # seconds, where more is known than the speed of the steps
    self.name = name
    self._clock = clock
    self._start = self._last = None
    self._results = {}

  def __call__(self, step: int, metrics: dict | None = None) -> str:
    """The line for this step; speeds count from the first call, so a resumed run is right."""
    now = self._clock()
    self._results.update({k: v for k, v in (metrics or {}).items() if k in self.RESULTS})
    parts = [f'step {step:,}/{self.total:,} ({100 * step / max(1, self.total):.0f}%)']
    if self._start is not None:
      parts.append(f'{_rate(self._last, (step, now)):.1f} fps')
    for name in [x for x in self.RESULTS if x in self._results][:1]:
      parts.append(f'{name.replace("/", " ")} {self._results[name]:.2f}')
    left = self._left() if self._left else self._by_steps(step, now)
    if left is not None:
      parts.append(f'ETA {_duration(left)}')
    self._start, self._last = self._start or (step, now), (step, now)
    return ' | '.join([self.name, *parts] if self.name else parts)

  def _by_steps(self, step: int, now: float) -> float | None:
    rate = _rate(self._start, (step, now)) if self._start else 0
    return max(0, self.total - step) / rate if rate > 0 else None


class TerminalOutput:
  """Prints one progress line for each write that holds scalars."""

  def __init__(self, total: int, name: str = '', left: Callable | None = None):
    self.progress = Progress(total, name, left=left)

  def __call__(self, step: int, scalars: dict, others: list) -> None:
    if scalars:
      print(self.progress(step, scalars), flush=True)

  def close(self) -> None:
    pass


class JSONLOutput:
  """Appends one JSON object per write to metrics.jsonl.

  A run that resumes from a checkpoint gives the number of lines that the file had there, from
  sync(), or at least the step: what came later will be done again and is removed.
  """

  def __init__(
    self, logdir: str | pathlib.Path, resume: int | None = None, lines: int | None = None
  ):
    self.path = pathlib.Path(logdir) / 'metrics.jsonl'
    self._lines = 0
    try:
      self.path.parent.mkdir(parents=True, exist_ok=True)
      if self.path.exists():
        self._trim(resume, lines)
    except OSError as error:
      raise self._unwritable(error) from error
    self._append('')

  def __call__(self, step: int, scalars: dict, others: list) -> None:
    if scalars:
      values = {k: v if math.isfinite(v) else None for k, v in scalars.items()}
      self._append(json.dumps(seal({'step': step, **values}), allow_nan=False) + '\n')
      self._lines += 1

  def sync(self) -> int:
    """Sees to it that all lines are on the disk; returns their number."""
    try:
      with open(self.path, 'rb') as file:
        os.fsync(file.fileno())
    except OSError as error:
      raise self._unwritable(error) from error
    return self._lines

  def close(self) -> None:
    pass

  def _append(self, text: str) -> None:
    try:
      with open(self.path, 'a', encoding='utf-8') as file:
        file.write(text)
    except OSError as error:
      raise self._unwritable(error) from error

  def _unwritable(self, error: OSError) -> UserError:
    return UserError(f"Cannot write '{self.path}': {error.strerror}; choose another folder.")

  def _trim(self, resume: int | None, lines: int | None) -> None:
    before = self.path.read_bytes().split(b'\n')  # what follows the last one was cut off
    kept = [x for x in before[:-1] if _keep_line(x, resume)]
    if lines is not None and len(before) > lines:
      kept = before[:lines]
    elif lines is not None:
      warn_once(f"'{self.path}' has {len(before) - 1} lines instead of {lines}; some are lost.")
    for number, line in enumerate(kept, 1):
      if not _is_record(line):
        warn_once(f"line {number} of '{self.path}' is damaged.")
    self._lines = len(kept)
    if [*kept, b''] != before:
      write_bytes(self.path, b''.join(x + b'\n' for x in kept))


class TensorBoardOutput:
  """Event files for TensorBoard; the only output that needs TensorFlow.

  The essentials are shown once more in a group of their own, whose capital sorts it on top.
  """

  def __init__(self, logdir: str | pathlib.Path, essentials: Iterable[str] = ()):
    import tensorflow as tf  # late: processes that render must be free of it

    self._tf = tf
    self._videos = pathlib.Path(logdir) / 'videos'
    self._essentials = set(essentials)
    self._writer = tf.summary.create_file_writer(str(logdir), max_queue=1000)

  def __call__(self, step: int, scalars: dict, others: list) -> None:
    summary = self._tf.summary
    # As NumPy's: TensorFlow keeps every Python number that it is given, for good.
    with self._writer.as_default(np.int64(step)):
      for name, value in scalars.items():
        value = np.float32(value)
        summary.scalar(name, value)
        if name in self._essentials:
          summary.scalar(f'Essentials/{name.replace("/", "_")}', value)
      for kind, name, value in others:
        if kind == 'histogram':
          summary.histogram(name, value)
        elif kind == 'text':
          summary.text(name, value)
        elif kind == 'image':
          summary.image(name, value[None])
        elif kind == 'video':
          self._video(name, *value, step)
    self._writer.flush()

  def close(self) -> None:
    self._writer.close()

  def _video(self, name: str, frames: np.ndarray, fps: int, step: int) -> None:
    # TensorBoard has no videos, but browsers play a GIF where it shows an image. As a file too,
    # so that reports need no reader of event files.
    gif = encode_gif(frames, fps)
    write_bytes(self._videos / f'{name}-{step:09d}.gif', gif)
    summary = self._tf.compat.v1.Summary()
    image = self._tf.compat.v1.Summary.Image(
      height=frames.shape[1],
      width=frames.shape[2],
      colorspace=3,
      encoded_image_string=gif,
    )
    summary.value.add(tag=name, image=image)
    self._tf.summary.experimental.write_raw_pb(summary.SerializeToString(), np.int64(step))


def encode_gif(frames: np.ndarray, fps: int) -> bytes:
  """A looping GIF of uint8 frames [time, height, width, 3]."""
  from PIL import Image

  images = [Image.fromarray(x) for x in frames]
  buffer = io.BytesIO()
  duration = max(20, round(1000 / fps))  # browsers slow down what is shorter
  images[0].save(buffer, 'GIF', save_all=True, append_images=images[1:], duration=duration, loop=0)
  return buffer.getvalue()


def _check_pixels(name: str, value: np.ndarray, ndim: int) -> np.ndarray:
  value = np.asarray(value)
  if value.dtype != np.uint8 or value.ndim != ndim or value.shape[-1] != 3:
    raise ValueError(f"'{name}' is {value.dtype} {value.shape}; uint8 pixels are needed.")
  return value


def _is_record(line: bytes) -> bool:
  try:
    return isinstance(unseal(json.loads(line), 'the line')['step'], int)
  except (ValueError, KeyError, TypeError, UserError):
    return False


def _keep_line(line: bytes, resume: int | None) -> bool:
  """Damaged lines stay, since readers name and skip them."""
  try:
    return resume is None or json.loads(line)['step'] <= resume
  except (ValueError, KeyError, TypeError):
    return resume is None or resume >= 0


def _rate(before: tuple, now: tuple) -> float:
  return (now[0] - before[0]) / max(1e-9, now[1] - before[1])


def _duration(seconds: float) -> str:
  minutes, seconds = divmod(round(seconds), 60)
  hours, minutes = divmod(minutes, 60)
  return f'{hours}:{minutes:02d}:{seconds:02d}'
