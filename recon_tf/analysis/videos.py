"""GIFs out of a run's TensorBoard event files, read without TensorFlow."""

import io
import pathlib
import struct
from collections.abc import Iterator

import numpy as np
from PIL import Image, ImageSequence
from tensorboard.compat.proto.event_pb2 import Event

from recon_tf.analysis.runs import RunFolder

GIF = b'GIF8'
VIDEOS = 'videos'  # of an archived run, instead of its event files: <tag>-<step>.gif


def read_gifs(run: RunFolder) -> dict[str, dict[int, bytes]]:
  """GIFs by name and step; of several at one step the newest."""
  found = {}
  for path in sorted((run.path / VIDEOS).rglob('*.gif')):
    tag, _, step = path.relative_to(run.path / VIDEOS).with_suffix('').as_posix().rpartition('-')
    found.setdefault(tag, {})[int(step)] = path.read_bytes()
  for path in sorted(run.path.glob('events.out.tfevents.*')):
    for record in read_records(path):
      # Most records are scalars: parsing them all would take minutes.
      if GIF not in record:
        continue
      event = Event.FromString(record)
      for value in event.summary.value:
        if value.image.encoded_image_string.startswith(GIF):
          found.setdefault(value.tag, {})[event.step] = value.image.encoded_image_string
  return found


def read_records(path: pathlib.Path) -> Iterator[bytes]:
  """Records of an event file: length, its checksum, the data, their checksum; a cut end is left."""
  with path.open('rb') as file:
    while len(header := file.read(12)) == 12:
      (length,) = struct.unpack('<Q', header[:8])
      record = file.read(length)
      if len(record) < length or len(file.read(4)) < 4:
        return
      yield record


def frames_of(gif: bytes) -> np.ndarray:
  """uint8 [time, height, width, 3]."""
  with Image.open(io.BytesIO(gif)) as image:
    return np.stack([np.array(x.convert('RGB')) for x in ImageSequence.Iterator(image)])


def open_loop_sheet(gif: bytes, width: int, columns: int = 8) -> Image.Image:
  """The first of the predictions: rows truth, model and error; columns are times."""
  frames = frames_of(gif)[:, :, :width]
  times = np.linspace(0, len(frames) - 1, min(columns, len(frames))).round().astype(int)
  return Image.fromarray(np.concatenate(list(frames[times]), 1))
