"""scripts/train.py as a user runs it: killed, in turn, and with bad input."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from recon_tf.common import load_config
from tests.helpers import loop_fixtures as fixtures

ROOT = pathlib.Path(__file__).parents[2]
COMMAND = [sys.executable, str(ROOT / 'scripts' / 'train.py')]


def run(*args, **options):
  command = [*COMMAND, *map(str, args)]
  return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def refused(result, *parts):
  """One sentence, a non-zero code and no traceback."""
  assert result.returncode == 1, result.stderr
  lines = [x for x in result.stderr.splitlines() if x.startswith('error: ')]
  assert len(lines) == 1, result.stderr
  assert 'Traceback' not in result.stderr
  for part in parts:
    assert str(part) in lines[0]


@pytest.fixture(scope='module')
def demos(tmp_path_factory):
  return fixtures.make_demos(tmp_path_factory.mktemp('demos'))


def flags(logdir, demos, **changes):
  return ['--configs', 'maze', 'state', *fixtures.as_flags(
    fixtures.run_config(logdir, demos, **changes))]  # fmt: skip


@pytest.mark.slow
def test_killed_run_goes_on_with_the_same_command(tmp_path, demos):
  command = flags(tmp_path / 'runs', demos, steps=200)
  folder = tmp_path / 'runs' / 'maze_umaze' / 'recon' / '0'
  episodes = lambda: list(folder.glob('train_episodes/[0-9]*.npz'))  # finished ones
  process = subprocess.Popen([*COMMAND, *command], stdout=subprocess.DEVNULL)
  deadline = time.time() + 400
  while len(episodes()) < 3:
    assert process.poll() is None
    assert time.time() < deadline
    time.sleep(0.01)
  os.kill(process.pid, signal.SIGKILL)
  process.wait()
  kept = {x: x.read_bytes() for x in episodes()}
  assert not (folder / 'eval' / 'final.json').exists()
  result = run(*command)
  assert result.returncode == 0, result.stderr
  # At most the episode in progress is lost, and none is made twice.
  assert f'Going on at step {20 * len(kept)} in' in result.stdout
  assert {x: x.read_bytes() for x in kept} == kept
  assert len(list(folder.glob('train_episodes/*'))) == 10
  assert json.loads((folder / 'eval' / 'final.json').read_text())['step'] == 200
  steps = [json.loads(x)['step'] for x in (folder / 'metrics.jsonl').read_text().splitlines()]
  assert steps == sorted(steps)
  assert set(range(20 * len(kept) + 20, 201, 20)) <= set(steps)
  assert 'Run: ' in result.stdout.splitlines()[-1]
  assert str(folder) in result.stdout.splitlines()[-1]


@pytest.mark.slow
def test_suite_means_its_tasks_in_turn(tmp_path, demos):
  short = {'steps': 0, 'pretrain': 1, 'pretrain_bc': 0, 'eval_every': 1000, 'eager': True}
  command = flags(tmp_path / 'runs', demos, task='', **short)
  result = run(*command)
  assert result.returncode == 0, result.stderr
  ends = [x.split(':')[0] for x in result.stdout.splitlines() if ' Run: ' in x]
  assert ends == list(load_config('maze').tasks) == ['maze_umaze', 'maze_pointmaze']
  for task in ends:
    assert (tmp_path / 'runs' / task / 'recon' / '0' / 'eval' / 'final.json').exists()
  again = run(*command)
  assert again.stdout.count('finished already') == 2


def test_two_suites_mean_the_tasks_of_both_in_turn(tmp_path):
  """All tasks but for this test finished before: each is visited, in order, and left alone."""
  tasks = [*load_config('dmc').tasks, *load_config('metaworld').tasks]
  for number, task in enumerate(tasks):
    path = tmp_path / task / 'cmil' / '3' / 'eval' / 'final.json'
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({'step': 200_000, 'success': number / 10}))
  result = run('--configs', 'dmc', 'metaworld', 'cmil', '--seed', 3, '--logdir', tmp_path)
  assert result.returncode == 0, result.stderr
  ends = [x for x in result.stdout.splitlines() if ' Run: ' in x]
  assert len(tasks) == 6
  assert [x.split(':')[0] for x in ends] == tasks
  assert 'success 0.500' in ends[-1]


@pytest.mark.slow
def test_exploding_loss_is_named(tmp_path, demos):
  command = flags(tmp_path, demos, **{'model_opt.lr': 1e30, 'eager': True})
  refused(run(*command), "'main/actor_loss' became", 'at step 0')


def test_no_task():
  refused(run(), 'no task', '--task')
  refused(run('--configs', 'cpu'), 'no task')


@pytest.mark.parametrize(
  ('flags', 'parts'),
  [
    (('--configs', 'maze', 'cpuu'), ('cpuu', "'cpu'")),
    (('--configs', 'maze', '--rssm.dter', '5'), ('rssm.dter', 'rssm.deter')),
    (('--configs', 'maze', '--horizon', 'long'), ('horizon', 'long')),
  ],
)
def test_bad_flags_name_the_nearest(flags, parts):
  refused(run(*flags), *parts)


def test_bad_tasks_and_places(tmp_path):
  refused(run('--task', 'maze_umase', '--logdir', tmp_path), 'maze_umaze')
  file = tmp_path / 'file'
  file.write_text('')
  refused(run('--task', 'maze_umaze', '--env.render', 'False', '--logdir', file), file)
