"""Another actor on an agent's beliefs acts as the agent itself would with it."""

import numpy as np
import pytest

from recon_tf.analysis.diagnose.loaded import Deployed
from tests.helpers import agent_fixtures as fixtures


@pytest.fixture(scope='module')
def agent():
  made = fixtures.make_agent(eager=True)
  fixtures.jitter_biases(made)
  return made


def observations(count=3, steps=4):
  data = fixtures.batch(count, steps, 0)
  return [{k: v[:, t] for k, v in data.items()} for t in range(steps)]


def acted(policy):
  state, actions = None, []
  for obs in observations():
    outputs, state = policy.policy(obs, state, 'eval')
    actions.append(outputs['action'])
  return np.stack(actions)


def test_the_same_actor_does_the_same(agent):
  deployed = Deployed(agent, agent.main.policy, 2)
  found = acted(deployed)
  np.testing.assert_allclose(found, acted(agent), atol=1e-6)
  assert found.std() > 0


def test_another_actor_leaves_the_agent_as_it_is(agent):
  before = acted(agent)
  explorer = acted(Deployed(agent, agent.explorer.policy, 2))
  assert np.abs(explorer - before).max() > 1e-4
  np.testing.assert_array_equal(acted(agent), before)
