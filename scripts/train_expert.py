"""Trains the state-based SAC expert of a DMC task and keeps its actor as a small .npz file."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent.parent))

from recon_tf.__main__ import start

if __name__ == '__main__':
  start('train_expert')
