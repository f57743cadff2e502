"""Before any training: what will be learned from what, and about how long it takes."""

import time

import numpy as np

from recon_tf.common.config import Config
from recon_tf.common.episodes import Episode
from recon_tf.common.spaces import Spaces, is_observation, space_of
from recon_tf.demos.match import match_demos, needed

SHARE = 0.25  # of a matrix product's speed that updates reach, roughly
OVERHEAD = 0.01  # seconds of an update beside its products


def check_training(config: Config, env, episodes: list[Episode]) -> str:
  """The text; a UserError says what does not fit."""
  spaces = space_of(env)
  shapes, first = spaces.observations, episodes[0]
  match_demos(config, shapes, len(spaces.low), first)
  used = needed(config, shapes)
  lengths = [len(x['action']) - 1 for x in episodes]
  unused = [k for k in {**shapes, **first} if k not in used and is_observation(k)]
  lines = [f'What {config.method} will learn from on {config.task}:']
  for key in used:
    lines.append(row('sees', f'{key} {[*shapes[key]]}, {spread(key, episodes)}'))
  lines.append(row('leaves out', ', '.join(dict.fromkeys(unused)) or 'nothing'))
  lines.append(row('acts', action_text(spaces, episodes)))
  lines.append(row('demonstrations', f'{len(episodes)} of {min(lengths)} to {max(lengths)} steps'))
  replay = config.replay
  lines.append(
    row('an update', f'{replay.batch} + {replay.expert_batch} sequences of {replay.length} steps')
  )
  if config.windows.collector != 'none' and not config.offline:
    lines.append(row('windows', window_text(config, env)))
  return '\n'.join([*lines, row('work', work_text(config, spaces))])


def row(name: str, text: str) -> str:
  return f'  {name:16}{text}'


def spread(key: str, episodes: list[Episode]) -> str:
  values = np.concatenate([x[key].reshape(-1) for x in episodes])
  if values.dtype == np.uint8:
    return f'pixels from {values.min()} to {values.max()}'
  return f'from {values.min():.3g} to {values.max():.3g}'


def action_text(spaces: Spaces, episodes: list[Episode]) -> str:
  actions = np.concatenate([x['action'][1:] for x in episodes])
  used = f'demonstrations use {actions.min():.2f} to {actions.max():.2f}'
  if not spaces.bounds_known:
    return f'{len(spaces.low)} numbers in [-1, 1], units not recorded; {used}'
  low, high = min(spaces.low), max(spaces.high)
  return f'{len(spaces.low)} numbers, -1 to 1 is {low:g} to {high:g}; {used}'


def window_text(config: Config, env) -> str:
  """As they are drawn for the first episode."""
  from recon_tf.explorer import Collector  # late: it needs TensorFlow

  collector = Collector(1, env.length, config.windows, config.seed, env.full)
  acts = [bool(collector(np.array([t == 0]))[0]) for t in range(env.length)]
  who = {'explorer': 'the explorer', 'random': 'random actions'}[config.windows.collector]
  return f'{sum(acts)} of {env.length} decisions of an episode for {who}'


def total_updates(config: Config) -> int:
  """Pretraining and, unless offline, what is due by the last step."""
  online = 0
  if not config.offline and config.train_every:
    online = max(0, (config.steps - config.prefill) // config.train_every) * config.train_steps
  return config.pretrain + config.pretrain_bc + online


def work_text(config: Config, spaces: Spaces) -> str:
  updates = total_updates(config)
  text = f'{updates:,} updates'
  if not config.offline:
    text += f' and {config.steps:,} steps in the environment'
  seconds = update_seconds(config, spaces)
  if seconds is None:
    return f'{text}; the first updates will tell how long it takes'
  return f'{text}; roughly {max(1, round(updates * seconds / 60))} minutes of updates'


def update_seconds(config: Config, spaces: Spaces) -> float | None:
  """From the floating-point operations of RECON's kind and the speed of a product here."""
  if config.agent != 'recon' or config.eager:
    return None
  from recon_tf.perf.flops import count_flops

  flops = sum(count_flops(config, spaces.observations, len(spaces.low)).values())
  return flops / (SHARE * product_speed()) + OVERHEAD


def product_speed(size: int = 512, times: int = 10) -> float:
  """Floating-point operations per second; the best of several, whatever else runs here."""
  matrix, seconds = np.ones((size, size), np.float32), []
  for _ in range(times):
    start = time.perf_counter()
    matrix @ matrix
    seconds.append(time.perf_counter() - start)
  return 2 * size**3 / min(seconds)
