"""What a method costs, from its runs: parameters, checkpoints, speed, the explorer's share."""

import dataclasses
import pathlib
import zipfile

import numpy as np

from recon_tf.analysis.paper import load_paper
from recon_tf.analysis.runs import Group, Run
from recon_tf.analysis.stats import mean_of
from recon_tf.common.checkpoint import Checkpoint
from recon_tf.common.files import warn_once
from recon_tf.common.npz import UNREADABLE

RECORDS = load_paper()['compute']['records']
PARTS = ('world_model', 'disc', 'main', 'explorer')
MIB = 2**20


@dataclasses.dataclass(frozen=True)
class Cost:
  """One run, or the mean of several; None is not known."""

  parts: dict[str, int] | None  # parameters by part, targets included, optimizers not
  checkpoint_mib: float | None  # the file, optimizers and counters included
  fps: float | None  # environment steps per second, updates included
  fps_std: float | None

  @property
  def parameters(self) -> int | None:
    return sum(self.parts.values()) if self.parts else None

  @property
  def explorer_share(self) -> float | None:
    """Of all parameters, in percent."""
    if not self.parts or not self.parts.get('explorer'):
      return None
    return 100 * self.parts['explorer'] / self.parameters


def run_cost(run: Run) -> Cost:
  """Sizes of the newest readable checkpoint, speed of the last records of the log."""
  fps = last_fps(run)
  speed = (float(fps.mean()), float(fps.std())) if len(fps) else (None, None)
  if run.kept:
    return Cost(run.kept['cost']['parts'], run.kept['cost']['checkpoint_mib'], *speed)
  for path in reversed(Checkpoint(run.path / 'checkpoints').paths()):
    try:
      return Cost(parameters(path), path.stat().st_size / MIB, *speed)
    except FileNotFoundError:  # removed by the run meanwhile
      continue
    except UNREADABLE as error:
      warn_once(f"the checkpoint '{path}' is damaged and left out ({error}).")
  return Cost(None, None, *speed)


def group_cost(group: Group) -> Cost:
  """Means over seeds; their networks are the same."""
  costs = [run_cost(x) for x in group.runs]
  known = [x.parts for x in costs if x.parts]
  mean = lambda name: mean_of([getattr(x, name) for x in costs])
  return Cost(known[0] if known else None, mean('checkpoint_mib'), mean('fps'), mean('fps_std'))


def parameters(path: pathlib.Path) -> dict[str, int] | None:
  """Numbers of parameters by part, from the headers alone; None for agents of other parts."""
  sizes = dict.fromkeys(PARTS, 0)
  with zipfile.ZipFile(path) as archive:
    for member in archive.namelist():
      part, *rest = member.removesuffix('.npy').split('.')
      if part in sizes and not any(x.endswith('_opt') for x in rest):
        with archive.open(member) as file:
          shape = array_shape(file)
        sizes[part] += int(np.prod(shape)) if shape else 0  # counters have none
  return {k: v for k, v in sizes.items() if v} if sizes['world_model'] else None


def array_shape(file) -> tuple[int, ...]:
  """The shape in the header of an .npy file."""
  version = np.lib.format.read_magic(file)
  if version == (1, 0):
    return np.lib.format.read_array_header_1_0(file)[0]
  return np.lib.format.read_array_header_2_0(file)[0]


def last_fps(run: Run, records: int = RECORDS) -> np.ndarray:
  """Environment steps per second between the last records.

  Left out: random steps, which need no update; spans with an evaluation, which is no training;
  and restarts, where the clock begins anew.
  """
  steps, minutes = run.metrics().get('time/minutes', (np.zeros(0), np.zeros(0)))
  if len(steps) < 2:
    return np.zeros(0)
  evaluated = [x['step'] for x in run.evaluations()]
  passed, spent = np.diff(steps), 60 * np.diff(minutes)
  first = steps[:-1]
  good = (passed > 0) & (spent > 0) & (first >= run.config.prefill) & ~np.isin(first, evaluated)
  return (passed[good] / spent[good])[-records:]
