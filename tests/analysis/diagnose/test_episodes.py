"""Fresh expert episodes beside a run, without TensorFlow."""

import numpy as np
import pytest

from recon_tf import demos, envs
from recon_tf.analysis.diagnose.episodes import (
  held_out_expert,
  load_demonstrations,
  locate,
  measure_expert,
  metres_per_pixel,
  noisy_expert,
  stack,
)
from recon_tf.analysis.runs import Run
from recon_tf.common import UserError, load_config

CONFIG = load_config('maze', 'cpu', 'state').update({'task': 'maze_umaze', 'demo_episodes': 2})


@pytest.fixture(scope='module')
def run(tmp_path_factory):
  folder = tmp_path_factory.mktemp('run')
  config = CONFIG.update({'demos': str(folder / 'demos')})
  demos.make_demos(config.task, 2, folder / 'demos', config, progress=False)
  return Run(folder, config)


def test_held_out_episodes_are_not_the_demonstrations(run):
  held, own = held_out_expert(run, 2), load_demonstrations(run)
  assert len(held) == len(own) == 2
  starts = np.stack([x['log_position'][0] for x in [*held, *own]])
  assert len(np.unique(starts, axis=0)) == 4
  assert all(x['log_success'][-1] == 1 for x in held)


def test_a_noisy_expert_errs_and_still_arrives(run):
  env = envs.make(run.task, run.config)
  quiet, noisy = (noisy_expert(run, env, sigma, 1)[0] for sigma in (0.0, 0.5))
  np.testing.assert_array_equal(quiet['log_position'][0], noisy['log_position'][0])
  assert quiet['log_success'][-1] == noisy['log_success'][-1] == 1
  # Jerky actions: the expert's own change little from step to step.
  jerk = lambda x: np.abs(np.diff(x['action'][1:], axis=0)).mean()
  assert jerk(noisy) > 5 * jerk(quiet)
  assert np.abs(noisy['action']).max() <= 1
  env.close()


def test_the_expert_is_measured_with_its_failures(run):
  """Pushed all the time it does not always arrive; demonstrations hold its successes alone."""
  calm, pushed = (measure_expert(run, 6, kicks) for kicks in (0.0, 1.0))
  assert (calm['measure'], calm['score'], calm['episodes']) == ('success', 1.0, 6)
  assert pushed['score'] == np.mean(pushed['successes']) < 1
  assert len(pushed['returns']) == 6


def test_stack_cuts_to_one_length(run):
  episodes = load_demonstrations(run)
  lengths = sorted(len(x['action']) for x in episodes)
  batch = stack(episodes)
  assert batch['action'].shape == (2, lengths[0], 2)
  np.testing.assert_array_equal(batch['position'][1], episodes[1]['position'][: lengths[0]])
  with pytest.raises(UserError, match='no episode has 999 steps'):
    stack(episodes, 999)


def test_lost_demonstrations_are_named(run, tmp_path):
  gone = Run(run.path, run.config.update({'demos': str(tmp_path / 'gone')}))
  with pytest.raises(UserError, match='gone'):
    load_demonstrations(gone)


# Markers in pictures


def test_finds_drawn_squares():
  images = np.full((2, 64, 64, 3), 90, np.uint8)
  images[:, 10:13, 20:25] = (20, 200, 20)  # centre row 11, column 22
  images[0, 40:43, 50:53] = (250, 0, 0)
  assert np.allclose(locate(images, 'ball'), [[11, 22], [11, 22]])
  assert np.allclose(locate(images, 'goal')[0], [41, 51])
  assert np.isnan(locate(images, 'goal')[1]).all()  # the second image has none
  assert np.allclose(locate(images / 255.0, 'ball'), locate(images, 'ball'), atol=1e-4)


def test_follows_the_ball_of_the_simulator():
  """Pixels moved times the camera's scale is the way that the ball went."""
  env = envs.make('maze_pointmaze', load_config('maze', 'clear_maze', 'cpu'))
  obs = [env.reset(seed=3)]
  obs += [env.step({'action': np.array([0.3, -1.0], np.float32)}) for _ in range(12)]
  images = np.stack([x['image'] for x in obs])
  positions = np.stack([x['log_position'] for x in obs])
  scale = metres_per_pixel(images, positions)
  pixels = locate(images, 'ball')
  way = lambda x: np.linalg.norm(x[-1] - x[0])
  assert 0.08 < scale < 0.2  # 8 cells of one metre in 64 pixels
  assert abs(scale * way(pixels) - way(positions)) < 0.1
  # Up in the picture is up in the maze: rows fall while y rises.
  moved = pixels[-1] - pixels[0]
  assert np.sign(moved[0]) == -np.sign(positions[-1, 1] - positions[0, 1])
  env.close()
