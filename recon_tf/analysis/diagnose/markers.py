"""Where ball and goal are in images of the mazes, true or decoded."""

import numpy as np

COLOURS = {'ball': 1, 'goal': 0}  # channel that stands out


def locate(images: np.ndarray, marker: str) -> np.ndarray:
  """Centroids [..., 2] (row, column) of the pixels where the marker's colour stands out.

  images: uint8 or floats in [0, 1]. NaN where nothing of that colour is seen.
  """
  images = np.asarray(images, np.float32) / (255 if np.asarray(images).dtype == np.uint8 else 1)
  channel = COLOURS[marker]
  others = [x for x in range(3) if x != channel]
  excess = images[..., channel] - images[..., others].max(-1)
  weight = np.where(excess > 0.5 * np.maximum(excess.max((-2, -1), keepdims=True), 0.15), excess, 0)
  rows, columns = np.arange(images.shape[-3]), np.arange(images.shape[-2])
  total = weight.sum((-2, -1))
  with np.errstate(invalid='ignore', divide='ignore'):
    row = (weight.sum(-1) * rows).sum(-1) / total
    column = (weight.sum(-2) * columns).sum(-1) / total
  return np.stack([row, column], -1)


def metres_per_pixel(images: np.ndarray, positions: np.ndarray) -> float:
  """The scale of the camera, from true images [..., h, w, 3] and true positions [..., 2]."""
  pixels = locate(images, 'ball').reshape(-1, 2)
  positions = np.asarray(positions, np.float64).reshape(-1, 2)
  seen = np.isfinite(pixels).all(-1)
  spread = lambda x: np.sqrt(((x - x.mean(0)) ** 2).sum())
  return float(spread(positions[seen]) / spread(pixels[seen]))
