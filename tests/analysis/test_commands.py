"""The command of a run gives back its config."""

import shlex

import pytest

from recon_tf.analysis.commands import train_command
from recon_tf.common import Flags
from tests.helpers.written_runs import make_run


@pytest.mark.parametrize(
  ('method', 'presets', 'changes', 'configs'),
  [
    ('recon', ('cpu',), {}, 'maze cpu recon'),
    ('cmil', ('state', 'cpu'), {}, 'maze cpu state cmil'),
    ('bc', ('debug',), {'steps': 12}, 'maze debug bc'),
    ('iqmpc', ('state', 'cpu'), {}, 'maze cpu state iqmpc'),
    ('no_recovery', (), {'env.maze.start': [1, 2], 'jit': False, 'disc_opt.lr': 1e-6}, None),
    ('windows_long', ('cpu',), {'windows.length': 9, 'env.maze.start_noise': 0.0}, None),
  ],
)
def test_command_gives_back_the_config(tmp_path, method, presets, changes, configs):
  run = make_run(tmp_path, method, 3, presets=presets, **changes)
  words = shlex.split(train_command(run))
  assert words[:3] == ['python', 'scripts/train.py', '--configs']
  if configs:
    assert ' '.join(words).startswith(f'python scripts/train.py --configs {configs} --task')
  parsed = Flags().parse(words[2:])
  assert parsed.update(logdir=run.config.logdir).flat == run.config.flat


def test_cloning_on_is_told_apart_from_cloning_once(tmp_path):
  run = make_run(tmp_path, 'bc_equal', presets=('cpu',))
  assert '--configs maze cpu bc_equal --task' in train_command(run)


def test_no_path_of_the_machine_is_in_it(tmp_path):
  run = make_run(tmp_path, demos=str(tmp_path / 'mine'))
  command = train_command(run, 'runs/state')
  assert str(tmp_path) not in command
  assert '--demos demos/mine' in command
  assert '--demos shown/mine' in train_command(make_run(tmp_path / 'b', demos='shown/mine'))
  assert '--logdir runs/state' in command
