"""Keeps small copies of run folders in results/runs and writes their outcome beside them."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent.parent))

from recon_tf.__main__ import start

if __name__ == '__main__':
  start('results')
