"""Diagnoses runs: gaps, recoverability, acquisition, windows, imagination; or stages 1 to 5."""

import argparse

import numpy as np

from recon_tf.analysis.report import diagnostics, measures
from recon_tf.analysis.report.style import save_figure
from recon_tf.analysis.runs import FILES, Run, group_runs
from recon_tf.commands.each_run import add_runs, each_run, write
from recon_tf.common import UserError, cache
from recon_tf.common.arguments import Parser, ranged

PARTS = ('gap', 'recoverability', 'acquisition')
EXTRA = ('windows', 'imagination', 'anchors', 'expert')  # only where asked for
TABLES = {
  'gap': (measures.gap_table, measures.deciles_table),
  'recoverability': (measures.recoverability_table, measures.tube_table),
  'acquisition': (measures.acquisition_table,),
  'imagination': (measures.imagination_table,),
  'windows': (measures.brought_table, measures.taught_table, measures.returned_table),
}
STAGES = ('1', '2', '3', '4', '5')


def main() -> None:
  cache.use_compilation_cache()
  parser = Parser(description=__doc__)
  add_runs(parser)
  parts, stages = (*PARTS, *EXTRA), (*STAGES, 'all')
  what = f'of {", ".join(parts)}; the first three by default'
  parser.add_argument('--what', nargs='+', choices=parts, metavar='PART', help=what)
  what = f'of a run that does not learn: {", ".join(stages)}'
  parser.add_argument('--stage', nargs='+', choices=stages, metavar='STAGE', help=what)
  parser.add_argument(
    '--tube',
    type=ranged(float, '[0, inf)'),
    default=0,
    help='recovered within this distance; 0: 0.1',
  )
  parser.add_argument(
    '--anchors', nargs='+', default=[], metavar='FOLDER',
    help='anchor episodes of runs that are compared, RUN/diagnose/anchors each',
  )  # fmt: skip
  parser.add_argument('--before', default='', help='one more, older state for the acquisition gain')
  args = parser.parse_args()
  if args.tube < 0:
    raise UserError(f'--tube is {args.tube}; a distance above 0 is needed.')
  each_run(args.runs, lambda run: diagnose_run(run, args))


def diagnose_run(run: Run, args: argparse.Namespace) -> dict:
  """The parts that the run allows; what it does not is said, and an error only if none is left."""
  from recon_tf.analysis.diagnose.loaded import trained

  stages = STAGES if 'all' in (args.stage or ()) else args.stage or ()
  parts = args.what or (() if stages else PARTS)
  done, errors = {}, []
  with trained(run) as loaded:
    print(f'{run.path}: step {loaded.meta["step"]}', flush=True)
    work = {x: lambda x=x: part(x, loaded, args) for x in parts}
    if stages:
      from recon_tf.analysis.diagnose.stages import Ladder

      ladder = Ladder(loaded)
      work |= {f'stage {x}': lambda x=x: stage(x, ladder) for x in stages}
    for name, function in work.items():
      print(f'\n{name}', flush=True)
      try:
        done[name] = function()
      except UserError as error:
        errors.append(f'{name}: {error}')
        print(f'  left out: {error}', flush=True)
  if not done:
    raise UserError(errors[0])
  return done


def part(name: str, loaded, args: argparse.Namespace) -> dict:
  """One of PARTS or EXTRA: its JSON, and the figure of this run alone."""
  from recon_tf.analysis.diagnose import acquisition, episodes, gap, imagination, recoverability
  from recon_tf.analysis.diagnose import windows as collected

  run = loaded.run
  if name == 'gap':
    result = gap.diagnose(loaded)
  elif name == 'recoverability':
    result = recoverability.diagnose(loaded, args.tube or recoverability.TUBE)
  elif name == 'acquisition':
    result = acquisition.diagnose(loaded, args.anchors, args.before)
  elif name == 'windows':
    result = collected.diagnose(loaded)
  elif name == 'imagination':
    result = imagination.diagnose(loaded)
  elif name == 'expert':
    result = episodes.measure_expert(run, kicks=run.config.eval_kicks)
    print(f'  {result["measure"]} {result["score"]:.3f} in {result["episodes"]} episodes')
  else:
    result = {'step': loaded.meta['step'], 'episodes': len(acquisition.ensure_anchors(loaded))}
    print(f'  {result["episodes"]} episodes of the main policy')
  write(run.path / FILES.get(name, f'diagnose/{name}.json'), result)
  show(name, run, result)
  return result


def show(name: str, run: Run, result: dict) -> None:
  """Prints the tables of this run alone and draws the paper's panels of it."""
  groups = group_runs([run])
  for table in (make(groups) for make in TABLES.get(name, ())):
    print('\n'.join(['', table.text(), *table.notes[1:]]))
  left = result.get('left_out') or {}
  for what in left:
    print(f'left out: {what}: {left[what]}' if isinstance(left, dict) else f'unreadable: {what}')
  if name in diagnostics.PARTS:
    figure = diagnostics.rows_figure(groups, diagnostics.PARTS[name])
    save_figure(figure, run.path / 'diagnose', name)
  elif name == 'imagination':
    save_figure(diagnostics.imagination_figure(groups), run.path / 'diagnose', name)


def stage(number: str, ladder) -> dict:
  """One of the five questions: diagnose/stage_N.json and its pictures."""
  from recon_tf.analysis.diagnose.stages import STAGES as questions

  folder = ladder.run.path / 'diagnose'
  function = questions[number]
  print(f'  {function.__doc__.splitlines()[0]}', flush=True)
  result = function(ladder)
  images = {k: v for k, v in result.items() if k.startswith('image/')}
  numbers = {k: v for k, v in result.items() if k not in images}
  for key, value in numbers.items():
    print(f'  {key:24}{value:10.4f}' if isinstance(value, float) else f'  {key:24}{value!s:>10}')
  finite = lambda x: None if isinstance(x, float) and not np.isfinite(x) else x
  write(folder / f'stage_{number}.json', {k: finite(v) for k, v in numbers.items()})
  for key, value in images.items():
    import imageio

    imageio.imwrite(folder / f'stage_{number}_{key.removeprefix("image/")}.png', value)
  return numbers
