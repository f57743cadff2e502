import numpy as np

from recon_tf.analysis.stats import auroc


def test_by_hand():
  # Pairs won by the positive: 3 > 1, 3 > 2; 2 > 1, 2 = 2 counts half.
  assert auroc(np.array([3, 2]), np.array([1, 2])) == 3.5 / 4


def test_extremes_and_chance():
  low, high = np.arange(5.0), np.arange(10.0, 15.0)
  assert auroc(high, low) == 1
  assert auroc(low, high) == 0
  assert auroc(low, low) == 0.5
  assert np.isnan(auroc(low, np.array([])))


def test_agrees_with_counting_all_pairs():
  rng = np.random.default_rng(0)
  a, b = rng.integers(0, 9, 40), rng.integers(0, 7, 30)
  wins = sum((x > y) + 0.5 * (x == y) for x in a for y in b)
  assert np.isclose(auroc(a, b), wins / 1200)
