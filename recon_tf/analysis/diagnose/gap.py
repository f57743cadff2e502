"""World-model diagnostics: open-loop prediction gap, ensemble uncertainty, and both together.

Posteriors are means, not samples, and open-loop states follow the mean over the heads' means, as
in deployment and in the recovery gate; so numbers do not depend on a seed.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from recon_tf.analysis import regions
from recon_tf.analysis.diagnose import episodes as recorded
from recon_tf.analysis.diagnose.loaded import Trained, beliefs
from recon_tf.analysis.stats import rank_correlation
from recon_tf.common.episodes import Episode, load_episode
from recon_tf.common.errors import UserError
from recon_tf.nn import tfutils

GAMMA = 0.99  # of the definition, whatever the run's discount is
EXPERT_HORIZON, REPLAY_HORIZON = 15, 5
REPLAY_EPISODES = 20
DECILES = 10
ROWS = 2048  # time steps that are encoded at once

State = dict[str, tf.Tensor]


def open_loop_gap(
  step: Callable[[State, tf.Tensor], State],
  features: Callable[[State], tf.Tensor],
  states: State,
  actions: tf.Tensor,
  horizon: int,
) -> tf.Tensor:
  """Equation (open_loop_gap): E_H(t) of sequences [batch, time, ...], as [batch, time - H].

  states are posteriors; actions[t] led to states[t], so the paper's a_t is actions[t + 1]:

    start s_t;  predict s_t+1 with actions[t+1], ..., s_t+H with actions[t+H]
  """
  starts = actions.shape[1] - horizon
  flat = lambda x, first: tf.reshape(x[:, first : first + starts], [-1, x.shape[-1]])
  target = features(states)
  state = {k: flat(v, 0) for k, v in states.items()}
  total = 0.0
  for h in range(1, horizon + 1):
    state = step(state, flat(actions, h))
    error = tf.reduce_mean((features(state) - flat(target, h)) ** 2, -1)
    total += GAMMA ** (h - 1) * error
  return tf.reshape(total, [-1, starts])


class Model:
  """The world model of a trained agent, asked about whole episodes."""

  def __init__(self, agent):
    self._agent = agent
    if not hasattr(getattr(agent, 'world_model', None), 'rssm'):
      raise UserError('this method has no ensemble world model, so there is nothing to diagnose.')
    self._filter = tfutils.function(self._posterior)
    self._gap = tfutils.function(self._open_loop)

  def filter(self, episodes: list[Episode]) -> list[dict[str, np.ndarray]]:
    """Posterior deter and stoch of every row, and U of the transition that led to it."""
    results = []
    for batch, lengths in self._batches(episodes):
      found = {k: v.numpy() for k, v in self._filter(batch).items()}
      results += [{k: v[i, :n] for k, v in found.items()} for i, n in enumerate(lengths)]
    return results

  def gaps(self, episodes: list[Episode], horizon: int) -> list[dict[str, np.ndarray]]:
    """E_H and U(s_t, a_t) of all starting points of every episode, in order."""
    results = []
    for batch, lengths in self._batches(episodes):
      belief = self._filter(batch)
      uncertainty = belief['uncertainty'].numpy()
      gap = np.zeros((len(uncertainty), 0))
      if uncertainty.shape[1] > horizon:
        states = {k: belief[k] for k in ('deter', 'stoch')}
        gap = self._gap(states, batch['action'], horizon).numpy()
      for i, length in enumerate(lengths):
        starts = max(0, length - horizon)
        row = {'gap': gap[i, :starts], 'uncertainty': uncertainty[i, 1 : starts + 1]}
        results.append(row)
    return results

  def _batches(self, episodes: list[Episode]):
    """Padded batches of one shape, so that one graph serves all, with the real lengths."""
    world = self._agent.world_model
    keys = sorted({*world.encoder.keys, *world.decoder.keys, 'action', 'is_first'})
    for episode in episodes:
      missing = [k for k in keys if k not in episode]
      if missing:
        raise UserError(f'the episodes lack {missing}, which this run observes.')
    longest = max((len(x['action']) for x in episodes), default=0)
    size = max(1, min(len(episodes), ROWS // max(longest, 1)))
    for first in range(0, len(episodes), size):
      chosen = episodes[first : first + size]
      lengths = [len(x['action']) for x in chosen]
      padded = [*chosen, *[chosen[-1]] * (size - len(chosen))]
      fill = lambda x: np.pad(x, [(0, longest - len(x))] + [(0, 0)] * (x.ndim - 1))
      yield {k: tf.constant(np.stack([fill(x[k]) for x in padded])) for k in keys}, lengths

  def _posterior(self, data):
    states = beliefs(self._agent, data)
    return {**states, 'uncertainty': self._agent.world_model.rssm.uncertainty(states['deter'])}

  def _open_loop(self, states, actions, horizon: int):
    rssm = self._agent.world_model.rssm
    return open_loop_gap(rssm.mean_step, rssm.features, states, actions, horizon)


def diagnose(trained: Trained) -> dict:
  """H15 on held-out expert episodes, H5 on the replay, U, and in mazes all of it by region."""
  run, model = trained.run, Model(trained.agent)
  result = {**run.identity, 'step': trained.meta['step']}
  replay = replay_episodes(run)
  if replay:
    result['replay'] = _means(model.gaps(replay, REPLAY_HORIZON), REPLAY_HORIZON)
  try:
    expert = recorded.held_out_expert(run)
  except UserError as error:
    if not replay:
      raise
    return {**result, 'left_out': {'expert': str(error)}}
  found = model.gaps(expert, EXPERT_HORIZON)
  result['expert'] = _means(found, EXPERT_HORIZON)
  groups = {'expert': _flat(found)}
  way = regions.find_plane(run)
  if way:
    groups = _by_region(trained, model, expert, way)
    result['regions'] = {k: _summary(v) for k, v in groups.items()}
  result['deciles'] = {k: deciles(**v) for k, v in groups.items()}
  return result


def replay_episodes(run) -> list[Episode]:
  """Collected episodes, evenly spread over the run; damaged files are named and passed over."""
  paths = run.episodes()
  spread = np.linspace(0, len(paths) - 1, min(REPLAY_EPISODES, len(paths))).round().astype(int)
  episodes = []
  for path in [paths[i] for i in spread]:
    try:
      episodes.append(load_episode(path, tuple(run.config.env.size)))
    except UserError as error:
      print(f'left out: {error}')
  return episodes


def deciles(gap: np.ndarray, uncertainty: np.ndarray) -> dict:
  """Mean U and mean E_H of ten equally large groups of starting points, from low U to high."""
  groups = np.array_split(np.argsort(uncertainty, kind='stable'), min(DECILES, len(gap)))
  return {
    'uncertainty': [float(uncertainty[x].mean()) for x in groups],
    'gap': [float(gap[x].mean()) for x in groups],
    'starts': len(gap),
    'rank_correlation': rank_correlation(gap, uncertainty),
  }


def _by_region(trained: Trained, model: Model, expert: list[Episode], way) -> dict:
  """Starting points of held-out episodes and of probes, parted by their distance to the way."""
  made = recorded.make_probes(trained.env, expert)
  episodes = [*expert, *(x.episode for x in made)]
  measured = model.gaps(episodes, EXPERT_HORIZON)
  # A probe's way along the path is in the expert's episode already.
  firsts = [0] * len(expert) + [x.left for x in made]
  parts, indices = [], []
  for episode, first, found in zip(episodes, firsts, measured, strict=True):
    starts = len(found['gap'])
    parts.append({k: v[first:] for k, v in found.items()})
    position = episode['log_position'][first:starts]
    indices.append(regions.region_of(way.distance(position)))
  flat, index = _flat(parts), np.concatenate(indices)
  groups = {x: {k: v[index == i] for k, v in flat.items()} for i, x in enumerate(regions.REGIONS)}
  return {k: v for k, v in groups.items() if len(v['gap'])}


def _flat(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
  flat = {k: np.concatenate([x[k] for x in parts]) for k in ('gap', 'uncertainty')}
  if not len(flat['gap']):
    raise UserError('no episode is longer than the horizon of the prediction gap.')
  return flat


def _means(parts: list[dict[str, np.ndarray]], horizon: int) -> dict:
  return {'horizon': horizon, 'episodes': len(parts), **_summary(_flat(parts))}


def _summary(values: dict[str, np.ndarray]) -> dict:
  means = {k: float(v.mean()) for k, v in values.items()}
  return {**means, 'starts': len(values['gap'])}
