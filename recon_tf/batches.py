"""The sequences that an update learns from, drawn from the replay and the demonstrations."""

import numpy as np

from recon_tf.common import Config, Replay
from recon_tf.make_agent import sequences


def draw(config: Config, replay: Replay, expert: Replay, number: int) -> tuple[dict, dict]:
  """Those of update `number`; the next ones load in the background meanwhile."""
  own, shown = ({'batch': x, 'length': config.replay.length} for x in sequences(config))
  if config.expert_mix == 'copy':
    data = mixed_sample(replay, expert, **own, key=(0, number))
  else:
    data = replay.sample(**own, key=(0, number))
    replay.prefetch(**own, key=(0, number + 1))
  demonstrations = expert.sample(**shown, key=(1, number))
  expert.prefetch(**shown, key=(1, number + 1))
  return data, demonstrations


def mixed_sample(replay: Replay, expert: Replay, batch: int, length: int, key: tuple) -> dict:
  """Sequences as if the demonstrations were copied into the replay, which is CMIL's code."""
  share = expert.steps / (expert.steps + replay.steps)
  rng = np.random.default_rng([replay.seed, *key, 7])
  count = int(rng.binomial(batch, share)) if replay is not expert else batch
  parts = [(expert, count), (replay, batch - count)]
  drawn = [source.sample(number, length, key) for source, number in parts if number]
  keys = set.intersection(*(set(x) for x in drawn))
  return {k: np.concatenate([x[k] for x in drawn]) for k in sorted(keys)}
