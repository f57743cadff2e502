"""Trains on one task, or on the tasks of the chosen suites one after the other."""

from recon_tf import common
from recon_tf.common import cache


def main() -> None:
  cache.use_compilation_cache()
  config = common.Flags(about=__doc__).parse()
  tasks = [config.task] if config.task else list(config.tasks)
  if not tasks:
    raise common.UserError('no task: add a suite, as in --configs maze cpu, or --task NAME.')
  from recon_tf import loop  # late: --help and bad flags answer at once

  for task in tasks:
    result = loop.train(config.update(task=task))
    name = 'success' if 'success' in result else 'return'
    where = loop.run_folder(config.update(task=task))
    print(f'{task}: {name} {result[name]:.3f} over {config.eval_final} episodes. Run: {where}')
