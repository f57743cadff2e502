"""Speed and sizes, as ratios measured in one run: bench.py envs|train|params|baselines"""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent.parent))

from recon_tf.__main__ import start

if __name__ == '__main__':
  start('bench')
