"""A finished run of a tiny agent in the U-maze with a real expert, made as a user makes it."""

import hashlib
import pathlib
import subprocess
import sys

from tests.helpers import loop_fixtures

ROOT = pathlib.Path(__file__).parents[2]
# The expert needs 23 decisions at this repeat; probes and their recovery need 30 more.
CHANGES = {
  'env.maze.terminate': False,  # every episode has its full length
  'env.length': 60,
  'env.maze.repeat': 8,
  'demo_episodes': 2,
  'keep': 9,
  'steps': 180,
  'prefill': 60,
  'eval_every': 1000,
  'eval_final': 2,
}


def script(name: str, *args, cwd: pathlib.Path) -> subprocess.CompletedProcess:
  command = [sys.executable, str(ROOT / 'scripts' / f'{name}.py'), *map(str, args)]
  return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def tiny_run(folder: pathlib.Path, *presets: str, **changes) -> pathlib.Path:
  """The run folder; demonstrations lie in folder/demos."""
  config = loop_fixtures.run_config('runs', '', **{**CHANGES, **changes})
  flags = loop_fixtures.as_flags(config)
  result = script('train', '--configs', 'maze', 'state', *presets, *flags, cwd=folder)
  assert result.returncode == 0, result.stderr
  return folder / 'runs' / 'maze_umaze' / (presets[0] if presets else 'recon') / str(config.seed)


def digests(run: pathlib.Path) -> dict[str, str]:
  """Every file of a run but for what evaluations and diagnoses add."""
  added = ('diagnose/', *(f'eval/{x}.json' for x in ('robust', 'clean', 'recovery', 'windows')))
  files = {str(x.relative_to(run)): x for x in run.rglob('*') if x.is_file()}
  return {
    name: hashlib.sha256(path.read_bytes()).hexdigest()
    for name, path in files.items()
    if not name.startswith(added)
  }


def refused(result: subprocess.CompletedProcess, *parts) -> None:
  """One sentence, a non-zero code and no traceback."""
  assert result.returncode == 1, result.stderr
  lines = [x for x in result.stderr.splitlines() if x.startswith('error: ')]
  assert len(lines) == 1, result.stderr
  assert 'Traceback' not in result.stderr
  for part in parts:
    assert str(part) in lines[0], lines[0]
