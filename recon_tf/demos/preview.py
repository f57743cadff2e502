"""Pictures of demonstrations: a PNG contact sheet and a GIF."""

import io
import pathlib

import numpy as np
from PIL import Image

from recon_tf.common.episodes import Episode, load_folder
from recon_tf.common.errors import UserError
from recon_tf.common.files import write_bytes


def write_preview(
  folder: str | pathlib.Path, rows: int = 8, columns: int = 10, outdir: str | pathlib.Path = ''
) -> tuple[pathlib.Path, pathlib.Path]:
  """Writes preview.png (rows are episodes, columns times) and preview.gif; returns their paths."""
  episodes = load_folder(folder, None, rows)
  if 'image' not in episodes[0]:
    raise UserError(f"The episodes in '{folder}' have no images, so --preview can show nothing.")
  outdir = pathlib.Path(outdir or folder)
  sheet = Image.fromarray(contact_sheet(episodes, columns))
  paths = outdir / 'preview.png', outdir / 'preview.gif'
  write_bytes(paths[0], _encode(sheet, 'PNG', optimize=True))
  write_bytes(paths[1], _encode_gif(film_strip(episodes)))
  return paths


def contact_sheet(episodes: list[Episode], columns: int, gap: int = 2) -> np.ndarray:
  """One row an episode, frames evenly spaced from its first to its last."""
  rows = []
  for episode in episodes:
    times = np.linspace(0, len(episode['image']) - 1, columns).round().astype(int)
    rows.append(_join(list(episode['image'][times]), axis=1, gap=gap))
  return _join(rows, axis=0, gap=gap)


def film_strip(episodes: list[Episode], most: int = 100) -> list[np.ndarray]:
  """Frames with all episodes side by side; short ones hold their last picture."""
  longest = max(len(x['image']) for x in episodes)
  times = np.linspace(0, longest - 1, min(longest, most)).round().astype(int)
  at = lambda episode, t: episode['image'][min(t, len(episode['image']) - 1)]
  return [_join([at(x, t) for x in episodes], axis=1, gap=2) for t in times]


def _join(images: list[np.ndarray], axis: int, gap: int) -> np.ndarray:
  shape = list(images[0].shape)
  shape[axis] = gap
  space = np.full(shape, 255, np.uint8)
  parts = [x for image in images for x in (space, image)][1:]
  return np.concatenate(parts, axis)


def _encode(image: Image.Image, kind: str, **options) -> bytes:
  buffer = io.BytesIO()
  image.save(buffer, kind, **options)
  return buffer.getvalue()


def _encode_gif(frames: list[np.ndarray]) -> bytes:
  images = [Image.fromarray(x) for x in frames]
  return _encode(images[0], 'GIF', save_all=True, append_images=images[1:], duration=50, loop=0)
