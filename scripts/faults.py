"""Kills, damaged files and bad input against real training runs; prints a table."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent.parent))

from recon_tf.__main__ import start

if __name__ == '__main__':
  start('faults')
