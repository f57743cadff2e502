"""Writes the outcome of a comparison from its run folders: CSV, JSON, figures and README.md."""

import argparse
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parent.parent))

from recon_tf import common
from recon_tf.analysis.outcome import write_outcome
from recon_tf.analysis.runs import find_runs


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('logdir', help='the folder with the runs of the comparison')
  parser.add_argument('--out', default='results', help='where to write; its notes.md is included')
  args = parser.parse_args()
  runs = find_runs(args.logdir)
  logdir = pathlib.Path(args.logdir)
  shown = logdir.name if logdir.is_absolute() else logdir.as_posix()  # no path of this machine
  try:
    path = write_outcome(runs, pathlib.Path(args.out), shown)
  except OSError as error:
    raise common.UserError(f"Cannot write '{args.out}': {error.strerror}; set --out.") from error
  print(f'{len(runs)} runs: {path}')


if __name__ == '__main__':
  common.run(main)
