"""Kills, signals, damaged files and bad input against real training runs; prints a table."""

import os

from recon_tf import common

FLAGS = {
  'kills': (100, 'kill points, spread over a run; more than there are means every one'),
  'only': ('', 'one section: kills, signals, files, flags, disk, starts or long'),
  'long': (0, 'steps of a run whose memory and open files are watched; 0 for none'),
  'keep': ('', 'folder for the runs; empty uses a temporary one'),
}


def main() -> None:
  config, own = common.Flags(about=__doc__).parse(extra=FLAGS)
  os.environ['RECON_XLA_CACHE'] = ''
