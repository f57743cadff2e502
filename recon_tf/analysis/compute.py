"""What a method costs, from its run folders: parameters, checkpoints, speed, explorer's share."""

import dataclasses
import pathlib
import zipfile
from collections.abc import Callable

import numpy as np

from recon_tf.analysis.groups import Group, settings_of
from recon_tf.analysis.measured import mean_of
from recon_tf.analysis.paper import PAIR, load_paper, paper_compute
from recon_tf.analysis.runs import RunFolder
from recon_tf.analysis.texts import NONE, Table, change
from recon_tf.common.checkpoint import Checkpoint
from recon_tf.common.files import try_json
from recon_tf.common.npz import UNREADABLE

RECORDS = load_paper()['compute']['records']
PARTS = ('world_model', 'disc', 'main', 'explorer')
MIB = 2**20
COST = 'cost.json'  # of an archived run, instead of its checkpoints


@dataclasses.dataclass(frozen=True)
class Cost:
  """One run, or the mean of several; None is not known."""

  parts: dict[str, int] | None  # parameters by part, targets included, optimizers not
  checkpoint_mib: float | None  # the file, optimizers and counters included
  fps: float | None  # environment steps a second, updates included
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


def run_cost(run: RunFolder) -> Cost:
  """Sizes of the newest readable checkpoint, speed of the last records of the log."""
  fps = last_fps(run)
  speed = (float(fps.mean()), float(fps.std())) if len(fps) else (None, None)
  for path in reversed(Checkpoint(run.path / 'checkpoints').paths()):
    try:
      return Cost(parameters(path), path.stat().st_size / MIB, *speed)
    except UNREADABLE:
      continue
  kept = try_json(run.path / COST) or {}
  return Cost(kept.get('parts'), kept.get('checkpoint_mib'), *speed)


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


def last_fps(run: RunFolder, records: int = RECORDS) -> np.ndarray:
  """Environment steps a second between the last records.

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


def compute_table(groups: list[Group]) -> Table:
  """tab:compute_overhead: CMIL and RECON of each task, and the paper's."""
  rows = []
  for setting, own in settings_of([x for x in groups if x.method in PAIR]).items():
    costs = {x.method: group_cost(x) for x in own}
    costs = {k: v for k, v in costs.items() if v.parts or v.fps}
    for name, (pick, show) in _COMPUTE.items():
      values = [pick(costs[m]) if m in costs else None for m in PAIR]
      if any(x is not None for x in values):
        cells = [NONE if x is None else show(x) for x in values]
        shift = NONE if 'deviation' in name else change(*values)
        rows.append((setting, name, *cells, shift, *_paper_compute(name, show)))
  head = ('task', 'quantity', 'CMIL', 'RECON', 'change', 'CMIL, paper', 'RECON, paper')
  notes = [
    'Parameters with target networks, without optimizers. Our checkpoints hold the optimizers too; '
    "the paper's checkpoints of 83 and 98 MiB are about as large as its parameters in FP32.",
    f'FPS: environment steps a second with updates, last {RECORDS} records, evaluations '
    'left out; mean over seeds. It depends on machine, size and load.',
    f'The paper measured {load_paper()["compute"]["task"]}.',
  ]
  missing = 'The compute table needs runs of CMIL or RECON with a checkpoint.'
  return Table('compute', 'Compute overhead', head, tuple(rows), tuple(notes), missing)


_MILLIONS = lambda x: f'{x / 1e6:.2f} M' if x >= 1e6 else f'{x:,}'
_COMPUTE: dict[str, tuple[Callable, Callable]] = {
  'world-model parameters': (lambda x: (x.parts or {}).get('world_model'), _MILLIONS),
  'all parameters': (lambda x: x.parameters, _MILLIONS),
  'explorer, % of all': (lambda x: x.explorer_share, lambda x: f'{x:.1f}'),
  'parameters in FP32, MiB': (
    lambda x: x.parameters and 4 * x.parameters / MIB, lambda x: f'{x:.3g}'
  ),
  'checkpoint, MiB': (lambda x: x.checkpoint_mib, lambda x: f'{x:.3g}'),
  'FPS': (lambda x: x.fps, lambda x: f'{x:.3f}'),
  'FPS, deviation': (lambda x: x.fps_std, lambda x: f'{x:.3f}'),
}  # fmt: skip
_PAPER_NAMES = {
  'world-model parameters': 'world_model_parameters', 'all parameters': 'parameters',
  'checkpoint, MiB': 'checkpoint_mib', 'FPS': 'fps', 'FPS, deviation': 'fps_std',
}  # fmt: skip


def _paper_compute(name: str, show: Callable) -> tuple[str, str]:
  if name.startswith('explorer'):
    return NONE, show(load_paper()['compute']['recon_only']['explorer_share'])
  values = [paper_compute(_PAPER_NAMES.get(name, ''), x) for x in PAIR]
  return tuple(NONE if x is None else show(x) for x in values)
