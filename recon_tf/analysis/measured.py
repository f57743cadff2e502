"""What scripts/evaluate.py and scripts/diagnose.py left in run folders, without TensorFlow."""

import numpy as np

from recon_tf.analysis.groups import Group
from recon_tf.analysis.runs import RunFolder
from recon_tf.common.files import try_json

FILES = {
  'robust': 'eval/robust.json',
  'gap': 'diagnose/gap.json',
  'recoverability': 'diagnose/recoverability.json',
  'acquisition': 'diagnose/acquisition.json',
}
# The script that writes each, and its flags; a run folder, or a folder of runs, goes between.
COMMANDS = {
  'robust': ('evaluate', '--robust'),
  'gap': ('diagnose', '--what', 'gap'),
  'recoverability': ('diagnose', '--what', 'recoverability'),
  'acquisition': ('diagnose', '--what', 'acquisition'),
}


def command_line(part: str, run: str = 'RUN') -> str:
  """As a user types it."""
  script, *flags = COMMANDS[part]
  return ' '.join(['python', f'scripts/{script}.py', run, *flags])


def measured(run: RunFolder, part: str) -> dict | None:
  """The content of one of FILES, None if it is missing or half-written."""
  return try_json(run.path / FILES[part])


def of_group(group: Group, part: str) -> list[dict]:
  """What the runs of a group have of it."""
  return [x for x in (measured(run, part) for run in group.runs) if x]


def with_data(groups: list[Group], part: str) -> list[tuple[Group, list[dict]]]:
  """Groups of which at least one run has it."""
  found = [(x, of_group(x, part)) for x in groups]
  return [(group, results) for group, results in found if results]


def mean_of(values: list[float | None]) -> float | None:
  """Mean over the seeds that have the value."""
  known = [x for x in values if x is not None]
  return float(np.mean(known)) if known else None


def anchors_differ(found: list[tuple[Group, list[dict]]]) -> list[str]:
  """Settings in which runs of one seed were measured on different anchors, so do not compare."""
  seen = {}
  for group, results in found:
    for x in results:
      if 'anchor_digest' in x:
        seen.setdefault((group.setting, x['seed']), set()).add(x['anchor_digest'])
  return list(dict.fromkeys(setting for (setting, _), digests in seen.items() if len(digests) > 1))
