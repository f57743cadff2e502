"""Episodes that a run never saw: held-out and noisy experts, and probes off the expert's path.

A probe follows a held-out expert episode for a while, then takes random actions, each held for a
few steps so that the ball leaves the path. The simulator's states on the way are kept, so that
any policy can be sent off from exactly there. Only tasks that log a planar position have them.
"""

import concurrent.futures
import contextlib
import dataclasses
import io
import multiprocessing
from collections.abc import Callable

import numpy as np

from recon_tf import demos, envs, experts
from recon_tf.analysis.runs import Run
from recon_tf.common.config import Config
from recon_tf.common.episodes import Episode, load_folder
from recon_tf.common.errors import UserError
from recon_tf.demos.evaluate import expert_rollouts
from recon_tf.demos.make import attempt_seed, rollout

SEED = 77_000  # far from the seeds of demonstrations and evaluations
STEPS = 30  # random actions of a probe
HOLD = 5  # steps that each is held for
PUSH = 15  # random actions before a policy may be sent off, at most
COLOURS = {'ball': 1, 'goal': 0}  # channel in which a marker stands out


def held_out_expert(run: Run, episodes: int = 8) -> list[Episode]:
  """Fresh episodes of the task's own expert under the run's settings."""
  folder = run.path / 'diagnose' / 'held_out'
  with contextlib.redirect_stderr(io.StringIO()):
    demos.ensure_demos(run.task, episodes, folder, run.config, seed=SEED)
  return load_folder(folder, tuple(run.config.env.size), episodes)


def measure_expert(run: Run, episodes: int = 50, kicks: float = 0.0) -> dict:
  """What the task's expert reaches over seeds that made no demonstration, its failures included."""
  config = run.config.update({'eval_kicks': kicks})
  rolls = apart(expert_rollouts, run.task, episodes, config)
  returns = [float(x['reward'].sum()) for x in rolls]
  successes = [float(x['log_success'].max()) for x in rolls if 'log_success' in x]
  return {
    'task': run.task,
    'kicks': kicks,
    'measure': 'success' if successes else 'return',
    'score': float(np.mean(successes or returns)),
    'episodes': episodes,
    'returns': returns,
    'successes': successes,
  }


def noisy_expert(run: Run, env, sigma: float = 0.5, episodes: int = 4) -> list[Episode]:
  """The expert with Gaussian noise on every action, steering back all the time.

  It acts in a simulator of its own; the given environment does the same and is recorded.
  """
  seeds = range(SEED, SEED + episodes)
  actions = apart(noisy_actions, run.task, run.config, sigma, list(seeds))
  return [_repeat(env, seed, own) for seed, own in zip(seeds, actions, strict=True)]


def noisy_actions(task: str, config: Config, sigma: float, seeds: list[int]) -> list[np.ndarray]:
  """What a noisy expert does in an episode of each seed."""
  env = envs.make(task, config.update({'env.render': False}))
  expert, rng = experts.make_expert(task, env), np.random.default_rng(SEED)
  shape = env.act_space['action'].shape
  noisy = lambda obs: np.clip(expert(obs) + rng.normal(0, sigma, shape), -1, 1).astype(np.float32)
  try:
    return [rollout(env, noisy, seed)['action'][1:] for seed in seeds]
  finally:
    env.close()


def _repeat(env, seed: int, actions: np.ndarray) -> Episode:
  rows = [{**env.reset(seed), 'action': np.zeros_like(actions[0])}]
  rows += [{**env.step({'action': x}), 'action': x} for x in actions]
  return {k: np.stack([x[k] for x in rows]) for k in rows[0]}


def apart(function: Callable, *args):
  """A result from a fresh process: simulators of DMC and TensorFlow crash in one."""
  context = multiprocessing.get_context('spawn')
  with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
    return pool.submit(function, *args).result()


def load_demonstrations(run: Run) -> list[Episode]:
  """What the run learned from."""
  config = run.config
  folder = config.demos or demos.demo_folder('demos', config.task, config)
  try:
    return load_folder(folder, tuple(config.env.size), config.demo_episodes)
  except UserError as error:
    raise UserError(
      f'the demonstrations of the run are gone ({error}); start from the folder that the run was '
      'started in.'
    ) from error


def stack(episodes: list[Episode], length: int = 0) -> Episode:
  """Episodes of one length as a batch [episode, time, ...]: cut at the end, shorter ones left out.

  Length 0 takes the length of the shortest episode.
  """
  length = length or min(len(x['action']) for x in episodes)
  chosen = [x for x in episodes if len(x['action']) >= length]
  if not chosen:
    raise UserError(f'no episode has {length} steps, which this analysis needs.')
  keys = set.intersection(*(set(x) for x in chosen))
  return {k: np.stack([x[k][:length] for x in chosen]) for k in sorted(keys)}


# Probes


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
    rng = np.random.default_rng([SEED, index])
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
    obs = env.reset(attempt_seed(SEED, number))
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


# Where ball and goal are in pictures of the mazes, true or decoded


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
