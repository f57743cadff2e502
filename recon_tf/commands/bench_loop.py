"""A whole run of a config, thrown away afterwards: where its wall time goes."""

import os
import tempfile
import time

from recon_tf.common import Config, Flags, UserError, cache


def bench_loop(argv: list[str]) -> None:
  """Trains one task in a folder of its own and says how long each kind of work took.

  All config keys are flags; --logdir is not used. Demonstrations are made before the clock starts.
  """
  config = Flags(about=bench_loop.__doc__).parse(argv)
  if not config.task or config.offline:
    raise UserError('bench loop trains one task online: name it with --task, without --offline.')
  if config.jit and not config.eager:
    cache.use_compilation_cache()  # as a real run has it
  with tempfile.TemporaryDirectory() as folder:
    print('\n'.join(report(*measure(config.update(logdir=folder)))))


def measure(config: Config) -> tuple[dict[str, float], dict[str, int], float, float]:
  """Seconds and calls by kind of work, then all seconds, and those of CPU time with workers."""
  from recon_tf.common.folders import run_folder
  from recon_tf.loop import Run
  from recon_tf.perf.shares import Shares
  from recon_tf.preparation import load_demos, prepare_tensorflow

  prepare_tensorflow(config)
  load_demos(config).close()
  start, before = time.perf_counter(), cpu_seconds()
  run = Run(config, run_folder(config))
  try:
    shares = Shares(run)
    shares.totals.seconds['starting'] = time.perf_counter() - start
    run.pretrain()
    run.interact()
    run.finish()
  finally:
    run.close()  # its workers end here, and their CPU time counts
  totals = shares.totals
  return totals.seconds, totals.calls, time.perf_counter() - start, cpu_seconds() - before


def cpu_seconds() -> float:
  times = os.times()
  return times.user + times.system + times.children_user + times.children_system


def report(seconds: dict, calls: dict, wall: float, cpu: float) -> list[str]:
  rest = wall - sum(seconds.values())
  rows = sorted(seconds.items(), key=lambda x: -x[1])
  line = lambda kind, value: f'{kind:28}{value:9.2f} s {value / wall:7.1%}  {calls.get(kind, "")}'
  return [
    *(line(kind, value) for kind, value in rows),
    line('rest', rest),
    f'{"all":28}{wall:9.2f} s, {cpu:.1f} s of CPU time: {cpu / wall:.2f} cores busy',
  ]


BENCHMARKS = {'loop': bench_loop}
