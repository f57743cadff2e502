"""recon-tf play and gallery as a user runs them, on a run and on its export."""

import json
import os
import re
import shutil
import subprocess
import sys

import imageio
import pytest

from tests.helpers.run_fixtures import ROOT, refused, tiny_run


def recon(*args, cwd):
  command = [sys.executable, '-m', 'recon_tf', *map(str, args)]
  env = {**os.environ, 'PYTHONPATH': str(ROOT)}
  return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=env)


@pytest.fixture(scope='module')
def run(tmp_path_factory):
  return tiny_run(tmp_path_factory.mktemp('play'), steps=60)


@pytest.mark.slow
def test_run_and_export_play_the_same_episodes(run, tmp_path):
  """The environment records its spaces, and the export acts as the run does."""
  first = recon('play', run, '--episodes', 2, cwd=tmp_path)
  assert first.returncode == 0, first.stderr
  frames = imageio.mimread(tmp_path / 'maze_umaze-recon.mp4', memtest=False)
  assert frames[0].shape[1] == 256
  assert len(frames) > 40
  made = recon('export', run, tmp_path / 'policies' / 'mine', cwd=tmp_path)
  assert made.returncode == 0, made.stderr
  assert made.stderr == ''
  again = recon('play', 'policies/mine', '--episodes', 2, '--out', 'other.gif', cwd=tmp_path)
  assert again.returncode == 0, again.stderr
  lines = [x.stdout.splitlines()[:2] for x in (first, again)]
  assert lines[0] == lines[1]
  assert 'return' in lines[0][0]
  assert 'success' in lines[0][0]
  assert (tmp_path / 'other.gif').stat().st_size > 10_000


@pytest.mark.slow
def test_run_is_added_to_the_gallery(run, tmp_path):
  """In one command: both formats within the limit, the table, and only its own thumbnail."""
  page, thumbnails = tmp_path / 'page.md', tmp_path / 'gallery'
  page.write_text('before\n<!-- gallery -->\nold\n<!-- end of gallery -->\nafter\n')
  shutil.copytree(ROOT / 'docs' / 'gallery', thumbnails)
  before = {x.name: x.read_bytes() for x in thumbnails.iterdir()}
  shown = recon('gallery', '--add', run, '--write', 'page.md', cwd=tmp_path)
  assert shown.returncode == 0, shown.stderr
  assert re.search(r'^maze_umaze +recon +success 0\.\d+, return', shown.stdout, re.MULTILINE)
  text = page.read_text()
  assert text.startswith('before\n<!-- gallery -->\n| |')
  assert text.endswith('<!-- end of gallery -->\nafter\n')
  assert '![maze_umaze](gallery/maze_umaze.gif)' in text
  assert 'old' not in text
  changed = [k for k, v in before.items() if (thumbnails / k).read_bytes() != v]
  assert changed == ['maze_umaze.gif']
  assert (tmp_path / 'policies/maze_umaze/policy.tflite').exists()
  card = json.loads((tmp_path / 'policies/maze_umaze/policy.json').read_text())
  assert card['tflite_half']
  assert card['info']['score']['episodes'] == 2


def test_bad_input(tmp_path):
  refused(recon('play', 'nobody', cwd=tmp_path), 'nobody', 'gallery')
  refused(recon('play', 'nobody', '--episodes', 0, cwd=tmp_path), '--episodes')
  refused(recon('play', 'maze_umaze', '--out', 'ball', cwd=tmp_path), '--out', 'ball', '.gif')
  refused(recon('export', tmp_path, tmp_path / 'out', cwd=tmp_path), 'no run')
  (tmp_path / 'page.md').write_text('nothing here')
  refused(recon('gallery', '--write', 'page.md', cwd=tmp_path), 'page.md', '<!-- gallery -->')
  refused(recon('gallery', '--add', 'nobody', cwd=tmp_path), '--add', 'nobody', 'no run')
