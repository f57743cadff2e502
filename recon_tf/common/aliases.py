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
  if old:
    _share_decays(values)
  agent = values.get('agent')
  if old and agent in ('dadac', 'iqmpc'):
    # The smaller of two batch sizes held; only the agent's own is left.
    sizes = [values.pop(f'replay.{x}', None) for x in ('batch', 'expert_batch')]
    values[f'{agent}.batch'] = min(x for x in (*sizes, values.get(f'{agent}.batch')) if x)
  return values


def _share_decays(values: dict[str, Any]) -> None:
  """Decays were updates; now they are shares of all updates of the run."""
  names = ('steps', 'prefill', 'train_every', 'train_steps', 'pretrain', 'pretrain_bc')
  if any(x not in values for x in names):
    return
  steps, prefill, every, count, *before = (values[x] for x in names)
  total = max(1, sum(before) + max(0, steps - prefill) // max(1, every) * count)
  for key in [x for x in values if x.endswith('_opt.decay')]:
    values[key] = min(1.0, values[key] / total)
