"""Methods and ablations are presets: what each of them changes."""

import numpy as np
import pytest
import tensorflow as tf

from recon_tf.common import load_config
from recon_tf.common.config import presets
from recon_tf.explorer import Collector
from recon_tf.nn import tfutils
from tests.helpers import agent_fixtures as fixtures

NAMES = {
  'recon', 'cmil', 'vmail', 'bc', 'no_recovery', 'random_collect', 'terminal_only', 'gate_mean',
  'gate_last', 'gate_stopgrad', 'windows_5', 'windows_30', 'windows_early', 'windows_late',
}  # fmt: skip


def test_all_methods_of_the_paper_are_there():
  assert presets().keys() >= NAMES
  for name in NAMES:
    assert load_config(name).method == name
    assert len(presets()[name]) <= 6


def rewards(name):
  """Main and explorer rewards of one imagined rollout, with their ingredients."""
  agent = fixtures.shared_agent(name, eager=True)
  noise = agent.main.draw(5, tfutils.Seeds(tf.constant([0, 5])))
  agent.delta.assign(0.5)
  seq = agent.main.imagine(agent.world_model.rssm, fixtures.random_state(agent), noise)
  uncertainty = agent.world_model.rssm.uncertainty(seq['deter']).numpy()
  imitation = agent.disc.prob(seq['feature'][:-1], seq['action']).numpy()
  main = agent._main_reward(seq, 0.0)[0]['reward'].numpy()
  if not agent.explorer:
    return main, None, imitation, uncertainty, None
  explorer = {k: v.numpy() for k, v in agent._explorer_reward(seq, 0.0)[0].items()}
  return main, explorer['reward'], imitation, uncertainty, explorer['gate'][0]


@pytest.mark.parametrize(('name', 'alpha'), [('recon', 10), ('cmil', 10), ('vmail', 0)])
def test_main_reward(name, alpha):
  main, _, imitation, uncertainty, _ = rewards(name)
  np.testing.assert_allclose(main, imitation - alpha * uncertainty, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
  ('name', 'beta'),
  [('recon', 10), ('no_recovery', 5), ('terminal_only', 10), ('gate_mean', 10), ('gate_last', 10)],
)
def test_explorer_reward(name, beta):
  _, explorer, imitation, uncertainty, gate = rewards(name)
  expected = imitation + beta * uncertainty * gate
  np.testing.assert_allclose(explorer, expected, rtol=1e-4, atol=1e-5)
  assert (gate == 1).all() == (name == 'no_recovery')


def test_gates_of_the_ablations_differ():
  names = ('recon', 'terminal_only', 'gate_mean', 'gate_last')
  gates = {name: rewards(name)[-1] for name in names}
  assert len({x.tobytes() for x in gates.values()}) == 4
  assert (gates['recon'] >= gates['gate_mean']).all()
  assert (gates['recon'] >= gates['gate_last']).all()
  np.testing.assert_array_equal(rewards('gate_stopgrad')[-1], gates['recon'])


@pytest.mark.parametrize('name', ['cmil', 'vmail', 'bc', 'random_collect'])
def test_methods_without_an_explorer(name):
  agent = fixtures.shared_agent(name, eager=True)
  assert agent.explorer is None
  assert not any('explorer' in x for x in agent.named)


@pytest.mark.parametrize(
  ('name', 'steps'),
  [
    ('recon', 150),
    ('random_collect', 150),
    ('cmil', 0),
    ('vmail', 0),
    ('bc', 0),
    ('windows_5', 50),
    ('windows_30', 300),
    ('windows_early', 150),
    ('windows_late', 150),
    ('windows_long', 150),
  ],
)
def test_steps_in_windows(name, steps):
  collector = Collector(1, 500, load_config(name).windows, 0)
  mask = np.concatenate([collector(np.array([t == 0])) for t in range(500)])
  assert mask.sum() == steps
  assert not (name == 'windows_early' and mask[250:].any())
  assert not (name == 'windows_late' and mask[:250].any())


@pytest.mark.parametrize(
  ('name', 'share'),
  [('recon', 20 / 75), ('windows_5', 0.1), ('windows_30', 0.6), ('windows_long', 0.3)],
)
def test_schedules_keep_their_share_at_the_small_size(name, share):
  """Shorter episodes and the windows of cpu do not make an ablation something else."""
  collector = Collector(1, 75, load_config('maze', 'cpu', name).windows, 0)
  mask = np.concatenate([collector(np.array([t == 0])) for t in range(75)])
  assert abs(mask.sum() - share * 75) <= 1


def changed_parts(agent, update):
  before = agent.state()
  update(*fixtures.batches())
  changed = {k for k in fixtures.different(before, agent.state()) if '._params.' not in k}
  return {x.split('.')[0] for x in changed} - {'model_opt', 'disc_opt', 'updates'}


def test_bc_learns_in_pretraining_alone():
  """Online data do not alter what it does: neither the actor nor the model that it reads."""
  agent = fixtures.shared_agent('bc', eager=True, pretrain=1, pretrain_bc=1)
  assert changed_parts(agent, agent.train) == {'world_model'}
  assert changed_parts(agent, agent.clone) == {'main'}
  assert changed_parts(agent, agent.train) == set()
  metrics = agent.train(*fixtures.batches())
  assert np.isfinite(metrics['model/model_loss'])  # still logged


def test_cloning_at_equal_updates():
  agent = fixtures.shared_agent('bc_equal', eager=True)
  assert changed_parts(agent, agent.train) == {'world_model', 'main'}


def test_cloning_teaches_both_actors():
  agent = fixtures.shared_agent(eager=True)
  assert changed_parts(agent, agent.clone) == {'main', 'explorer'}


def test_until_imagination_begins_the_policies_only_clone():
  work = {'pretrain': 1, 'pretrain_bc': 1, 'prefill': 0, 'steps': 10, 'train_every': 5}
  schedule = {**work, 'train_steps': 1, 'imagine_after': 0.5}
  agent = fixtures.shared_agent(eager=True, **schedule)
  early = {'world_model', 'main', 'explorer'}
  for update, parts in (
    (agent.train, early),
    (agent.clone, early - {'world_model'}),
    (agent.train, early),
  ):
    before = agent.state()
    assert changed_parts(agent, update) == parts
    changed = fixtures.different(before, agent.state())
    assert not [x for x in changed if 'critics' in x or 'slow' in x]
  assert changed_parts(agent, agent.train) == early | {'disc', 'delta'}
