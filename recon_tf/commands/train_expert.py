"""Trains the state-based SAC expert of a DMC task and keeps its actor as a small .npz file."""

import json
import os
import pathlib
import time

import numpy as np

from recon_tf.common.arguments import Parser, ranged
from recon_tf.experts import dmc


class StateEnv:
  """A dm_control task as flat state vectors, without rendering."""

  def __init__(self, domain: str, task: str, repeat: int, seed: int):
    os.environ['MUJOCO_GL'] = 'disable'  # a renderer must not meet TensorFlow
    from dm_control import suite

    self.env = suite.load(domain, task, task_kwargs={'random': seed})
    spec = self.env.action_spec()
    self.low, self.high = spec.minimum, spec.maximum
    self.repeat = repeat
    self.act_dim = spec.shape[0]
    self.obs_dim = len(self.reset())

  def reset(self) -> np.ndarray:
    return flatten(self.env.reset())

  def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool]:
    action = self.low + (np.asarray(action) + 1) / 2 * (self.high - self.low)
    reward = 0.0
    for _ in range(self.repeat):
      timestep = self.env.step(action)
      reward += timestep.reward or 0.0
    return flatten(timestep), reward, timestep.last()


def flatten(timestep) -> np.ndarray:
  obs = timestep.observation
  return np.concatenate([np.ravel(obs[k]) for k in sorted(obs)]).astype(np.float32)


def load_actor(path: str) -> list[np.ndarray] | None:
  if not path:
    return None
  with np.load(path) as file:
    return [file[f'actor_{i}'] for i in range(len(file.files))]


def evaluate(params: list[np.ndarray], make_env, seeds: range) -> list[float]:
  from recon_tf.experts import sac

  policy = lambda obs: dmc.act(params, obs, None)
  return [sum(x[2] for x in sac.episode(make_env(s), policy)) for s in seeds]


class Keeper:
  """Evaluates actors, writes the curve and keeps the best one."""

  def __init__(self, folder: pathlib.Path, task: str, make_env):
    folder.mkdir(parents=True, exist_ok=True)
    self.target, self.make_env = folder / f'{task}.npz', make_env
    self.curve = (folder / f'{task}.jsonl').open('w')
    self.start, self.best = time.time(), -np.inf

  def __call__(self, params: list[np.ndarray], row: dict) -> None:
    score = np.mean(evaluate(params, self.make_env, range(10_000, 10_010)))
    row = {**row, 'minutes': (time.time() - self.start) / 60, 'eval': score}
    line = json.dumps({k: round(float(v), 3) for k, v in row.items()})
    print(line, file=self.curve, flush=True)
    print(line, flush=True)
    if score >= self.best:
      self.best = score
      np.savez(self.target, **{f'actor_{i}': x for i, x in enumerate(params)})


def polish(params: list[np.ndarray], make_env, rounds: int, seed: int, report) -> None:
  """Cross-entropy search over a gain and an offset per action, on the return itself.

  What SAC trains for includes entropy; its mode can run faster than it was taught to.
  """
  rng = np.random.default_rng(seed)
  act_dim = params[-1].shape[-1] // 2
  mean, std = np.zeros(2 * act_dim), np.full(2 * act_dim, 0.15)
  for index in range(rounds):
    seeds = range(20_000 + 2 * index, 20_002 + 2 * index)
    tries = mean + std * rng.standard_normal((20, 2 * act_dim))
    tries[0] = mean
    scores = [np.mean(evaluate(adjust(params, x), make_env, seeds)) for x in tries]
    elite = tries[np.argsort(scores)[-5:]]
    mean, std = elite.mean(0), elite.std(0) + 0.01
    report(index, adjust(params, mean))


