"""Trains the state-based SAC expert of a DMC task and keeps its actor as a small .npz file."""

import argparse
import json
import pathlib
import sys
import time

import numpy as np
from dm_control import suite

sys.path.append(str(pathlib.Path(__file__).parent.parent))

from recon_tf.experts import dmc, sac


class StateEnv:
  """A dm_control task as flat state vectors, without rendering."""

  def __init__(self, domain: str, task: str, repeat: int, seed: int):
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
  policy = lambda obs: dmc.act(params, obs, None)
  return [sum(x[2] for x in sac.episode(make_env(s), policy)) for s in seeds]


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('--task', required=True, choices=['dmc_hopper_stand', 'dmc_walker_run'])
  parser.add_argument(
    '--steps', type=int, default=300_000, help='decisions (two simulator steps each)'
  )
  parser.add_argument('--seed', type=int, default=0)
  parser.add_argument(
    '--entropy', type=float, default=-1.0, help='target entropy per action dimension'
  )
  parser.add_argument('--outdir', default='recon_tf/experts/weights')
  parser.add_argument('--init', default='', help='.npz file of an actor to go on from')
  args = parser.parse_args()
  _, domain, task = args.task.split('_')
  make_env = lambda seed: StateEnv(domain, task, 2, seed)
  outdir = pathlib.Path(args.outdir)
  outdir.mkdir(parents=True, exist_ok=True)
  curve = (outdir / f'{args.task}.jsonl').open('w')
  start = time.time()
  best = [-np.inf]

  def report(step, agent, metrics):
    if step % 10_000 < 500:
      params = agent.actor_arrays()
      scores = evaluate(params, make_env, range(10_000, 10_005))
      row = {
        'step': step,
        'minutes': round((time.time() - start) / 60, 1),
        'eval': np.mean(scores),
        **metrics,
      }
      row = {k: round(float(v), 3) for k, v in row.items()}
      print(json.dumps(row), file=curve, flush=True)
      print(json.dumps(row), flush=True)
      if row['eval'] >= best[0]:
        best[0] = row['eval']
        np.savez(outdir / f'{args.task}.npz', **{f'actor_{i}': x for i, x in enumerate(params)})

  sac.train(make_env, args.steps, args.seed, report, args.entropy, load_actor(args.init))


if __name__ == '__main__':
  main()
