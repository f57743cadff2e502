"""A training run that takes seconds: the U-maze from vectors, short episodes, a tiny agent."""

import pathlib

import numpy as np

from recon_tf import envs
from recon_tf.common import Driver, Replay, load_config

FLAGS = {
  'task': 'maze_umaze',
  'jit': False,
  'env.length': 20,
  'rssm': {'deter': 8, 'stoch': 4, 'hidden': 8, 'ensemble': 2},
  'encoder.mlp_layers': [8],
  'decoder.mlp_layers': [8],
  'disc.layers': [8],
  'actor.layers': [8],
  'critic.layers': [8],
  'horizon': 3,
  'replay': {'batch': 2, 'expert_batch': 2, 'length': 5},
  'steps': 80,
  'prefill': 20,
  'pretrain': 2,
  'pretrain_bc': 1,
  'train_every': 10,
  'train_steps': 1,
  'eval_every': 40,
  'eval_episodes': 1,
  'eval_workers': 1,
  'eval_final': 1,
  'video_every': 1_000_000,
}


def run_config(logdir: pathlib.Path, demos: pathlib.Path, **changes):
  places = {'logdir': str(logdir), 'demos': str(demos)}
  return load_config('maze', 'state').update(FLAGS).update({**places, **changes})


def as_flags(config) -> list[str]:
  """What a user types for this config after `--configs maze state`."""
  usual = load_config('maze', 'state').flat
  text = lambda x: f'[{",".join(map(str, x))}]' if isinstance(x, tuple) else str(x)
  return [f'--{k}={text(v)}' for k, v in config.flat.items() if v != usual[k]]


def make_demos(folder: pathlib.Path, episodes: int = 2) -> pathlib.Path:
  """Real episodes of random actions; what they show does not matter here."""
  env = envs.make('maze_umaze', load_config('maze', 'state').update({'env.length': 20}))
  replay, rng = Replay(folder), np.random.default_rng(0)
  driver = Driver([env])
  driver.on_step(replay.add_step)
  act = lambda obs, state: ({'action': rng.uniform(-1, 1, (1, 2)).astype(np.float32)}, state)
  driver(act, episodes)
  replay.close()
  return folder
