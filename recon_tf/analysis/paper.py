"""The numbers that the paper prints (paper.yaml), to stand beside ours."""

import functools
import pathlib

from recon_tf.common.config import Config

FILE = pathlib.Path(__file__).with_name('paper.yaml')
PAIR = ('cmil', 'recon')
COLUMNS = ('Clean', 'Noise', 'Delay', 'Impulse/scale')  # of the robustness table


@functools.cache
def load_paper() -> dict:
  """The whole file: robustness, gap and compute."""
  return Config.load(FILE).to_dict()


def paper_tasks() -> list[str]:
  """The eight tasks, in the order of the paper's tables."""
  return list(load_paper()['robustness']['tasks'])


def paper_number(table: str, task: str, column: str, method: str) -> float | None:
  """A number of the tables by task (robustness, gap); None where the paper has none."""
  found = load_paper()[table]['tasks'].get(task, {}).get(column)
  return found[PAIR.index(method)] if found and method in PAIR else None


def paper_compute(quantity: str, method: str) -> float | None:
  """A number of the compute table that CMIL and RECON both have."""
  found = load_paper()['compute']['quantities'].get(quantity)
  return found[PAIR.index(method)] if found and method in PAIR else None
