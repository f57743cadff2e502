"""State-based SAC actors for the DMC tasks: shipped weights and a NumPy forward pass."""

import pathlib

import numpy as np

from recon_tf.common.errors import UserError

LOG_STD_MIN, LOG_STD_MAX = -10.0, 2.0
WEIGHTS = pathlib.Path(__file__).parent / 'weights'


def act(params: list[np.ndarray], obs: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
  """The actor in NumPy: the mode, or with a generator a sample."""
  x = obs
  for i in range(0, len(params) - 2, 2):
    x = np.maximum(x @ params[i] + params[i + 1], 0)
  mean, raw = np.split(x @ params[-2] + params[-1], 2, -1)
  if rng is None:
    return np.tanh(mean)
  log_std = LOG_STD_MIN + 0.5 * (LOG_STD_MAX - LOG_STD_MIN) * (np.tanh(raw) + 1)
  return np.tanh(mean + np.exp(log_std) * rng.standard_normal(mean.shape))


def flatten(obs: dict[str, np.ndarray]) -> np.ndarray:
  """One vector of the named entries, in sorted order of their names."""
  return np.concatenate([np.ravel(obs[k]) for k in sorted(obs)]).astype(np.float32)


def load_weights(path: pathlib.Path) -> list[np.ndarray]:
  """Kernels and biases of an actor, in order."""
  if not path.exists():
    raise UserError(f'No expert weights at {path}; make them with scripts/train_expert.py.')
  with np.load(path) as arrays:
    return [arrays[f'actor_{i}'] for i in range(len(arrays.files))]


class DMCExpert:
  """The mode of the trained actor."""

  def __init__(self, env, weights: pathlib.Path = WEIGHTS):
    self.params = load_weights(weights / f'{env.task}.npz')
    skip = ('image', 'reward', 'is_first', 'is_last', 'is_terminal')
    self.keys = [k for k in env.obs_space if k not in skip and not k.startswith('log_')]
    size = sum(int(np.prod(env.obs_space[k].shape)) for k in self.keys)
    if size != self.params[0].shape[0]:
      raise UserError(
        f'The weights for {env.task} expect {self.params[0].shape[0]} state entries, not {size}.'
      )

  def __call__(self, obs: dict) -> np.ndarray:
    state = flatten({k: obs[k] for k in self.keys})
    return act(self.params, state, None).astype(np.float32)
