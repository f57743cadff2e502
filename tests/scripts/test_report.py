"""scripts/report.py and scripts/results.py as a user runs them; the page opens in a browser."""

import csv
import io
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

from recon_tf.analysis.archive import archive_runs, clearest, frames_of
from recon_tf.analysis.cost import run_cost
from recon_tf.analysis.regions import allocation
from recon_tf.analysis.report.style import COLORS
from recon_tf.analysis.runs import find_runs, open_run
from recon_tf.common.versions import record_meta
from tests.helpers.run_fixtures import refused, script, tiny_run
from tests.helpers.written_measures import (
  write_acquisition,
  write_gap,
  write_imagination,
  write_recoverability,
  write_recovery,
  write_robust,
  write_windows,
)
from tests.helpers.written_runs import lines, make_run, walk

CHROMIUM = next(filter(None, map(shutil.which, ('chromium', 'chromium-browser'))), None)
TRACES = {'disc/expert': 0.6, 'disc/main': 0.4, 'gate/mean': 0.5, 'gate/delta': 0.45}
MEASURED = (
  'robustness', 'recovery', 'imagination', 'gap', 'deciles', 'recoverability', 'tubes',
  'acquisition', 'allocation', 'windows', 'windows_model', 'windows_returns', 'compute',
)  # fmt: skip
SECTIONS = ('curves', 'table', 'runs', 'traces', *MEASURED, 'commands', 'versions')


def browse(page, folder, *args):
  """Headless Chromium with a profile of its own."""
  if CHROMIUM is None:
    pytest.skip('no Chromium; install it with: apt-get install chromium')
  command = [CHROMIUM, '--headless', '--no-sandbox', '--disable-gpu', '--hide-scrollbars']
  command += [f'--user-data-dir={folder}/profile', *args, page.as_uri()]
  result = subprocess.run(command, capture_output=True, check=False, timeout=600)
  assert result.returncode == 0, result.stderr[-2000:]
  return result.stdout.decode()


def screenshot(page, folder, height=900):
  """uint8 [height, 1280, 3] of the page's top."""
  path = folder / 'page.png'
  browse(page, folder, f'--window-size=1280,{height}', f'--screenshot={path}')
  return np.array(Image.open(path).convert('RGB')).astype(int)


def shows(picture, color):
  """Number of pixels in a colour, such as that of a method, which only figures have."""
  wanted = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
  return int((np.abs(picture - wanted).max(-1) <= 3).sum())


def self_contained(text):
  """Everything that a browser would load is inside of the page."""
  links = re.findall(r'(?:src|href)\s*=\s*"([^"]{0,20})', text)
  assert links
  assert all(x.startswith(('data:image/', '#')) for x in links)  # '#': a part of this page
  assert not re.search(r'<script|<link|@import|url\(', text)


@pytest.fixture(scope='module')
def comparison(tmp_path_factory):
  """Three seeds of two methods, one of them unfinished, and demonstrations."""
  home = tmp_path_factory.mktemp('comparison')
  walk(home / 'expert', [[0, 0], [1, 0], [2, 0]])
  for method, successes in (('cmil', (0.2, 0.3, 0.7)), ('recon', (0.8, 0.9, 1.0))):
    for seed, success in enumerate(successes):
      run = make_run(
        home / 'runs', method, seed, evaluations={0: 0.1, 3000: success / 2},
        final=None if (method, seed) == ('recon', 2) else (6000, success),
        metrics=lines(TRACES, [0, 1000, 3000, 6000], 5), demos=str(home / 'expert'), prefill=0,
      )  # fmt: skip
      walk(run.path / 'train_episodes', [[0, 0], [1, 0.01], [1, 0.05], [1, 3]], [0, 0, 1, 1])
      record_meta(run.path)
      if seed < 2:
        write_robust(run, {'Clean': success, 'Noise': 0.2})
        write_recovery(run, [1.0, success])
        write_imagination(run, 0.1, success)
        write_gap(run, 2 * success, 0.5, 0.004)
        write_recoverability(run, [success] * 15)
        write_acquisition(run, {0: 0.02, 1000: 0.01})
        write_windows(run, 0.4, 0.02, 0.01)
  return home


