"""Run folders small enough to commit: all that tables and figures are made from, and no more.

Weights, pictures and demonstrations stay behind; where steps went, what the networks weigh and
the last videos are kept in three small files that the readers of run folders know.
"""

import dataclasses
import json
import pathlib
import shutil

import numpy as np

from recon_tf.analysis.compute import COST, run_cost
from recon_tf.analysis.regions import POSITIONS, expert_cloud, expert_success, read_steps
from recon_tf.analysis.runs import RunFolder, read_lines
from recon_tf.analysis.videos import VIDEOS, read_gifs
from recon_tf.common.npz import write_npz

COPIED = ('config.yaml', 'meta.json', 'eval/*.json', 'diagnose/*.json')
DIGITS = 6  # significant ones of a metric


def archive_runs(runs: list[RunFolder], logdir: pathlib.Path, folder: pathlib.Path) -> None:
  """Keeps every run where it stands in its logdir; an older copy is replaced."""
  for run in runs:
    archive_run(run, folder / run.path.relative_to(logdir))


def archive_run(run: RunFolder, folder: pathlib.Path) -> None:
  """A copy that figures, tables and reports read like the run itself."""
  temporary = folder.with_name(f'.writing-{folder.name}')
  shutil.rmtree(temporary, ignore_errors=True)
  for pattern in COPIED:
    for path in run.path.glob(pattern):
      target = temporary / path.relative_to(run.path)
      target.parent.mkdir(parents=True, exist_ok=True)
      shutil.copyfile(path, target)
  lines = [json.dumps(_rounded(x)) for x in read_lines(run.path / 'metrics.jsonl')]
  (temporary / 'metrics.jsonl').write_text(''.join(f'{x}\n' for x in lines))
  _write_positions(run, temporary)
  cost = dataclasses.asdict(run_cost(run))
  (temporary / COST).write_text(json.dumps({k: cost[k] for k in ('parts', 'checkpoint_mib')}))
  for tag, gifs in read_gifs(run).items():
    path = temporary / VIDEOS / f'{tag}-{max(gifs):09d}.gif'
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gifs[max(gifs)])
  shutil.rmtree(folder, ignore_errors=True)
  temporary.rename(folder)


def _rounded(record: dict) -> dict:
  short = lambda x: float(f'{x:.{DIGITS}g}') if isinstance(x, float) else x
  return {k: short(v) for k, v in record.items()}


def _write_positions(run: RunFolder, folder: pathlib.Path) -> None:
  steps, cloud = read_steps(run), expert_cloud(run)
  if cloud is None or not len(steps):
    return
  success = expert_success(run) or ()
  arrays = {'steps': steps.astype(np.float32), 'expert': cloud.astype(np.float32)}
  arrays['expert_success'] = np.array(success, np.int32)
  write_npz(folder / POSITIONS, arrays, compress=True)
