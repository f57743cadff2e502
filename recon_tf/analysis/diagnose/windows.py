"""What do windows bring home? Real steps inside of windows beside those of the main policy.

A step is told by the state that it led to: how far from the demonstrated way, how fast, in mazes
in which cell and whether at a wall; by its action; and by what the model makes of it. U "before"
is that of its transition under the last milestone from before its episode, "after" under the
newest weights: what is gone of it the data have removed, what is left they have not.
"""

import itertools
import pathlib
from collections.abc import Iterator

import numpy as np

from recon_tf.analysis import regions
from recon_tf.analysis.diagnose import mazes
from recon_tf.analysis.diagnose.episodes import apart
from recon_tf.analysis.diagnose.gap import REPLAY_HORIZON, Model
from recon_tf.analysis.diagnose.loaded import Trained
from recon_tf.analysis.runs import Run
from recon_tf.common.checkpoint import load_checkpoint, state_paths
from recon_tf.common.episodes import Episode, list_files, load_episode
from recon_tf.common.errors import UserError
from recon_tf.common.npz import UNREADABLE

WHO = ('windows', 'main', 'prefill')
WINDOWS, MAIN, PREFILL = range(3)
CURVE = 40  # decisions after a window that are counted one by one
SQUARE = 0.25  # metres; places in a maze are squares of this size

Steps = dict[str, np.ndarray]  # one entry per step each


def diagnose(trained: Trained) -> dict:
  """Steps by who acted, their places, actions, U and gap, and what happens after windows."""
  run, way, left_out = trained.run, regions.find_way(trained.run), {}
  if not regions.demo_place(run):
    raise UserError(
      f"the demonstrations of '{run.path}' are gone; start from the folder that the run was "
      'started in.'
    )
  model, parts = _model(trained.agent, left_out), []
  for milestone, episodes in stages(run, trained.meta['step'], left_out):
    random = regions.random_steps(run)
    found = [steps_of(first, episode, way, random) for first, episode in episodes]
    rows = [episode for _, episode in episodes]
    judged = judge(trained.agent, model, milestone, rows, left_out) if model else [{}] * len(rows)
    parts += [{**x, **y} for x, y in zip(found, judged, strict=True)]
  if not parts:
    raise UserError(f"'{run.path}' has no collected episodes that its weights have learned from.")
  steps = {k: np.concatenate([x[k] for x in parts]) for k in parts[0]}
  result = {**run.identity, 'step': trained.meta['step']}
  if way and way.plane:
    located = apart(mazes.locate, run.task, run.config, steps['place'], way.states)
    result['cells_off'] = located.pop('cells_off')
    steps |= located
  result['who'] = {
    name: summarize({k: v[steps['who'] == i] for k, v in steps.items()})
    for i, name in enumerate(WHO)
    if np.any(steps['who'] == i)
  }
  if way:
    tube = way.tube()
    windows = [x for part in parts for x in windows_of(part, tube)]
    result |= {'returns': returns(windows, tube)} if windows else {}
  return {**result, 'horizon': REPLAY_HORIZON, 'left_out': left_out}


def _model(agent, left_out: dict) -> Model | None:
  try:
    return Model(agent)
  except UserError as error:
    left_out['U and gap'] = str(error)
    return None


# Steps


def stages(
  run: Run, until: int, left_out: dict
) -> Iterator[tuple[pathlib.Path | None, list[tuple[int, Episode]]]]:
  """Episodes with the number of their first step, by the last milestone from before them.

  Those that the newest weights have not seen whole are left out, and damaged files are named.
  """
  marks = state_paths(run.path / 'milestones')
  files, first = [], 0
  for path in list_files(run.path / 'train_episodes'):
    older = [x for x in marks if int(x.stem) <= first]
    length = int(path.stem.rpartition('-')[2])
    if first + length <= until:
      files.append((older[-1] if older else None, first, path))
    first += length
  for mark, group in itertools.groupby(files, lambda x: x[0]):
    loaded = [(number, _load(run, path, left_out)) for _, number, path in group]
    loaded = [x for x in loaded if x[1]]
    if loaded:
      yield mark, loaded


def _load(run: Run, path: pathlib.Path, left_out: dict) -> Episode | None:
  try:
    episode = load_episode(path, tuple(run.config.env.size))
    if 'log_explorer' not in episode:
      raise UserError("it has no 'log_explorer', which says who acted.")
    return episode
  except UserError as error:
    left_out[path.name] = str(error)
    return None


def steps_of(first: int, episode: Episode, way: regions.Way | None, prefill: int) -> Steps:
  """Who acted, with what action, and where that led to; row t holds the action that led to it."""
  action = episode['action'][1:].astype(float)
  explorer = episode['log_explorer'].reshape(-1)[1:] > 0
  who = np.where(explorer, WINDOWS, MAIN)
  who[first + np.arange(len(who)) < prefill] = PREFILL
  steps = {'who': who, 'action': action, 'cosine': _cosines(action, who)}
  steps['solved'] = episode.get('log_success_now', np.zeros(len(who) + 1)).reshape(-1)[1:] > 0
  if way:
    points = way.points(episode)
    away = way.distance(points)
    steps |= {'place': points[1:], 'start': away[:-1], 'distance': away[1:]}
    steps['speed'] = _speed(episode, points, way.plane)
  return steps


def _cosines(action: np.ndarray, who: np.ndarray) -> np.ndarray:
  """Between an action and the one before it by the same actor, NaN where there is none."""
  length = np.linalg.norm(action, axis=1)
  cosine = np.full(len(action), np.nan)
  both = (who[1:] == who[:-1]) & (length[1:] * length[:-1] > 0)
  dots = (action[1:] * action[:-1]).sum(1)
  cosine[1:][both] = dots[both] / (length[1:] * length[:-1])[both]
  return cosine


