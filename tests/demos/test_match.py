"""Names, shapes and actions of demonstrations against a task's."""

import numpy as np
import pytest

from recon_tf.common import UserError, load_config
from recon_tf.demos.match import match_demos, needed, rename

STATE = load_config('state')
SHAPES = {'vector': (4,), 'image': (64, 64, 3)}


def episode(**keys):
  rows = {k: np.zeros((3, *v), np.float32) for k, v in keys.items()}
  return {**rows, 'action': np.zeros((3, 2), np.float32), 'reward': np.zeros(3)}


def test_rename():
  renamed = rename(episode(observation=(4,)), ['observation=vector'])
  assert 'vector' in renamed
  assert 'observation' not in renamed
  for pair, part in (('observation', 'OLD=NEW'), ('other=vector', 'they have observation')):
    with pytest.raises(UserError, match=part):
      rename(episode(observation=(4,)), [pair])


def test_only_what_is_looked_at_is_needed():
  assert needed(STATE, SHAPES) == {'vector': (4,)}
  assert needed(load_config(), SHAPES) == {'image': (64, 64, 3)}
  match_demos(STATE, SHAPES, 2, episode(vector=(4,)))


@pytest.mark.parametrize(
  ('keys', 'action', 'parts'),
  [
    ({'observation': (4,)}, 2, ('has vector [4]', 'have observation [4]', 'observation=vector')),
    ({'a': (4,), 'b': (4,)}, 2, ('a [4], b [4]', '--rename OLD=NEW')),
    ({'vector': (5,)}, 2, ("'vector'", '[5]', '[4]')),
    ({'vector': (4,)}, 3, ('2 actions', 'takes 3')),
  ],
)  # fmt: skip
def test_what_does_not_fit_is_one_sentence(keys, action, parts):
  with pytest.raises(UserError) as error:
    match_demos(STATE, SHAPES, action, episode(**keys))
  assert all(x in str(error.value) for x in parts), str(error.value)
