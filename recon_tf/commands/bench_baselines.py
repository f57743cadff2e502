"""Speed of DA-DAC and IQ-MPC; bench.py hands its flags on to here."""

import pathlib
import statistics
import tempfile
from collections.abc import Callable

import numpy as np
from gymnasium.spaces import Box

from recon_tf.commands import bench_train
from recon_tf.common import Config, Flags, cache
from recon_tf.common.config import apply_presets

METHODS = ('dadac', 'iqmpc')
EXTRA = {k: bench_train.EXTRA[k] for k in ('rounds', 'seconds', 'check')}

# Targets of the project, checked by --check: name → limit that is to be reached, by size.
TARGETS = {
  'paper': {'dadac': 0.4, 'iqmpc': 0.4, 'planner': 0.4},
  'cpu': {'plans': 20.0},
}


def bench_baselines(argv: list[str]) -> None:
  """Updates of DA-DAC and IQ-MPC and IQ-MPC's planner against a matrix product, in turn."""
  config, own = Flags(about=bench_baselines.__doc__).parse(argv, extra=EXTRA)
  cache.use_compilation_cache('bench')
  from recon_tf.preparation import prepare_tensorflow

  prepare_tensorflow(config)
  loops, flops = {'gemm': bench_train.make_gemm()}, {}
  with tempfile.TemporaryDirectory() as folder:
    for name in METHODS:
      method = apply_presets(config, [name])
      sources = [bench_train.make_replay(pathlib.Path(folder) / name, method)] * 2
      data = bench_train.sample(sources, method, 0)
      agent = make_agent(method)
      loops[name] = lambda agent=agent, data=data: bench_train.update(agent, data)
      flops[name] = count_update(name, method)
    loops['planner'], flops['planner'] = make_planner(agent, data[0]), count_plan(method, agent)
    times = bench_train.alternate(loops, own.rounds, own.seconds)
  results = {name: summarize(times[name], times['gemm'], flops[name]) for name in flops}
  report(results, times['gemm'])
  bench_train.conclude(check(bench_train.size_of(config), results), own.check)


def make_agent(config: Config):
  from recon_tf.make_agent import make_agent

  return make_agent(config, spaces(config), {'action': Box(-1, 1, (bench_train.ACTION,))})


def spaces(config: Config) -> dict[str, Box]:
  if config.env.render:
    return {'image': Box(0, 255, (*config.env.size, 3), np.uint8)}
  return {'vector': Box(-9, 9, (bench_train.VECTOR,), np.float32)}


def make_planner(agent, data: dict) -> Callable[[], None]:
  """A decision for one environment in the middle of an episode, observation to action."""
  obs = {k: v[:1, 0] for k, v in data.items() if k in (*agent.model.keys, 'is_first')}
  obs['is_first'] = np.zeros(1, bool)
  state = agent.policy(obs)[1]
  return lambda: agent.policy(obs, state)


# Floating-point operations


def count_update(name: str, config: Config) -> int:
  from recon_tf.perf import iqmpc_flops

  shapes = {k: v.shape for k, v in spaces(config).items()}
  count = {'dadac': count_dadac, 'iqmpc': iqmpc_flops.count_update}[name]
  return sum(count(config, shapes, bench_train.ACTION).values())


def count_plan(config: Config, agent) -> int:
  from recon_tf.perf import iqmpc_flops

  shapes = {k: v.shape for k, v in spaces(config).items()}
  return iqmpc_flops.count_plan(config, shapes, bench_train.ACTION, agent._iterations)


def count_dadac(config: Config, shapes: dict[str, tuple], action: int) -> dict[str, int]:
  """An update of DA-DAC by part, with its share of the actor's; rules as in perf/flops.py."""
  from recon_tf.perf.flops import FROZEN, LEARNED, layers, on_data
  from recon_tf.perf.iqmpc_flops import conv_products

  settings, rows = config.dadac, config.dadac.batch
  if config.env.render:
    size, _, channels = shapes['image']
    convs = [(3, stride) for stride in settings.strides]
    encoder = conv_products(size, settings.stack * channels, settings.channels, convs)
    for stride in settings.strides:
      size = (size - 3) // stride + 1
    units = size**2 * settings.channels
  else:
    encoder, units = layers(shapes['vector'][0], settings.mlp_layers), settings.mlp_layers[-1]
  head, inputs = units * settings.features, settings.features + action
  actor = [head, *layers(settings.features, [*settings.layers, 2 * action])]
  critic, disc = (layers(inputs, [*x, 1]) for x in (settings.layers, settings.disc_layers))
  both = head + 2 * sum(critic)  # the projection and two critics on it
  targets = 2 * rows * (sum(actor) + both)
  # The slope of D takes a forward and a backward pass, its gradient as many products again.
  judged = rows * (2 * on_data([head, *disc]) + head + sum(disc) + 4 * sum(disc))
  moved = (
    on_data(actor) + head + 2 * (FROZEN * sum(critic) - settings.features * settings.layers[0])
  )
  counts = {
    'encoder': rows * (2 * on_data(encoder) + 5 * sum(encoder))
    + rows * sum(encoder) // settings.every,
    'critics': 2 * rows * LEARNED * both + targets + rows * both,
    'disc': judged,
    'actor': rows * moved // settings.every,
  }
  return {k: 2 * v for k, v in counts.items()}


# Results


def summarize(times: list, gemm: list, flops: int) -> dict[str, float]:
  """Medians over the rounds, whose blocks share the machine's load."""
  product = 2 * bench_train.GEMM**3
  share = lambda clock: statistics.median(
    (flops / x[clock]) / (product / y[clock]) for x, y in zip(times, gemm, strict=True)
  )
  wall, cpu = (statistics.median(x[clock] for x in times) for clock in (0, 1))
  return {
    'rate': 1 / wall,
    'cpu_s': cpu,
    'gflop': flops / 1e9,
    'gflops': flops / wall / 1e9,
    'share_wall': share(0),
    'share': share(1),
  }


def report(results: dict[str, dict], gemm: list) -> None:
  product = 2 * bench_train.GEMM**3
  print(
    f'GEMM                    {product / statistics.median(x[0] for x in gemm) / 1e9:.1f} GFLOPS'
  )
  names = {'dadac': 'DA-DAC updates/s', 'iqmpc': 'IQ-MPC updates/s', 'planner': 'IQ-MPC plans/s'}
  for name, r in results.items():
    print(
      f'{names[name]:24}{r["rate"]:.2f} ({r["cpu_s"]:.3f} s of CPU time each); '
      f'{r["gflop"]:.2f} GFLOP at {r["gflops"]:.1f} GFLOPS, {r["share_wall"]:.0%} of the GEMM by '
      f'wall clock, {r["share"]:.0%} by CPU time'
    )


def check(size: str, results: dict[str, dict]) -> list[str]:
  """The targets that were missed; they hold for two known sizes."""
  found = {**{k: v['share'] for k, v in results.items()}, 'plans': results['planner']['rate']}
  targets = TARGETS.get(size, {})
  return [f'{k} {found[k]:.2f} (wanted {v})' for k, v in targets.items() if found[k] < v]


BENCHMARKS = {'baselines': bench_baselines}
