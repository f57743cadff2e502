"""Speed and sizes: recon-tf bench envs|train|params|policies|gpu-plan|baselines"""

import argparse
import contextlib
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

from recon_tf import envs
from recon_tf.common import UserError, load_config
from recon_tf.common.arguments import Parser, ranged
from recon_tf.common.errors import nearest

# Targets of the project, checked by --check.
BARE_TARGET = 0.85
SUITE_TARGETS = {'dmc': 5.0, 'metaworld': 5.0}


def bench_envs(args: argparse.Namespace) -> None:
  """Step + render against a bare simulator loop and against the suites' own render paths."""
  tasks = args.tasks or envs.TASKS
  for task in tasks:
    if task not in envs.TASKS:
      raise UserError(f"--tasks: no benchmark for '{task}'.{nearest(task, envs.TASKS)}")
  # CPU time counts all threads, and other programs on the machine do not distort it.
  print('decisions per second of wall clock; ratios by wall clock and by CPU time')
  head = ('ours/s', 'bare/s', 'suite/s', 'ours/bare', '(cpu)', 'ours/suite', '(cpu)')
  print(f'{"task":24}' + ''.join(f'{x:>11}' for x in head))
  missed = []
  for task in tasks:
    with contextlib.ExitStack() as stack:
      loops = [stack.enter_context(process(x, task)) for x in (our_loop, bare_loop, suite_loop)]
      ours, bare, suite = measure(loops, args.rounds, args.seconds)
    rates = [statistics.median(wall for wall, _ in x) for x in (ours, bare, suite)]
    ratios = [*ratio(ours, bare), *ratio(ours, suite)]
    row = ''.join(f'{x:11.0f}' for x in rates) + ''.join(f'{x:11.2f}' for x in ratios)
    print(f'{task:24}{row}', flush=True)
    wanted = SUITE_TARGETS.get(task.partition('_')[0], 0)
    if ratios[1] < BARE_TARGET or ratios[3] < wanted:
      missed.append(task)
  print(f'targets: ours/bare {BARE_TARGET}, ours/suite {SUITE_TARGETS}')
  if missed and args.check:
    raise UserError(f'bench envs: below target: {", ".join(missed)}.')


def measure(loops: list, rounds: int, seconds: float) -> list[list[tuple[float, float]]]:
  """Rates of each loop in alternating short blocks, so that all meet the same load."""
  for loop in loops:
    loop(seconds)
  rates = [[] for _ in loops]
  for _ in range(rounds):
    for loop, results in zip(loops, rates, strict=True):
      results.append(loop(seconds))
  return rates


@contextlib.contextmanager
def process(make_loop: Callable, task: str) -> Iterator[Callable[[float], tuple[float, float]]]:
  """Runs blocks of a loop in a process of its own, which waits while the others run.

  In one process the suites' renderers draw into whichever GL context was used last.
  """
  context = multiprocessing.get_context('spawn')
  ours, theirs = context.Pipe()
  child = context.Process(target=serve, args=(theirs, make_loop, task), daemon=True)
  child.start()
  theirs.close()

  def loop(seconds):
    try:
      ours.send(seconds)
      return ours.recv()
    except (EOFError, BrokenPipeError):
      raise UserError(f'bench envs: the {make_loop.__name__} of {task} failed.') from None

  try:
    yield loop
  finally:
    ours.close()
    child.join()


def serve(pipe, make_loop: Callable, task: str) -> None:
  """Answers each number of seconds with the rates of a block, until the pipe closes."""
  loop = make_loop(task)
  with contextlib.suppress(EOFError):
    while True:
      pipe.send(block(loop, pipe.recv()))


def block(loop: Callable[[], None], seconds: float) -> tuple[float, float]:
  """Calls per second of wall clock and of CPU time, over at least so many seconds."""
  wall, cpu = time.perf_counter(), time.process_time()
  calls = 0
  while not calls or time.perf_counter() - wall < seconds:
    loop()
    calls += 1
  return calls / (time.perf_counter() - wall), calls / (time.process_time() - cpu)


def ratio(ours: list, other: list) -> list[float]:
  """Medians over the rounds, whose blocks share the machine's load."""
  pairs = list(zip(ours, other, strict=True))
  return [statistics.median(x[clock] / y[clock] for x, y in pairs) for clock in (0, 1)]


def our_loop(task: str) -> Callable[[], None]:
  env = envs.make(task)
  rng = np.random.default_rng(0)
  env.reset(0)

  def loop():
    obs = env.step({'action': rng.uniform(-1, 1, env.act_space['action'].shape)})
    if obs['is_last']:
      env.reset(0)

  return loop


