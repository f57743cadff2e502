"""Where compiled programs are kept, and what happens where they cannot be."""

import os
import pathlib
import subprocess
import sys

from recon_tf.common import cache

PROGRAM = """
import os, sys
from recon_tf.common import cache
folder = cache.use_compilation_cache('part')
print(folder, os.environ['PYTHONHASHSEED'], os.environ.get('TF_XLA_FLAGS', ''), sys.argv[1:])
"""


def start(tmp_path: pathlib.Path, **changes: str) -> str:
  """What a script prints that calls the cache first thing."""
  script = tmp_path / 'script.py'
  script.write_text(PROGRAM)
  env = {k: v for k, v in os.environ.items() if k not in ('PYTHONHASHSEED', 'TF_XLA_FLAGS')}
  env['PYTHONPATH'] = os.pathsep.join(sys.path)
  command = [sys.executable, script, '--flag', 'a b']
  result = subprocess.run(command, capture_output=True, text=True, env={**env, **changes})
  assert result.returncode == 0, result.stderr
  return result.stdout.strip()


def test_starts_once_more_with_a_fixed_hash_seed_and_the_same_flags(tmp_path):
  folder = tmp_path / 'programs' / cache.machine_key() / 'part'
  printed = start(tmp_path, RECON_XLA_CACHE=str(tmp_path / 'programs'))
  flag = f'--tf_xla_persistent_cache_directory={folder}'
  assert printed == f"{folder} 0 {flag} ['--flag', 'a b']"
  assert folder.is_dir()


def test_flags_of_the_user_stay(tmp_path):
  own = '--tf_xla_auto_jit=0'
  printed = start(tmp_path, RECON_XLA_CACHE=str(tmp_path), TF_XLA_FLAGS=own)
  assert f' {own} --tf_xla_persistent_cache_directory=' in printed


def test_an_empty_name_turns_it_off(tmp_path):
  printed = start(tmp_path, RECON_XLA_CACHE='', PYTHONHASHSEED='5')
  assert printed == "None 5  ['--flag', 'a b']"


def test_a_folder_that_cannot_be_made_is_no_reason_not_to_run(tmp_path):
  (tmp_path / 'file').write_text('')
  printed = start(tmp_path, RECON_XLA_CACHE=str(tmp_path / 'file'))
  assert printed.startswith('None 0  ')


LIBRARY = """
import os, pathlib, sys
import tensorflow as tf
from recon_tf.common import cache
folder = cache.use_cache_in_process()
function = tf.function(lambda x: tf.reduce_sum(x @ x), jit_compile=True)
function(tf.ones((3, 3)))
print(len(list(folder.iterdir())) if folder else folder)
"""


def library(tmp_path, **changes: str) -> list[str]:
  env = {k: v for k, v in os.environ.items() if k not in ('PYTHONHASHSEED', 'TF_XLA_FLAGS')}
  env |= {'PYTHONPATH': os.pathsep.join(sys.path), 'RECON_XLA_CACHE': str(tmp_path / 'kept')}
  command = [sys.executable, '-c', LIBRARY]
  result = subprocess.run(command, capture_output=True, text=True, env={**env, **changes})
  assert result.returncode == 0, result.stderr
  return result.stdout.splitlines()


def test_python_programs_keep_what_they_compile_too(tmp_path):
  """TensorFlow is imported already, as by `from recon_tf import loop`."""
  assert library(tmp_path, PYTHONHASHSEED='0') == ['1']
  assert library(tmp_path, PYTHONHASHSEED='0') == ['1']  # the same program, found again
  (told, none) = library(tmp_path)
  assert 'PYTHONHASHSEED=0' in told
  assert none == 'None'
