"""XLA programs kept between runs, so that only the first start compiles."""

import hashlib
import os
import pathlib
import platform
import sys
from importlib import metadata

FLAG = '--tf_xla_persistent_cache_directory'


def use_compilation_cache(part: str = '') -> pathlib.Path | None:
  """Call first thing in a script; starts it once more if Python's hash seed is random.

  The cache finds a program by its exact text, and that depends on the order of sets while
  TensorFlow traces it. RECON_XLA_CACHE names another folder; empty turns the cache off.
  Returns the folder of the programs, or of that part of them.
  """
  root = _root()
  if not root:
    return None
  if 'PYTHONHASHSEED' not in os.environ:
    os.environ['PYTHONHASHSEED'] = '0'
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
  return keep_programs(pathlib.Path(root) / machine_key() / part)


def use_cache_in_process() -> pathlib.Path | None:
  """The same for a program that is running, such as a notebook, and cannot be started once more.

  Works until TensorFlow's first operation, and needs a hash seed that is fixed.
  """
  root = _root()
  if not root or FLAG in os.environ.get('TF_XLA_FLAGS', ''):
    return None  # off, or a script has turned it on
  if not os.environ.get('PYTHONHASHSEED', '').isdecimal():
    print('Compiled programs are kept for the next start if Python runs with PYTHONHASHSEED=0.')
    return None
  return keep_programs(pathlib.Path(root) / machine_key())


def _root() -> str:
  default = pathlib.Path.home() / '.cache' / 'recon_tf'
  return os.environ.get('RECON_XLA_CACHE', str(default))


def keep_programs(folder: pathlib.Path) -> pathlib.Path | None:
  """Stores every compiled program there, a file each; works until TensorFlow's first operation."""
  try:
    folder.mkdir(parents=True, exist_ok=True)
  except OSError:
    return None  # a cache that cannot be written is no reason not to run
  flags = f'{FLAG}={folder}'
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
