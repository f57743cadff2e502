"""Exported policies by name: those that come along, and those in the working folder's policies/."""

import pathlib

from recon_tf.common.errors import UserError, nearest
from recon_tf.common.versions import ROOT

# The user's own in the working folder; in a checkout beside the package, in a wheel inside of it.
PLACES = (
  pathlib.Path('policies'),
  ROOT / 'policies',
  pathlib.Path(__file__).parent / 'policies',
)


def gallery() -> dict[str, pathlib.Path]:
  """Folders of the exported policies by name."""
  found = [x.parent for place in PLACES for x in sorted(place.glob('*/policy.json'))]
  first = {x.name: x for x in reversed(found)}  # of one name, the user's own
  return dict(sorted(first.items()))


def find_policy(path: str | pathlib.Path) -> pathlib.Path:
  """The folder of a run or an exported policy, or the one of that name in the gallery."""
  folder, names = pathlib.Path(path), gallery()
  if any((folder / x).exists() for x in ('policy.json', 'config.yaml')):
    return folder
  if str(path) in names:
    return names[str(path)]
  if folder.is_file():
    raise UserError(f"'{path}' is a file; give the folder of the run or of the exported policy.")
  if folder.is_dir():
    raise UserError(
      f"'{path}' holds neither a run (config.yaml) nor an exported policy (policy.json)."
    )
  hint = nearest(str(path), names) or f' The gallery has {", ".join(names) or "none yet"}.'
  raise UserError(f"There is no folder and no policy of the gallery called '{path}'.{hint}")
