"""Before any training: what will be learned from what, and about how long it takes."""

import os
import subprocess
import sys
import time

import numpy as np

from recon_tf.card import numbers
from recon_tf.common.config import Config
from recon_tf.common.episodes import Episode
from recon_tf.common.errors import UserError
from recon_tf.common.schedule import first_imagined, online_updates, work_left
from recon_tf.common.spaces import Spaces, is_observation, space_of
from recon_tf.demos.match import match_demos, needed
from recon_tf.envs.process import THREADS

# Fitted to updates of cpu size on one thread, by CPU time (docs/training.md).
SHARE = 0.88  # of NumPy's matrix product on one thread
OVERHEAD = {'imitation': 0.02, 'bc': 0.01, 'frozen': 0.01}  # seconds of a joint update besides
CLONE_OVERHEAD = 0.002
COMPILE = 45  # seconds, once; from the cache it takes a few
ACTING = 0.001  # seconds of the policy per decision
MANY = 0.5  # of an episode in windows, so that the main policy hardly acts
FULL = 500  # decisions of the paper's episodes
# In a process with one thread: several wait for each other on a busy machine, and waiting counts.
PRODUCT = """
import time
import numpy as np
matrix, seconds = np.ones(({size}, {size}), np.float32), []
for _ in range({times}):
  start = time.process_time()
  matrix @ matrix
  seconds.append(time.process_time() - start)
print(min(seconds))
"""


def check_training(
  config: Config, env, episodes: list[Episode], decision: float | None = None
) -> str:
  """The text; a UserError says what does not fit. decision: seconds of one in the environment."""
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
  if config.train_length and not config.offline:
    lines.append(row('episodes', episode_text(config, env)))
  if config.windows.collector != 'none' and not config.offline:
    lines.append(row('windows', window_text(config, env)))
  lines.append(row('work', work_text(config)))
  return '\n'.join([*lines, row('time', time_text(config, spaces, np.mean(lengths), decision))])


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
  low, high = numbers(spaces.low), numbers(spaces.high)
  return f'{len(spaces.low)} numbers, -1 to 1 is {low} to {high}; {used}'


def episode_text(config: Config, env) -> str:
  """Where those that are learned from are shorter than those of evaluations."""
  usual = config.env.length or env.full
  if config.train_length > usual:
    raise UserError(
      f"train_length: {config.train_length} is longer than the task's episodes of {usual} "
      'decisions; set it lower, or env.length higher.'
    )
  return f'{config.train_length} decisions to learn from, {usual} in evaluations'


def window_text(config: Config, env) -> str:
  """As they are drawn for the first episode."""
  from recon_tf.explorer import Collector  # late: it needs TensorFlow

  collector = Collector(1, env.length, config.windows, config.seed, env.full)
  acts = [bool(collector(np.array([t == 0]))[0]) for t in range(env.length)]
  who = {'explorer': 'the explorer', 'random': 'random actions'}[config.windows.collector]
  text = f'{sum(acts)} of {env.length} decisions of an episode for {who}'
  if sum(acts) > MANY * env.length:
    text += f'; --windows.full {FULL} shrinks them to the share that they have in the paper'
  return text


def work_text(config: Config) -> str:
  text = f'{config.pretrain:,} joint updates on demonstrations, {config.pretrain_bc:,} of cloning'
  if config.offline:
    return text
  work, online = work_left(config), online_updates(config, config.steps)
  begin, without = first_imagined(config), ''
  if begin:
    early = begin - config.pretrain - config.pretrain_bc
    without = f' (pretraining and the first {early:,} of these imagine nothing)'
  return (
    f'{text}, {online:,} in {work["steps"]:,} steps of interaction{without}; '
    f'{work["episodes"]:,} episodes of evaluations'
  )


def time_text(config: Config, spaces: Spaces, length: float, decision: float | None) -> str:
  """Without a decision's time, that of the updates alone; the run itself says how long it takes."""
  costs = update_seconds(config, spaces)
  if costs is None:
    return 'the first updates will tell'
  work, minutes = work_left(config), {}
  minutes['updates'] = (COMPILE + sum(work.get(k, 0) * v for k, v in costs.items())) / 60
  if decision is not None:
    minutes['environment'] = work['steps'] * (decision + ACTING) / 60
    minutes['evaluations'] = work['episodes'] * length * (decision + ACTING) / 60
  parts = ', '.join(f'{k} {v:.1f}' for k, v in minutes.items())
  total = max(1, round(sum(minutes.values())))
  return f'roughly {total} minute{"s" if total > 1 else ""} on one free core ({parts})'


def decision_seconds(env, limit: float = 2.0) -> float:
  """Of one step of the environment, renderings included: a good tenth of its first episode.

  Not the average, which on a busy machine measures the others.
  """
  action = np.zeros(env.act_space['action'].shape, np.float32)
  obs, seconds, begun = env.reset(), [], time.perf_counter()
  while not obs['is_last'] and time.perf_counter() - begun < limit:
    start = time.perf_counter()
    obs = env.step({'action': action})
    seconds.append(time.perf_counter() - start)
  return float(np.quantile(seconds, 0.1))


def update_seconds(config: Config, spaces: Spaces, speed: float = 0) -> dict[str, float] | None:
  """Of each kind of update, from its floating-point operations and the speed of this machine."""
  if config.agent != 'recon' or config.eager or has_gpu():
    return None
  from recon_tf.perf.flops import clone_flops, count_flops

  shapes, action = spaces.observations, len(spaces.low)
  speed = SHARE * (speed or product_speed())
  joint = sum(count_flops(config, shapes, action).values())
  clone = clone_flops(config, shapes, action)
  # A frozen policy's model only watches, which is the forward third of learning.
  flops = {'joint': joint, 'clone': clone, 'watch': joint / 3}
  besides = OVERHEAD[config.behavior]
  overhead = {'joint': besides, 'clone': CLONE_OVERHEAD, 'watch': besides}
  if config.behavior == 'imitation':
    flops['follow'] = count_flops(config, shapes, action)['model'] + clone
    overhead['follow'] = OVERHEAD['bc']
  return {k: v / speed + overhead[k] for k, v in flops.items()}


def has_gpu() -> bool:
  import tensorflow as tf  # late: everything else here does without

  return bool(tf.config.list_physical_devices('GPU'))


def product_speed(size: int = 512, times: int = 10) -> float:
  """Floating-point operations per second of one core, by CPU time, whatever else runs here."""
  command = [sys.executable, '-c', PRODUCT.format(size=size, times=times)]
  env = {**os.environ, **dict.fromkeys(THREADS, '1')}
  done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
  return 2 * size**3 / float(done.stdout)