@pytest.fixture(scope='module')
def report(comparison):
  result = script('report', 'runs', '--out', 'page', cwd=comparison)
  assert result.returncode == 0, result.stderr
  return comparison / 'page' / 'index.html'


def test_page_has_every_part_and_needs_nothing_else(report):
  text = report.read_text()
  self_contained(text)
  for anchor in SECTIONS:
    assert f'id="{anchor}"' in text
  names = ('curves', 'final', 'clock', 'traces', 'allocation', 'recovery')
  for name in (*names, 'robustness', 'gap', 'deciles', 'mechanism', 'diagnostics'):
    assert (report.parent / f'{name}.png').stat().st_size > 1000
    assert (report.parent / f'{name}.svg').stat().st_size > 1000
  assert '--configs maze cpu state recon --task maze_pointmaze --seed 2' in text
  # Mean of 20, 30 and 70; the paper's figures; the run that goes on.
  assert '<td class="number">40.0</td>' in text
  assert '<td class="number">41.3</td>' in text
  assert 'Not all runs are finished' in text
  # Means of two seeds, the pair's difference, and the paper's.
  assert '<td class="number">25.0/85.0 (+60.0 pp)</td>' in text
  assert '<td class="number">41.3/100.0 (+58.7 pp)</td>' in text
  assert 'Not measured yet' not in text
  assert 'They are no reproduction of one another' in text  # small runs beside the paper's
  assert len(re.findall('[0-9a-f]{40}', text)) >= 1  # the commit
  linked = re.findall(r'<a href="#([^"]+)"', text)
  assert linked == re.findall(r'<section id="([^"]+)"', text)


def test_browser_shows_the_page(report, tmp_path):
  dom = browse(report, tmp_path, '--dump-dom')
  for anchor in SECTIONS:
    assert f'id="{anchor}"' in dom
  picture = screenshot(report, tmp_path)
  # Both methods' lines are on the first screen, and it is neither empty nor full.
  assert shows(picture, COLORS['recon']) > 100
  assert shows(picture, COLORS['cmil']) > 100
  assert 0.02 < (picture.sum(-1) < 600).mean() < 0.5


def test_results_are_small_files_and_one_page(comparison):
  notes = '## What came out\n\nWritten *by hand*, with 1 < 2 and `code`.'
  (comparison / 'results').mkdir()
  (comparison / 'results' / 'notes.md').write_text(notes + '\n')
  result = script('results', 'runs', '--out', 'results', cwd=comparison)
  assert result.returncode == 0, result.stderr
  folder = comparison / 'results'
  readme = (folder / 'README.md').read_text()
  assert notes in readme
  assert '| `cmil` | 40.0 |' in readme
  assert re.search(r'\| `cmil` \|.*\| 41\.3 \|', readme)
  assert re.search(r'\| `recon` \| .*unfinished.*\| 100\.0 \|', readme)
  assert readme.count('python scripts/train.py') == 6
  assert str(comparison) not in readme
  assert '| maze_pointmaze | cmil/recon | 2/2 | 25.0/85.0 (+60.0 pp) |' in readme
  for title in (
    'World-model diagnostics',
    'Recoverability',
    'Acquisition gain',
    'Compute overhead',
  ):
    assert f'## {title}' in readme
  for link in re.findall(r'\]\((figures/[^)]*)\)', readme):
    assert (folder / link).exists()
  runs = list(csv.DictReader(io.StringIO((folder / 'runs.csv').read_text())))
  assert [(x['method'], x['seed']) for x in runs] == [
    (m, s) for m in ('cmil', 'recon') for s in '012'
  ]
  assert [float(x['value']) for x in runs] == [20, 30, 70, 80, 90, 50]
  assert {x['explorer_near'] for x in runs} == {'0.5'}
  evaluations = list(csv.DictReader(io.StringIO((folder / 'evaluations.csv').read_text())))
  assert len(evaluations) == 5 * 3 + 2
  content = json.loads((folder / 'table.json').read_text())
  rows = content['rows']
  assert tuple(content['measured']) == MEASURED
  assert content['measured']['robustness'][1][3] == '25.0'
  assert rows[0]['interval'][0] < 40 < rows[0]['interval'][1]
  assert [x['paper'] for x in rows] == [41.3, 100.0]
  size = sum(x.stat().st_size for x in folder.rglob('*') if x.is_file())
  assert size < 2e6
  # The copies alone, as in a fresh clone, give the same page.
  before = {x: x.read_bytes() for x in folder.glob('*.*') if x.suffix in ('.md', '.csv', '.json')}
  (comparison / 'runs').rename(comparison / 'gone')
  try:
    result = script('results', cwd=comparison)
  finally:
    (comparison / 'gone').rename(comparison / 'runs')
  assert result.returncode == 0, result.stderr
  for path, content in before.items():
    assert path.read_bytes() == content, path


