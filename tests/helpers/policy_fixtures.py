"""Run folders with untrained weights of any method and size, for policies and exports."""

import json
import pathlib

import numpy as np

from recon_tf import make_agent as agents
from recon_tf.common import Checkpoint, load_config
from recon_tf.common.spaces import Spaces, record_spaces
from recon_tf.policy import make_agent

METHODS = ('recon', 'cmil', 'bc_raw', 'dadac', 'iqmpc')
SCORE = {'step': 60, 'success': 0.5, 'return': 3.0, 'length': 9.0, 'returns': [2.0, 4.0]}


def own_spaces(image: int = 0, source: int = 48) -> Spaces:
  """Two vectors, or an image that was resized; actions from -2 to 4 and from 0 to 1."""
  shapes = {'place': (3,), 'speed': (2,)}
  if image:
    shapes = {'image': (image, image, 3)}
  sources = {'image': (source, source, 3)} if image else {}
  return Spaces(shapes, (2,), 'float64', (-2.0, 0.0), (4.0, 1.0), sources)


def write_run(folder: pathlib.Path, *presets: str, image: int = 0, **changes) -> pathlib.Path:
  """A run folder as training leaves it, but for what it learned."""
  observed = () if image else ('state',)
  config = load_config(*presets[:-1], *observed, presets[-1]).update(changes)
  config = config.update(task='gym_Robot-v0', seed=3)
  spaces = own_spaces(image)
  folder.mkdir(parents=True)
  config.save(folder / 'config.yaml')
  record_spaces(folder, spaces)
  (folder / 'meta.json').write_text(json.dumps({'starts': [{'commit': 'abc'}]}))
  (folder / 'eval').mkdir()
  (folder / 'eval' / 'final.json').write_text(json.dumps(SCORE))
  agent = make_agent(config, spaces)
  rng = np.random.default_rng(0)
  arrays = {k: jittered(k, v, rng) for k, v in agent.state().items()}
  Checkpoint(folder / 'checkpoints').save(60, arrays, {})
  return folder


def jittered(name: str, value: np.ndarray, rng: np.random.Generator) -> np.ndarray:
  """Biases, offsets and the scaler's means start at zero, which would hide a forgotten one.

  So do the last layers of IQ-MPC's critics, with which all plans would be equally good.
  """
  if name == 'scaler.fitted':
    return np.ones_like(value)
  silent = name.endswith('.kernel') and not value.any()
  if silent or name.split('.')[-1] in ('bias', 'offset') or name.startswith('scaler.mean'):
    return value + 0.3 * rng.normal(size=value.shape).astype(value.dtype)
  return value


def observations(spaces: Spaces, count: int, seed: int = 0, size: int = 0) -> list[dict]:
  """An episode of them, images as large as the environment draws them."""
  rng = np.random.default_rng(seed)
  if 'image' in spaces.observations:
    size = size or spaces.sources['image'][0]
    return [{'image': rng.integers(0, 256, (size, size, 3), np.uint8)} for _ in range(count)]
  draw = lambda shape: 3 * rng.normal(size=shape)
  return [{k: draw(v) for k, v in spaces.observations.items()} for _ in range(count)]


def agent_of(folder: pathlib.Path, config, spaces: Spaces):
  """The whole agent of a run, as evaluations use it."""
  from gymnasium.spaces import Box

  obs = {k: Box(-9, 9, v) for k, v in spaces.observations.items()}
  agent = agents.make_agent(config, obs, {'action': Box(-1, 1, (2,))})
  agent.restore(Checkpoint(folder / 'checkpoints').load()[0])
  return agent
