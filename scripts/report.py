"""Builds a page from the runs in a folder: curves, table, traces, videos, commands, versions."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent.parent))

from recon_tf.__main__ import start

if __name__ == '__main__':
  start('report')
