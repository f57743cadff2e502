"""Do demonstrations fit a task? Names are compared before anything is trained."""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from recon_tf.common.episodes import Episode
from recon_tf.common.errors import UserError
from recon_tf.common.spaces import is_observation


def rename(episode: Episode, pairs: Sequence[str]) -> Episode:
  """The episode with keys renamed as in observation=vector."""
  for pair in pairs:
    old, equals, new = pair.partition('=')
    if not (old and equals and new):
      raise UserError(f"--rename: '{pair}' is not of the form OLD=NEW.")
    if old not in episode:
      names = ', '.join(k for k in episode if is_observation(k))
      raise UserError(f"--rename: the demonstrations have no '{old}'; they have {names}.")
    episode = {new if k == old else k: v for k, v in episode.items()}
  return episode


def needed(config, shapes: Mapping[str, tuple]) -> dict[str, tuple]:
  """The observations that this config looks at or predicts."""
  patterns = [(config[x][y], n) for x in ('encoder', 'decoder')
              for y, n in (('cnn_keys', 3), ('mlp_keys', 1))]  # fmt: skip
  wanted = lambda k, v: any(len(v) == n and re.match(x, k) for x, n in patterns)
  return {k: tuple(v) for k, v in shapes.items() if wanted(k, v)}


def match_demos(config, shapes: Mapping[str, tuple], action: int, episode: Episode) -> None:
  """Refuses demonstrations whose names, shapes or actions are not the task's."""
  wanted = needed(config, shapes)
  found = {k: v.shape[1:] for k, v in episode.items() if is_observation(k)}
  missing = [k for k in wanted if k not in found]
  if missing:
    raise UserError(
      f'the demonstrations lack {", ".join(missing)}: the task has {listed(wanted)}, they have '
      f'{listed(found)}; {advice(missing, wanted, found)}'
    )
  for key, shape in wanted.items():
    if found[key] != shape:
      raise UserError(
        f"'{key}' is {[*found[key]]} in the demonstrations and {[*shape]} in the task; they are "
        'of another version of it.'
      )
  size = episode['action'].shape[1]
  if size != action:
    raise UserError(f'the demonstrations have {size} actions, the task takes {action}.')


def listed(shapes: Mapping[str, tuple]) -> str:
  return ', '.join(f'{k} {np.array(v).tolist()}' for k, v in shapes.items()) or 'none'


def advice(missing: list[str], wanted: Mapping, found: Mapping) -> str:
  """A --rename where shapes tell which name is meant."""
  pairs = []
  for key in missing:
    alike = [k for k, v in found.items() if v == wanted[key] and k not in wanted]
    if len(alike) == 1:
      pairs.append(f'{alike[0]}={key}')
  if pairs:
    return f'add --rename {" ".join(pairs)} if that is what they are.'
  return 'rename with --rename OLD=NEW, or choose inputs with encoder.mlp_keys and cnn_keys.'
