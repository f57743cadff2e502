"""Says what a training would learn from what, and trains nothing; takes the flags of train."""

from recon_tf import common


def main() -> None:
  configs = common.Flags(about=__doc__).parse_tasks()
  if not configs:
    raise common.UserError('no task: add a suite, as in --configs maze cpu, or --task NAME.')
  from recon_tf import loop  # late: --help and bad flags answer at once

  for config in configs:
    print(loop.check(config))
