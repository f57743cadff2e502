"""Diagnoses runs: prediction gap, recoverability, acquisition gain; or the stages 1 to 5."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent.parent))

from recon_tf.__main__ import start

if __name__ == '__main__':
  start('diagnose')
