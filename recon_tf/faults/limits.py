"""Settings: what lies beyond their limits is refused, what lies on them can be learned with."""

import math
import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from recon_tf.common import Flags, UserError, default_config, load_config
from recon_tf.common.config import documented
from recon_tf.common.schema import Limit, parse_limit
from recon_tf.faults.table import Table

# Keys of these groups and names do not reach an agent's update.
NO_AGENT = (
  'logdir', 'task', 'tasks', 'method', 'demos', 'demo_episodes', 'threads', 'devices', 'steps',
  'prefill', 'keep', 'keep_every', 'video_every', 'train_every', 'train_steps', 'agent', 'pretrain',
  'pretrain_bc', 'prefill_policy',
)  # fmt: skip

# As small as the key itself allows.
SMALL = {
  'eager': True, 'jit': False, 'horizon': 2, 'rssm.deter': 8, 'rssm.ensemble': 2,
  'replay.length': 3, 'gate.horizon': 1, 'gate.tail': 1,
}  # fmt: skip


def check_flags(table: Table, own: Mapping[str, Mapping] = types.MappingProxyType({})) -> None:
  """Every key with a value below, above, of another type and of an unknown name.

  `own` are flags that a command has besides the keys, command -> as for Flags.parse.
  """
  for key, value in default_config().flat.items():
    for case, text in bad_values(key, value, documented().limits.get(key, Limit())):
      argv = ['--configs', 'maze', 'debug', f'--{key}={text}']
      table.add('flags', f'{case} --{key}={text}', _refused(argv, key))
    name = f'{key[:-1]}{"x" if key[-1] != "x" else "y"}{key[-1]}'
    table.add('flags', f'unknown --{name}', _refused([f'--{name}=1'], name))
  for command, extra in own.items():
    for key, (value, meaning) in extra.items():
      for case, text in bad_values(key, value, parse_limit(meaning)[0]):
        problem = _refused([f'--{key}={text}'], key, extra)
        table.add('flags', f'{command}: {case} --{key}={text}', problem)


def bad_values(key: str, value: Any, limit: Limit) -> Iterator[tuple[str, str]]:
  """Texts that a flag must not take, each with its kind."""
  first = value[0] if isinstance(value, tuple) and value else value
  many = lambda x: ','.join([x] * max(1, *limit.counts, 1)) if isinstance(value, tuple) else x
  if limit.choices:
    yield 'wrong type', 'foo' if isinstance(limit.choices[0], int) else '7.5'
    yield 'other choice', '8' if isinstance(limit.choices[0], int) else 'foo'
  elif isinstance(first, bool):
    yield 'wrong type', '3'
  elif isinstance(first, (int, float)) or (limit.text and not limit.kind):
    yield 'wrong type', many('abc')
    yield 'not a number', many('nan')
    yield 'infinite', many('inf')
    if limit.low > -math.inf:
      yield 'below', many(f'{limit.low - 1:.12g}')
      if not limit.closed[0]:
        yield 'below', many(f'{limit.low:g}')
    if limit.high < math.inf:
      yield 'above', many(f'{limit.high + 1:.12g}')
  if limit.kind == 'name':
    yield 'path', '../../x'
  if limit.kind == 'regex':
    yield 'no regex', '('
  if limit.counts and not limit.open_count:
    yield 'too many', ','.join(['20'] * (max(limit.counts) + 1))


def _refused(argv: list[str], key: str, extra: Mapping | None = None) -> str:
  try:
    Flags().parse(argv, extra=extra)
  except UserError as error:
    return '' if key in str(error) else f'the key is not named: {error}'
  except Exception as error:
    return f'{type(error).__name__}: {error}'
  return 'accepted'


def check_edges(table: Table) -> None:
  """One update with every setting at the edge of its range: it works or is refused."""
  for key, limit in documented().limits.items():
    if key.startswith(('env.', 'eval_')) or key in NO_AGENT:
      continue
    for value in edges(limit, default_config().flat[key]):
      table.add('edges', f'{key} = {value}', _learns(key, value))


def edges(limit: Limit, default: Any) -> list:
  """The values at the ends of a range, or all choices."""
  if limit.choices:
    return list(limit.choices)
  if limit.kind:
    return []
  ends = [(limit.low, limit.closed[0], 1e-3), (limit.high, limit.closed[1], -1e-3)]
  values = [x if closed else x + inside for x, closed, inside in ends if math.isfinite(x)]
  if isinstance(default, tuple):
    return [(int(x),) * max(1, *limit.counts, 1) for x in values]
  return [type(default)(x) for x in values]


def _learns(key: str, value: Any) -> str:
  group = key.split('.')[0]
  method = group if group in ('dadac', 'iqmpc') else 'bc_raw' if group == 'clone' else 'recon'
  pixels = any(x in key for x in ('cnn', 'pad', 'strides', 'kernels', 'shift'))
  presets = ['debug', method] if pixels and method != 'bc_raw' else ['debug', 'state', method]
  try:
    config = load_config(*presets).update(SMALL).update({key: value})
    _update(config, pixels)
  except UserError:
    return ''
  except Exception as error:
    return f'{type(error).__name__}: {str(error).splitlines()[0][:100]}'
  return ''


def _update(config, pixels: bool) -> None:
  from recon_tf.make_agent import make_agent, sequences

  obs = {'reward': Box(-9, 9, ()), 'position': Box(-9, 9, (3,))}
  if pixels:
    obs['image'] = Box(0, 255, (*config.env.size, 3), np.uint8)
  agent = make_agent(config, obs, {'action': Box(-1, 1, (2,))})
  data = [_batch(obs, size, config.replay.length, n) for n, size in enumerate(sequences(config))]
  agent.policy({k: v[:, 0] for k, v in data[0].items()})
  agent.train(*data)
  if config.agent == 'recon':
    agent.clone(*data)


def _batch(obs: dict, rows: int, length: int, seed: int) -> dict:
  rng = np.random.default_rng(seed)
  data = {'action': np.tanh(rng.normal(size=(rows, length, 2))).astype(np.float32)}
  for key, space in obs.items():
    values = rng.uniform(0, 255 if key == 'image' else 1, (rows, length, *space.shape))
    data[key] = values.astype(space.dtype)
  flags = {k: np.zeros((rows, length), bool) for k in ('is_first', 'is_last', 'is_terminal')}
  flags['is_first'][:, 0] = True
  return {**data, **flags}
