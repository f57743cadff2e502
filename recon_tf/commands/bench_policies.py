"""Milliseconds per action of policies; `recon-tf bench` hands its flags on to here."""

import statistics
import time

from recon_tf.common.arguments import Parser, ranged
from recon_tf.common.errors import UserError

CPU, PAPER = 3.0, 30.0  # milliseconds per action on one core, checked by --check; not for planners
PLANNERS = ('iqmpc',)
# Method and size with weights as they begin, which cost the same: presets and the limit.
UNTRAINED = {
  'RECON, vectors, cpu': (('cpu', 'state', 'recon'), CPU),
  'RECON, 32x32 pixels, cpu': (('cpu', 'recon'), CPU),
  'DA-DAC, 32x32 pixels, cpu': (('cpu', 'dadac'), CPU),
  'plain clone, vectors, cpu': (('cpu', 'state', 'bc_raw'), CPU),
  'IQ-MPC, vectors, cpu': (('cpu', 'state', 'iqmpc'), CPU),
  'RECON, 64x64 pixels, paper': (('dmc', 'recon'), PAPER),
  'DA-DAC, 64x64 pixels, paper': (('dmc', 'dadac'), PAPER),
  'IQ-MPC, vectors, paper': (('dmc', 'state', 'iqmpc'), PAPER),
}
VECTOR, ACTION = 24, 6  # walker-run's


def bench_policies(argv: list[str]) -> None:
  """CPU time and wall clock per action of policies as load_policy gives them, on one thread."""
  parser = Parser(prog='recon-tf bench policies', description=bench_policies.__doc__)
  what = 'policies of the gallery, exported policies or runs; the gallery if there are none'
  parser.add_argument('policies', nargs='*', metavar='POLICY', help=what)
  parser.add_argument('--actions', type=ranged(int, '[1, inf)'), default=200, help='of each')
  what = (
    'instead: methods and sizes with weights as they begin; POLICY chooses by words, as in paper'
  )
  parser.add_argument('--untrained', action='store_true', help=what)
  what = f"exit with 1 above {CPU:g} ms, {PAPER:g} at the paper's size; planners are free"
  parser.add_argument('--check', action='store_true', help=what)
  args = parser.parse_args(argv)
  cases = chosen(args.policies) if args.untrained else None
  import tensorflow as tf

  from recon_tf.gallery import gallery

  tf.config.threading.set_intra_op_parallelism_threads(1)
  tf.config.threading.set_inter_op_parallelism_threads(1)
  slow, cases = [], cases or dict.fromkeys(args.policies or gallery())
  print(f'{"policy":32}{"method":12}{"ms of CPU time":>16}{"ms":>8}')
  for name, case in cases.items():
    policy, limit = untrained(*case) if case else trained(name)
    cpu, wall = measure(policy, args.actions)
    method = policy.info['method']
    print(f'{name:32}{method:12}{cpu:16.2f}{wall:8.2f}', flush=True)
    slow += [name] if cpu > limit and method not in PLANNERS else []
  if slow and args.check:
    raise UserError(f'bench policies: too slow: {", ".join(slow)}.')


def chosen(words: list[str]) -> dict:
  """The untrained ones whose names hold all of these words."""
  found = {k: v for k, v in UNTRAINED.items() if all(x in k for x in words)}
  if not found:
    raise UserError(f'--untrained: none of {"; ".join(UNTRAINED)} has {" and ".join(words)}.')
  return found


def trained(name: str) -> tuple:
  from recon_tf.policy import load_policy

  return load_policy(name), CPU


def untrained(presets: tuple[str, ...], limit: float) -> tuple:
  """A policy of this method and size that has learned nothing."""
  from recon_tf.common.config import load_config
  from recon_tf.common.spaces import Spaces
  from recon_tf.policy import make_agent, policy_of

  config = load_config(*presets)
  shapes = {'vector': (VECTOR,)}
  if config.env.render:
    shapes['image'] = (*config.env.size, 3)
  low, high = (-1.0,) * ACTION, (1.0,) * ACTION
  spaces = Spaces(shapes, (ACTION,), 'float32', low, high, {})
  return policy_of(make_agent(config, spaces), spaces, {'method': config.method}), limit


def measure(policy, actions: int) -> tuple[float, float]:
  """The medians of CPU time and wall clock in milliseconds."""
  import numpy as np

  rng = np.random.default_rng(0)
  shapes = {k: policy.spaces.observations[k] for k in policy.inputs}
  draw = lambda x: rng.integers(0, 256, x, np.uint8) if len(x) == 3 else rng.normal(size=x)
  times = []
  for _ in range(actions + 10):  # the first ones warm up
    obs = {k: draw(v) for k, v in shapes.items()}
    before = time.process_time(), time.perf_counter()
    policy.act(obs)
    times.append((time.process_time() - before[0], time.perf_counter() - before[1]))
  return tuple(1000 * statistics.median(x) for x in zip(*times[10:], strict=True))


BENCHMARKS = {'policies': bench_policies}
