"""XLA programs kept between runs, so that only the first start compiles."""

import hashlib
import os
import pathlib
import platform
import sys
from importlib import metadata


def use_compilation_cache(part: str = '') -> pathlib.Path | None:
  """Call first thing in a script; starts it once more if Python's hash seed is random.

  The cache finds a program by its exact text, and that depends on the order of sets while
  TensorFlow traces it. RECON_XLA_CACHE names another folder; empty turns the cache off.
  Returns the folder of the programs, or of that part of them.
  """
  default = pathlib.Path.home() / '.cache' / 'recon_tf'
  root = os.environ.get('RECON_XLA_CACHE', str(default))
  if not root:
    return None
  if 'PYTHONHASHSEED' not in os.environ:
    os.environ['PYTHONHASHSEED'] = '0'
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
  return keep_programs(pathlib.Path(root) / machine_key() / part)


def keep_programs(folder: pathlib.Path) -> pathlib.Path | None:
  """Stores every compiled program there, a file each; works until TensorFlow is imported."""
  try:
    folder.mkdir(parents=True, exist_ok=True)
  except OSError:
    return None  # a cache that cannot be written is no reason not to run
  flags = f'--tf_xla_persistent_cache_directory={folder}'
  os.environ['TF_XLA_FLAGS'] = f'{os.environ.get("TF_XLA_FLAGS", "")} {flags}'.strip()
  return folder


def machine_key() -> str:
  """Programs are for one TensorFlow and one kind of processor."""
  try:
    lines = pathlib.Path('/proc/cpuinfo').read_text().splitlines()
    processor = [x for x in lines if x.startswith(('model name', 'flags'))][:2]
  except OSError:
    processor = [platform.processor()]
  text = '|'.join([metadata.version('tensorflow'), platform.machine(), *processor])
  return hashlib.sha256(text.encode()).hexdigest()[:12]
