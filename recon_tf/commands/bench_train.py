"""Sizes and speed of the update; bench.py hands its flags on to here."""

import json
import pathlib
import resource
import statistics
import tempfile
import time
from collections.abc import Callable

import numpy as np
from gymnasium.spaces import Box

from recon_tf.common import Config, Flags, Replay, UserError, cache, load_config

ACTION, VECTOR = 6, 8  # sizes of the action and of a vector observation
GEMM = 2048  # rows and columns of the square product
EPISODES = 10  # in the replay, and as many demonstrations

# Targets of the project, checked by --check: name → (limit, whether more is better).
TARGETS = {'ratio': (1.7, False), 'loading': (0.05, False), 'new_programs': (0, False)}
SIZE_TARGETS = {
  'paper': {'gemm_share': (0.5, True), 'memory_gb': (6.0, False)},
  'cpu': {'updates': (3.0, True), 'memory_gb': (2.5, False), 'compile_s': (60.0, False)},
}
EXTRA = {
  'rounds': (5, '[1, inf) alternating blocks of each update'),
  'seconds': (2.0, '(0, inf) length of a block'),
  'cold': (False, 'compile anew instead of using programs of earlier runs'),
  'check': (False, 'exit with 1 if a target is missed'),
}


def bench_params(argv: list[str]) -> None:
  """Stored parameters for a 6-dim action, as one JSON object."""
  config = Flags(about=bench_params.__doc__).parse(argv)
  sizes = make_agent(config.update({'explorer.enabled': True})).parameters()
  total = sum(sizes.values())
  cmil = total - sizes['explorer']
  print(json.dumps({'world_model': sizes['world_model'], 'cmil': cmil, 'recon': total}))


def bench_train(argv: list[str]) -> None:
  """RECON and CMIL updates of one config in turn, on random data of the config's sizes."""
  config, own = Flags(about=bench_train.__doc__).parse(argv, extra=EXTRA)
  # Programs of its own: their number counts compilations, also those inside of a traced graph.
  kept = None if own.cold else cache.use_compilation_cache('bench')
  with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    programs = kept or cache.keep_programs(folder / 'programs')
    results = measure(config, own, folder / 'episodes', programs)
  report(results)
  conclude(check(config, results), own.check)


def measure(config: Config, own, folder: pathlib.Path, programs: pathlib.Path) -> dict:
  """All numbers of one run; wall clock unless a name says cpu."""
  from recon_tf.perf.flops import count_flops
  from recon_tf.preparation import prepare_tensorflow

  prepare_tensorflow(config)
  sources = make_replay(folder, config), make_replay(None, config)
  data = sample(sources, config, 0)
  recon = make_agent(config.update({'explorer.enabled': True}))
  first, compile_cpu = clock(lambda: update(recon, data))
  second, _ = clock(lambda: update(recon, data))
  # CMIL has not been built yet: this is the memory of a run.
  memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
  print(f'RECON compiled in {first - second:.1f} s ({compile_cpu:.1f} s of CPU time)', flush=True)
  cmil = make_agent(config.update({'explorer.enabled': False}))
  cmil_first, _ = clock(lambda: update(cmil, data))
  print(f'CMIL compiled in {cmil_first:.1f} s', flush=True)
  numbers = iter(range(1, 10**9))
  loops = {
    'recon': lambda: update(recon, data),
    'cmil': lambda: update(cmil, data),
    'gemm': make_gemm(),
    'loading': lambda: load(recon, sample(sources, config, next(numbers))),
  }
  before = count_programs(programs, recon, cmil)
  times = alternate(loops, own.rounds, own.seconds)
  flops = count_flops(config.update({'explorer.enabled': True}), recon._shapes, ACTION)
  return {
    **summarize(times, sum(flops.values())),
    'gflop': {k: v / 1e9 for k, v in flops.items()},
    'compile_s': first - second,
    'cold': own.cold,
    'memory_gb': memory / 1e9,
    'new_programs': count_programs(programs, recon, cmil) - before,
  }


def summarize(times: dict[str, list], flops: int) -> dict[str, float]:
  """Medians over the rounds, whose blocks share the machine's load."""
  wall, cpu = ({k: [x[i] for x in v] for k, v in times.items()} for i in (0, 1))
  middle = lambda fn, clock, *names: statistics.median(
    fn(*x) for x in zip(*(clock[k] for k in names), strict=True)
  )
  product = 2 * GEMM**3
  share = lambda recon, gemm: (flops / recon) / (product / gemm)
  return {
    'updates': 1 / statistics.median(wall['recon']),
    'cmil_updates': 1 / statistics.median(wall['cmil']),
    'cpu_s': statistics.median(cpu['recon']),
    'cmil_cpu_s': statistics.median(cpu['cmil']),
    'ratio_wall': middle(lambda x, y: x / y, wall, 'recon', 'cmil'),
    'ratio': middle(lambda x, y: x / y, cpu, 'recon', 'cmil'),
    'gemm_gflops': product / statistics.median(wall['gemm']) / 1e9,
    'gflops': flops / statistics.median(wall['recon']) / 1e9,
    'gemm_share_wall': middle(share, wall, 'recon', 'gemm'),
    'gemm_share': middle(share, cpu, 'recon', 'gemm'),
    'loading': middle(lambda x, y: x / (x + y), cpu, 'loading', 'recon'),
    'loading_ms': 1000 * statistics.median(cpu['loading']),
  }


