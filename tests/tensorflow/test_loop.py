"""The training loop in a real maze: resuming, numbers that are not finite, refusals."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from recon_tf import loop
from recon_tf.analysis.runs import open_run
from recon_tf.common import (
  Checkpoint,
  Milestones,
  UserError,
  load_checkpoint,
  load_config,
  save_episode,
)
from recon_tf.common.files import read_json, read_lines, sole_writer, write_json
from recon_tf.common.folders import run_folder
from recon_tf.common.npz import read_npz
from recon_tf.common.schedule import optimizer_updates
from recon_tf.preparation import load_demos
from tests.helpers import loop_fixtures as fixtures


@pytest.fixture(scope='module')
def demos(tmp_path_factory):
  return fixtures.make_demos(tmp_path_factory.mktemp('demos'))


def metrics(folder):
  """All lines without the clock, and without the evaluation that ends a run."""
  lines = read_lines(folder / 'metrics.jsonl')
  clean = [{k: v for k, v in x.items() if not k.startswith('time/') and 'fps' not in k}
           for x in lines]  # fmt: skip
  return [x for x in clean if any(not k.startswith('eval/') and k != 'step' for k in x)]


def episodes(folder):
  """The stored arrays, in order; file names hold the time."""
  return [read_npz(x) for x in sorted((folder / 'train_episodes').glob('*.npz'))]


def final_state(folder):
  return Checkpoint(folder / 'checkpoints').load()


def assert_same_arrays(first, second):
  assert first.keys() == second.keys()
  for key, value in first.items():
    assert value.tobytes() == second[key].tobytes(), key


@pytest.fixture(scope='module')
def finished(demos, tmp_path_factory):
  """A run to 80 steps, and one to 40 that went on to 80; both with milestones."""
  folders = {}
  for name, targets in (('whole', [80]), ('resumed', [40, 80])):
    for steps in targets:
      places = (tmp_path_factory.getbasetemp() / name, demos)
      config = fixtures.run_config(*places, steps=steps, keep_every=30)
      result = loop.train(config)
      assert result['step'] == steps
    folders[name] = loop.run_folder(config)
  return folders


@pytest.mark.slow
def test_resumed_run_is_the_whole_run_bit_for_bit(finished):
  first, second = finished['whole'], finished['resumed']
  (arrays, meta), (others, other_meta) = final_state(first), final_state(second)
  assert meta == other_meta
  assert meta['step'] == 80
  assert int(arrays['updates']) == 3 + (80 - 20) // 10
  assert_same_arrays(arrays, others)
  assert len(episodes(first)) == len(episodes(second)) == 4
  for a, b in zip(episodes(first), episodes(second), strict=True):
    assert_same_arrays(a, b)
  lines = metrics(first)
  assert lines == metrics(second)
  assert [x['step'] for x in lines] == [0, 0, 20, 40, 60, 80]
  evals = [json.loads((x / 'eval' / 'final.json').read_text()) for x in (first, second)]
  assert evals[0] == evals[1]


@pytest.mark.slow
def test_optimizers_make_the_updates_that_their_decay_counts_on(finished):
  """So that a rate which falls over the whole run is down to a tenth in its last update."""
  arrays, _ = final_state(finished['whole'])
  config = fixtures.run_config('', '', steps=80)
  for key, name in (('model_opt', 'model_opt'), ('actor_opt', 'main.actor_opt'),
                    ('critic_opt', 'main.critic_opt'), ('disc_opt', 'disc_opt')):  # fmt: skip
    assert int(arrays[f'{name}.steps']) == optimizer_updates(config, key)


@pytest.mark.slow
def test_iqmpc_makes_a_burst_and_then_an_update_per_step(demos, tmp_path):
  """As its released trainer does; the discount is that of the task's episodes, also when loaded."""
  sizes = {'encoder_units': 8, 'latent': 8, 'units': 8, 'heads': 2, 'batch': 2, 'iterations': 1}
  plans = {'samples': 4, 'elites': 2, 'policy_samples': 1}
  own = load_config('iqmpc').flat
  preset = {k: own[k] for k in ('agent', 'method', 'train_every', 'train_steps', 'burst')}
  preset.update({'explorer.enabled': False, 'windows.collector': 'none', 'pretrain': 0})
  config = fixtures.run_config(tmp_path, demos, **preset, steps=20, prefill=10, pretrain_bc=0)
  config = config.update({'iqmpc': {**sizes, **plans}, 'replay.length': 6, 'env.length': 10})
  config = config.update({'eager': True, 'eval_every': 0})
  folder, updates = loop.run_folder(config), []
  run = loop.Run(config, folder)
  run.driver.on_step(lambda *_: updates.append(int(run.agent.updates.numpy())))
  run.interact()
  run.close()
  # Row 0 of an episode is no step; the first episode is the random phase.
  assert updates == [0] * 10 + [10] * 2 + list(range(11, 21))
  assert run.agent.model.gamma == 0.95
  assert open_run(folder).config.iqmpc.episode == 10


