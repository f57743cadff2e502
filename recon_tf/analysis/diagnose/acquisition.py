"""What did online steps teach the model? The fall of U on fixed transitions of the main policy.

U_A is the mean of U(s, a) over the anchors A, Delta U_A its fall from one state of the run to a
later one, and R = Delta U_A / Delta N its fall per online step. The states are the run's milestones
and checkpoints. Anchors are recorded once and kept; methods are compared on the same anchors,
those of all of them together, so that none is judged only on what its own policy did.
"""

import pathlib
from collections.abc import Sequence

import numpy as np

from recon_tf.analysis.diagnose.gap import Model
from recon_tf.analysis.diagnose.loaded import Trained, rollouts
from recon_tf.analysis.runs import anchor_digest, anchor_files, anchor_folder
from recon_tf.common.checkpoint import load_checkpoint, state_paths
from recon_tf.common.config import Config
from recon_tf.common.episodes import Episode, load_episode
from recon_tf.common.errors import UserError
from recon_tf.common.npz import UNREADABLE, write_npz

SEED = 33_000
EPISODES = 5  # of a run, as anchors


def diagnose(trained: Trained, anchors: Sequence[str] = (), before: str = '') -> dict:
  """U on the anchors under every milestone and checkpoint, and its fall from each to the next.

  Without `anchors`, folders of episodes, they are the run's own; `before` names one more state
  from earlier in the run.
  """
  run, agent, model = trained.run, trained.agent, Model(trained.agent)
  files = ensure_anchors(trained, anchors)
  episodes = _load_anchors(files, trained)
  found, left_out, newest = {}, [], agent.weights()
  try:
    for path in [*map(pathlib.Path, [before] if before else []), *run_states(run.path)]:
      try:
        arrays, meta = load_checkpoint(path)
      except UNREADABLE as error:
        if str(path) == before:
          raise UserError(f"--before: '{path}' is no readable checkpoint ({error}).") from error
        left_out.append(f'{path.parent.name}/{path.name}')
        continue
      if meta['step'] not in found:  # a milestone and a checkpoint of one step are the same
        agent.restore_weights(arrays)
        found[meta['step']] = mean_uncertainty(model, episodes)
  finally:
    agent.restore_weights(newest)
  count = sum(len(x['action']) - 1 for x in episodes)
  result = {**run.identity, **gain(found), 'anchors': count}
  return {**result, 'anchor_digest': anchor_digest(files), 'left_out': left_out}


def gain(found: dict[int, float]) -> dict:
  """Delta U_A and R from the first to the last state, and in every interval between."""
  steps = sorted(found)
  if len(steps) < 2:
    raise UserError(
      'the acquisition gain needs two states of different online steps; give an older one with '
      '--before, or train with milestones (--keep_every) or a larger --keep.'
    )
  values = np.array([found[x] for x in steps])
  falls = values[:-1] - values[1:]
  fall, online = float(values[0] - values[-1]), steps[-1] - steps[0]
  return {
    'steps': steps,
    'uncertainty': values.tolist(),
    'gain': fall,
    'online_steps': online,
    'gain_per_step': fall / online,
    'interval_gains': falls.tolist(),
    'interval_gains_per_step': (falls / np.diff(steps)).tolist(),
  }


def mean_uncertainty(model: Model, episodes: list[Episode]) -> float:
  """U_A: mean of U(s, a) over all transitions of the anchors."""
  return float(np.concatenate([x['uncertainty'][1:] for x in model.filter(episodes)]).mean())


def run_states(folder: pathlib.Path) -> list[pathlib.Path]:
  """Files of the milestones, then of the checkpoints, each from old to new."""
  return [*state_paths(folder / 'milestones'), *state_paths(folder / 'checkpoints')]


# Anchors


def ensure_anchors(trained: Trained, folders: Sequence[str] = ()) -> list[pathlib.Path]:
  """Episodes in these folders; by default those of the run, which are recorded if missing."""
  for folder in folders:
    if not anchor_files([folder]):
      raise UserError(f"--anchors: '{folder}' holds no episodes.")
    origin = pathlib.Path(folder).resolve().parents[1] / 'config.yaml'
    task = Config.load(origin).task if origin.exists() else trained.run.task
    if task != trained.run.task:
      raise UserError(f"--anchors: '{folder}' is of task '{task}', not '{trained.run.task}'.")
  own = anchor_folder(trained.run.path)
  if not folders and len(anchor_files([own])) < EPISODES:
    _record(trained, own)
  return anchor_files(folders or [own])


def _record(trained: Trained, folder: pathlib.Path) -> None:
  for number, episode in enumerate(rollouts(trained, 'eval', EPISODES, SEED)):
    write_npz(folder / f'{number:03d}.npz', episode, compress=True)


def _load_anchors(files: Sequence[pathlib.Path], trained: Trained) -> list[Episode]:
  try:
    episodes = [load_episode(x, tuple(trained.run.config.env.size)) for x in files]
  except UserError as error:
    raise UserError(f'--anchors: {error}') from error
  shapes = {k: v.shape for k, v in {**trained.env.obs_space, **trained.env.act_space}.items()}
  for path, episode in zip(files, episodes, strict=True):
    wrong = [k for k, v in episode.items() if k in shapes and v.shape[1:] != shapes[k]]
    if wrong:
      raise UserError(f"--anchors: '{wrong[0]}' in '{path}' has not the shape of this task.")
  return episodes