def report(results: dict) -> None:
  r = results
  parts = ', '.join(f'{k} {v:.1f}' for k, v in r['gflop'].items())
  how = 'without a cache' if r['cold'] else 'a warm cache makes it short; --cold compiles anew'
  print(
    f'compile time            {r["compile_s"]:.1f} s ({how})\n'
    f'RECON updates/s         {r["updates"]:.2f} ({r["cpu_s"]:.3f} s of CPU time each)\n'
    f'CMIL updates/s          {r["cmil_updates"]:.2f} ({r["cmil_cpu_s"]:.3f} s of CPU time each)\n'
    f'RECON / CMIL            {r["ratio_wall"]:.2f} by wall clock, {r["ratio"]:.2f} by CPU time\n'
    f'GEMM                    {r["gemm_gflops"]:.1f} GFLOPS\n'
    f'RECON update            {sum(r["gflop"].values()):.1f} GFLOP ({parts})\n'
    f'achieved                {r["gflops"]:.1f} GFLOPS, {r["gemm_share_wall"]:.0%} of the GEMM by '
    f'wall clock, {r["gemm_share"]:.0%} by CPU time\n'
    f'peak memory             {r["memory_gb"]:.2f} GB\n'
    f'data loading            {r["loading"]:.1%} of an update ({r["loading_ms"]:.1f} ms)\n'
    f'new compilations        {r["new_programs"]} after the first update'
  )


def check(config: Config, results: dict) -> list[str]:
  """The targets that were missed; those that depend on the size hold for two sizes."""
  targets = {**TARGETS, **SIZE_TARGETS.get(size_of(config), {})}
  if not results['cold']:
    targets.pop('compile_s', None)  # it is for the first start
  missed = []
  for name, (limit, more) in targets.items():
    value = results[name]
    if value < limit if more else value > limit:
      missed.append(f'{name} {value:.3g} (target {"≥" if more else "≤"} {limit})')
  return missed


def conclude(missed: list[str], strict: bool) -> None:
  print(f'targets missed: {", ".join(missed) or "none"}')
  if missed and strict:
    raise UserError(f'bench train: targets missed: {", ".join(missed)}.')


def size_of(config: Config) -> str:
  """Which known size this is, by the keys that make up the work from pixels."""
  keys = ('encoder', 'decoder', 'rssm', 'actor', 'critic', 'replay', 'horizon', 'imag_starts')
  for name, presets in (('paper', ()), ('cpu', ('cpu',))):
    known = load_config(*presets)
    if all(config[k] == known[k] for k in keys):
      return name
  return ''


# What is measured


def make_agent(config: Config):
  """Its updates imagine from the first one on: those before are not what is measured."""
  from recon_tf.agent import Agent

  config = config.update({'imagine_after': 0.0})
  obs = {'vector': Box(-9, 9, (VECTOR,), np.float32)}
  if config.env.render:
    obs['image'] = Box(0, 255, (*config.env.size, 3), np.uint8)
  return Agent(config, obs, {'action': Box(-1, 1, (ACTION,), np.float32)})


def make_replay(folder: pathlib.Path | None, config: Config) -> Replay:
  """Random episodes as long as a full one."""
  replay, rows = Replay(folder, memory=config.replay.memory), (config.windows.full or 500) + 1
  for number in range(EPISODES):
    rng = np.random.default_rng(number)
    episode = {
      'vector': rng.normal(size=(rows, VECTOR)).astype(np.float32),
      'action': rng.uniform(-1, 1, (rows, ACTION)).astype(np.float32),
      'reward': np.zeros(rows, np.float32),
      **{k: np.zeros(rows, bool) for k in ('is_first', 'is_last', 'is_terminal')},
    }
    episode['is_first'][0] = episode['is_last'][-1] = True
    if config.env.render:
      episode['image'] = rng.integers(0, 256, (rows, *config.env.size, 3), np.uint8)
    replay.add_episode(episode)
  return replay


def sample(sources: tuple[Replay, Replay], config: Config, number: int) -> list[dict]:
  from recon_tf.make_agent import sequences

  return [
    source.sample(size, config.replay.length, number)
    for source, size in zip(sources, sequences(config), strict=True)
  ]


def load(agent, data: list[dict]) -> None:
  for batch in data:
    agent._inputs(batch)


def update(agent, data: list[dict]) -> None:
  """One update, over when its numbers are there."""
  for value in agent.train(*data).values():
    value.numpy()


def make_gemm() -> Callable[[], None]:
  import tensorflow as tf

  x = tf.random.stateless_normal([GEMM, GEMM], [0, 0])
  return lambda: tf.linalg.matmul(x, x).numpy()


def count_programs(folder: pathlib.Path, *agents) -> int:
  """XLA programs compiled so far, and traced graphs."""
  count = 'experimental_get_tracing_count'  # eager functions have none
  graphs = [x for agent in agents for x in (agent._train, agent._model_step, agent._behavior_step)]
  traced = [getattr(x, count)() for x in graphs if hasattr(x, count)]
  return sum(traced) + len(list(folder.iterdir()))


def alternate(loops: dict[str, Callable], rounds: int, seconds: float) -> dict[str, list]:
  """Seconds per call by wall clock and CPU time, in alternating blocks under the same load."""
  times = {name: [] for name in loops}
  for loop in loops.values():
    loop()
  for _ in range(rounds):
    for name, loop in loops.items():
      times[name].append(block(loop, seconds))
  return times


def block(loop: Callable[[], None], seconds: float) -> tuple[float, float]:
  calls, wall, cpu = 0, time.perf_counter(), time.process_time()
  while not calls or time.perf_counter() - wall < seconds:
    loop()
    calls += 1
  return (time.perf_counter() - wall) / calls, (time.process_time() - cpu) / calls


def clock(fn: Callable[[], None]) -> tuple[float, float]:
  return block(fn, 0)


BENCHMARKS = {'params': bench_params, 'train': bench_train}
