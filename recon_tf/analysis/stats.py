"""Numbers from samples: interquartile means, bootstrap intervals, AUROC, calibration, ranks."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from scipy import stats

RESAMPLES = 2000
CONFIDENCE = 0.95

Interval = tuple[float, float] | None  # None: too few seeds


def mean_of(values: Iterable[float | None]) -> float | None:
  """Mean of what is known, None if nothing is."""
  known = [x for x in values if x is not None]
  return float(np.mean(known)) if known else None


def iqm(scores: Sequence) -> float:
  """Mean of the middle half; below four seeds nothing is cut off."""
  return float(stats.trim_mean(np.asarray(scores, float), 0.25, axis=None))


def interval(*tasks: Sequence[float]) -> Interval:
  """Interval of the interquartile mean; seeds are redrawn within each task (stratified)."""
  return _pair(bootstrap(tasks, _middle))


def mean_interval(scores: Sequence[float]) -> Interval:
  """Interval of the mean over seeds."""
  return _pair(bootstrap([scores], lambda x, axis: x.mean(axis)))


def difference_interval(first: Sequence[float], second: Sequence[float]) -> Interval:
  """Interval of mean(first) - mean(second); the seeds of each are redrawn by themselves."""
  return _pair(bootstrap([first, second], lambda x, y, axis: x.mean(axis) - y.mean(axis)))


def differences_interval(
  pairs: Sequence[tuple[Sequence[float], Sequence[float]]],
) -> tuple[float, tuple[float, float]]:
  """Mean over pairs of mean(first) - mean(second) with its interval, each redrawn by itself."""

  def mean(*samples, axis):
    means = [x.mean(axis) for x in samples]
    return sum(a - b for a, b in zip(means[::2], means[1::2], strict=True)) / len(pairs)

  samples = [np.asarray(x, float) for pair in pairs for x in pair]
  return float(mean(*samples, axis=0)), _pair(bootstrap(samples, mean))


def _pair(bounds: np.ndarray | None) -> Interval:
  return None if bounds is None else (float(bounds[0]), float(bounds[1]))


def center_and_band(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Interquartile mean of [seeds, points] and its interval; without one the band has no width."""
  if not values.size:
    return np.zeros(0), np.zeros(0), np.zeros(0)
  center = _middle(values, axis=0)
  bounds = bootstrap([values], _middle)
  return (center, center, center) if bounds is None else (center, *bounds)


def bootstrap(samples: Sequence[Sequence], statistic: Callable) -> np.ndarray | None:
  """Percentile bounds [2, ...] of a statistic(*samples, axis); None with a single seed."""
  samples = [np.asarray(x, float) for x in samples]
  if not samples or min(map(len, samples)) < 2:
    return None
  found = stats.bootstrap(
    samples, statistic, n_resamples=RESAMPLES, confidence_level=CONFIDENCE, method='percentile',
    vectorized=True, axis=0, rng=np.random.default_rng(0),
  ).confidence_interval  # fmt: skip
  return np.array([found.low, found.high])


def _middle(*samples: np.ndarray, axis: int) -> np.ndarray:
  return stats.trim_mean(np.concatenate(samples, axis), 0.25, axis=axis)


def auroc(positive: np.ndarray, negative: np.ndarray) -> float:
  """Probability that a positive scores above a negative, ties counted half; NaN if one is empty."""
  positive, negative = np.ravel(positive), np.ravel(negative)
  if not len(positive) or not len(negative):
    return float('nan')
  with np.errstate(invalid='ignore', divide='ignore'):  # the p-value of ties, which nobody reads
    found = stats.mannwhitneyu(positive, negative, method='asymptotic')
  return float(found.statistic / (len(positive) * len(negative)))


def rank_correlation(first: np.ndarray, second: np.ndarray) -> float | None:
  """Spearman's, None where one of them never changes."""
  if len(first) < 2 or not np.ptp(first) or not np.ptp(second):
    return None
  return float(stats.spearmanr(first, second).statistic)


def calibration(predicted: np.ndarray, happened: np.ndarray, bins: int = 10) -> dict:
  """Mean prediction and frequency in equal intervals of [0, 1], and their mean distance."""
  index = np.minimum((predicted * bins).astype(int), bins - 1)
  count = np.bincount(index, minlength=bins)
  mean = lambda x: np.bincount(index, x, bins)[count > 0] / count[count > 0]
  first, second = mean(predicted), mean(happened.astype(float))
  error = float((np.abs(first - second) * count[count > 0]).sum() / len(predicted))
  return {
    'predicted': first.tolist(),
    'frequency': second.tolist(),
    'count': count[count > 0].tolist(),
    'error': error,
  }
