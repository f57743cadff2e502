"""Builds a page from the runs in a folder: curves, table, traces, videos, commands, versions."""

import pathlib

from recon_tf import common
from recon_tf.analysis.report.page import write_report
from recon_tf.analysis.runs import ARCHIVE, find_runs
from recon_tf.common.arguments import Parser


def main() -> None:
  parser = Parser(description=__doc__)
  parser.add_argument('logdir', help='a folder with runs at any depth, a run, or an archive')
  parser.add_argument('--out', default='', help='where to write; LOGDIR/report if not given')
  args = parser.parse_args()
  runs = find_runs(args.logdir)
  logdir = pathlib.Path(args.logdir)
  beside = logdir if logdir.is_dir() else logdir.parent  # of an archive
  folder = pathlib.Path(args.out or beside / 'report')
  try:
    folder.mkdir(parents=True, exist_ok=True)
    path = write_report(runs, folder, f'recon_tf: {logdir.resolve().name.removesuffix(ARCHIVE)}')
  except OSError as error:
    raise common.UserError(f"Cannot write to '{folder}': {error.strerror}; set --out.") from error
  print(
    f'{len(runs)} run{"s" if len(runs) > 1 else ""}: {path} ({path.stat().st_size / 1e6:.1f} MB)'
  )
