"""Evaluates deployed policies: clean, perturbed as in the paper, or from displaced states."""

import argparse
import contextlib
import pathlib
import re
from collections.abc import Iterator

import numpy as np

from recon_tf import envs
from recon_tf.analysis.diagnose import robustness
from recon_tf.analysis.paper import COLUMNS
from recon_tf.analysis.report.measures import recovery_table
from recon_tf.analysis.report.tables import Table, fixed, robust_table
from recon_tf.analysis.runs import PUSHED, Run, group_runs
from recon_tf.commands.each_run import add_runs, each_run, write
from recon_tf.common import UserError, cache
from recon_tf.common.arguments import Parser, ranged

ENLARGE = 4  # videos show each pixel this many times, both ways


def main() -> None:
  cache.use_compilation_cache()
  parser = Parser(description=__doc__)
  add_runs(parser)
  parser.add_argument('--robust', action='store_true', help='all fourteen configurations')
  parser.add_argument(
    '--kicks',
    type=ranged(float, '[0, 1]'),
    default=0.0,
    help='with pushes, as eval_kicks makes them in a run',
  )
  parser.add_argument(
    '--recovery', action='store_true', help='from displaced states, beside the expert from there'
  )
  parser.add_argument(
    '--milestones', action='store_true', help='with --recovery: of every kept milestone too'
  )
  parser.add_argument(
    '--episodes',
    type=ranged(int, '[0, inf)'),
    default=0,
    help='per configuration or difficulty; 0: eval_final or 16',
  )
  parser.add_argument(
    '--workers', type=ranged(int, '[0, inf)'), default=0, help='processes; 0: eval_workers or 6'
  )
  parser.add_argument('--video', default='', help='folder for a video of each configuration')
  args = parser.parse_args()
  if bool(args.kicks) + args.robust + args.recovery > 1:
    raise UserError('--kicks, --robust and --recovery are evaluations of their own; choose one.')
  if args.milestones and not args.recovery:
    raise UserError('--milestones belongs to --recovery.')
  if args.recovery:
    print_recovery(each_run(args.runs, lambda run: recover_run(run, args)))
    return
  results = each_run(args.runs, lambda run: evaluate_run(run, args))
  shown = (PUSHED,) if args.kicks else COLUMNS[: None if args.robust else 1]
  print(f'\nsuccess in %, returns for DMC\n{robust_table(results, shown).text()}')


def evaluate_run(run: Run, args: argparse.Namespace) -> dict:
  """Evaluates one run, writes eval/robust.json (or clean, or pushed) and returns it."""
  from recon_tf.analysis.diagnose.loaded import trained

  config = run.config
  episodes = args.episodes or config.eval_final
  number = min(args.workers or config.eval_workers, episodes)
  name, chosen = 'clean', (robustness.CLEAN,)
  if args.robust:
    name, chosen = 'robust', robustness.CONFIGURATIONS
  elif args.kicks:
    name, chosen = 'pushed', (robustness.pushes(args.kicks),)
  found, skipped = {}, {}
  with trained(run) as loaded, make_workers(run, number, bool(args.video)) as workers:
    step = loaded.meta['step']
    print(f'{run.path}: step {step}, {episodes} episodes per configuration', flush=True)
    seed = robustness.EVAL_SEED + config.seed
    for configuration in chosen:
      options = (configuration, episodes, seed, bool(args.video))
      try:
        result = robustness.evaluate_configuration(loaded.agent, workers, *options)
      except UserError as error:
        skipped[configuration.name] = str(error)
        print(f'  {configuration.name:24} left out: {error}', flush=True)
        continue
      frames = result.pop('video', None)
      if args.video:
        write_video(frames, args.video, run, configuration.name)
      found[configuration.name] = result
      print(f'  {configuration.name:24} {describe(result)}', flush=True)
  summary = robustness.summarize(run, step, found, skipped)
  summary.update(episodes=episodes, workers=number, eval_seed=seed)
  write(run.path / 'eval' / f'{name}.json', summary)
  return summary


def recover_run(run: Run, args: argparse.Namespace) -> dict:
  """Sends one run's policy off from displaced states; writes eval/recovery.json and returns it."""
  from recon_tf.analysis.diagnose import recovery
  from recon_tf.analysis.diagnose.loaded import trained

  if args.video:
    raise UserError('--video: --recovery makes no videos.')
  with trained(run) as loaded:
    print(f'{run.path}: step {loaded.meta["step"]}', flush=True)
    result = recovery.measure(loaded, args.episodes, args.workers, args.milestones)
  write(run.path / 'eval' / 'recovery.json', result)
  print(f'\n{recovery_table(group_runs([run])).text()}')
  for x in result.get('milestones', ()):
    print(f'recovery at step {x["step"]}: {fixed(x["score"])}')
  return result


def print_recovery(results: list[dict]) -> None:
  """One line per run."""
  show = lambda x: '–' if x is None else f'{100 * x:.1f}'
  names = ('task', 'method', 'seed')
  rows = [(*(str(x[k]) for k in names), show(x['score']), show(x['expert'])) for x in results]
  table = Table('recovery', 'Recovery', (*names, 'recovery', 'expert'), tuple(rows))
  print(f'\nin %; the expert from the same states\n{table.text()}')


@contextlib.contextmanager
def make_workers(run: Run, number: int, render: bool) -> Iterator[list]:
  """Environment processes; videos need pictures even where the policy sees none."""
  config = run.config.update({'env.render': True}) if render else run.config
  workers = [envs.Worker(run.task, config, run.seed, wait=False) for _ in range(number)]
  try:
    yield workers
  finally:
    for worker in workers:
      worker.close()


def describe(result: dict) -> str:
  text = f'return {np.mean(result["returns"]):9.2f}   length {np.mean(result["lengths"]):6.1f}'
  if result['successes']:
    text = f'success {100 * np.mean(result["successes"]):5.1f} %   {text}'
  return text


def write_video(frames: np.ndarray | None, folder: str, run: Run, name: str) -> None:
  """The first episode of a configuration as an .mp4 file."""
  if frames is None:
    raise UserError(f"--video: task '{run.task}' has no images to show.")
  import imageio

  stem = '-'.join([run.task, run.method, str(run.seed), name])
  path = pathlib.Path(folder) / f'{re.sub("[^A-Za-z0-9._-]+", "_", stem)}.mp4'
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    large = frames.repeat(ENLARGE, 1).repeat(ENLARGE, 2)
    imageio.mimwrite(path, large, fps=20, macro_block_size=None)
  except OSError as error:
    raise UserError(f"--video: cannot write '{path}': {error}.") from error
