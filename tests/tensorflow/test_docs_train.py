"""Every training command of README and docs trains, at debug size and on short episodes."""

import functools
import pathlib
import shlex

import numpy as np
import pytest

from recon_tf import envs, loop
from recon_tf.common import Driver, Flags, Replay
from recon_tf.envs import SUITES
from tests.helpers.pages import commands

SMALL = ('--env.length', '20', '--eval_final', '1', '--video_every', '1000000')
FEW = {'bc_raw': ('--pretrain', '2')}  # presets that bring more updates than the size has
OWN = 'own_task.md'  # run whole by tests/test_own_task.py


def training() -> list[str]:
  """Distinct commands; seeds and places do not make them others."""
  found = [x for x in commands() if x.ours[:1] == ['train'] and x.page.name != OWN]
  return list(dict.fromkeys(shlex.join(x.ours[1:]) for x in found if '--help' not in x.ours))


def at_debug_size(text: str) -> list[str]:
  """Its words, with `debug` for `cpu`, or after the suites where the paper's size is meant."""
  words = shlex.split(text)
  if 'cpu' in words:
    words[words.index('cpu')] = 'debug'
  else:
    last = max(i for i, x in enumerate(words) if x in SUITES)
    words.insert(last + 1, 'debug')
  return [*words, *SMALL, *(flag for x in words for flag in FEW.get(x, ()))]


@functools.cache
def demonstrations(folder: pathlib.Path, task: str, settings: tuple) -> pathlib.Path:
  """Real episodes of random actions; what they show does not matter here."""
  config = Flags().parse(['--task', task, *settings])
  env, rng = envs.Worker(task, config), np.random.default_rng(0)
  replay, shape = Replay(folder), env.act_space['action'].shape
  driver = Driver([env])
  driver.on_step(replay.add_step)
  driver(lambda obs, state: ({'action': rng.uniform(-1, 1, (1, *shape))}, state), 2)
  replay.close()
  env.close()
  return folder


@pytest.mark.slow
@pytest.mark.parametrize('text', training())
def test_command_trains(tmp_path, text):
  words = [*at_debug_size(text), '--logdir', str(tmp_path / 'runs')]
  configs = Flags().parse_tasks(words)
  suites = {x.task.partition('_')[0]: x for x in configs}  # one task of each
  for suite, config in suites.items():
    shown = demonstrations(tmp_path / suite, config.task, tuple(words))
    config = config.update(demos=str(shown))
    result = loop.train(config)
    assert np.isfinite(result['return'])
    assert (loop.run_folder(config) / 'eval' / 'final.json').exists()
    assert result['step'] == config.steps
