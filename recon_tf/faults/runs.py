"""The small run that the campaign is about: a maze from vectors, a tiny agent, 40 steps."""

import pathlib

from recon_tf.common import load_config

SETTINGS = {
  'task': 'maze_umaze', 'env.length': 10, 'steps': 40, 'prefill': 10, 'train_every': 10,
  'train_steps': 1, 'pretrain': 2, 'pretrain_bc': 1, 'eval_every': 20, 'eval_episodes': 1,
  'eval_final': 1, 'eval_workers': 1, 'video_every': 0, 'keep_every': 20, 'horizon': 2,
  'rssm.deter': 8, 'rssm.stoch': 4, 'rssm.hidden': 8, 'rssm.ensemble': 2, 'threads': 1,
  'demo_episodes': 2, 'replay.length': 3, 'replay.capacity': 20, 'gate.horizon': 1, 'gate.tail': 1,
}  # fmt: skip


def flags(logdir: pathlib.Path, demos: pathlib.Path, **changes) -> list[str]:
  """The command line of the small run."""
  values = {**SETTINGS, 'logdir': str(logdir), 'demos': str(demos), **changes}
  return ['--configs', 'maze', 'debug', 'state', *(f'--{k}={v}' for k, v in values.items())]


def folder(logdir: pathlib.Path) -> pathlib.Path:
  return logdir / 'maze_umaze' / 'recon' / '0'


def make_demos(path: pathlib.Path) -> pathlib.Path:
  """Two short demonstrations; whether they reach the goal does not matter here."""
  import numpy as np

  from recon_tf import envs
  from recon_tf.common import save_episode
  from recon_tf.demos.meta import write_meta

  env = envs.make('maze_umaze', load_config('maze', 'state').update({'env.length': 10}))
  rng = np.random.default_rng(0)
  for number in range(2):
    obs, action = env.reset(seed=number), np.zeros(2, np.float32)
    rows = [{**obs, 'action': action}]
    while not obs['is_last']:
      action = rng.uniform(-1, 1, 2).astype(np.float32)
      obs = env.step({'action': action})
      rows.append({**obs, 'action': action})
    save_episode(path, {k: np.stack([x[k] for x in rows]) for k in rows[0]}, True, number)
  env.close()
  meta = {'task': 'maze_umaze', 'expert': 'random', 'env': {}, 'returns': [0.0, 0.0]}
  write_meta(path, {**meta, 'successes': [], 'rejected': 0})
  return path
