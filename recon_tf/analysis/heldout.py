"""Expert episodes that a run never saw, made on the spot and kept beside it."""

import contextlib
import io

import numpy as np

from recon_tf import demos, envs, experts
from recon_tf.analysis.runs import RunFolder
from recon_tf.common.episodes import Episode, load_folder
from recon_tf.common.errors import UserError

SEED = 77_000  # far from the seeds of demonstrations and evaluations


def held_out_expert(run: RunFolder, episodes: int = 8) -> list[Episode]:
  """Fresh episodes of the task's own expert under the run's settings."""
  folder = run.path / 'diagnose' / 'held_out'
  with contextlib.redirect_stderr(io.StringIO()):
    demos.ensure_demos(run.task, episodes, folder, run.config, seed=SEED)
  return load_folder(folder, tuple(run.config.env.size), episodes)


def noisy_expert(run: RunFolder, env, sigma: float = 0.5, episodes: int = 4) -> list[Episode]:
  """The expert with Gaussian noise on every action, steering back all the time.

  It looks at a simulator that draws nothing, because TensorFlow and Mesa do not go together; the
  given environment does the same beside it and is what is recorded.
  """
  twin = envs.make(run.task, run.config.update({'env.render': False}))
  expert, rng = experts.make_expert(run.task, twin), np.random.default_rng(SEED)
  try:
    return [_noisy_episode(twin, env, expert, sigma, rng, SEED + i) for i in range(episodes)]
  finally:
    twin.close()


def _noisy_episode(twin, env, expert, sigma: float, rng, seed: int) -> Episode:
  obs, seen = twin.reset(seed=seed), env.reset(seed)
  action = np.zeros(twin.act_space['action'].shape, np.float32)
  rows = [{**seen, 'action': action}]
  while not obs['is_last']:
    action = np.clip(expert(obs) + rng.normal(0, sigma, action.shape), -1, 1).astype(np.float32)
    obs, seen = twin.step({'action': action}), env.step({'action': action})
    rows.append({**seen, 'action': action})
  return {k: np.stack([x[k] for x in rows]) for k in rows[0]}


def demonstrations(run: RunFolder) -> list[Episode]:
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
