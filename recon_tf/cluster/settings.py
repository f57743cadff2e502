"""How many runs at once, where, and what each of them takes."""

import argparse
import dataclasses
import os

from recon_tf.common.arguments import ranged
from recon_tf.common.errors import UserError


@dataclasses.dataclass(frozen=True)
class Settings:
  """The flags that every command with jobs for a cluster has."""

  workers: int = 0  # at once on this machine; 0 for as many as fit
  address: str = ''  # of an existing cluster; empty starts Ray here
  cpus: float = 1
  gpus: float = 0
  memory: float = 0  # GB
  retries: int = 2

  @property
  def local_cpus(self) -> float:
    """What Ray may hand out when it is started here: tasks wait for a share of these."""
    return self.workers * self.cpus if self.workers else cores()

  @property
  def request(self) -> dict[str, float]:
    """What one run takes, by Ray's names."""
    amounts = {'CPU': self.cpus, 'GPU': self.gpus, 'memory': self.memory * 1e9}
    return {k: v for k, v in amounts.items() if v}


def cores() -> int:
  """Of this machine."""
  return os.cpu_count() or 1


def add_flags(parser: argparse.ArgumentParser, workers: int, least: int = 0) -> None:
  own, add = Settings(), parser.add_argument
  count, number = ranged(int, '[0, inf)'), ranged(float, '[0, inf)')
  help_text = 'runs at once on this machine, 1: one after the other without Ray'
  help_text += ', 0: as many as fit' if not least else ''
  add('--workers', type=ranged(int, f'[{least}, inf)'), default=workers, help=help_text)
  add('--address', default='', help='of a Ray cluster, as HOST:6379 or auto; empty: this machine')
  add('--cpus', type=number, default=own.cpus, help='CPUs per run')
  add('--gpus', type=number, default=own.gpus, help='GPUs per run, also a fraction such as 0.25')
  add('--memory', type=number, default=own.memory, help='GB of memory per run, 0: not counted')
  add('--retries', type=count, default=own.retries, help='new starts of a run that failed')


def read_flags(args: argparse.Namespace) -> Settings:
  settings = Settings(**{x.name: getattr(args, x.name) for x in dataclasses.fields(Settings)})
  if not settings.cpus and not settings.gpus:
    raise UserError('--cpus and --gpus are both 0; then all runs would start at once: set one.')
  if settings.gpus > 1 and settings.gpus % 1:
    raise UserError(f'--gpus is {settings.gpus:g}; above 1 it has to be a whole number.')
  return settings
