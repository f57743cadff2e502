"""Displaced states of a run's task and how its expert fares from them, without TensorFlow.

Called in a process of its own, because simulators and TensorFlow do not go together in one. The
jobs depend on task, settings, demonstrations and seed of the run, never on its method.

A job is an episode: the simulator's seed, in mazes where the ball is placed, elsewhere the actions
that lead off the way (the expert's up to a random time, then one constant random action). Where a
task has no expert the policy itself acts for the first `lead` decisions.
"""

import numpy as np

from recon_tf import envs, experts
from recon_tf.analysis import regions
from recon_tf.analysis.diagnose import mazes
from recon_tf.analysis.runs import Run
from recon_tf.common.episodes import list_files
from recon_tf.common.errors import UserError

SEED = 55_000  # far from the seeds of demonstrations and evaluations
EPISODES = 16  # per distance or number of decisions; a quarter of it per cell
DISTANCES = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5)  # metres off the way
SPEED = 2.5  # m/s, at most
NOISE = 0.25  # metres around a cell's centre
DECISIONS = (5, 10, 20, 40)  # with the constant action
ATTEMPTS = 5  # seeds per episode until the expert manages undisturbed
ELSEWHERE = 'start from the folder that the run was started in.'


def make_jobs(run: Run, episodes: int = EPISODES) -> dict:
  """All episodes of the evaluation and what belongs to the task: jobs, measure, length."""
  env = envs.make(run.task, run.config.update({'env.render': False}))
  try:
    expert = experts.make_expert(run.task, env) if _has_expert(run.task) else None
    if run.task.startswith('maze_'):
      found = _maze_jobs(run, env, expert, episodes)
    elif expert:
      found = {'jobs': _expert_jobs(run, env, expert, episodes)}
    else:
      found = _policy_jobs(run, env, episodes)
    measure = 'success' if env.success_task else 'return'
    return {'measure': measure, 'length': env.length, **found}
  finally:
    env.close()


def _has_expert(task: str) -> bool:
  return task.partition('_')[0] in experts.NAMES


def _rng(run: Run, *key: int) -> np.random.Generator:
  return np.random.default_rng([SEED, run.seed, *key])


def _seed(rng: np.random.Generator) -> int:
  return int(rng.integers(2**32))


# Mazes


def _maze_jobs(run: Run, env, expert, episodes: int) -> dict:
  way = regions.find_plane(run)
  if way is None:
    raise UserError(
      f"the demonstrations of '{run.path}' are gone or have no positions; {ELSEWHERE}"
    )
  map_ = mazes.Map(env.maze)
  off = mazes.cells_off(map_.free, {map_.cell(x) for x in way.states})
  jobs = [*_near_jobs(run, env, map_, way, episodes), *_cell_jobs(run, env, map_, off, episodes)]
  for job in jobs:
    job['expert'] = _success(env, expert, _placed(env, job))
  rows = [[int(x) for x in row] for row in map_.free]
  maze = {'free': rows, 'goal': list(env.goal_cell)}
  return {'jobs': jobs, 'maze': maze, 'visits': _visits(run, map_)}


def _visits(run: Run, map_: mazes.Map) -> dict[str, dict]:
  """Training steps in every cell, in all and of the explorer; empty cells count zero."""
  visits = {f'{row},{column}': {'steps': 0, 'explorer_steps': 0} for row, column in map_.cells()}
  for path in list_files(run.path / 'train_episodes'):
    episode = regions.read_keys(path, ('log_position', 'log_explorer'))
    for place, explorer in zip(*[x[1:] for x in episode.values()], strict=True) if episode else ():
      row, column = map_.cell(place)
      found = visits[f'{row},{column}']
      found['steps'] += 1
      found['explorer_steps'] += int(explorer > 0)
  return visits


def _near_jobs(run: Run, env, map_: mazes.Map, way: regions.Way, episodes: int) -> list[dict]:
  jobs = []
  for number, distance in enumerate(DISTANCES):
    rng = _rng(run, 0, number)
    for _ in range(episodes):
      seed = _seed(rng)
      env.reset(seed)
      place = mazes.displace(map_, way, distance, env.goal, rng)
      if place is None:
        break  # such a distance does not exist in this maze
      angle, speed = rng.uniform(0, 2 * np.pi), rng.uniform(0, SPEED)
      velocity = speed * np.array([np.cos(angle), np.sin(angle)])
      jobs.append(_job('distance', distance, seed, place=[*place, *velocity]))
  return jobs


