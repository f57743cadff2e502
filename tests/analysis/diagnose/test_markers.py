import numpy as np

from recon_tf import envs
from recon_tf.analysis.diagnose.markers import locate, metres_per_pixel
from recon_tf.common import load_config


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
