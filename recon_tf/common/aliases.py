"""Names of settings in earlier versions, so that old run folders still open."""

from collections.abc import Mapping
from typing import Any

RENAMED = {
  'recon_scale.image': 'decoder_scale.image',
  'recon_scale.vector': 'decoder_scale.vector',
}
# Factors on U in the rewards, which are part of alpha and beta now.
FOLDED = {'uncertainty.main_scale': 'main.alpha', 'uncertainty.explorer_scale': 'explorer.beta'}


def modernize(flat: Mapping[str, Any]) -> dict[str, Any]:
  """The settings of a saved config under their present names, with the same meaning."""
  old = any(key in flat for key in RENAMED)
  values = {RENAMED.get(key, key): value for key, value in flat.items() if key not in FOLDED}
  for factor, key in FOLDED.items():
    if factor in flat and key in values:
      values[key] = flat[factor] * values[key]
  agent = values.get('agent')
  if old and agent in ('dadac', 'iqmpc'):
    # The smaller of two batch sizes held; only the agent's own is left.
    sizes = [values.pop(f'replay.{x}', None) for x in ('batch', 'expert_batch')]
    values[f'{agent}.batch'] = min(x for x in (*sizes, values.get(f'{agent}.batch')) if x)
  return values
