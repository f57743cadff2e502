"""scripts/reproduce.py as a user runs it: what is missing, what is reused, what fails."""

import re
import sys

import pytest

from recon_tf.analysis.report import reproduce as reproduction
from recon_tf.analysis.report.registry import FIGURES
from recon_tf.commands import reproduce as command
from recon_tf.common import UserError
from tests.helpers.run_fixtures import ROOT, digests, refused, script
from tests.helpers.written_runs import make_run

SMALL = ('--configs', 'maze', 'cpu', 'state')
TINY = (
  '--configs', 'maze', 'cpu', 'debug', 'state', '--task', 'maze_umaze', '--env.length', '20',
  '--env.maze.repeat', '16', '--steps', '40', '--eval_every', '1000', '--eval_final', '1',
)  # fmt: skip


def reproduce(folder, *flags):
  return script('reproduce', *flags, cwd=folder)


def commands(result):
  return [x for x in result.stdout.splitlines() if x.startswith('python scripts/')]


def contents(folder):
  return {x: x.read_bytes() for x in folder.rglob('*') if x.is_file()}


def test_list_has_every_entry_with_its_number_and_label(tmp_path):
  result = reproduce(tmp_path, '--list')
  assert result.returncode == 0, result.stderr
  page = (ROOT / 'docs' / 'reproduce.md').read_text()
  for name, figure in FIGURES.items():
    kind, number = reproduction.kind_of(figure), reproduction.number_of(figure)
    assert f'--{kind} {name} ' in result.stdout
    if figure.label.startswith('ours:'):
      continue
    assert f'{kind} {number}, {figure.label}: {figure.title}' in result.stdout
    assert isinstance(number, int)
    assert f'| `{name}` | {kind.capitalize()} {number} |' in page


def test_dry_names_what_is_missing_and_does_nothing(tmp_path):
  """Of four runs one is finished and judged, one not judged, one unfinished, one missing."""
  changes = {'presets': ('cpu', 'state'), 'task': 'maze_umaze'}
  judged = make_run(tmp_path / 'runs', 'recon', 0, final=(3000, 0.9), **changes)
  (judged.path / 'eval' / 'robust.json').write_text('{"step": 3000}')
  make_run(tmp_path / 'runs', 'recon', 1, final=(3000, 0.8), **changes)
  make_run(tmp_path / 'runs', 'cmil', 0, evaluations={1000: 0.1}, final=(2000, 0.5), **changes)
  before = contents(tmp_path)
  flags = ('--table', 'robustness', *SMALL, '--task', 'maze_umaze', '--seeds', '0', '1', '--dry')
  result = reproduce(tmp_path, *flags, '--logdir', 'runs')
  assert result.returncode == 0, result.stderr
  assert contents(tmp_path) == before
  states = re.findall(r'^(\w+) +runs/maze_umaze/(\w+/\d)$', result.stdout, re.MULTILINE)
  assert sorted(states) == [
    ('finished', 'recon/0'), ('finished', 'recon/1'), ('missing', 'cmil/1'),
    ('unfinished', 'cmil/0'),
  ]  # fmt: skip
  train = 'python scripts/train.py --configs maze cpu state cmil --task maze_umaze --logdir runs'
  judge = 'python scripts/evaluate.py runs/maze_umaze/{} --robust'
  assert sorted(commands(result)) == sorted(
    [f'{train} --seed {x}' for x in (0, 1)]
    + [judge.format(x) for x in ('recon/1', 'cmil/0', 'cmil/1')]
  )


