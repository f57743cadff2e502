"""Demonstrations made on the spot, in a process of their own."""

import concurrent.futures

import pytest

from recon_tf import demos
from recon_tf.common import UserError, load_config
from recon_tf.common.episodes import episode_files, load_folder, load_meta
from recon_tf.demos.meta import resume_meta


def test_makes_what_is_missing_with_the_settings_of_the_run(tmp_path, capfd):
  config = load_config(
    env={'render': False, 'maze': {'start_noise': 0.1, 'start': [1, 1], 'goal': [3, 1]}}
  )
  folder = demos.ensure_demos('maze_umaze', 1, tmp_path / 'demos', config, seed=3)
  assert len(episode_files(folder)) == 1
  assert load_meta(folder)['seed'] == 3
  assert load_meta(folder)['env']['env.maze.start'] == [1, 1]
  assert load_folder(folder)[0]['position'][0, 1] > 0.8  # row 1 is at the top
  assert '1/1' in capfd.readouterr().err  # the progress bar came through
  before = (folder / 'meta.json').stat().st_mtime_ns
  demos.ensure_demos('maze_umaze', 1, folder, config, seed=3)
  assert (folder / 'meta.json').stat().st_mtime_ns == before


def test_error_of_the_process_comes_back_as_user_error(tmp_path):
  with pytest.raises(UserError, match=r"maze_umaz.*Did you mean 'maze_umaze'"):
    demos.ensure_demos('maze_umaz', 1, tmp_path / 'demos', load_config())


def test_unusual_settings_get_a_folder_of_their_own(tmp_path):
  usual, other = load_config(), load_config(env={'maze': {'goal_noise': 0.0}})
  assert demos.demo_folder(tmp_path, 'maze_umaze', usual) == tmp_path / 'maze_umaze'
  changed = demos.demo_folder(tmp_path, 'maze_umaze', other)
  assert changed.name.startswith('maze_umaze-')
  assert demos.demo_folder(tmp_path, 'dmc_walker_run', other).name == 'dmc_walker_run'
  assert (
    demos.demo_folder(tmp_path, 'maze_umaze', usual.update({'env.workers': 4})).name == 'maze_umaze'
  )


def test_two_runs_that_start_together_share_one_set(tmp_path):
  config = load_config(env={'render': False})
  fill = lambda _: demos.ensure_demos('maze_umaze', 3, tmp_path / 'demos', config)
  with concurrent.futures.ThreadPoolExecutor(2) as pool:
    assert len(set(pool.map(fill, range(2)))) == 1
  assert len(episode_files(tmp_path / 'demos')) == 3
  starts = [tuple(x['position'][0]) for x in load_folder(tmp_path / 'demos')]
  assert len(set(starts)) == 3


@pytest.mark.parametrize(
  ('text', 'message'),
  [
    ('[1]', 'no JSON object'),
    ('{"task": "maze_umaze", "env": "x"}', '\'env\' is "x", not an object'),
    ('{"task": "maze_umaze", "returns": ["x"]}', "'returns'"),
    ('{"task": 3}', "'task' is 3, not a text"),
  ],
)
def test_damaged_meta_is_named_with_its_field(tmp_path, text, message):
  (tmp_path / 'meta.json').write_text(text)
  with pytest.raises(UserError) as error:
    resume_meta(tmp_path, 'maze_umaze', {})
  assert str(tmp_path / 'meta.json') in str(error.value)
  assert message in str(error.value)
