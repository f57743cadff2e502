"""Evaluates the deployed policy of runs, clean or under the paper's perturbations."""

import argparse
import contextlib
import logging
import pathlib
import re
import sys
from collections.abc import Callable, Iterator

import numpy as np

sys.path.append(str(pathlib.Path(__file__).parent.parent))

from recon_tf import common, envs
from recon_tf.analysis import robustness
from recon_tf.analysis.runs import RunFolder, open_run
from recon_tf.common import UserError, cache

ENLARGE = 4  # videos show each pixel this many times, both ways


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  add_runs(parser)
  parser.add_argument('--robust', action='store_true', help='all fourteen configurations')
  parser.add_argument(
    '--kicks', type=float, default=0.0, help='with pushes, as eval_kicks makes them in a run'
  )
  parser.add_argument('--episodes', type=int, default=0, help='a configuration; 0: eval_final')
  parser.add_argument('--workers', type=int, default=0, help='processes; 0: eval_workers')
  parser.add_argument('--video', default='', help='folder for a video of each configuration')
  args = parser.parse_args()
  for name in ('episodes', 'workers'):
    if getattr(args, name) < 0:
      raise UserError(f'--{name} is {getattr(args, name)}; at least 1 is needed.')
  if args.kicks and args.robust:
    raise UserError('--kicks and --robust are evaluations of their own; choose one.')
  results = each_run(args.runs, lambda run: evaluate_run(run, args))
  shown = (robustness.PUSHED,) if args.kicks else robustness.COLUMNS[: None if args.robust else 1]
  rows = [(*robustness.HEADER[:3], *shown), *robustness.table(results, shown)]
  print(f'\nsuccess in %, returns for DMC\n{robustness.aligned(rows)}')


def add_runs(parser: argparse.ArgumentParser) -> None:
  parser.add_argument('runs', nargs='+', metavar='RUN', help='run folders, or folders of them')


def each_run(paths: list[str], work: Callable[[RunFolder], dict]) -> list:
  """Results of the runs that allow it; what is wrong with the others is said in a line each."""
  folders = [x for path in paths for x in run_folders(pathlib.Path(path))]
  results, errors = [], []
  for folder in dict.fromkeys(folders):
    try:
      results.append(work(prepared(open_run(folder))))
    except UserError as error:
      text = str(error)
      errors.append(text if str(folder) in text else f"'{folder}': {text}")
      if len(folders) > 1:
        print(f'left out: {errors[-1]}', file=sys.stderr)
  if not results:
    raise UserError(errors[0] if len(errors) == 1 else f'none of {len(errors)} runs is usable.')
  return results


def run_folders(path: pathlib.Path) -> list[pathlib.Path]:
  """The folder of a run itself, or all runs below a folder."""
  if not path.is_dir():
    raise UserError(f"There is no folder '{path}'.")
  if (path / 'config.yaml').exists():
    return [path]
  return [x.parent for x in sorted(path.rglob('config.yaml'))] or [path]


def prepared(run: RunFolder) -> RunFolder:
  """Threads and determinism of the run's config; TensorFlow takes them once."""
  if 'recon_tf.loop' not in sys.modules:
    from recon_tf import loop  # late: --help and bad flags answer at once

    loop.prepare_tensorflow(run.config)
    # Every set of episodes has a shape of its own and is traced once; that is no news.
    logging.getLogger('tensorflow').setLevel(logging.ERROR)
  return run


def evaluate_run(run: RunFolder, args: argparse.Namespace) -> dict:
  """Evaluates one run, writes eval/robust.json (or clean, or pushed) and returns it."""
  from recon_tf.analysis.trained import trained

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
    print(f'{run.path}: step {step}, {episodes} episodes a configuration', flush=True)
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


@contextlib.contextmanager
def make_workers(run: RunFolder, number: int, render: bool) -> Iterator[list]:
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


def write(path: pathlib.Path, value: dict) -> None:
  """Writes JSON whole or not at all."""
  from recon_tf.loop import write_json

  try:
    write_json(path, value)
  except OSError as error:
    raise UserError(f"Cannot write '{path}': {error.strerror}.") from error
  print(f'{path} written.', flush=True)


def write_video(frames: np.ndarray | None, folder: str, run: RunFolder, name: str) -> None:
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


if __name__ == '__main__':
  cache.use_compilation_cache()
  common.run(main)
