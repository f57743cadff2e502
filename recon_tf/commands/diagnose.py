"""Diagnoses runs: prediction gap, recoverability, acquisition gain; or the stages 1 to 5."""

import argparse

import numpy as np

from recon_tf.analysis.report.diagnostics import part_figure
from recon_tf.analysis.report.style import save_figure
from recon_tf.analysis.runs import Run, group_runs
from recon_tf.commands.each_run import add_runs, each_run, write
from recon_tf.common import UserError, cache

PARTS = ('gap', 'recoverability', 'acquisition')
EXTRA = ('anchors', 'expert')  # only where asked for
STAGES = ('1', '2', '3', '4', '5')


def main() -> None:
  cache.use_compilation_cache()
  parser = argparse.ArgumentParser(description=__doc__)
  add_runs(parser)
  parser.add_argument(
    '--what', nargs='+', choices=(*PARTS, *EXTRA), help='parts; all but the last two by default'
  )
  parser.add_argument(
    '--stage', nargs='+', choices=(*STAGES, 'all'), help='stages of a run that does not learn'
  )
  parser.add_argument(
    '--tube', type=float, default=0, help='recovered within this distance; 0: 0.1'
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
  """One of PARTS or EXTRA: diagnose/NAME.json, and the paper's figure of this run alone."""
  from recon_tf.analysis.diagnose import acquisition, episodes, gap, recoverability

  run, folder = loaded.run, loaded.run.path / 'diagnose'
  if name == 'gap':
    result = gap.diagnose(loaded)
    lines = gap.lines(result)
  elif name == 'recoverability':
    result = recoverability.diagnose(loaded, args.tube or recoverability.TUBE)
    lines = recoverability.lines(result)
  elif name == 'acquisition':
    result = acquisition.diagnose(loaded, args.anchors, args.before)
    lines = acquisition.lines(result)
  elif name == 'expert':
    result = episodes.measure_expert(run, kicks=run.config.eval_kicks)
    lines = [f'{result["measure"]} {result["score"]:.3f} in {result["episodes"]} episodes']
  else:
    result = {'step': loaded.meta['step'], 'episodes': len(acquisition.ensure_anchors(loaded))}
    lines = [f'{result["episodes"]} episodes of the main policy']
  print('\n'.join(f'  {x}' for x in lines))
  write(folder / f'{name}.json', result)
  figure = part_figure(group_runs([run]), name)
  if figure:
    save_figure(figure, folder, name)
  return result


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
