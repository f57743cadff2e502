"""Updates of a run by hand."""

import pytest

from recon_tf.common import UserError, load_config
from recon_tf.common.schedule import (
  first_imagined,
  kind_of,
  online_updates,
  optimizer_options,
  optimizer_updates,
  work_left,
)

COUNTS = {'pretrain': 30, 'pretrain_bc': 10, 'prefill': 50, 'steps': 170}
CONFIG = load_config().update({**COUNTS, 'train_every': 5, 'train_steps': 2})


def test_updates_of_online_steps():
  assert [online_updates(CONFIG, x) for x in (0, 49, 50, 54, 55, 170)] == [0, 0, 0, 0, 2, 48]


def test_a_burst_comes_at_once_when_the_random_steps_are_over():
  config = CONFIG.update({'burst': 1.0, 'train_every': 1, 'train_steps': 1})
  assert [online_updates(config, x) for x in (49, 50, 51, 170)] == [0, 50, 51, 170]


def test_cloning_moves_actors_alone():
  found = {k: optimizer_updates(CONFIG, k) for k in ('model_opt', 'actor_opt', 'critic_opt')}
  assert found == {'model_opt': 78, 'actor_opt': 88, 'critic_opt': 78}
  assert optimizer_updates(CONFIG.update({'bc_opt': 'sgd'}), 'actor_opt') == 78


def test_a_frozen_clone_is_done_after_pretraining():
  config = CONFIG.update({'behavior': 'frozen'})
  assert optimizer_updates(config, 'model_opt') == 30
  assert optimizer_updates(config, 'actor_opt') == 10


def test_decay_is_a_share_of_the_run():
  config = CONFIG.update({'model_opt.decay': 0.5, 'actor_opt.decay': 1.0})
  assert optimizer_options(config, 'model_opt') == {**config.model_opt, 'decay': 39}
  assert optimizer_options(config, 'actor_opt')['decay'] == 88
  assert optimizer_options(config, 'disc_opt')['decay'] == 0
  with pytest.raises(UserError, match=r'model_opt\.decay'):
    optimizer_options(CONFIG.update({'model_opt.decay': 5000.0}), 'model_opt')


def test_rates_of_the_cpu_size_end_with_the_run():
  config = load_config('maze', 'cpu')
  for key in ('model_opt', 'actor_opt', 'critic_opt', 'disc_opt'):
    assert optimizer_options(config, key)['decay'] == optimizer_updates(config, key)


def test_extra_rounds_of_cloning_are_updates_of_the_actor_too():
  once = optimizer_updates(CONFIG, 'actor_opt')
  assert optimizer_updates(CONFIG, 'actor_opt', rounds=3) == 4 * once


def test_work_of_a_run_and_of_what_is_left_of_it():
  config = CONFIG.update({'eval_every': 50, 'eval_episodes': 4, 'eval_final': 7})
  whole = {'joint': 78, 'clone': 10, 'steps': 170, 'episodes': 4 * 4 + 7}
  assert work_left(config) == whole  # evaluations after 0, 50, 100 and 150 steps, and the last
  assert work_left(config, updates=35) == {**whole, 'joint': 48, 'clone': 5}
  left = {'joint': 46, 'clone': 0, 'steps': 110, 'episodes': 2 * 4 + 7}
  assert work_left(config, updates=42, step=60) == left
  assert work_left(config.update({'eval_every': 0}))['episodes'] == 7
  assert work_left(config.update({'offline': True})) == {'joint': 30, 'clone': 10}
  frozen = work_left(config.update({'behavior': 'frozen'}))
  assert (frozen['joint'], frozen['clone'], frozen['watch']) == (30, 10, 48)


def test_imagination_begins_after_a_share_of_the_online_updates():
  late = CONFIG.update({'imagine_after': 0.25})
  assert (first_imagined(CONFIG), first_imagined(late)) == (0, 30 + 10 + 12)
  for changes in (
    {'behavior': 'bc'},
    {'behavior': 'frozen'},
    {'offline': True},
    {'agent': 'dadac'},
  ):
    assert first_imagined(late.update(changes)) == 0
  assert [kind_of(late, x) for x in (0, 29, 30, 39, 40, 51, 52)] == [
    'follow', 'follow', 'clone', 'clone', 'follow', 'follow', 'joint',
  ]  # fmt: skip
  work = work_left(late, updates=45)
  assert (work['follow'], work['clone'], work['joint']) == (7, 0, 36)
  # Critics and discriminator learn in imagination alone, and their rates still end with the run.
  counts = {k: optimizer_updates(late, k) for k in ('model_opt', 'actor_opt', 'critic_opt')}
  assert counts == {'model_opt': 78, 'actor_opt': 88, 'critic_opt': 36}
