"""Keeps small copies of run folders in results/runs and writes their outcome beside them."""

import pathlib

from recon_tf import common
from recon_tf.analysis.archive import archive_runs
from recon_tf.analysis.outcome import write_outcome
from recon_tf.analysis.runs import find_runs
from recon_tf.common.arguments import Parser


def main() -> None:
  parser = Parser(description=__doc__)
  parser.add_argument('logdir', nargs='?', help='a folder with runs to add; none writes anew')
  parser.add_argument('--out', default='results', help='where to write; its notes.md is included')
  args = parser.parse_args()
  out = pathlib.Path(args.out)
  try:
    if args.logdir:
      archive_runs(find_runs(args.logdir), pathlib.Path(args.logdir), out / 'runs')
    runs = find_runs(out / 'runs')
    path = write_outcome(runs, out)
  except OSError as error:
    raise common.UserError(f"Cannot write '{args.out}': {error.strerror}; set --out.") from error
  print(f'{len(runs)} runs: {path}')
