"""Makes figures and tables of the paper: the runs and diagnoses that are missing, then drawing."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent.parent))

from recon_tf.__main__ import start

if __name__ == '__main__':
  start('reproduce')
