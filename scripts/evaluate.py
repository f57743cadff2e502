"""Evaluates the deployed policy of runs, clean or under the paper's perturbations."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent.parent))

from recon_tf.__main__ import start

if __name__ == '__main__':
  start('evaluate')
