"""Does the deployed policy come back? From displaced states, by how far off the way they are.

Mazes: places in sight of the demonstrated way at several distances with a random velocity, and
every free cell but the goal's. Other tasks: at a random time one constant random action is held
for several decisions. The expert starts from the very same states (displaced.py).

The score is a number from 0 to 1. Success counts after the displacement only; a return is what the
remaining decisions bring, divided by what they bring the expert. It is averaged over the states
from which the expert itself manages; kinds of displacement weigh the same, and cells on the way are
no displacement. The number of the expert beside it is over all displaced states.
"""

import contextlib
from collections.abc import Iterator

import numpy as np

from recon_tf import envs
from recon_tf.analysis.diagnose import displaced
from recon_tf.analysis.diagnose.episodes import apart
from recon_tf.analysis.regions import Way, find_way
from recon_tf.analysis.runs import Run, grouped
from recon_tf.analysis.stats import mean_of
from recon_tf.common import Milestones, UserError, load_checkpoint

WORKERS = 6  # simulators side by side: the policy acts for all of them at once
MANAGES = 0.5  # share of its usual return that the expert has to keep
BANDS = 4  # groups of equally many episodes, by distance to the expert's states


def measure(loaded, episodes: int = 0, workers: int = 0, milestones: bool = False) -> dict:
  """Recovery of a loaded run, and with milestones of what it was on the way."""
  run, agent = loaded.run, loaded.agent
  plan = apart(displaced.make_jobs, run, episodes or displaced.EPISODES)
  with simulators(loaded, min(workers or WORKERS, len(plan['jobs']))) as envs_:
    way = expert_way(run, envs_[0].obs_space)
    result = summarize(plan, send(agent, envs_, plan['jobs']), way)
    curve = []
    for step, weights in saved_weights(run) if milestones else ():
      agent.restore_weights(weights)
      found = summarize(plan, send(agent, envs_, plan['jobs']), way)
      curve.append({'step': step, **{k: found[k] for k in ('score', 'scores', 'by_difficulty')}})
  if 'maze' in plan:
    result['cells'] = cell_table(plan, result['episodes'])
    result['maze'] = plan['maze']
  if milestones:
    result['milestones'] = curve
  return {**run.identity, 'step': loaded.meta['step'], **result}


@contextlib.contextmanager
def simulators(loaded, number: int) -> Iterator[list]:
  """The environment of the loaded run and more of them."""
  run = loaded.run
  more = [envs.Worker(run.task, run.config, run.seed, wait=False) for _ in range(number - 1)]
  try:
    yield [loaded.env, *more]
  finally:
    for worker in more:
      worker.close()


def saved_weights(run: Run) -> Iterator[tuple[int, dict]]:
  paths = Milestones(run.path / 'milestones', 0).paths()
  if not paths:
    raise UserError(f"'{run.path}' kept no milestones; train with keep_every above 0.")
  for path in paths:
    yield int(path.stem), load_checkpoint(path)[0]


def expert_way(run: Run, obs_space: dict) -> Way | None:
  """None for tasks that show nothing but pictures, or demonstrations without these vectors."""
  flags = ('reward', 'is_first', 'is_last', 'is_terminal')
  names = [k for k in obs_space if not k.startswith('log_') and k not in flags]
  keys = tuple(k for k in names if len(obs_space[k].shape) == 1)
  return find_way(run, keys) if keys else None


# Episodes


class Episode:
  """One job under way in one simulator."""

  def __init__(self, env, number: int, job: dict):
    self.env, self.number, self.step = env, number, 0
    self.lead, self.actions = job['lead'], np.array(job['actions'], np.float32)
    self.end = self.lead + len(self.actions)  # decisions until the policy is on its own
    self.outcome = None
    self.obs = env.reset(job['seed'])
    if job['place']:
      self.obs = env.call('place', job['place'][:2], job['place'][2:])
    self._begin_if_displaced()

  @property
  def forced(self) -> np.ndarray | None:
    """The action that displaces, while it does."""
    return self.actions[self.step - self.lead] if self.lead <= self.step < self.end else None

  @property
  def over(self) -> bool:
    solved = self.outcome and self.outcome['success']
    return bool(self.obs['is_last'] or solved)

  def receive(self) -> None:
    self.obs = self.env.receive()
    self.step += 1
    if self.outcome:
      self.outcome['return'] += float(self.obs['reward'])
      self.outcome['success'] = float(self.obs.get('log_success_now', 0.0))
      self.outcome['steps'] = self.step
    elif not self.obs['is_last']:
      self._begin_if_displaced()

  def _begin_if_displaced(self) -> None:
    if self.step == self.end:
      self.outcome = {'success': 0.0, 'return': 0.0, 'steps': self.step, 'obs': self.obs}


