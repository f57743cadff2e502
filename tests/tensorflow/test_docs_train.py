"""Every training command of README and docs trains, at debug size and on short episodes."""

import pathlib
import re
import shlex

import numpy as np
import pytest

from recon_tf import envs, loop
from recon_tf.common import Driver, Flags, Replay
from recon_tf.envs import SUITES
from tests.helpers.pages import commands

SMALL = ('--env.length', '20', '--eval_final', '1', '--video_every', '1000000')
FEW = {'bc_raw': ('--pretrain', '2')}  # it brings more updates than the size has
SCHEDULED = {'dadac', 'iqmpc'}  # one update per step belongs to the method
OWN = 'own_task.md'  # run whole by tests/test_own_task.py


def training() -> list[str]:
  """Distinct commands; a seed does not make another one."""
  found = [x for x in commands() if x.ours[:1] == ['train'] and x.page.name != OWN]
  texts = [shlex.join(x.ours[1:]) for x in found if '--help' not in x.ours]
  return list(dict.fromkeys(re.sub(r' --seed \d+', '', x) for x in texts))


def at_debug_size(text: str) -> list[str]:
  """Its words, with `debug` for `cpu`, or after the suites where the paper's size is meant."""
  words = shlex.split(text)
  if 'cpu' in words:
    words[words.index('cpu')] = 'debug'
  else:
    last = max(i for i, x in enumerate(words) if x in SUITES)
    words.insert(last + 1, 'debug')
  few = () if SCHEDULED & {*words} else ('--train_every', '30')
  return [*words, *SMALL, *few, *(flag for x in words for flag in FEW.get(x, ()))]


def demonstrate(config, folder: pathlib.Path) -> pathlib.Path:
  """Real episodes of random actions; what they show does not matter here."""
  env, rng = envs.Worker(config.task, config), np.random.default_rng(0)
  shape = (1, *env.act_space['action'].shape)
  replay, driver = Replay(folder), Driver([env])
  driver.on_step(replay.add_step)
  act = lambda obs, state: ({'action': rng.uniform(-1, 1, shape).astype(np.float32)}, state)
  driver(act, 2)
  replay.close()
  env.close()
  return folder


@pytest.mark.slow
@pytest.mark.parametrize('text', training())
def test_command_trains(tmp_path, text):
  configs = Flags().parse_tasks([*at_debug_size(text), '--logdir', str(tmp_path / 'runs')])
  suites = {x.task.partition('_')[0]: x for x in configs}  # one task of each
  for suite, config in suites.items():
    config = config.update(demos=str(demonstrate(config, tmp_path / suite)))
    result = loop.train(config)
    assert np.isfinite(result['return'])
    assert result['step'] >= config.steps
    assert (loop.run_folder(config) / 'eval' / 'final.json').exists()