@pytest.mark.slow
def test_train_length_shortens_what_is_learned_from_and_not_what_is_evaluated(demos, tmp_path):
  config = fixtures.run_config(tmp_path, demos, steps=36, prefill=12, train_length=12)
  config = config.update({'eager': True, 'eval_every': 0})
  result = loop.train(config)
  folder = loop.run_folder(config)
  assert [len(x['action']) - 1 for x in episodes(folder)] == 3 * [12]
  assert all(x['is_last'][-1] and not x['is_terminal'][-1] for x in episodes(folder))
  assert result['length'] == 20


@pytest.mark.slow
def test_milestones_are_the_states_of_their_steps_without_optimizers(finished):
  kept = [Milestones(finished[x] / 'milestones', 30).paths() for x in ('whole', 'resumed')]
  for paths in zip(*kept, strict=True):
    (arrays, meta), (others, other_meta) = map(load_checkpoint, paths)
    assert meta == other_meta
    assert_same_arrays(arrays, others)
  steps = [load_checkpoint(x)[1]['step'] for x in kept[0]]
  assert steps == [0, 40, 60]  # episodes have 20 steps
  assert meta['updates'] == int(arrays['updates']) == 3 + (60 - 20) // 10
  # The checkpoint before the last one is of the same step.
  whole, _ = load_checkpoint(sorted((finished['whole'] / 'checkpoints').iterdir())[0])
  assert_same_arrays(arrays, {k: v for k, v in whole.items() if '_opt.' not in k})
  assert len(arrays) < len(whole)


@pytest.mark.slow
def test_run_folder_has_what_tools_rely_on(finished):
  folder = finished['whole']
  assert folder.parts[-3:] == ('maze_umaze', 'recon', '0')
  names = {x.name for x in folder.iterdir() if not x.name.startswith('events.')}
  files = {'config.yaml', 'meta.json', 'metrics.jsonl', 'spaces.json'}
  assert names == {*files, 'train_episodes', 'checkpoints', 'milestones', 'eval'}
  assert list(folder.glob('events.*'))
  assert {x.name for x in (folder / 'eval').iterdir()} == {
    '000000000.json', '000000040.json', '000000080.json', 'final.json',
  }  # fmt: skip
  assert len(list((folder / 'checkpoints').iterdir())) == 2
  last = metrics(folder)[-1]
  for key in ('model/model_loss', 'main/actor_loss', 'disc/gap', 'gate/mean', 'gate/delta',
              'explorer/uncertainty', 'train/return', 'train/explorer_share'):  # fmt: skip
    assert np.isfinite(last[key]), key


@pytest.mark.slow
def test_every_step_says_who_acted(finished):
  first, *others = episodes(finished['whole'])
  assert (first['log_explorer'] == 0).all()  # the random steps
  for episode in others:
    assert episode['log_explorer'].shape == (21,)
    assert episode['log_explorer'][0] == 0
    assert episode['log_explorer'].sum() == 10  # half of 20, as 150 of the task's 300 are
    assert np.abs(episode['action']).max() <= 1


@pytest.mark.slow
def test_a_finished_run_is_left_alone(finished, demos, capsys):
  folder = finished['whole']
  before = {x: x.stat().st_mtime_ns for x in folder.rglob('*')}
  config = fixtures.run_config(folder.parents[2], demos)
  assert loop.train(config)['step'] == 80
  assert 'finished already' in capsys.readouterr().out
  assert before == {x: x.stat().st_mtime_ns for x in folder.rglob('*')}


@pytest.mark.slow
def test_other_settings_are_refused_in_an_old_folder(finished, demos):
  config = fixtures.run_config(finished['whole'].parents[2], demos, horizon=4, steps=100)
  with pytest.raises(UserError, match='horizon = 3, not 4'):
    loop.train(config)


@pytest.mark.slow
def test_loss_that_is_not_finite_stops_the_run(finished, demos):
  """Named with its step; what was saved before is untouched and goes on."""
  folder = finished['resumed']
  config = fixtures.run_config(folder.parents[2], demos, steps=120, keep_every=0)
  files = {x: x.read_bytes() for x in (folder / 'checkpoints').iterdir()}
  run = loop.Run(config, folder)
  try:
    weight = run.agent.disc.mlp.out.bias  # the policy still acts
    weight.assign(weight * np.nan)
    with pytest.raises(UserError, match=r"'main/actor_loss' became nan at step 90 "):
      run.interact()
  finally:
    run.close()
  assert files == {x: x.read_bytes() for x in (folder / 'checkpoints').iterdir()}
  arrays, meta = final_state(folder)
  assert meta['step'] == 80
  assert all(np.isfinite(x).all() for x in arrays.values())


@pytest.fixture
def copied(finished, tmp_path):
  """The finished run in a place of its own, to be damaged."""
  shutil.copytree(finished['whole'].parents[2], tmp_path / 'runs')
  return tmp_path / 'runs' / 'maze_umaze' / 'recon' / '0'


