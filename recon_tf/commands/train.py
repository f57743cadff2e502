"""Trains on one task, or on the tasks of the chosen suites one after the other."""

from recon_tf import common
from recon_tf.common import cache


def main() -> None:
  cache.use_compilation_cache()
  configs = common.Flags(about=__doc__).parse_tasks()
  if not configs:
    raise common.UserError('no task: add a suite, as in --configs maze cpu, or --task NAME.')
  from recon_tf import loop  # late: --help and bad flags answer at once

  for config in configs:
    result, where = loop.train(config), loop.run_folder(config)
    if config.offline:
      print(f'{config.task}: learned offline. Run: {where}')
      continue
    name = 'success' if 'success' in result else 'return'
    print(
      f'{config.task}: {name} {result[name]:.3f} over {config.eval_final} episodes. Run: {where}'
    )
