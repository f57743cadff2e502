"""Makes, imports, checks and previews demonstrations; see --help."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

from recon_tf import common
from recon_tf.demos.__main__ import main

if __name__ == '__main__':
  common.run(main)
