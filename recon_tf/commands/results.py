"""Keeps runs small in results/ and writes their outcome there: tables, figures, a page."""

import pathlib

from recon_tf import common
from recon_tf.analysis.archive import CLIPS, archive_runs
from recon_tf.analysis.report.results import summary, write_overview, write_results
from recon_tf.analysis.runs import find_runs, group_runs
from recon_tf.common.arguments import Parser


def main() -> None:
  parser = Parser(description=__doc__)
  parser.add_argument('logdirs', nargs='*', help='folders with runs to add; none writes anew')
  parser.add_argument('--out', default='results', help='where to write; its notes.md is included')
  parser.add_argument(
    '--clips',
    nargs='*',
    default=CLIPS,
    help='methods whose first seed keeps its newest open-loop prediction',
  )
  args = parser.parse_args()
  out = pathlib.Path(args.out)
  try:
    for logdir in map(pathlib.Path, args.logdirs):
      archive_runs(find_runs(logdir), logdir, out, args.clips)
    runs = find_runs(out)
    path = write_results(runs, out)
    page = out.parent / 'README.md'
    written = write_overview(page, summary(group_runs(runs)))
  except OSError as error:
    raise common.UserError(f"Cannot write '{args.out}': {error.strerror}; set --out.") from error
  print(f'{len(runs)} runs: {path}')
  if written:
    print(f'{page}: its table of results is written anew.')
