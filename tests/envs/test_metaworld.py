"""Meta-World: success, hidden goal, layouts, and an image that is not mirrored."""

import metaworld.policies
import mujoco
import numpy as np
import pytest

from recon_tf.common import UserError
from recon_tf.envs.metaworld import MetaWorld


def test_success_latches_and_the_episode_goes_on():
  env = MetaWorld('metaworld_handle-press', render=False, length=120)
  policy = metaworld.policies.SawyerHandlePressV3Policy()
  obs = env.reset(0)
  assert obs['log_success'] == 0
  trace = []
  while not obs['is_last']:
    # The policy presses too far and leaves success again.
    obs = env.step({'action': policy.get_action(obs['state'].astype(np.float64))})
    trace.append((float(obs['log_success']), float(obs['log_success_now'])))
  latched, now = np.array(trace).T
  assert len(trace) == 120
  assert latched[-1] == 1
  assert now[-1] == 0
  assert (np.diff(latched) >= 0).all()
  assert not obs['is_terminal']


def test_goal_is_hidden_in_the_vector_and_logged():
  obs = MetaWorld('metaworld_hammer', render=False).reset(0)
  np.testing.assert_array_equal(obs['state'][-3:], 0)
  assert obs['log_goal'].any()


def test_first_observation_shows_the_new_layout():
  env = MetaWorld('metaworld_drawer-open', render=False)
  handles = []
  for seed in range(3):
    first = env.reset(seed)['state']
    after = env.step({'action': np.zeros(4)})['state']
    np.testing.assert_allclose(first[4:7], after[4:7], atol=2e-3)
    np.testing.assert_array_equal(first[:18], first[18:36])
    handles.append(first[4])
  assert len(set(handles)) == 3


def test_state_moves_to_another_env():
  first = MetaWorld('metaworld_drawer-open', render=False)
  second = MetaWorld('metaworld_drawer-open', render=False)
  first.reset(1)
  second.set_state(first.get_state())
  actions = np.random.default_rng(0).uniform(-1, 1, (20, 4))
  for action in actions:
    x, y = (env.step({'action': action}) for env in (first, second))
    np.testing.assert_array_equal(x['state'], y['state'])
    assert x['reward'] == y['reward']


def test_episode_may_be_longer_than_the_suites():
  env = MetaWorld('metaworld_hammer', render=False, length=520)
  env.reset(0)
  flags = [env.step({'action': np.zeros(4)})['is_last'] for _ in range(520)]
  assert flags.index(True) == 519


def spot(env, site, position):
  """Pixel (right, up) at which a magenta ball appears in the image."""
  body = env.data.body(env.model.site_bodyid[site])
  env.model.site_pos[site] = body.xmat.reshape(3, 3).T @ (position - body.xpos)
  mujoco.mj_forward(env.model, env.data)
  image = env.render().astype(int)
  score = np.minimum(image[..., 0], image[..., 2]) - image[..., 1]
  pixels = np.argwhere(score > 60)
  assert len(pixels) > 2
  row, column = pixels.mean(0)
  return np.array([column, -row])


def test_image_is_upright_and_not_mirrored():
  env = MetaWorld('metaworld_hammer')
  env.reset(0)
  site = 0
  env.model.site_rgba[site] = (1, 0, 1, 1)
  env.model.site_size[site] = 0.05
  env.model.site_type[site] = mujoco.mjtGeom.mjGEOM_SPHERE
  env.model.site_group[site] = 0
  env.model.site_sameframe[site] = 0
  centre = np.array([0.0, 0.6, 0.3])
  origin = spot(env, site, centre)
  moved = [spot(env, site, centre + 0.15 * axis) - origin for axis in np.eye(3)]
  right, up = np.array(moved).T
  assert up[2] > 2
  # In a true picture right x up points to the viewer.
  backward = env.data.camera('corner4').xmat.reshape(3, 3)[:, 2]
  assert np.cross(right, up) @ backward > 0


def test_unknown_camera_lists_the_known_ones():
  with pytest.raises(UserError, match=r'env\.metaworld\.camera.*corner4'):
    MetaWorld('metaworld_hammer', camera='corner9')
