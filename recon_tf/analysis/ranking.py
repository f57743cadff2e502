"""How well a score tells two groups apart."""

import numpy as np


def auroc(positive: np.ndarray, negative: np.ndarray) -> float:
  """Probability that a positive scores above a negative, ties counted half; NaN if one is empty."""
  positive, negative = np.ravel(positive), np.ravel(negative)
  if not len(positive) or not len(negative):
    return float('nan')
  ordered = np.sort(negative)
  below = np.searchsorted(ordered, positive, 'left')
  upto = np.searchsorted(ordered, positive, 'right')
  return float((below + upto).mean() / 2 / len(negative))
