"""A tiny agent, its spaces and random data, shared by the tests that need TensorFlow."""

import functools

import numpy as np
from gymnasium.spaces import Box

from recon_tf.agent import Agent
from recon_tf.common import load_config

ACTION = 2
SIZES = {
  'jit': False,
  'encoder': {'cnn_keys': '$^', 'mlp_keys': '.*', 'cnn_depth': 2, 'mlp_layers': [12]},
  'decoder': {'cnn_keys': '$^', 'mlp_keys': '.*', 'cnn_depth': 2, 'mlp_layers': [12]},
  'rssm': {'deter': 10, 'stoch': 4, 'hidden': 8, 'ensemble': 3},
  'replay': {'batch': 4, 'expert_batch': 2, 'length': 6},
  'disc.layers': [8],
  'actor.layers': [8],
  'critic.layers': [8],
  'horizon': 4,
}


def tiny_config(*presets: str, **changes):
  return load_config(*presets).update(SIZES).update(changes)


def spaces(image: bool = False, action: int = ACTION) -> tuple[dict, dict]:
  obs = {'position': Box(-9, 9, (3,)), 'velocity': Box(-9, 9, (2,)), 'reward': Box(-9, 9, ())}
  if image:
    obs['image'] = Box(0, 255, (64, 64, 3), np.uint8)
  return obs, {'action': Box(-1, 1, (action,))}


def make_agent(*presets: str, image: bool = False, **changes) -> Agent:
  return Agent(tiny_config(*presets, **changes), *spaces(image))


@functools.cache
def _cached(presets: tuple, changes: tuple) -> tuple[Agent, dict]:
  agent = make_agent(*presets, **dict(changes))
  return agent, agent.state()


def shared_agent(*presets: str, **changes) -> Agent:
  """One agent for many tests, back in its first state; changes must be hashable."""
  agent, first = _cached(presets, tuple(changes.items()))
  agent.restore(first)
  return agent


def batch(rows: int = 4, length: int = 6, seed: int = 0, image: bool = False) -> dict:
  """Random sequences [rows, length]; an episode ends inside of the first one."""
  rng = np.random.default_rng(seed)
  normal = lambda *shape: rng.normal(size=(rows, length, *shape)).astype(np.float32)
  flags = np.zeros((3, rows, length), bool)
  flags[0, :, 0] = flags[0, 0, 3] = flags[1, 0, 2] = flags[2, 0, 2] = True
  data = {'position': normal(3), 'velocity': normal(2), 'action': np.tanh(normal(ACTION))}
  data.update(reward=normal(), is_first=flags[0], is_last=flags[1], is_terminal=flags[2])
  if image:
    data['image'] = rng.integers(0, 256, (rows, length, 64, 64, 3), dtype=np.uint8)
  return data


def batches(number: int = 0, **options) -> tuple[dict, dict]:
  """A replay batch and an expert batch of the tiny sizes."""
  return batch(4, seed=2 * number, **options), batch(2, seed=2 * number + 1, **options)


def random_state(agent: Agent, rows: int = 5, seed: int = 0) -> dict:
  rng = np.random.default_rng(seed)
  sizes = {k: agent._config.rssm[k] for k in ('deter', 'stoch')}
  return {k: rng.normal(size=(rows, n)).astype(np.float32) for k, n in sizes.items()}


def scalars(metrics: dict) -> dict[str, np.ndarray]:
  return {k: np.asarray(v) for k, v in metrics.items()}


def weights(agent):
  """Every variable once, by its own name."""
  return {k: v for k, v in agent.state().items() if '._params.' not in k}


def different(before: dict, after: dict) -> set[str]:
  """Names of the arrays that are not equal to the last bit."""
  assert before.keys() == after.keys()
  return {k for k in before if before[k].tobytes() != after[k].tobytes()}


# Independent forward passes in NumPy, float64


def dense(layer, x: np.ndarray) -> np.ndarray:
  return x @ layer.kernel.numpy().astype(np.float64) + layer.bias.numpy()


def elu(x: np.ndarray) -> np.ndarray:
  return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def sigmoid(x: np.ndarray) -> np.ndarray:
  return 1 / (1 + np.exp(-x))


def mlp(net, x: np.ndarray) -> np.ndarray:
  for layer in net.hidden:
    x = elu(dense(layer, x))
  return dense(net.out, x) if net.out else x


def gru(cell, x: np.ndarray, state: np.ndarray) -> np.ndarray:
  gates = dense(cell.gates, np.concatenate([x, state], -1))
  gates = (gates - gates.mean(-1, keepdims=True)) / np.sqrt(gates.var(-1, keepdims=True) + 1e-3)
  gates = gates * cell.norm.scale.numpy() + cell.norm.offset.numpy()
  reset, candidate, update = np.split(gates, 3, -1)
  update = sigmoid(update - 1)
  return update * np.tanh(sigmoid(reset) * candidate) + (1 - update) * state


def recur(rssm, state: dict, action: np.ndarray) -> np.ndarray:
  return gru(rssm.gru, elu(dense(rssm.img_in, np.concatenate([state['stoch'], action], -1))),
             state['deter'])  # fmt: skip


def head_means(rssm, deter: np.ndarray) -> np.ndarray:
  """One head after the other, [heads, ..., stoch]."""
  means = []
  for k in range(rssm.head_in.kernel.shape[0]):
    hidden = elu(deter @ rssm.head_in.kernel[k].numpy() + rssm.head_in.bias[k].numpy())
    out = hidden @ rssm.head_out.kernel[k].numpy() + rssm.head_out.bias[k].numpy()
    means.append(np.split(out, 2, -1)[0])
  return np.stack(means)


def jitter_biases(agent: Agent, seed: int = 0) -> None:
  """Biases start at zero; other values make a wrong or forgotten one visible."""
  rng = np.random.default_rng(seed)
  for name, value in agent.named.items():
    if name.split('.')[-1] in ('bias', 'offset') and '_opt' not in name:
      value.assign(value + 0.3 * rng.normal(size=value.shape).astype(np.float32))
