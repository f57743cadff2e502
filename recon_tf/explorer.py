"""The explorer: recovery gate, its reward, and when it acts."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from recon_tf.common.errors import UserError


def recovery_gate(
  rssm, disc, policy: Callable, state: dict[str, tf.Tensor], delta: tf.Tensor, settings
) -> tf.Tensor:
  """Equation (implemented_gate): G in [0, 1] of explorer end states, [batch].

  The main policy's mode is rolled out deterministically from the end state s_0:

    h:      0    1 ... H-L   H-L+1 ... H
    state:  s_0  s_1         s_H-L+1   s_H
                             \\__ tail: sigmoid((D(s_h, a_h) - delta) / tau) __/

  No parameter is touched, but every Jacobian stays, so gradients reach the end state.
  """
  horizon = 0 if settings.kind == 'terminal' else settings.horizon
  first = tail_start(horizon, settings)
  scores = recovery_scores(rssm, disc, policy, state, horizon, first)
  gate = open_gate(scores, delta, settings)
  return tf.stop_gradient(gate) if settings.stopgrad else gate


def tail_start(horizon: int, settings) -> int:
  """The first h that counts; h = 0, the end state itself, only where there is nothing else."""
  return max(horizon - settings.tail + 1, 1) if horizon else 0


def recovery_scores(
  rssm, disc, policy: Callable, state: dict[str, tf.Tensor], horizon: int, first: int = 0
) -> list[tf.Tensor]:
  """D without noise along the policy's deterministic imagination, [batch] at each h >= first."""
  scores = []
  for h in range(horizon + 1):
    feature = rssm.features(state)
    action = policy(feature).mode()
    if h >= first:
      scores.append(disc.prob(feature, action))
    if h < horizon:
      state = rssm.mean_step(state, action)
  return scores


def open_gate(scores: list[tf.Tensor], delta: tf.Tensor, settings) -> tf.Tensor:
  """G of the tail's D: how far it is above delta, in units of tau, over the tail."""
  opened = tf.stack([tf.sigmoid((x - delta) / settings.tau) for x in scores])
  return aggregate(opened, settings.aggregate)


def aggregate(scores: tf.Tensor, how: str) -> tf.Tensor:
  """Max, mean or last over the tail, [tail, batch]."""
  if how == 'last':
    return scores[-1]
  return {'max': tf.reduce_max, 'mean': tf.reduce_mean}[how](scores, 0)


def explorer_reward(imitation, uncertainty, gate, settings) -> tf.Tensor:
  """Equation (dual_rewards), right: D + beta U G, one G for all steps of a rollout."""
  return settings.imitation * imitation + settings.beta * uncertainty * gate[None]


def gate_metrics(gate: tf.Tensor) -> dict[str, tf.Tensor]:
  """How far the gate of all rollouts, [batch], is open."""
  return {
    'gate/mean': tf.reduce_mean(gate),
    'gate/min': tf.reduce_min(gate),
    'gate/max': tf.reduce_max(gate),
    'gate/histogram': gate,
  }


def sample_windows(
  length: int,
  strata: int,
  window: int,
  rng: np.random.Generator,
  place: str = 'uniform',
  full: int = 500,
) -> np.ndarray:
  """Who acts in an episode: bool [length], True where the explorer does.

  One window lies uniformly in each stratum [i * length / strata, (i + 1) * length / strata).
  Episodes shorter than a full one shrink the windows, so that their share of steps stays.
  """
  if min(length, strata, window) < 1:
    raise UserError('windows.strata and windows.length must be at least 1.')
  mask = np.zeros(length, bool)
  edges = np.arange(strata + 1) * length // strata
  if place == 'early':
    edges = edges // 2
  elif place == 'late':
    edges = length - length // 2 + edges // 2
  # Rounded in total, not a window, so that the share is right to a step at every length.
  total = round(strata * window * min(length / full, 1))
  sizes = np.diff(np.arange(strata + 1) * total // strata)
  for low, high, size in zip(edges[:-1], edges[1:], sizes, strict=True):
    size = min(size, high - low)
    start = rng.integers(low, high - size + 1)
    mask[start : start + size] = True
  return mask


class Collector:
  """Chooses for every environment and step which policy acts; call it with is_first flags."""

  def __init__(self, amount: int, length: int, settings, seed: int, full: int = 0):
    """Full are the decisions of the task's own episodes, which windows.full may overrule."""
    self._length, self._settings, self._seed = length, settings, seed
    self._full = settings.full or full or length
    self._masks = np.zeros((amount, length), bool)
    self._steps = np.zeros(amount, int)
    self.episodes = 0

  def __call__(self, is_first: np.ndarray) -> np.ndarray:
    """Bool [environments], True where the explorer (or the random collector) acts now."""
    for i in np.flatnonzero(is_first):
      rng = np.random.default_rng([self._seed, self.episodes, 11])
      self._masks[i] = self._draw(rng)
      self._steps[i] = 0
      self.episodes += 1
    now = self._masks[np.arange(len(self._steps)), np.minimum(self._steps, self._length - 1)]
    self._steps += 1
    return now

  def _draw(self, rng: np.random.Generator) -> np.ndarray:
    settings = self._settings
    if settings.collector == 'none':
      return np.zeros(self._length, bool)
    return sample_windows(
      self._length, settings.strata, settings.length, rng, settings.place, self._full
    )
