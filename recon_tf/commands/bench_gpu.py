"""What an update would cost a GPU, from the compiled program alone: launches, loops and FLOPs."""

import numpy as np

from recon_tf.commands.bench_train import ACTION, make_agent
from recon_tf.common import Config, Flags
from recon_tf.common.errors import UserError
from recon_tf.perf import hlo

# name → (TFLOPS of float32, GB); TF32 or bfloat16 products are several times as fast on most.
GPUS = {
  'T4': (8.1, 16), 'V100': (15.7, 32), 'RTX 3090': (35.6, 24), 'A100': (19.5, 80),
  'RTX 4090': (82.6, 24), 'H100': (67.0, 80),
}  # fmt: skip
LAUNCH = 5e-6  # seconds from one kernel of a stream to the next, if it is short
EXTRA = {
  'pieces': ([1500, -1], 'values of --piece to compare; -1 is what a GPU of --memory GB chooses'),
  'memory': (16.0, '(0, inf) GB of that GPU; one with more has no more pieces'),
}


def bench_gpu_plan(argv: list[str]) -> None:
  """Sequential steps, loops and kernels of an update, and the time that a GPU needs at least.

  These are counts of the program for the CPU: without a GPU TensorFlow optimises no program for
  one, and lowers only functions without variables. That a GPU's program has about the same kernels
  is assumed. No time here is measured.
  """
  from recon_tf.nn import microbatch

  config, own = Flags(about=bench_gpu_plan.__doc__).parse(argv, extra=EXTRA)
  if not config.jit or config.eager or config.devices > 1:
    raise UserError(
      'bench gpu-plan reads the program of XLA for one device; it needs --jit True --eager False '
      '--devices 1.'
    )
  for piece in own.pieces:
    with microbatch.on_gpu(int(own.memory * 1e9)):
      counts, flops = plan(config.update(piece=piece))
    name = f'{piece} (by memory: {own.memory:g} GB)' if piece == microbatch.AUTO else str(piece)
    print('\n'.join(report(name, counts, flops)), flush=True)


def plan(config: Config) -> tuple[dict[str, hlo.Counts], int]:
  """Counts of each of the two programs of an update, and its FLOPs."""
  from recon_tf.perf.flops import count_flops

  agent = make_agent(config.update({'jit_conv': True}))  # as on a GPU
  flops = count_flops(config, agent._shapes, ACTION)
  return {k: hlo.count(x) for k, x in programs(agent, config)}, sum(flops.values())


def programs(agent, config: Config):
  """The optimised text of the world model's program and of the behaviours'."""
  import tensorflow as tf

  from recon_tf.make_agent import sequences
  from recon_tf.nn.tfutils import Seeds

  data, expert = (agent._inputs(zeros(agent, config, x)) for x in sequences(config))
  seeds = Seeds(tf.constant([0, 0]))
  inputs = data, expert, agent._draw_model(data, expert, seeds)
  text = lambda step, inputs: step.experimental_get_compiler_ir(*inputs)('optimized_hlo')
  yield 'world model', text(agent._model_step, inputs)
  shape = agent._model_step.get_concrete_function(*inputs).structured_outputs[0]
  states = tf.nest.map_structure(lambda x: tf.zeros(x.shape, x.dtype), shape)
  noise = agent._draw_behaviors(data, expert, seeds)
  yield 'behaviours', text(agent._behavior_step, (data, expert, states, noise))


def zeros(agent, config: Config, rows: int) -> dict[str, np.ndarray]:
  """A batch of the right shapes; the program does not depend on the values."""
  lead = (rows, config.replay.length)
  kind = lambda shape: np.uint8 if len(shape) == 3 else np.float32
  batch = {k: np.zeros((*lead, *v), kind(v)) for k, v in agent._shapes.items()}
  flags = {k: np.zeros(lead, bool) for k in ('is_first', 'is_last', 'is_terminal')}
  return {**batch, **flags, 'action': np.zeros((*lead, ACTION), np.float32)}


def report(piece: str, counts: dict[str, hlo.Counts], flops: int) -> list[str]:
  lines = [f'--piece {piece}: {flops / 1e12:.2f} TFLOP']
  for name, x in counts.items():
    lines.append(
      f'  {name:12} {x.kernels:7} kernels, {x.loops:3} loops with {x.trips:5} sequential steps, '
      f'{x.unknown} of them in loops of a length that XLA does not know'
    )
  kernels = sum(x.kernels for x in counts.values())
  lines.append(f'  {"GPU":10}{"launches":>10}{"products":>10}{"at least":>10}   (ms)')
  for name, (speed, _) in GPUS.items():
    launches, products = 1000 * kernels * LAUNCH, 1000 * flops / (speed * 1e12)
    most = max(launches, products)
    lines.append(f'  {name:10}{launches:10.0f}{products:10.0f}{most:10.0f}')
  return lines


BENCHMARKS = {'gpu-plan': bench_gpu_plan}
