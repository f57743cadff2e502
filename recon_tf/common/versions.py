"""What code and packages a run was made with, for its meta.json."""

import datetime
import importlib.metadata
import os
import pathlib
import platform
import subprocess

from recon_tf.common.errors import UserError
from recon_tf.common.files import check_fields, read_json, warn_once, write_json

PACKAGES = (
  'tensorflow', 'tensorflow-probability', 'numpy', 'mujoco', 'dm_control', 'metaworld',
  'gymnasium', 'gymnasium-robotics',
)  # fmt: skip
STARTS = {'starts': [dict]}
START = {'commit?': str, 'python?': str, 'versions?': dict}  # older versions recorded less
ROOT = pathlib.Path(__file__).parents[2]


def door(command: str) -> list[str]:
  """How a user calls a command: by its script in a checkout, which a wheel does not have."""
  if (ROOT / 'scripts' / f'{command}.py').exists():
    return ['python', f'scripts/{command}.py']
  return ['recon-tf', command]


def run_meta() -> dict:
  """Commit, package versions, machine and time of this start."""
  now = datetime.datetime.now(datetime.UTC)
  return {
    'started': now.isoformat(timespec='seconds'),
    **git_state(ROOT),
    'python': platform.python_version(),
    'versions': package_versions(),
    'system': platform.platform(terse=True),
    'cores': os.cpu_count(),
  }


def record_meta(folder: pathlib.Path) -> None:
  """Adds this start to the run's meta.json; a resumed run has several."""
  path = folder / 'meta.json'
  before = read_json(path, STARTS) or {'starts': []}
  write_json(path, {'starts': [*before['starts'], run_meta()]})


def read_starts(folder: pathlib.Path) -> list[dict]:
  """Every recorded start of a run, oldest first; none for a run that recorded nothing."""
  path = folder / 'meta.json'
  try:
    content = read_json(path, STARTS) or {'starts': []}
    return [check_fields(x, START, f"'{path}'") for x in content['starts']]
  except UserError as error:
    warn_once(str(error))
    return []


def package_versions(names: tuple[str, ...] = PACKAGES) -> dict[str, str]:
  """Versions of the installed packages among these."""
  versions = {}
  for name in names:
    try:
      versions[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
      continue
  return versions


def git_state(folder: pathlib.Path) -> dict:
  """The commit of a checkout and whether tracked files differ from it; empty outside of one."""
  commit = _git(folder, 'rev-parse', 'HEAD')
  # An installed package may lie inside of somebody else's repository.
  if not commit or not (folder / '.git').exists():
    # An image carries the commit that it was built from.
    return {'commit': os.environ.get('RECON_COMMIT', ''), 'changed': False}
  changed = _git(folder, 'status', '--porcelain', '--untracked-files=no')
  return {'commit': commit, 'changed': bool(changed)}


def _git(folder: pathlib.Path, *args: str) -> str:
  # Reading alone: git would refresh its index too, and leave the lock of it on a full disk.
  command = ['git', '--no-optional-locks', '-C', str(folder), *args]
  try:
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
  except (OSError, subprocess.TimeoutExpired):
    return ''
  return result.stdout.strip() if result.returncode == 0 else ''