def bare_loop(task: str) -> Callable[[], None]:
  """mj_step as often as a decision takes, and one open renderer; nothing else.

  The renderer has no multisampling, shadows or reflections, and MuJoCo's own tessellation.
  """
  import mujoco

  env = envs.make(task, load_config().update({'env.render': False}))
  env.reset(0)
  model, data = env.model, env.data
  model.vis.quality.offsamples = 0
  model.vis.global_.offheight = model.vis.global_.offwidth = 64
  renderer = mujoco.Renderer(model, 64, 64)
  renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False
  renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
  camera = {'dmc': 0, 'metaworld': 'corner4'}.get(task.partition('_')[0])
  if camera is None:
    camera = above(10.2 if task == 'maze_pointmaze' else 6.4)
  steps = env.repeat * env.substeps
  rng = np.random.default_rng(0)

  def loop():
    data.ctrl[:] = rng.uniform(-1, 1, model.nu)
    for _ in range(steps):
      mujoco.mj_step(model, data)
    renderer.update_scene(data, camera)
    renderer.render()

  return loop


def above(distance: float):
  """The mazes' camera: straight down on the origin."""
  import mujoco

  camera = mujoco.MjvCamera()
  camera.distance, camera.azimuth, camera.elevation = distance, 90, -90
  return camera


def suite_loop(task: str) -> Callable[[], None]:
  """The suite as its documentation uses it, with 64x64 images."""
  suite, _, name = task.partition('_')
  return {'dmc': dmc_loop, 'maze': maze_loop, 'metaworld': metaworld_loop}[suite](name)


def dmc_loop(name: str) -> Callable[[], None]:
  from dm_control import suite

  env = suite.load(*name.split('_'))
  rng = np.random.default_rng(0)
  env.reset()

  def loop():
    for _ in range(2):
      env.step(rng.uniform(-1, 1, env.action_spec().shape))
    env.physics.render(64, 64, camera_id=0)

  return loop


def maze_loop(name: str) -> Callable[[], None]:
  import gymnasium

  from recon_tf.envs.gym import register_robotics

  register_robotics()
  env_id = {'umaze': 'PointMaze_UMaze-v3', 'pointmaze': 'PointMaze_Medium-v3'}[name]
  env = gymnasium.make(env_id, render_mode='rgb_array', width=64, height=64, max_episode_steps=-1)
  rng = np.random.default_rng(0)
  env.reset(seed=0)

  def loop():
    env.step(rng.uniform(-1, 1, 2))
    env.render()

  return loop


def metaworld_loop(name: str) -> Callable[[], None]:
  from metaworld.env_dict import ALL_V3_ENVIRONMENTS

  env = ALL_V3_ENVIRONMENTS[f'{name}-v3'](
    render_mode='rgb_array', camera_name='corner4', width=64, height=64
  )
  env._set_task_called, env._freeze_rand_vec, env.seeded_rand_vec = True, False, True
  env.seed(0)
  env.reset()
  rng = np.random.default_rng(0)

  def loop():
    *_, truncated, _ = env.step(rng.uniform(-1, 1, 4))
    env.render()
    if truncated:
      env.reset()

  return loop


def add_envs(parser: argparse.ArgumentParser) -> None:
  parser.add_argument('--tasks', nargs='+', help='tasks to measure, all eight by default')
  parser.add_argument(
    '--rounds', type=ranged(int, '[1, inf)'), default=9, help='alternating blocks of each loop'
  )
  parser.add_argument(
    '--seconds', type=ranged(float, '(0, inf)'), default=0.5, help='length of a block'
  )
  parser.add_argument('--check', action='store_true', help='exit with 1 below the targets')


# name → (function, adds its arguments)
BENCHMARKS = {'envs': (bench_envs, add_envs)}


# These take the flags of the config and import TensorFlow, which must not meet a renderer.
LEARNING = {
  'train': 'RECON and CMIL updates of one config in turn; --help lists the flags',
  'params': 'stored parameters for a 6-dim action as JSON',
  'gpu-plan': 'kernels, loops and FLOPs of the compiled update, and what a GPU needs at least',
  'parts': 'each part of an update against its matrix products, at the speed of their shapes',
  'loop': 'where the wall time of a whole run goes; --help lists the flags',
  'policies': 'milliseconds per action of the gallery, or of other policies',
  'baselines': 'updates of DA-DAC and IQ-MPC, and the planner; --help lists the flags',
}


def main() -> None:
  if sys.argv[1:] and sys.argv[1] in LEARNING:
    from recon_tf.commands import (
      bench_baselines,
      bench_gpu,
      bench_loop,
      bench_parts,
      bench_policies,
      bench_train,
    )

    modules = (bench_train, bench_parts, bench_loop, bench_gpu, bench_baselines, bench_policies)
    benchmarks = {k: v for module in modules for k, v in module.BENCHMARKS.items()}
    return benchmarks[sys.argv[1]](sys.argv[2:])
  parser = Parser(description=__doc__)
  commands = parser.add_subparsers(dest='command', required=True)
  for name, (function, add_arguments) in BENCHMARKS.items():
    add_arguments(commands.add_parser(name, help=function.__doc__))
  for name, meaning in LEARNING.items():
    commands.add_parser(name, help=meaning)
  args = parser.parse_args()
  BENCHMARKS[args.command][0](args)