def send(agent, workers: list, jobs: list[dict]) -> list[dict | None]:
  """What became of every job; None where the episode was over before the displacement was.

  The belief starts anew with an episode, sees the displacing actions and goes on after them.
  """
  outcomes, waiting = [None] * len(jobs), list(enumerate(jobs))[::-1]
  slots, state = [Episode(worker, *waiting.pop()) for worker in workers], None
  running = list(range(len(slots)))
  while running:
    # A slot without work shows its last observation: the batch keeps its size.
    obs = {k: np.stack([x.obs[k] for x in slots]) for k in slots[0].obs}
    outputs, state = agent.policy(obs, state, 'eval')
    action = np.clip(outputs['action'], -1, 1).astype(np.float32)
    for i in running:
      action[i] = action[i] if slots[i].forced is None else slots[i].forced
      slots[i].env.send_step({'action': action[i]})
    if isinstance(state, dict) and 'action' in state:
      state = {**state, 'action': action}  # what was done, whoever wanted it
    for i in list(running):
      slots[i].receive()
      if slots[i].over:
        outcomes[slots[i].number] = slots[i].outcome
        if waiting:
          slots[i] = Episode(slots[i].env, *waiting.pop())
        else:
          running.remove(i)
  return outcomes


# Scores


def summarize(plan: dict, outcomes: list[dict | None], way: Way | None) -> dict:
  """Scores by difficulty and by distance, and every episode."""
  episodes = [
    episode_row(plan, job, outcome, way)
    for job, outcome in zip(plan['jobs'], outcomes, strict=True)
    if outcome
  ]
  if not episodes:
    raise UserError('every episode was over before the policy could be displaced.')
  levels = grouped(episodes, lambda x: (x['kind'], x['difficulty']))
  by_difficulty = [
    {'kind': kind, 'difficulty': difficulty, **group(plan, chosen)}
    for (kind, difficulty), chosen in sorted(levels.items(), key=lambda x: x[0])
  ]
  off = [x for x in episodes if x['kind'] != 'cells' or x['difficulty'] > 0]
  scores = {kind: kind_score(plan, off, kind) for kind in sorted({x['kind'] for x in off})}
  return {
    'measure': plan['measure'],
    'score': mean_of(scores.values()),
    'expert': group(plan, off)['expert'],
    'scores': scores,
    'by_difficulty': by_difficulty,
    'by_distance': by_distance(plan, episodes),
    'lost': len(outcomes) - len(episodes),
    'episodes': episodes,
  }


def episode_row(plan: dict, job: dict, outcome: dict, way: Way | None) -> dict:
  """One episode's numbers; `value` is success, or the return per remaining decision."""
  end = job['lead'] + len(job['actions'])
  returned = outcome['return'] / (plan['length'] - end)
  value = outcome['success'] if plan['measure'] == 'success' else returned
  row = {k: job[k] for k in ('kind', 'difficulty', 'seed', 'cell', 'place', 'usual') if k in job}
  distance = float(way.distance(way.points(outcome['obs']))) if way else None
  times = {'begin': end, 'end': outcome['steps']}
  return {**row, 'value': value, 'expert': job['expert'], 'distance': distance, **times}


def group(plan: dict, episodes: list[dict]) -> dict:
  """Score and expert of some episodes, both from 0 to 1."""
  value = mean_of(x['value'] for x in episodes)
  expert = None if episodes[0]['expert'] is None else mean_of(x['expert'] for x in episodes)
  if plan['measure'] == 'return' and expert is None:
    value = share(value - plan['low'], plan['high'] - plan['low'])
  elif plan['measure'] == 'return':
    usual = mean_of(x['usual'] for x in episodes)
    value, expert = share(value, expert), share(expert, usual)
  return {'score': value, 'expert': expert, 'episodes': len(episodes)}


def share(value: float, whole: float) -> float:
  """Between 0 and 1; nothing of nothing is nothing."""
  return float(np.clip(value / whole, 0, 1)) if whole > 0 else 0.0


def kind_score(plan: dict, episodes: list[dict], kind: str) -> float | None:
  """Over the states from which the expert manages; None if there are none."""
  chosen = [x for x in episodes if x['kind'] == kind and manages(plan, x)]
  return group(plan, chosen)['score'] if chosen else None


def manages(plan: dict, episode: dict) -> bool:
  """Whether the expert comes back from there; without an expert every state counts."""
  if episode['expert'] is None:
    return True
  whole = 1.0 if plan['measure'] == 'success' else episode['usual']
  return episode['expert'] >= MANAGES * whole


def by_distance(plan: dict, episodes: list[dict]) -> list[dict]:
  """Groups of equally many episodes, nearest to the expert's states first."""
  known = sorted((x for x in episodes if x['distance'] is not None), key=lambda x: x['distance'])
  parts = [known[i * len(known) // BANDS : (i + 1) * len(known) // BANDS] for i in range(BANDS)]
  edges = lambda part: {'low': part[0]['distance'], 'high': part[-1]['distance']}
  return [{**edges(x), **group(plan, x)} for x in parts if x]


def cell_table(plan: dict, episodes: list[dict]) -> list[dict]:
  """Success per cell, and how many steps training spent there."""
  rows = []
  placed = [x for x in episodes if 'cell' in x]
  for cell, chosen in grouped(placed, lambda x: tuple(x['cell'])).items():
    row = {'cell': list(cell), 'off': chosen[0]['difficulty'], **group(plan, chosen)}
    rows.append({**row, **plan['visits'][f'{cell[0]},{cell[1]}']})
  return rows
