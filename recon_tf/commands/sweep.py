"""Trains many runs at once, here or on a Ray cluster: tasks x methods x settings x seeds.

All further flags, such as --steps or --logdir, go to every run. The same command goes on where
an earlier one was stopped; finished runs are not trained again.
"""

import pathlib
import signal
import sys

from recon_tf import demos
from recon_tf.cluster import grid, pool, results, settings
from recon_tf.cluster.grid import Point
from recon_tf.common import UserError
from recon_tf.common.arguments import Parser, ranged
from recon_tf.common.jobs import Failure, Job, run_job


def main() -> None:
  parser = Parser(description=__doc__, allow_abbrev=False)
  add = parser.add_argument
  add('--configs', nargs='+', default=[], help='suites and sizes, as of train')
  add('--methods', nargs='+', default=[], help='method presets, such as recon cmil bc')
  add('--grid', nargs='+', default=[], metavar='KEY=V,V', help='settings, as main.alpha=0,1,10')
  add('--seeds', nargs='+', type=ranged(int, '[0, 1000000000]'), default=[0, 1, 2])
  add('--dry', action='store_true', help='print the runs and their commands, train nothing')
  settings.add_flags(parser, workers=0)
  args, flags = parser.parse_known_args()
  own = settings.read_flags(args)
  points = grid.make_points(
    args.configs, args.methods, grid.parse_grid(args.grid), args.seeds, flags
  )
  points = [grid.with_threads(x, own) for x in points]
  states = grid.states(points)
  for point in points:
    print(f'{states[point.name]:12}{point.folder}', flush=True)
  missing = [x for x in points if states[x.name] != 'finished']
  if args.dry:
    print('\n'.join(['', *(x.job.command for x in missing)]))
    return
  signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the runs are ended too
  failures = train(missing, own, points[0].config.logdir) if missing else []
  conclude(points, failures, pathlib.Path(points[0].config.logdir))


def train(points: list[Point], own: settings.Settings, logdir: str) -> list[Failure]:
  with pool.session(own, logdir) as run_jobs:
    demos.ensure_for([x.config for x in points])
    return run_jobs([x.job for x in points])


def conclude(points: list[Point], failures: list[Failure], logdir: pathlib.Path) -> None:
  """The table, the figure and the page of what there is; then what failed."""
  found = results.rows(points)
  if found:
    print('\n'.join(['', *results.summary(found), '']))
    for path in results.write(found, logdir / 'sweep'):
      print(f'{path} written.')
    page = logdir / 'sweep' / 'report'
    words = (str(logdir), '--out', str(page))
    failure = run_job(Job('report', 'report', words, logdir / 'sweep' / 'logs' / 'report.log'))
    failures += [failure] if failure else []
  for failure in failures:
    print(f'failed: {failure}', file=sys.stderr)
  if failures:
    count = 'one job' if len(failures) == 1 else f'{len(failures)} jobs'
    raise UserError(f'{count} failed, see above; the same command goes on with what is missing.')
