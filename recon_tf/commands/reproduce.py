"""Makes figures and tables of the paper: the runs and diagnoses that are missing, then drawing.

All further flags, such as --task, --steps or --logdir, go to every train.py.
"""

import pathlib
import signal
import sys

from recon_tf import demos
from recon_tf.analysis.report import registry, reproduce
from recon_tf.analysis.report.registry import FIGURES, Figure
from recon_tf.analysis.report.reproduce import Plan
from recon_tf.analysis.runs import open_run
from recon_tf.cluster import pool, settings
from recon_tf.common import UserError
from recon_tf.common.arguments import Parser, ranged
from recon_tf.common.jobs import Failure


def main() -> None:
  parser = Parser(description=__doc__, allow_abbrev=False)
  parser.add_argument('--figure', nargs='+', default=[], help='numbers in the paper, or names')
  parser.add_argument('--table', nargs='+', default=[], help='numbers in the paper, or names')
  parser.add_argument('--configs', nargs='+', default=[], help='suites and sizes, as of train.py')
  parser.add_argument('--seeds', nargs='+', type=ranged(int, '[0, 1000000000]'), default=[0, 1, 2])
  parser.add_argument('--out', default='', help='where to draw; LOGDIR/reproduce if not given')
  parser.add_argument('--list', action='store_true', help='print what there is')
  parser.add_argument('--dry', action='store_true', help='print what is missing, run nothing')
  settings.add_flags(parser, workers=1, least=1)
  args, flags = parser.parse_known_args()
  if args.list:
    print('\n'.join(describe(*x) for x in FIGURES.items()))
    return
  own = settings.read_flags(args)
  figures = reproduce.find_figures('figure', args.figure)
  figures |= reproduce.find_figures('table', args.table)
  if not figures:
    raise UserError('name a --figure or a --table; --list shows what there is.')
  plans = reproduce.plan_runs(figures, args.configs, args.seeds, flags)
  signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that children are ended too
  usable, failures = show_runs(plans)
  if args.dry:
    show_missing(usable)
  else:
    with pool.session(own, plans[0].config.logdir) as run_jobs:
      failures += make(usable, run_jobs)
    out = pathlib.Path(args.out or pathlib.Path(plans[0].config.logdir) / 'reproduce')
    failures += draw(figures, usable, out)
  report(failures)


def describe(name: str, figure: Figure) -> str:
  """An entry of --list."""
  kind, number = reproduce.kind_of(figure), reproduce.number_of(figure)
  place = f'{kind} {number}' if number else 'not in the paper'
  title = f'--{kind} {name}'.ljust(26) + f'{place}, {figure.label}: {figure.title}'
  parts = {'methods': figure.methods, 'tasks': figure.tasks}
  parts['needs'] = [' '.join(x) for x in figure.commands]
  return '\n'.join([title, *(f'  {k:8}{", ".join(v)}' for k, v in parts.items() if v)])


def show_runs(plans: list[Plan]) -> tuple[list[Plan], list[Failure]]:
  """Prints the state of every run; those whose folder holds something else are left out."""
  usable, failures = [], []
  for plan in plans:
    try:
      state = plan.state
      if state != 'missing':
        open_run(plan.folder)  # refuses configs of other versions
      print(f'{state:12}{plan.folder}', flush=True)
      usable.append(plan)
      if reproduce.without_milestones(plan):
        why = 'has no milestones (--keep_every); for its gain train it anew with another --logdir.'
        failures.append(Failure(plan.name, f"'{plan.folder}' {why}"))
    except UserError as error:
      print(f'{"unusable":12}{plan.folder}', flush=True)
      failures.append(Failure(plan.name, str(error)))
  return usable, failures


def show_missing(plans: list[Plan]) -> None:
  """The commands that would be run, in their order."""
  jobs = [reproduce.training(x) for x in plans if x.state != 'finished']
  jobs += [job for x in plans for job in reproduce.diagnoses(x)]
  jobs += [job for x in plans for job in reproduce.comparisons(x, plans)]
  print('\n'.join(['', *(x.command for x in jobs)] if jobs else ['\nNothing is missing.']))


def make(plans: list[Plan], run_jobs: pool.Runner) -> list[Failure]:
  """Runs what is missing; what fails is returned, and nothing is asked of it any more."""
  missing = [x for x in plans if x.state != 'finished']
  demos.ensure_for([x.config for x in missing])
  failures = run_jobs([reproduce.training(x) for x in missing])
  done = [x for x in plans if x.state == 'finished']
  failures += run_jobs([job for x in done for job in reproduce.diagnoses(x)])
  # What needs the diagnoses of other runs.
  ready = [x for x in done if not reproduce.missing_output(x, reproduce.ANCHORS)]
  return failures + run_jobs([job for x in ready for job in reproduce.comparisons(x, ready)])


def draw(figures: dict[str, Figure], plans: list[Plan], out: pathlib.Path) -> list[Failure]:
  """Draws every figure from its own runs, unfinished ones too."""
  failures = []
  for name in figures:
    chosen = [x for x in plans if name in x.figures and x.state != 'missing']
    try:
      if not chosen:
        raise UserError('there is no run to draw it from.')
      (out / name).mkdir(parents=True, exist_ok=True)
      runs = [open_run(x.folder) for x in chosen]
      for path in registry.draw(name, runs, out / name).values():
        print(f'{path} written.', flush=True)
    except UserError as error:
      failures.append(Failure(f'draw {name}', str(error)))
    except OSError as error:
      raise UserError(f"Cannot write to '{out}': {error.strerror}; set --out.") from error
  return failures


def report(failures: list[Failure]) -> None:
  """Says at the end what failed, so that it is not lost among the rest."""
  for failure in failures:
    print(f'failed: {failure}', file=sys.stderr)
  if failures:
    number = 'one part' if len(failures) == 1 else f'{len(failures)} parts'
    raise UserError(f'{number} failed, see above; the same command goes on with what is missing.')
