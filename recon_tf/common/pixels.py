"""Images as environments give them, brought to what networks take."""

import numpy as np
from PIL import Image


def is_image(value: np.ndarray) -> bool:
  """Whether an array is one image: uint8 [height, width, 1, 3 or 4]."""
  return value.dtype == np.uint8 and value.ndim == 3 and value.shape[-1] in (1, 3, 4)


def fit_image(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
  """uint8 [height, width, 1, 3 or 4] as RGB of this height and width."""
  image = np.asarray(image, np.uint8)
  image = np.repeat(image, 3, -1) if image.shape[-1] == 1 else image[..., :3]
  if image.shape[:2] != tuple(size):
    height, width = size
    image = Image.fromarray(np.ascontiguousarray(image)).resize((width, height), Image.BOX)
  return np.array(image)
