"""Milliseconds per action of trained policies; bench.py hands its flags on to here."""

import statistics
import time

from recon_tf.common.arguments import Parser, ranged
from recon_tf.common.errors import UserError

TARGET = 3.0  # milliseconds per action at cpu size on one core, checked by --check


def bench_policies(argv: list[str]) -> None:
  """CPU time per action of policies as load_policy gives them, on one thread."""
  parser = Parser(prog='recon-tf bench policies', description=bench_policies.__doc__)
  what = 'policies of the gallery, exported policies or runs; the gallery if there are none'
  parser.add_argument('policies', nargs='*', metavar='POLICY', help=what)
  parser.add_argument('--actions', type=ranged(int, '[1, inf)'), default=200, help='of each')
  parser.add_argument('--check', action='store_true', help=f'exit with 1 above {TARGET:g} ms')
  args = parser.parse_args(argv)
  import tensorflow as tf

  from recon_tf.gallery import gallery

  tf.config.threading.set_intra_op_parallelism_threads(1)
  tf.config.threading.set_inter_op_parallelism_threads(1)
  slow = []
  print(f'{"policy":32}{"method":12}{"ms of CPU time":>16}{"ms":>8}')
  for name in args.policies or gallery():
    info, cpu, wall = measure(name, args.actions)
    print(f'{name:32}{info["method"]:12}{cpu:16.2f}{wall:8.2f}', flush=True)
    slow += [name] if cpu > TARGET else []
  if slow and args.check:
    raise UserError(f'bench policies: above {TARGET:g} ms: {", ".join(slow)}.')


def measure(name: str, actions: int) -> tuple[dict, float, float]:
  """What it is, and the medians of CPU time and wall clock in milliseconds."""
  import numpy as np

  from recon_tf.policy import load_policy

  policy, rng = load_policy(name), np.random.default_rng(0)
  shapes = {k: policy.spaces.observations[k] for k in policy.inputs}
  draw = lambda x: rng.integers(0, 256, x, np.uint8) if len(x) == 3 else rng.normal(size=x)
  times = []
  for _ in range(actions + 10):  # the first ones warm up
    obs = {k: draw(v) for k, v in shapes.items()}
    before = time.process_time(), time.perf_counter()
    policy.act(obs)
    times.append((time.process_time() - before[0], time.perf_counter() - before[1]))
  return policy.info, *(1000 * statistics.median(x) for x in zip(*times[10:], strict=True))


BENCHMARKS = {'policies': bench_policies}
