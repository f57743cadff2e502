"""What a run records of its code and packages."""

import os
import subprocess

import numpy as np

from recon_tf.common import versions


def git(folder, *args):
  identity = ['-c', 'user.name=a', '-c', 'user.email=a@b.c']
  command = ['git', '-C', str(folder), *identity, *args]
  return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_commit_and_whether_files_differ_from_it(tmp_path):
  assert versions.git_state(tmp_path) == {'commit': '', 'changed': False}
  git(tmp_path, 'init', '-q')
  (tmp_path / 'code.py').write_text('a = 1\n')
  git(tmp_path, 'add', '.')
  git(tmp_path, 'commit', '-q', '-m', 'first')
  head = git(tmp_path, 'rev-parse', 'HEAD')
  assert versions.git_state(tmp_path) == {'commit': head, 'changed': False}
  (tmp_path / 'code.py').write_text('a = 2\n')
  assert versions.git_state(tmp_path) == {'commit': head, 'changed': True}
  # A package that merely lies inside of a repository is not of its commit.
  (tmp_path / 'inside').mkdir()
  assert versions.git_state(tmp_path / 'inside')['commit'] == ''


def test_asking_for_the_commit_writes_nothing_into_the_repository(tmp_path):
  """Refreshing the index takes a lock, which a full disk or a kill would leave behind."""
  git(tmp_path, 'init', '-q')
  (tmp_path / 'code.py').write_text('a = 1\n')
  git(tmp_path, 'add', '.')
  git(tmp_path, 'commit', '-q', '-m', 'first')
  os.utime(tmp_path / 'code.py', (1, 1))  # the index is out of date now
  before = (tmp_path / '.git' / 'index').read_bytes()
  assert not versions.git_state(tmp_path)['changed']
  assert (tmp_path / '.git' / 'index').read_bytes() == before


def test_every_start_is_recorded(tmp_path):
  assert versions.read_starts(tmp_path) == []
  versions.record_meta(tmp_path)
  versions.record_meta(tmp_path)
  starts = versions.read_starts(tmp_path)
  assert len(starts) == 2
  assert starts[0]['versions']['numpy'] == np.__version__
  assert starts[0]['cores'] >= 1
  assert [x.name for x in tmp_path.iterdir()] == ['meta.json']
  (tmp_path / 'meta.json').write_text('[1')
  assert versions.read_starts(tmp_path) == []
