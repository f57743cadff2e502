"""Real states around the expert, the same for every method: where it is, pushed off at random.

A probe follows a held-out expert episode for a while, then takes random actions, each held for a
few steps so that the ball leaves the path. The simulator's states on the way are kept, so that
any policy can be sent off from exactly there. Only tasks that log a planar position have them.
"""

import dataclasses

import numpy as np

from recon_tf.analysis import heldout
from recon_tf.common.episodes import Episode
from recon_tf.common.errors import UserError
from recon_tf.demos.make import attempt_seed

STEPS = 30  # random actions of a probe
HOLD = 5  # steps that each is held for
PUSH = 15  # random actions before a policy may be sent off, at most


@dataclasses.dataclass(frozen=True)
class Probe:
  """An episode that leaves the expert's path, and simulator states of some of its rows."""

  episode: Episode
  left: int  # the last row on the expert's path
  states: dict[int, dict[str, np.ndarray]]


def make_probes(env, episodes: list[Episode], each: int = 10, candidates: int = 4) -> list[Probe]:
  """Probes from several moments of every held-out episode; a function of the task alone."""
  probes, attempt = [], 0
  for index, episode in enumerate(episodes):
    attempt = _same_start(env, episode, attempt) + 1
    rng = np.random.default_rng([heldout.SEED, index])
    last = min(len(episode['action']) - 2, env.length - STEPS)
    times = np.sort(rng.choice(last, min(each, last), replace=False)) if last > 0 else ()
    for time, state in _saved(env, episode, times):
      probes.append(_push(env, episode, time, state, rng, candidates))
  if not probes:
    raise UserError(f"the held-out episodes of '{env.task}' are too short to leave the path.")
  return probes


def _same_start(env, episode: Episode, attempt: int) -> int:
  """Resets to the episode's first state; the expert's failed attempts left no episode."""
  for number in range(attempt, attempt + 50):
    obs = env.reset(attempt_seed(heldout.SEED, number))
    if all(np.array_equal(obs[k], episode[k][0]) for k in ('position', 'goal')):
      return number
  raise UserError(
    f"held-out episodes of '{env.task}' do not belong to this simulator; remove the folder "
    'diagnose/held_out of the run.'
  )


def _saved(env, episode: Episode, times) -> list[tuple[int, dict]]:
  """Simulator states at some rows, by doing what the expert did."""
  saved, wanted = [], {int(x) for x in times}
  for row in range(max(wanted, default=-1) + 1):
    if row:
      obs = env.step({'action': episode['action'][row]})
      if not np.array_equal(obs['log_position'], episode['log_position'][row]):
        raise UserError(
          f"the simulator does not repeat the held-out episodes of '{env.task}'; remove the folder "
          'diagnose/held_out of the run.'
        )
    if row in wanted:
      saved.append((row, env.get_state()))
  return saved


def _push(env, episode: Episode, time: int, state: dict, rng, candidates: int) -> Probe:
  env.set_state(state)
  size = episode['action'].shape[1]
  actions = rng.uniform(-1, 1, (-(-STEPS // HOLD), size)).astype(np.float32).repeat(HOLD, 0)
  wanted = {int(x) for x in rng.choice(PUSH, candidates, replace=False) + 1}
  rows, states = [], {}
  for number, action in enumerate(actions[:STEPS], 1):
    obs = env.step({'action': action})
    rows.append({**obs, 'action': action})
    if obs['is_last']:
      break
    if number in wanted:
      states[time + number] = env.get_state()
  keys = [k for k in episode if k in rows[0]]
  join = lambda k: np.concatenate([episode[k][: time + 1], np.stack([x[k] for x in rows])])
  return Probe({k: join(k) for k in keys}, time, states)