def _cell_jobs(run: Run, env, map_: mazes.Map, off: dict, episodes: int) -> list[dict]:
  """Every free cell but the goal's, at rest."""
  jobs = []
  for cell in map_.cells():
    if cell == tuple(env.goal_cell) or cell not in off:
      continue
    rng = _rng(run, 1, *cell)
    for _ in range(max(1, episodes // 4)):
      place = map_.centre(cell) + rng.uniform(-NOISE, NOISE, 2)
      job = _job('cells', off[cell], _seed(rng), place=[*place, 0.0, 0.0])
      jobs.append({**job, 'cell': list(cell)})
  return jobs


def _placed(env, job: dict) -> dict:
  env.reset(job['seed'])
  return env.place(job['place'][:2], job['place'][2:])


# Tasks with an expert that is not shown a map


def _expert_jobs(run: Run, env, expert, episodes: int) -> list[dict]:
  """The same starts and times for every number of decisions."""
  jobs = []
  for index in range(episodes):
    seed, rewards, actions, solved = _undisturbed(run, env, expert, index)
    rng = _rng(run, 3, index)
    limit = solved if env.success_task else env.length / 1.8
    time = int(rng.uniform(0.1, 0.9) * limit)
    for count in _decisions(env.length):
      off = rng.uniform(-1, 1, actions.shape[1]).astype(np.float32)
      lead = np.concatenate([actions[:time], np.repeat(off[None], count, 0)])
      job = _job('decisions', count, seed, actions=lead.tolist())
      usual = float(rewards[time + count :].mean())
      jobs.append({**job, **_expert_outcome(env, expert, seed, lead), 'usual': usual})
  return jobs


def _decisions(length: int) -> list[int]:
  return [x for x in DECISIONS if x <= 0.3 * length]


def _undisturbed(run: Run, env, expert, index: int) -> tuple:
  """An episode of the expert: seed, rewards, actions and the decision at which it is solved."""
  for attempt in range(ATTEMPTS):
    seed = _seed(_rng(run, 2, index, attempt))
    obs, rewards, actions, solved = env.reset(seed), [], [], None
    while not obs['is_last']:
      actions.append(expert(obs))
      obs = env.step({'action': actions[-1]})
      rewards.append(float(obs['reward']))
      if env.success_task and solved is None and obs['log_success_now']:
        solved = len(actions)
    if solved or not env.success_task:
      return seed, np.array(rewards), np.array(actions, np.float32), solved
  raise UserError(f"the expert of '{run.task}' fails undisturbed; give it a longer env.length.")


def _expert_outcome(env, expert, seed: int, lead: np.ndarray) -> dict:
  obs = env.reset(seed)
  for action in lead:
    obs = env.step({'action': action})
  if env.success_task:
    return {'expert': _success(env, expert, obs)}
  return {'expert': _return(env, expert, obs) / (env.length - len(lead))}


def _success(env, expert, obs: dict) -> float:
  solved = 0.0
  while not (obs['is_last'] or solved):
    obs = env.step({'action': expert(obs)})
    solved = float(obs['log_success_now'])
  return solved


def _return(env, policy, obs: dict) -> float:
  total = 0.0
  while not obs['is_last']:
    obs = env.step({'action': policy(obs)})
    total += float(obs['reward'])
  return total


# Tasks without an expert


def _policy_jobs(run: Run, env, episodes: int) -> dict:
  """The policy leads; returns are put between random actions and the demonstrations."""
  shown = regions.demonstrations(run, ('reward',))
  if not shown:
    raise UserError(f"the demonstrations of '{run.path}' are gone or have no rewards; {ELSEWHERE}")
  usual = np.mean([len(x['reward']) - 1 for x in shown])
  size, jobs = env.act_space['action'].shape[0], []
  for index in range(episodes):
    rng = _rng(run, 3, index)
    seed, time = _seed(rng), int(rng.uniform(0.1, 0.5) * min(usual, env.length))
    for count in _decisions(env.length):
      off = np.repeat(rng.uniform(-1, 1, (1, size)), count, 0)
      jobs.append(_job('decisions', count, seed, lead=time, actions=off.tolist()))
  random = lambda obs: rng.uniform(-1, 1, size)
  low = np.mean([_return(env, random, env.reset(_seed(rng))) for _ in range(8)])
  high = np.mean([x['reward'].sum() for x in shown])
  return {'jobs': jobs, 'low': float(low / env.length), 'high': float(high / env.length)}


def _job(kind: str, difficulty: float, seed: int, **values) -> dict:
  empty = {'place': None, 'lead': 0, 'actions': [], 'expert': None}
  return {'kind': kind, 'difficulty': difficulty, 'seed': seed, **empty, **values}
