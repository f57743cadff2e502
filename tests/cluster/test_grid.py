"""The runs of a sweep, what they are called, and what is refused."""

import json

import pytest

from recon_tf.cluster import grid, results, settings
from recon_tf.cluster.settings import Settings
from recon_tf.common.arguments import Parser
from recon_tf.common.errors import UserError

CONFIGS = ('maze', 'cpu', 'state')


def points(*texts, methods=(), seeds=(0,), flags=('--task', 'maze_umaze')):
  return grid.make_points(CONFIGS, methods, grid.parse_grid(texts), seeds, flags)


def test_settings_have_folders_of_their_own():
  found = points('main.alpha=0,1', 'horizon=5,5', seeds=(0, 1))
  assert [x.name for x in found] == [
    'maze_umaze/recon+main.alpha-0+horizon-5/0', 'maze_umaze/recon+main.alpha-1+horizon-5/0',
    'maze_umaze/recon+main.alpha-0+horizon-5/1', 'maze_umaze/recon+main.alpha-1+horizon-5/1',
  ]  # fmt: skip
  assert [x.config.main.alpha for x in found] == [0, 1, 0, 1]
  assert all(x.config.horizon == 5 for x in found)
  for point in found:  # the command alone makes the same run
    assert grid.parse(point.flags) == [point.config]


def test_one_setting_written_in_two_ways_is_one_run():
  found = points('main.alpha=1,1.0,1e0,2')
  assert [x.name for x in found] == [
    'maze_umaze/recon+main.alpha-1/0', 'maze_umaze/recon+main.alpha-2/0'
  ]  # fmt: skip


def test_tasks_methods_and_seeds():
  found = points(methods=('recon', 'cmil'), seeds=(3, 3), flags=())
  assert [x.name for x in found] == [
    'maze_umaze/recon/3', 'maze_umaze/cmil/3', 'maze_pointmaze/recon/3', 'maze_pointmaze/cmil/3'
  ]  # fmt: skip


def test_threads_follow_the_cpus_of_a_run():
  (point,) = points()
  assert grid.with_threads(point, Settings(cpus=2)).flags[-2:] == ('--threads', '2')
  assert grid.with_threads(point, Settings(cpus=0.5)).flags == point.flags
  (point,) = points(flags=('--task', 'maze_umaze', '--threads', '3'))
  assert grid.with_threads(point, Settings(cpus=2)).flags == point.flags


@pytest.mark.parametrize(
  ('texts', 'flags', 'part'),
  [
    (['main.alpha'], (), 'main.alpha=0,1,10'),
    (['main.alpha='], (), 'main.alpha=0,1,10'),
    (['main.alpa=1'], ('--task', 'maze_umaze'), "'main.alpha'"),
    (['horizon=long'], ('--task', 'maze_umaze'), 'horizon'),
    (['seed=1,2'], (), '--seeds'),
    (['horizon=5', 'horizon=6'], (), 'twice'),
    ([], ('--seed', '1'), '--seeds'),
    ([], ('--method', 'x'), '--methods'),
  ],
)
def test_bad_grids(texts, flags, part):
  with pytest.raises(UserError) as error:
    points(*texts, flags=flags)
  assert part in str(error.value)


@pytest.mark.parametrize(
  'flags', [['--workers=-1'], ['--cpus=-1'], ['--gpus=1.5'], ['--cpus=0'], ['--retries=-1']]
)
def test_bad_resources(flags):
  parser = Parser()
  settings.add_flags(parser, workers=0)
  with pytest.raises(UserError, match=flags[0].split('=')[0]):
    settings.read_flags(parser.parse_args(flags))


def test_results_are_one_table_and_one_figure(tmp_path):
  flags = ('--task', 'maze_umaze', '--logdir', str(tmp_path))
  found = points('main.alpha=0,1', seeds=(0, 1), flags=flags)
  for point, score in zip(found, (0.2, 0.5, 0.4, 0.7), strict=True):
    (point.folder / 'eval').mkdir(parents=True)
    point.config.save(point.folder / 'config.yaml')
    result = {'step': point.config.steps, 'success': score}
    (point.folder / 'eval' / 'final.json').write_text(json.dumps(result))
  assert set(grid.states(found).values()) == {'finished'}
  rows = results.rows(found)
  lines = [x.split() for x in results.summary(rows)]
  assert [x[2] for x in lines[1:]] == ['main.alpha=0', 'main.alpha=1']
  assert [x[5] for x in lines[1:]] == ['0.300', '0.600']
  written = results.write(rows, tmp_path / 'sweep')
  assert written[0].read_text().splitlines()[1].startswith('maze_umaze,recon,main.alpha=0,0,')
  assert written[2].stat().st_size > 5000
