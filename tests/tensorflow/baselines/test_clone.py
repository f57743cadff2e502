"""The plain clone: it learns pairs of the demonstrations, and nothing else."""

import numpy as np
import pytest
import tensorflow as tf

from recon_tf.baselines.clone.agent import Clone
from recon_tf.common import UserError, load_config
from tests.helpers import agent_fixtures as fixtures

SIZES = {'clone.layers': [32], 'clone.lr': 1e-2, 'pretrain': 400, 'jit': False}


def make(*presets: str):
  return Clone(load_config('state', 'bc_raw', *presets).update(SIZES), *fixtures.spaces())


def linear_batch(seed: int) -> dict:
  """Sequences of two rows in which the action is a function of the position before it."""
  data = {k: v[:, :2].copy() for k, v in fixtures.batch(64, 6, seed).items()}
  data['is_first'][:] = [True, False]
  data['action'][:, 1] = np.tanh(data['position'][:, 0, :2])
  return data


def test_it_clones_what_was_done_in_a_state():
  agent = make()
  losses = [float(agent.train({}, linear_batch(i))['main/bc_loss']) for i in range(400)]
  assert losses[-1] < 0.02 < 0.2 < losses[0]
  fresh = linear_batch(999)
  obs = {k: fresh[k][:, 0] for k in ('position', 'velocity', 'is_first')}
  action, _ = agent.policy(obs, None, 'eval')
  assert np.abs(action['action'] - fresh['action'][:, 1]).mean() < 0.1


def test_pairs_that_cross_episodes_do_not_count():
  agent = make()
  data = linear_batch(0)
  data['is_first'][:, 1] = True
  before = agent.weights()
  assert float(agent.train({}, data)['main/bc_loss']) == 0
  changed = fixtures.different(before, agent.weights())
  assert changed <= {'updates', *(k for k in changed if k.startswith('actor.'))}


def test_the_loss_is_the_squared_error():
  agent = make()
  data = linear_batch(3)
  obs = {k: data[k][:, 0] for k in ('position', 'velocity', 'is_first')}
  error = agent.policy(obs, None, 'eval')[0]['action'] - data['action'][:, 1]
  loss = agent.train({}, data)['main/bc_loss']
  assert float(loss) == pytest.approx(np.mean(np.sum(error**2, -1)), rel=1e-4)


def test_pictures_alone_are_refused():
  spaces = {'image': fixtures.spaces(image=True)[0]['image']}, fixtures.spaces()[1]
  with pytest.raises(UserError, match=r"bc_raw clones from vectors.*'state'"):
    Clone(load_config('bc_raw').update(SIZES), *spaces)


def test_random_actions_cover_the_range():
  tf.random.set_seed(0)
  action, _ = make().policy(linear_batch(0), None, 'random')
  assert action['action'].min() < -0.8
  assert action['action'].max() > 0.8
