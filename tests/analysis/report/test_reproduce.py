"""Planning a figure: tasks, flags, outputs that are there, out of date, or of other anchors."""

import json

import pytest

from recon_tf.analysis.report import reproduce as reproduction
from recon_tf.analysis.report.registry import FIGURES, Figure
from recon_tf.analysis.runs import anchor_digest, anchor_files, anchor_folder
from recon_tf.common import Milestones, UserError, load_config
from recon_tf.common.config import presets
from tests.helpers.written_runs import make_run, walk

CONFIGS = ('maze', 'cpu', 'state')
GAIN = Figure(
  'fig:additional_diagnostics', 'Gain', ('cmil', 'recon'), ('maze_pointmaze',),
  ('acquisition', 'gap', 'robust'),
)  # fmt: skip


@pytest.fixture(autouse=True)
def entry(monkeypatch):
  monkeypatch.setitem(FIGURES, 'gain', GAIN)


def plan(tmp_path, *flags, configs=CONFIGS, seeds=(0,)):
  flags = ['--logdir', str(tmp_path), *flags]
  return reproduction.plan_runs({'gain': GAIN}, configs, seeds, flags)


@pytest.mark.parametrize('name', FIGURES)
def test_every_entry_can_be_planned(tmp_path, name):
  figure = FIGURES[name]
  assert set(figure.methods) <= set(presets())
  plans = reproduction.plan_runs({name: figure}, ('maze', 'cpu'), (0, 1), ())
  assert len({x.folder for x in plans}) == len(plans)
  assert {x.preset for x in plans} == set(figure.methods)
  assert len(reproduction.diagnoses(plans[0])) == len(figure.commands)


def test_tasks_are_what_suites_and_paper_share():
  choose = lambda *names, **keys: reproduction.choose_tasks(load_config(*names, **keys), GAIN)
  assert choose() == ['maze_pointmaze']
  assert choose('maze') == ['maze_pointmaze']
  assert choose('dmc') == ['dmc_hopper_stand', 'dmc_walker_run']
  assert choose('dmc', task='maze_umaze') == ['maze_umaze']


def test_flags_are_those_of_the_run(tmp_path):
  plans = plan(tmp_path, '--steps', '50', '--env.maze.goal', '1', '6', seeds=(0, 3, 0))
  assert [(x.preset, x.config.seed) for x in plans] == [
    (m, s) for s in (0, 3) for m in GAIN.methods
  ]
  words = ['--configs', *CONFIGS, 'cmil', '--logdir', str(tmp_path), '--steps', '50']
  words += ['--env.maze.goal', '1', '6', '--task', 'maze_pointmaze', '--seed', '0']
  assert list(plans[0].flags) == words
  assert plans[0].config.env.maze.goal == (1, 6)
  assert plans[0].folder == tmp_path / 'maze_pointmaze' / 'cmil' / '0'


def test_milestones_are_added_where_the_config_has_none(tmp_path):
  assert plan(tmp_path)[0].config.keep_every == 500
  (first, _) = plan(tmp_path, '--keep_every', '0')
  assert first.flags[-2:] == ('--keep_every', '300')
  assert first.config.keep_every == 300
  figure = {'main': FIGURES['main']}
  (first, *_) = reproduction.plan_runs(figure, (), (0,), ['--task', 'maze_umaze'])
  assert first.config.keep_every == 0


def test_baselines_keep_their_own_schedule():
  plans = reproduction.plan_runs({'main': FIGURES['main']}, ('maze', 'cpu'), (0,), ())
  assert {x.config.pretrain for x in plans if x.preset in ('dadac', 'iqmpc')} == {0}
  assert {x.config.pretrain for x in plans if x.preset == 'recon'} == {
    load_config('maze', 'cpu').pretrain
  }


def finished_run(tmp_path, method):
  run = make_run(tmp_path, method, task='maze_pointmaze', final=(3000, 1.0))
  for step in (0, 500):
    Milestones(run.path / 'milestones', 500).save(step, {}, {})
  (run.path / 'diagnose').mkdir()
  return run


def write(run, name, **content):
  (run.path / 'diagnose' / f'{name}.json').write_text(json.dumps(content))


def test_outputs_that_are_missing_or_older_than_the_run(tmp_path):
  run = finished_run(tmp_path, 'cmil')
  own = plan(tmp_path)[0]
  assert own.state == 'finished'
  names = lambda: [x.name.split()[0] for x in reproduction.diagnoses(own)]
  assert names() == ['diagnose-anchors', 'diagnose-gap', 'evaluate-robust']
  write(run, 'anchors', step=3000)
  write(run, 'gap', step=3000)
  (job,) = reproduction.diagnoses(own)
  assert job.command == f'python scripts/evaluate.py {run.path} --robust'
  assert job.log == tmp_path / 'reproduce' / 'logs' / 'evaluate-robust-maze_pointmaze-cmil-0.log'
  robust = run.path / 'eval' / 'robust.json'
  assert job.missing() == f"'{robust}' was not written"
  robust.write_text('{"step": 2000}')  # the run went on since
  assert job.missing()
  robust.write_text('{"step": 3000}')
  assert not job.missing()
  assert names() == []
  (run.path / 'diagnose' / 'gap.json').write_text('{"step": 30')  # half a file
  assert names() == ['diagnose-gap']


def test_gain_is_measured_on_the_anchors_of_all_methods(tmp_path):
  runs = [finished_run(tmp_path, x) for x in GAIN.methods]
  for number, run in enumerate(runs):
    walk(anchor_folder(run.path), [[0, 0], [number, 1]])
  plans = plan(tmp_path)
  (job,) = reproduction.comparisons(plans[0], plans)
  folders = [str(anchor_folder(x.path)) for x in runs]
  assert job.flags == (str(runs[0].path), '--what', 'acquisition', '--anchors', *folders)
  own = anchor_digest(anchor_files(folders[:1]))
  write(runs[0], 'acquisition', steps=[0, 3000], anchor_digest=own)
  assert len(reproduction.comparisons(plans[0], plans)) == 1  # those were not all
  assert reproduction.comparisons(plans[0], plans[:1]) == []
  both = anchor_digest(anchor_files(folders))
  write(runs[0], 'acquisition', steps=[0, 3000], anchor_digest=both)
  assert reproduction.comparisons(plans[0], plans) == []


def test_runs_from_before_milestones_are_known(tmp_path):
  finished_run(tmp_path, 'cmil')
  make_run(tmp_path, 'recon', task='maze_pointmaze', final=(3000, 1.0))
  plans = plan(tmp_path)
  assert [reproduction.without_milestones(x) for x in plans] == [False, True]
  assert [len(reproduction.comparisons(x, plans)) for x in plans] == [1, 0]


def test_states_of_a_folder(tmp_path):
  (cmil, recon) = plan(tmp_path)
  assert cmil.state == 'missing'
  run = make_run(tmp_path, 'cmil', task='maze_pointmaze', final=(2000, 1.0))
  assert cmil.state == 'unfinished'
  (run.path / 'eval' / 'final.json').write_text('{"step": 3000')
  with pytest.raises(UserError, match=r'final\.json.*not JSON'):
    _ = cmil.state
  (run.path / 'eval' / 'final.json').write_text('{"step": 3000}')
  assert cmil.state == 'finished'
  run.path.rename(recon.folder.parent.with_name('moved'))
  moved = recon.folder.parent.with_name('moved')
  recon.folder.parent.mkdir()
  moved.rename(recon.folder)
  with pytest.raises(UserError, match='method = cmil, not recon'):
    _ = recon.state
