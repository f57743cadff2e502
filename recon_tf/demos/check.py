"""What a folder of episodes holds, as text."""

import pathlib

import numpy as np

from recon_tf.common.episodes import summary


def check_folder(folder: str | pathlib.Path) -> str:
  """Validates every episode and describes the folder; a UserError names the first fault."""
  found = summary(folder)
  meta = found['meta'] or {}
  lines = [
    f'folder     {found["folder"]}',
    f'task       {meta.get("task") or "unknown (no meta.json)"}',
    f'expert     {meta.get("expert") or "unknown"}',
    f'episodes   {found["episodes"]} (rejected {meta.get("rejected", 0)})',
    f'steps      {found["steps"]}',
    f'lengths    {_spread(found["lengths"], ".0f")}',
    f'returns    {_spread(found["returns"], ".2f")}',
    f'successes  {_successes(found)}',
    f'actions    {found["action_range"][0]:.3f} to {found["action_range"][1]:.3f}',
    'keys',
  ]
  for key, (dtype, shape) in found['shapes'].items():
    lines.append(f'  {key:<18} {dtype:<8} {list(shape)}')
  return '\n'.join(lines)


def _spread(values: list, style: str) -> str:
  low, mean, high = np.min(values), np.mean(values), np.max(values)
  return f'{low:{style}} to {high:{style}}, mean {mean:{style}}'


def _successes(found: dict) -> str:
  if found['successes'] is None:
    return 'not recorded'
  return f'{found["successes"]} of {found["episodes"]}'