def files(folder):
  return {x: x.read_bytes() for x in folder.rglob('*') if x.is_file() and 'events' not in x.name}


def refuses(folder, demos, message):
  """Going on is refused with this sentence, and no file has changed but for the start's."""
  before = files(folder)
  config = fixtures.run_config(folder.parents[2], demos, steps=120, keep_every=30)
  with pytest.raises(UserError, match=message):
    loop.train(config)
  after = files(folder)
  assert {x for x in before if before[x] != after.get(x)} <= {folder / 'config.yaml'}
  assert not [x for x in after if x.name.startswith('.')]


@pytest.mark.slow
def test_unreadable_checkpoints_stop_the_run_and_nothing_is_deleted(copied, demos):
  for path in (copied / 'checkpoints').iterdir():
    path.write_bytes(b'damaged')
  refuses(copied, demos, 'No checkpoint .* can be read')
  for path in (copied / 'checkpoints').iterdir():
    path.unlink()
  refuses(copied, demos, '4 episodes of a run but no checkpoint')


@pytest.mark.slow
def test_other_demonstrations_are_refused_wherever_they_lie(copied, demos, tmp_path):
  other = fixtures.make_demos(tmp_path / 'other', 3)
  sorted(other.iterdir())[0].unlink()
  refuses(copied, other, 'not those that the run in .* began with')
  moved = shutil.copytree(demos, tmp_path / 'moved')
  config = fixtures.run_config(copied.parents[2], moved, steps=120, keep_every=30)
  loop.Run(config, copied).close()  # the same ones in another folder are fine


def test_metrics_stay_on_the_device_until_they_are_written(demos, tmp_path):
  config = fixtures.run_config(tmp_path, demos, eager=True)
  run = loop.Run(config, loop.run_folder(config))
  try:
    for _ in range(2):
      run._update(run.agent.train, run.expert)
    assert len(run.measured._pending) == 2
    assert all(tf.is_tensor(x) for _, _, metrics in run.measured._pending for x in metrics.values())
    assert not run.logger.pending
    run._write()
    assert not run.measured._pending
  finally:
    run.close()
  (line,) = metrics(run.folder)
  assert np.isfinite(line['model/model_loss'])


@pytest.mark.slow
def test_demonstrations_of_another_task_are_refused(copied, demos, tmp_path):
  for path in sorted(demos.iterdir()):
    episode = read_npz(path)
    save_episode(tmp_path / 'wide', {**episode, 'action': np.zeros((21, 5), np.float32)})
  refuses(copied, tmp_path / 'wide', 'action')


@pytest.mark.slow
def test_two_processes_in_one_folder_are_refused(copied, demos):
  with sole_writer(copied, wait=False):
    refuses(copied, demos, 'Another process is writing')


@pytest.mark.slow
def test_final_evaluation_that_no_checkpoint_has_reached_is_not_believed(copied, demos):
  path = copied / 'eval' / 'final.json'
  content = read_json(path)
  write_json(path, {**content, 'step': 120})
  refuses(copied, demos, 'says step 120, but the newest checkpoint is of step 80')
  write_json(path, {**content, 'step': 'abc'})
  refuses(copied, demos, '\'step\' is "abc"')


def test_missing_demonstrations_are_named(tmp_path):
  config = fixtures.run_config(tmp_path / 'runs', tmp_path / 'nothing')
  with pytest.raises(UserError, match='nothing'):
    loop.train(config)


def test_demonstrations_that_say_another_task_are_named(demos, tmp_path, capsys):
  folder = shutil.copytree(demos, tmp_path / 'demos')
  write_json(folder / 'meta.json', {'task': 'maze_pointmaze'})
  assert load_demos(fixtures.run_config(tmp_path, folder)).episodes == 2
  said = f"Warning: the demonstrations in '{folder}' are of maze_pointmaze, not of maze_umaze."
  assert said in capsys.readouterr().err
  write_json(folder / 'meta.json', {'task': 3})
  with pytest.raises(UserError, match="'task' is 3"):
    load_demos(fixtures.run_config(tmp_path, folder))


def test_unknown_task_leaves_no_folder(tmp_path):
  config = fixtures.run_config(tmp_path / 'runs', tmp_path, task='maze_umase')
  with pytest.raises(UserError, match='maze_umaze'):
    loop.train(config)
  assert not (tmp_path / 'runs').exists()


@pytest.mark.parametrize(('every', 'workers'), [(40, 1), (0, 2)])
def test_the_first_evaluation_decides_on_the_workers_of_all(every, workers, demos, tmp_path):
  """Seeds depend on their number: a run that resumes before the last must not choose anew."""
  options = {'eval_workers': 2, 'eval_episodes': 1, 'eval_final': 3, 'eval_every': every}
  config = fixtures.run_config(tmp_path, demos, **options)
  run = loop.Run(config, run_folder(config))
  try:
    assert len(run.eval_envs) == workers
    run._evaluate(3, 'final')
    assert len(run.eval_envs) == workers
  finally:
    run.close()