def climb(params: list[np.ndarray], make_env, rounds: int, seed: int, report) -> None:
  """Random search along finite differences in the last layer, again on the return itself."""
  rng = np.random.default_rng(seed)
  kernel, bias, act_dim = params[-2], params[-1], params[-1].shape[-1] // 2
  spread = 0.06 * np.abs(kernel[:, :act_dim]).mean()
  change = np.zeros((len(kernel) + 1, act_dim))

  def moved(change):
    new_kernel, new_bias = kernel.copy(), bias.copy()
    new_kernel[:, :act_dim] += change[:-1]
    new_bias[:act_dim] += change[-1]
    return [*params[:-2], new_kernel.astype(np.float32), new_bias.astype(np.float32)]

  for index in range(rounds):
    seeds = rng.integers(30_000, 90_000, 3)
    score = lambda x: np.mean(evaluate(moved(x), make_env, seeds))  # noqa: B023
    tries = [spread * rng.standard_normal(change.shape) for _ in range(6)]
    scores = np.array([(score(change + x), score(change - x)) for x in tries])
    slopes = (scores[:, 0] - scores[:, 1]) / (scores.std() + 1e-6)
    change = change + 0.7 * np.mean([a * x for a, x in zip(slopes, tries, strict=True)], 0)
    if index % 4 == 3:
      report(index, moved(change))


def adjust(params: list[np.ndarray], change: np.ndarray) -> list[np.ndarray]:
  """The actor with its mean outputs times (1 + gain) and moved by an offset."""
  gain, offset = np.split(change, 2)
  kernel, bias = params[-2].copy(), params[-1].copy()
  act_dim = len(gain)
  kernel[:, :act_dim] *= 1 + gain
  bias[:act_dim] = bias[:act_dim] * (1 + gain) + offset
  return [*params[:-2], kernel.astype(np.float32), bias.astype(np.float32)]


def plot(folder: pathlib.Path, target: str) -> None:
  """The training curves that are shipped beside the weights."""
  from recon_tf.analysis.report import style

  @style.STYLED
  def draw(paths: list[pathlib.Path]):
    figure, panels = style.make_panels([style.task_name(x.stem) for x in paths])
    for axes, path in zip(panels.values(), paths, strict=True):
      rows = [json.loads(line) for line in path.read_text().splitlines()]
      rows = [x for x in rows if 'step' in x]
      axes.plot([x['step'] for x in rows], [x['eval'] for x in rows], marker='.')
      style.step_axis(axes)
      axes.set(xlabel='decisions', ylabel='return, mean of 5 episodes', ylim=(0, 1000))
    return figure

  target = pathlib.Path(target)
  figure = draw(sorted(folder.glob('*.jsonl')))
  style.save_figure(figure, target.parent, target.stem, vector=False)


def main() -> None:
  parser = Parser(description=__doc__)
  tasks = ['dmc_hopper_stand', 'dmc_walker_run']
  parser.add_argument('--task', default=tasks[0], choices=tasks)
  parser.add_argument(
    '--steps',
    type=ranged(int, '[1, inf)'),
    default=300_000,
    help='decisions (two simulator steps each)',
  )
  parser.add_argument('--seed', type=ranged(int, '[0, 1000000000]'), default=0)
  parser.add_argument(
    '--entropy',
    type=ranged(float, '(-inf, inf)'),
    default=-1.0,
    help='target entropy per action dimension',
  )
  parser.add_argument('--outdir', default='recon_tf/experts/weights')
  parser.add_argument('--init', default='', help='.npz file of an actor to go on from')
  parser.add_argument(
    '--polish', type=ranged(int, '[0, inf)'), default=0, help='only polish --init, so many rounds'
  )
  parser.add_argument(
    '--climb', type=ranged(int, '[0, inf)'), default=0, help='only improve the last layer of --init'
  )
  parser.add_argument('--plot', default='', help='only draw the curves in outdir to this PNG')
  args = parser.parse_args()
  if args.plot:
    plot(pathlib.Path(args.outdir), args.plot)
    return
  _, domain, task = args.task.split('_')
  make_env = lambda seed: StateEnv(domain, task, 2, seed)
  keeper = Keeper(pathlib.Path(args.outdir), args.task, make_env)
  init = load_actor(args.init)
  if args.polish or args.climb:
    search, rounds = (polish, args.polish) if args.polish else (climb, args.climb)
    report = lambda index, params: keeper(params, {'round': index})
    search(init, make_env, rounds, args.seed, report)
    return

  def report(step, agent, metrics):
    if step % 10_000 < 500:
      keeper(agent.actor_arrays(), {'step': step, **metrics})

  from recon_tf.experts import sac

  sac.train(make_env, args.steps, args.seed, report, args.entropy, init)
