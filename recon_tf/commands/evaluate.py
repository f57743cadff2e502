"""Evaluates the deployed policy of runs, clean or under the paper's perturbations."""

import argparse
import contextlib
import pathlib
import re
from collections.abc import Iterator

import numpy as np

from recon_tf import envs
from recon_tf.analysis.diagnose import robustness
from recon_tf.analysis.paper import COLUMNS
from recon_tf.analysis.report.tables import robust_table
from recon_tf.analysis.runs import PUSHED, Run
from recon_tf.commands.each_run import add_runs, each_run, write
from recon_tf.common import UserError, cache

ENLARGE = 4  # videos show each pixel this many times, both ways


def main() -> None:
  cache.use_compilation_cache()
  parser = argparse.ArgumentParser(description=__doc__)
  add_runs(parser)
  parser.add_argument('--robust', action='store_true', help='all fourteen configurations')
  parser.add_argument(
    '--kicks', type=float, default=0.0, help='with pushes, as eval_kicks makes them in a run'
  )
  parser.add_argument('--episodes', type=int, default=0, help='per configuration; 0: eval_final')
  parser.add_argument('--workers', type=int, default=0, help='processes; 0: eval_workers')
  parser.add_argument('--video', default='', help='folder for a video of each configuration')
  args = parser.parse_args()
  for name in ('episodes', 'workers'):
    if getattr(args, name) < 0:
      raise UserError(f'--{name} is {getattr(args, name)}; at least 1 is needed.')
  if args.kicks and args.robust:
    raise UserError('--kicks and --robust are evaluations of their own; choose one.')
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