def test_a_run_that_has_only_begun(tmp_path):
  make_run(tmp_path / 'runs')
  result = script('report', tmp_path / 'runs', cwd=tmp_path)
  assert result.returncode == 0, result.stderr
  text = (tmp_path / 'runs' / 'report' / 'index.html').read_text()
  assert 'No run has been evaluated yet' in text
  assert 'Nothing was logged yet' in text
  assert 'No videos were recorded' in text
  assert 'Not measured yet' in text
  assert 'python scripts/evaluate.py RUN --robust' in text


def test_folders_without_runs_are_refused(tmp_path):
  refused(script('report', tmp_path, cwd=tmp_path), tmp_path, 'holds no runs')
  refused(script('report', tmp_path / 'gone', cwd=tmp_path), tmp_path / 'gone')
  refused(script('results', tmp_path, cwd=tmp_path), tmp_path, 'holds no runs')
  make_run(tmp_path / 'runs')
  (tmp_path / 'file').write_text('')
  refused(script('report', 'runs', '--out', 'file/page', cwd=tmp_path), 'file/page', '--out')


@pytest.mark.slow
def test_real_run_with_videos(tmp_path, monkeypatch):
  see = {'cnn_keys': 'image', 'mlp_keys': '$^', 'cnn_depth': 2}
  changes = {'env.render': True, 'encoder': see, 'decoder': see, 'eager': True}
  run = tiny_run(tmp_path, video_every=1, eval_every=90, **changes)
  result = script('report', run, '--out', 'page', cwd=tmp_path)
  assert result.returncode == 0, result.stderr
  page = tmp_path / 'page' / 'index.html'
  text = page.read_text()
  self_contained(text)
  # A single run, straight from its folder: an evaluation, and an open-loop prediction as a strip.
  assert text.count('data:image/gif') == 1
  assert 'id="videos"' in text
  assert 'id="open_loop"' in text
  assert 'Allocation of real steps' in text
  assert (tmp_path / 'page' / 'allocation.png').exists()
  (sheet,) = (tmp_path / 'page').glob('open_loop-image-*.png')
  assert min(Image.open(sheet).size) > 3 * 64  # truth, model and error, enlarged
  assert 'finished</td>' in browse(page, tmp_path, '--dump-dom')
  # The archive of the run has the newest prediction and the same steps, and no weights.
  monkeypatch.chdir(tmp_path)  # where the demonstrations are
  original = open_run(run)
  archive_runs([original], run.parents[2], tmp_path / 'kept', clips=('recon',))
  (kept,) = find_runs(tmp_path / 'kept')
  check_clip(kept.gifs()['open_loop/image'], original.gifs()['open_loop/image'], original)
  assert set(kept.gifs()) == {'open_loop/image'}
  assert allocation(kept) == allocation(original)
  assert run_cost(kept).parts == run_cost(original).parts
  assert run_cost(kept).fps == pytest.approx(run_cost(original).fps, rel=1e-3)
  assert kept.final() == original.final()
  assert sum(x.stat().st_size for x in (tmp_path / 'kept').rglob('*') if x.is_file()) < 1e6


def check_clip(kept, gifs, run):
  """The newest step alone, and of it one prediction in nearly its colours."""
  assert list(kept) == [max(gifs)]
  made = frames_of(kept[max(gifs)]).astype(int)
  expected = clearest(frames_of(gifs[max(gifs)]), run.config.env.size[1]).astype(int)
  assert made.shape == expected.shape
  assert np.abs(made - expected).mean() < 2
