"""recon_tf.record in real environments: units, failures, images, and going on."""

import gymnasium
import numpy as np
import pytest

import recon_tf
from recon_tf import envs, recording
from recon_tf.common import UserError
from recon_tf.common.episodes import load_folder, load_meta
from recon_tf.common.spaces import from_dict


class Slider(gymnasium.Env):
  metadata = {'render_modes': ['rgb_array']}
  observation_space = gymnasium.spaces.Dict(where=gymnasium.spaces.Box(-9, 9, (1,)))
  action_space = gymnasium.spaces.Box(0, 10, (1,))

  def __init__(self, render_mode=None):
    self.render_mode = render_mode

  def reset(self, seed=None, options=None):
    super().reset(seed=seed)
    self.where, self.count = self.np_random.uniform(-1, 1), 0
    return {'where': np.array([self.where], np.float32)}, {}

  def step(self, action):
    self.count += 1
    self.where += float(action[0]) - 5
    info = {'success': abs(self.where) < 1}
    return {'where': np.array([self.where], np.float32)}, 1.0, False, self.count == 5, info

  def render(self):
    return np.full((30, 40, 3), 7, np.uint8)


def expert(observation):
  return np.clip(5 - observation['where'], 0, 10)


def test_own_units_and_names(tmp_path):
  recon_tf.record(Slider('rgb_array'), expert, 3, tmp_path / 'a')
  episodes = load_folder(tmp_path / 'a', None)
  assert len(episodes) == 3
  assert episodes[0]['image'].shape == (6, 64, 64, 3)
  where, action = episodes[0]['where'][:, 0], episodes[0]['action'][:, 0]
  # What was done in row t stands in row t + 1, between -1 and 1.
  np.testing.assert_allclose(action[1:], -where[:-1] / 5, atol=1e-5)
  meta = load_meta(tmp_path / 'a')
  assert meta['successes'] == [True] * 3
  assert from_dict(meta['spaces']).high == (10.0,)


def test_failures_are_left_out_and_too_many_end_it(tmp_path):
  turns = iter(range(1000))
  fails_twice = lambda obs: np.array([10.0]) if next(turns) < 10 else expert(obs)
  recording.record(Slider(), fails_twice, 2, tmp_path / 'b')
  meta = load_meta(tmp_path / 'b')
  assert (meta['rejected'], len(meta['returns'])) == (2, 2)
  with pytest.raises(UserError, match='failed 22 times and succeeded 0'):
    recording.record(Slider(), lambda obs: np.array([10.0]), 2, tmp_path / 'c')
  with pytest.raises(UserError, match='2 numbers, but the task takes 1'):
    recording.record(Slider(), lambda obs: np.zeros(2), 2, tmp_path / 'd')


def test_goes_on_where_it_was(tmp_path):
  recording.record(Slider(), expert, 1, tmp_path / 'e')
  recording.record(Slider(), expert, 3, tmp_path / 'e')
  recording.record(Slider(), expert, 3, tmp_path / 'f')
  parts = [[x['where'] for x in load_folder(tmp_path / name)] for name in 'ef']
  np.testing.assert_array_equal(*parts)


def test_environments_of_the_package(tmp_path):
  from recon_tf.common import load_config

  env = envs.make('maze_umaze', load_config('state').update({'env.length': 8}))
  push = lambda obs: np.sign(obs['goal'] - obs['position'])
  with pytest.raises(UserError, match='succeeded 0 times'):
    recording.record(env, push, 1, tmp_path / 'g')  # eight steps do not get there


def test_functions_by_name(tmp_path, monkeypatch):
  (tmp_path / 'shown_here.py').write_text('def act(obs):\n  return 7\n')
  monkeypatch.chdir(tmp_path)
  assert recording.find_function('shown_here:act')(None) == 7
  for name in ('shown_here', 'shown_here:other', 'nowhere:act', ':act'):
    with pytest.raises(UserError, match='--record'):
      recording.find_function(name)


class Camera(Slider):
  """Sees itself, and cannot render; the second component has no bounds, the third no range."""

  observation_space = gymnasium.spaces.Dict(
    where=gymnasium.spaces.Box(-9, 9, (1,)), eye=gymnasium.spaces.Box(0, 255, (50, 70, 3), np.uint8)
  )
  action_space = gymnasium.spaces.Box(
    np.array([0, -np.inf, 2], np.float32), np.array([10, np.inf, 2], np.float32)
  )

  def reset(self, **kwargs):
    obs, info = super().reset(**kwargs)
    return {**obs, 'eye': np.full((50, 70, 3), 9, np.uint8)}, info

  def step(self, action):
    assert action[2] == 2
    obs, *rest = super().step(action)
    return {**obs, 'eye': np.full((50, 70, 3), 9, np.uint8)}, *rest


def test_observed_images_are_kept_without_render(tmp_path):
  policy = lambda obs: [*expert(obs), 0.5, 2.0]
  recording.record(Camera(), policy, 1, tmp_path / 'h', size=(32, 32))
  (episode,) = load_folder(tmp_path / 'h', None)
  assert episode['image'].shape == (6, 32, 32, 3)
  np.testing.assert_allclose(episode['action'][1:, 1:], [[0.5, 0.0]] * 5)


def test_actions_without_bounds_are_not_cut_off_in_silence(tmp_path):
  with pytest.raises(UserError, match=r'gives 3 where action_space has no bounds'):
    recording.record(Camera(), lambda obs: [*expert(obs), -3.0, 2.0], 1, tmp_path / 'i')


def test_what_is_no_environment(tmp_path):
  kind = gymnasium.vector.SyncVectorEnv([Slider, Slider])
  with pytest.raises(UserError, match='is a vector environment'):
    recording.record(kind, expert, 1, tmp_path / 'j')
  with pytest.raises(UserError, match='is no Gymnasium environment but str'):
    recording.record('Slider-v0', expert, 1, tmp_path / 'j')
