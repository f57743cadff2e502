"""What evaluate and diagnose share: the runs that were named, one after the other."""

import argparse
import logging
import pathlib
import sys
from collections.abc import Callable

from recon_tf.analysis.runs import Run, open_run
from recon_tf.common import UserError
from recon_tf.common.files import write_json


def add_runs(parser: argparse.ArgumentParser) -> None:
  parser.add_argument('runs', nargs='+', metavar='RUN', help='run folders, or folders of them')


def each_run(paths: list[str], work: Callable[[Run], dict]) -> list:
  """Results of the runs that allow it; what is wrong with the others is said in a line each."""
  folders = [x for path in paths for x in run_folders(pathlib.Path(path))]
  results, errors, prepared = [], [], False
  for folder in dict.fromkeys(folders):
    try:
      run = open_run(folder)
      if not prepared:
        prepare(run)
        prepared = True
      results.append(work(run))
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


def prepare(run: Run) -> None:
  """Threads and determinism of the first run's config; TensorFlow takes them once."""
  from recon_tf.preparation import prepare_tensorflow  # late: --help and bad flags answer at once

  prepare_tensorflow(run.config)
  # Every set of episodes has a shape of its own and is traced once; that is no news.
  logging.getLogger('tensorflow').setLevel(logging.ERROR)


def write(path: pathlib.Path, value: dict) -> None:
  """Writes JSON whole or not at all."""
  write_json(path, value)
  print(f'{path} written.', flush=True)