def test_finished_runs_are_drawn_as_they_are(tmp_path):
  """By the paper's number; without a command that is missing, no training starts."""
  for method in FIGURES['recoverability'].methods:
    for seed in (0, 1):
      make_run(tmp_path / 'runs', method, seed, 'maze_pointmaze', {0: 0.1, 2000: 0.4}, (3000, 0.7))
  before = contents(tmp_path / 'runs')
  number = str(reproduction.number_of(FIGURES['recoverability']))
  flags = ('--figure', number, *SMALL, '--task', 'maze_pointmaze', '--seeds', '0', '1')
  result = reproduce(tmp_path, *flags, '--out', 'drawn')
  assert result.returncode == 0, result.stderr
  assert contents(tmp_path / 'runs') == before
  drawn = list((tmp_path / 'drawn' / 'recoverability').glob('*.png'))
  assert drawn
  for path in drawn:
    assert path.stat().st_size > 5000
    assert f'{path.relative_to(tmp_path)} written.' in result.stdout


@pytest.mark.slow
def test_a_failing_run_is_reported_and_the_next_call_goes_on(tmp_path):
  flags = ('--table', 'robustness', *TINY, '--seeds', '0')
  folder = tmp_path / 'runs' / 'maze_umaze'
  (folder / 'cmil' / '0').mkdir(parents=True)
  (folder / 'cmil' / '0' / 'checkpoints').write_text('no folder')
  first = reproduce(tmp_path, *flags)
  refused(first, 'one part failed')
  (failed,) = [x for x in first.stderr.splitlines() if x.startswith('failed: ')]
  log = re.search(r'\(log: (.*)\)$', failed)[1]
  assert 'train maze_umaze cmil 0: Cannot write' in failed
  text = (tmp_path / log).read_text()
  assert text.startswith('python scripts/train.py --configs maze cpu debug state cmil ')
  assert 'error: Cannot write' in text
  # The other run was trained, judged and drawn all the same.
  assert (folder / 'recon' / '0' / 'eval' / 'robust.json').exists()
  assert list((tmp_path / 'runs' / 'reproduce' / 'robustness').iterdir())
  (folder / 'cmil' / '0' / 'checkpoints').unlink()
  before = contents(folder / 'recon')
  second = reproduce(tmp_path, *flags)
  assert second.returncode == 0, second.stderr
  assert contents(folder / 'recon') == before
  assert (folder / 'cmil' / '0' / 'eval' / 'robust.json').exists()
  third = reproduce(tmp_path, *flags, '--dry')
  assert 'Nothing is missing.' in third.stdout
  assert len(digests(folder / 'cmil' / '0')) > 5


def test_folders_with_other_settings_are_left_alone(tmp_path):
  """Such a run is neither reused nor written to, even if it is finished."""
  run = make_run(tmp_path / 'runs', 'cmil', task='maze_umaze', final=(3000, 0.5), horizon=7)
  flags = ('--table', 'robustness', *SMALL, '--task', 'maze_umaze', '--seeds', '0', '--dry')
  result = reproduce(tmp_path, *flags)
  refused(result, 'one part failed')
  assert 'horizon = 7, not 10' in result.stderr
  assert not any('cmil' in x for x in commands(result))
  (run.path / 'config.yaml').write_text('task: [maze_umaze\n')
  result = reproduce(tmp_path, *flags)
  refused(result, 'one part failed')
  assert f'{run.path.relative_to(tmp_path)}/config.yaml is not valid YAML' in result.stderr


@pytest.mark.parametrize(
  ('flags', 'parts'),
  [
    ((), ('--figure', '--list')),
    (('--figure', 'mian'), ('--figure', "'main'")),
    (('--table', 'main'), ('--figure main',)),
    (('--figure', '99'), ('--figure', '99')),
    (('--figure', 'main', '--workers', '0'), ('--workers',)),
    (('--figure', 'main', '--seed', '1'), ('--seeds',)),
    (('--figure', 'main', '--configs', 'cpuu'), ('cpuu', "'cpu'")),
    (('--figure', 'main', '--stps', '5'), ('--stps', "'steps'")),
    (('--figure', 'main', '--dry', 'x'), ("'x'",)),
  ],
)
def test_bad_flags(monkeypatch, flags, parts):
  """In this process, because each of its own would take seconds to start."""
  monkeypatch.setattr(sys, 'argv', ['reproduce.py', *flags])
  with pytest.raises(UserError) as error:
    command.main()
  assert all(x in str(error.value) for x in parts)
