"""Trains on one task, or on the tasks of the chosen suites one after the other."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent.parent))

from recon_tf.__main__ import start

if __name__ == '__main__':
  start('train')
