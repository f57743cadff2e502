"""Runs of any task that have an expert's demonstration, and nothing else yet."""

import pathlib

from recon_tf import demos
from recon_tf.analysis.runs import Run
from recon_tf.common import load_config


def make_run(folder: pathlib.Path, *presets: str, **changes) -> Run:
  """The folder holds one demonstration of the task's expert and no training."""
  config = load_config(*presets).update({'demo_episodes': 1, 'demos': str(folder / 'demos')})
  config = config.update(changes)
  demos.make_demos(config.task, 1, folder / 'demos', config, progress=False)
  return Run(folder, config)
