"""Each part of an update against the products that it needs, at the speed of their shapes."""

import pathlib
import statistics
import tempfile

from recon_tf.commands.bench_train import (
  GEMM,
  alternate,
  make_agent,
  make_gemm,
  make_replay,
  sample,
  update,
)
from recon_tf.common import Config, Flags, UserError, cache

EXTRA = {
  'rounds': (5, '[1, inf) alternating blocks of each part'),
  'seconds': (0.5, '(0, inf) length of a block'),
  'whole': (True, 'measure the whole update too'),
  'shapes': (12, '[0, inf) of the products to list, those that take longest'),
}


def bench_parts(argv: list[str]) -> None:
  """CPU time of each part of an update, and of its products alone, shape by shape.

  Every part is a program of its own here, so that products which parts share in an update are
  computed in each. Products are counted in the unrolled graph, the picking of heads included.
  """
  config, own = Flags(about=bench_parts.__doc__).parse(argv, extra=EXTRA)
  if config.behavior != 'imitation' or config.eager or config.devices > 1:
    raise UserError('bench parts needs --behavior imitation --eager False --devices 1.')
  cache.use_compilation_cache('bench')
  times, needed, speeds = measure(config, own)
  print('\n'.join(report(times, needed, speeds)))
  print('\n'.join(list_shapes(needed['whole update'], speeds, own.shapes)))


def measure(config: Config, own) -> tuple[dict, dict, dict]:
  """Seconds of each part, its products, and seconds of each product."""
  from recon_tf.nn import tfutils
  from recon_tf.perf.parts import PARTS, bound, noise, prepare
  from recon_tf.perf.products import products, seconds
  from recon_tf.preparation import prepare_tensorflow

  prepare_tensorflow(config)
  with tempfile.TemporaryDirectory() as folder:
    sources = make_replay(pathlib.Path(folder), config), make_replay(None, config)
    data = sample(sources, config, 0)
  agent = make_agent(config)
  programs = prepare(agent, *data, lambda fn: tfutils.function(fn, config.jit))
  # Only looked at: without loops and pieces every product is seen.
  looked = make_agent(config.update(unroll=True, piece=0, jit=False))
  needed = {k: products(bound(PARTS[k], looked), x) for k, (_, x) in programs.items()}
  needed['whole update'] = sum((needed[k] for k in UPDATE if k in needed), type(needed['main'])())
  print(f'{len(needed["whole update"])} shapes of products', flush=True)
  loops = {k: lambda fn=fn, x=x: fn(*x) for k, (fn, x) in programs.items()}
  loops['noise'] = noise(agent, *data)
  if own.whole:
    loops['whole update'] = lambda: update(agent, data)
  loops['GEMM'] = make_gemm()
  times = alternate(loops, own.rounds, own.seconds)
  times = {k: statistics.median(cpu for _, cpu in x) for k, x in times.items()}
  every = sum(needed.values(), type(needed['main'])())
  return times, needed, {x: seconds(x, own.rounds) for x in every}


UPDATE = ('world model', 'main', 'discriminator', 'explorer and gate')


def report(times: dict, needed: dict, speeds: dict) -> list[str]:
  large = times['GEMM'] / (2 * GEMM**3)
  head = ('GFLOP', 'ms', 'large GEMM', 'own shapes', 'ratio')
  lines = [f'{"part":20}' + ''.join(f'{x:>12}' for x in head)]
  for name, found in ((k, v) for k, v in needed.items() if k in times):
    flops = sum(x.flops * n for x, n in found.items())
    alone = sum(speeds[x] * n for x, n in found.items())
    row = (flops / 1e9, 1e3 * times[name], 1e3 * flops * large, 1e3 * alone)
    lines.append(f'{name:20}' + ''.join(f'{x:12.2f}' for x in (*row, times[name] / alone)))
  lines.append(f'{"noise, no products":20}{0:12.2f}{1e3 * times["noise"]:12.2f}')
  lines.append(f'GEMM of {GEMM}: {1e-9 / large:.1f} GFLOPS of CPU time; all times are CPU time')
  return lines


def list_shapes(found: dict, speeds: dict, number: int) -> list[str]:
  """Where the products of an update spend their time."""
  if not number:
    return []
  total = sum(speeds[x] * n for x, n in found.items())
  lines = [f'{"product":52}{"times":>7}{"GFLOPS":>9}{"share":>8}']
  for x in sorted(found, key=lambda x: -speeds[x] * found[x])[:number]:
    shapes = ' '.join('x'.join(map(str, y)) for y in (x.first, x.second))
    share, speed = speeds[x] * found[x] / total, x.flops / speeds[x] / 1e9
    lines.append(f'{x.kind + " " + shapes:52}{found[x]:7}{speed:9.1f}{share:8.1%}')
  return lines


BENCHMARKS = {'parts': bench_parts}
