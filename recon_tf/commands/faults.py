"""Kills, signals, damaged files and bad input against real training runs; prints a table."""

import argparse
import os
import pathlib
import signal
import sys
import tempfile

from recon_tf.common.arguments import Parser, ranged
from recon_tf.common.errors import UserError

SECTIONS = ('kills', 'signals', 'files', 'bits', 'flags', 'edges')


def main() -> None:
  parser = Parser(description=__doc__)
  count = ranged(int, '[0, inf)')
  parser.add_argument('--kills', type=count, default=100, help='kill points, spread over a run')
  parser.add_argument('--each', action='store_true', help='instead: one kill point of every kind')
  what = f'some sections of {", ".join(SECTIONS)}'
  parser.add_argument('--only', nargs='+', choices=SECTIONS, metavar='SECTION', help=what)
  parser.add_argument('--long', type=count, default=0, help='also watch a run of so many steps')
  parser.add_argument('--folder', default='', help='where to work; a temporary folder if not given')
  args = parser.parse_args()
  os.environ['RECON_XLA_CACHE'] = ''  # which would start every process twice
  if not os.path.isdir('/proc/self/fd'):
    print('Processes are watched through /proc, which this system does not have.', file=sys.stderr)
    sys.exit(2)
  if args.folder:
    check_folder(pathlib.Path(args.folder))
  with tempfile.TemporaryDirectory(prefix='recon_faults_') as temporary:
    failures = campaign(args, pathlib.Path(args.folder or temporary).resolve())
  sys.exit(1 if failures else 0)


def check_folder(folder: pathlib.Path) -> None:
  """The undisturbed run must be of this code, so nothing of an earlier campaign is used."""
  if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
    raise UserError(f"--folder: '{folder}' is not an empty folder; choose another.")


def campaign(args: argparse.Namespace, root: pathlib.Path) -> list[str]:
  """Runs the chosen sections; returns what did not hold."""
  from recon_tf.commands import bench_train, demos
  from recon_tf.faults import bits, children, damage, kills, limits, long, table

  sections = set(args.only or ([] if args.long else SECTIONS))
  found, before = table.Table(), shared_memory()
  if 'flags' in sections:
    limits.check_flags(found, {'demos': demos.FLAGS, 'bench train': bench_train.EXTRA})
  if sections & {'kills', 'signals', 'files', 'bits'} or args.long:
    children.warm_up()
    tests = kills.Campaign(root, found)
    if 'kills' in sections:
      tests.kill_all(tests.one_of_each() if args.each else tests.points(args.kills))
      tests.kill(tests.when_resumed())
    if 'signals' in sections:
      disturb(tests)
    if 'files' in sections:
      damage.check_files(tests)
    if 'bits' in sections:
      bits.check_bits(tests)
    if args.long:
      long.check_long(tests, args.long)
  if 'edges' in sections:  # last: TensorFlow runs in this process then, which must not fork
    limits.check_edges(found)
  left = shared_memory() - before
  found.add('shared memory', 'segments left', ', '.join(sorted(left)))
  print(f'\n{found.text()}\n')
  print('\n'.join(found.failures))
  return found.failures


def disturb(tests) -> None:
  """Signals, lost environments, full disks, two starts."""
  from recon_tf.faults.kills import has_episodes

  moments = {
    'before anything is saved': lambda folder, said: (folder / 'metrics.jsonl').exists(),
    'in pretraining': lambda folder, said: 'Compiling the update' in said,
    'in the first episodes': lambda folder, said: has_episodes(folder, 1),
    'late': lambda folder, said: (folder / 'eval' / '000000040.json').exists(),
  }
  for number in (signal.SIGINT, signal.SIGTERM):
    for when, ready in moments.items():
      tests.stop(number, when, ready)
  tests.lose_worker('the one that collects', slice(0, 1))
  tests.lose_worker('the one that evaluates', slice(-1, None))
  tests.lose_worker('one of two that collect', slice(0, 1), **{'env.workers': 2})
  tests.lose_worker('all at once', slice(None), **{'env.workers': 2})
  for limit in (0, 1000, 20_000):
    tests.fill_disk(limit)
  tests.lose_output()
  tests.start_twice()


def shared_memory() -> set[str]:
  return set(os.listdir('/dev/shm')) if os.path.isdir('/dev/shm') else set()