def _speed(episode: Episode, points: np.ndarray, plane: bool) -> np.ndarray:
  """Metres per second where a maze says it, elsewhere how far a decision leads."""
  if plane and 'velocity' in episode:
    return np.linalg.norm(episode['velocity'][1:].astype(float), axis=1)
  return np.linalg.norm(np.diff(points, axis=0), axis=1)


def judge(
  agent, model: Model, milestone: pathlib.Path | None, episodes: list[Episode], left_out: dict
) -> list[Steps]:
  """U before and after, and the gap from where a step led to; NaN where there is none."""
  after, gaps = model.filter(episodes), model.gaps(episodes, REPLAY_HORIZON)
  before = _older(agent, model, milestone, episodes, left_out)
  found = []
  for i, row in enumerate(after):
    value, gap = row['uncertainty'][1:], gaps[i]['gap'][1:]
    nothing = np.full(len(value), np.nan)
    older = before[i]['uncertainty'][1:] if before else nothing
    gap = np.concatenate([gap, nothing[len(gap) :]])
    found.append({'before': older, 'after': value, 'gap': gap})
  return found


def _older(agent, model: Model, milestone, episodes: list[Episode], left_out: dict) -> list | None:
  """What the model made of them at a milestone."""
  if milestone is None:
    left_out['U before'] = 'no milestone is older than some steps; train with --keep_every.'
    return None
  newest = agent.weights()
  try:
    agent.restore_weights(load_checkpoint(milestone)[0])
    return model.filter(episodes)
  except UNREADABLE as error:
    left_out[f'milestones/{milestone.name}'] = str(error)
    return None
  finally:
    agent.restore_weights(newest)


def summarize(steps: Steps) -> dict:
  """The steps of one actor in numbers."""
  action = steps['action']
  found = {'steps': len(action), 'action_length': _mean(np.linalg.norm(action, axis=1))}
  found |= {'persistence': _mean(steps['cosine']), 'spread': float(action.std(0).mean())}
  if 'distance' in steps:
    found |= {'distance': _mean(steps['distance']), 'speed': _mean(steps['speed'])}
    found['distance_90'] = float(np.percentile(steps['distance'], regions.QUANTILE))
  found |= _judged(steps)
  if 'wall' in steps:
    away, wall = steps['off'] > 0, steps['wall']
    found |= variety(steps['place'], action)
    found |= {'cells_off': len(np.unique(steps['cell'][away])), 'steps_off': int(away.sum())}
    found['wall_share'] = float(wall.mean())
    for name, chosen in (('wall', wall), ('free', ~wall)):
      part = {k: v[chosen] for k, v in steps.items()}
      found[name] = {'steps': int(chosen.sum()), **_judged(part)}
  return found


def variety(place: np.ndarray, action: np.ndarray) -> dict:
  """Squares of the plane that steps led to, and by actions in how many of eight directions."""
  squares = np.floor(place / SQUARE).astype(int)
  directions = np.floor(np.arctan2(action[:, 1], action[:, 0]) / (np.pi / 4)).astype(int) % 8
  places = len(np.unique(squares, axis=0))
  pairs = len(np.unique(np.c_[squares, directions], axis=0))
  return {'places': places, 'directions': pairs / places}


def _judged(steps: Steps) -> dict:
  """What is removed counts over the steps that a milestone is older than."""
  if 'after' not in steps:
    return {}
  found = {k: _mean(steps[k]) for k in ('before', 'after', 'gap')}
  return {**found, 'removed': _mean(steps['before'] - steps['after'])}


def _mean(values: np.ndarray) -> float | None:
  known = values[~np.isnan(values)]
  return float(known.mean()) if len(known) else None


# Returns


def windows_of(steps: Steps, tube: float | None) -> list[dict]:
  """Of an episode: distances at begin and end of each window, and decisions until back.

  The main policy's count, up to the next window or the end; None if it is not back by then.
  """
  away, inside = np.r_[steps['start'][:1], steps['distance']], steps['who'] == WINDOWS
  edges = [*np.flatnonzero(np.diff(np.r_[False, inside, False])), len(inside)]
  found = []
  for i in range(0, len(edges) - 1, 2):
    begin, end, following = edges[i : i + 3]
    after = away[end : following + 1]  # first of all where the window ended
    back = np.flatnonzero(after <= tube) if tube is not None else ()
    window = {'begin': away[begin], 'end': away[end], 'followed': len(after) > 1}
    window['decisions'] = int(back[0]) if len(back) else None
    window['solved'] = not len(back) and bool(steps['solved'][end:following].any())
    cut = not len(back) and not window['solved'] and following < len(inside)
    found.append({**window, 'cut': cut})
  return found


def returns(windows: list[dict], tube: float | None) -> dict:
  """How many windows end outside of the tube, and how soon the main policy is back from there."""
  mean = lambda key: float(np.mean([x[key] for x in windows]))
  found = {'windows': len(windows), 'begin': mean('begin'), 'end': mean('end'), 'tube': tube}
  if tube is None:
    return found
  outside = [x for x in windows if x['followed'] and x['decisions'] != 0]
  found['outside'] = len(outside)
  if not outside:
    return found
  back = np.array([x['decisions'] for x in outside if x['decisions'] is not None])
  share = lambda key: float(np.mean([x[key] for x in outside]))
  found |= {'back': len(back) / len(outside), 'solved': share('solved'), 'cut': share('cut')}
  found['median'] = float(np.median(back)) if len(back) else None
  found['curve'] = [float((back <= k).sum() / len(outside)) for k in range(CURVE + 1)]
  return found
