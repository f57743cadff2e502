"""Observations as environments give them, actions in their units, and the file that says so."""

import dataclasses
import json

import gymnasium
import numpy as np
import pytest
from PIL import Image

from recon_tf import envs
from recon_tf.common import UserError
from recon_tf.common.episodes import save_episode
from recon_tf.common.spaces import Spaces, record_spaces, run_spaces, space_of

SPACES = Spaces(
  {'place': (3,), 'image': (8, 8, 3)}, (1, 2), 'float64', (-2.0, 0.0), (4.0, 1.0), {}
)  # fmt: skip


def test_units_there_and_back():
  np.testing.assert_allclose(SPACES.scaled([[4.0, 0.5]]), [1, 0])
  own = SPACES.middle + SPACES.half * np.array([1.0, 0.0])
  assert SPACES.own(own).shape == (1, 2)
  np.testing.assert_allclose(SPACES.own(own), [[4.0, 0.5]])
  assert SPACES.own(np.stack([own] * 3)).shape == (3, 1, 2)
  with pytest.raises(UserError, match='3 numbers'):
    SPACES.scaled([1, 2, 3])


def test_single_and_batch_and_resized():
  rng = np.random.default_rng(0)
  image = rng.integers(0, 256, (16, 24, 3), np.uint8)
  obs = {'place': [1, 2, 3], 'image': image, 'other': 5}
  arrays, batch = SPACES.inputs(obs, ['place', 'image'])
  assert not batch
  assert {k: v.shape for k, v in arrays.items()} == {'place': (1, 3), 'image': (1, 8, 8, 3)}
  expected = np.asarray(Image.fromarray(image).resize((8, 8), Image.BOX))
  np.testing.assert_array_equal(arrays['image'][0], expected)
  several = {'place': np.ones((5, 3)), 'image': np.stack([image] * 5)}
  arrays, batch = SPACES.inputs(several, ['place', 'image'])
  assert batch
  np.testing.assert_array_equal(arrays['image'][4], expected)


def test_nested_names_and_an_only_observation():
  spaces = Spaces({'arm_joint': (2,)}, (1,), 'float32', (-1.0,), (1.0,), {})
  arrays, _ = spaces.inputs({'arm': {'joint': [1, 2]}, 'camera': 0}, ['arm_joint'])
  np.testing.assert_array_equal(arrays['arm_joint'], [[1, 2]])
  arrays, _ = spaces.inputs(np.array([1, 2]), ['arm_joint'])
  np.testing.assert_array_equal(arrays['arm_joint'], [[1, 2]])


@pytest.mark.parametrize(
  ('obs', 'parts'),
  [
    ({'place': [1, 2, 3], 'picture': 0}, ("['image']", 'picture')),
    ({'place': [1, 2]}, ("'place'", '[2]', '3 numbers')),
    ({'place': np.zeros((0, 3))}, ("'place'", '[0, 3]', '3 numbers')),
    ({'place': ['a', 'b', 'c']}, ("'place'", '3 numbers')),
    ({'place': [1, np.nan, 3]}, ("'place'", 'NaN')),
    ({'place': np.zeros((2, 3)), 'image': np.zeros((3, 8, 8, 3), np.uint8)}, ('rows',)),
    ({'place': [1, 2, 3], 'image': np.zeros((8, 8, 3))}, ("'image'", 'float64', 'uint8')),
  ],
)
def test_wrong_observations_are_one_sentence(obs, parts):
  keys = ['place'] if [*obs] == ['place'] else ['place', 'image']
  with pytest.raises(UserError) as error:
    SPACES.inputs(obs, keys)
  assert all(x in str(error.value) for x in parts)


class Arm(gymnasium.Env):
  observation_space = gymnasium.spaces.Dict(
    joint=gymnasium.spaces.Box(-1, 1, (2,)),
    eye=gymnasium.spaces.Box(0, 255, (20, 30, 1), np.uint8),
  )
  action_space = gymnasium.spaces.Box(np.array([[-3.0, 0.0]]), np.array([[3.0, 10.0]]))

  def __init__(self, render_mode=None):
    self.render_mode = render_mode

  def reset(self, seed=None, options=None):
    return self.observation_space.sample(), {}

  def step(self, action):
    return self.observation_space.sample(), 0.0, False, False, {}

  def render(self):
    return np.zeros((40, 40, 3), np.uint8)


gymnasium.register('SpacesArm-v0', entry_point=Arm)


def test_names_of_the_environment_where_training_has_others():
  """An only image is 'image', and names that episodes need for themselves begin with obs_."""
  spaces = dataclasses.replace(SPACES, observations={'obs_reward': (1,), 'image': (8, 8, 3)})
  image = np.full((50, 70, 3), 7, np.uint8)
  keys = ['obs_reward', 'image']
  for obs in ({'reward': [3.0], 'camera': image}, {'obs_reward': [3.0], 'image': image}):
    arrays, batch = spaces.inputs(obs, keys)
    assert not batch
    assert arrays['obs_reward'].item() == 3
    assert (arrays['image'] == 7).all()
  arrays, batch = spaces.inputs({'reward': np.ones((2, 1)), 'eye': np.stack([image] * 2)}, keys)
  assert batch
  with pytest.raises(UserError, match=r"lacks \['image'\]"):
    spaces.inputs({'reward': [3.0], 'left': image, 'right': image}, keys)


def test_discrete_observations_become_one_hot():
  spaces = dataclasses.replace(SPACES, observations={'gear': (3,)}, discrete={'gear': 1})
  arrays, batch = spaces.inputs({'gear': 2}, ['gear'])
  assert not batch
  np.testing.assert_array_equal(arrays['gear'], [[0, 1, 0]])
  arrays, batch = spaces.inputs({'gear': np.array([1, 3, 3])}, ['gear'])
  assert batch
  np.testing.assert_array_equal(arrays['gear'], [[1, 0, 0], [0, 0, 1], [0, 0, 1]])
  arrays, batch = spaces.inputs({'gear': np.array([0.0, 0.0, 1.0])}, ['gear'])  # one-hot already
  assert not batch
  np.testing.assert_array_equal(arrays['gear'], [[0, 0, 1]])
  with pytest.raises(UserError, match="'gear' is 4, not from 1 to 3"):
    spaces.inputs({'gear': 4}, ['gear'])


def test_of_an_environment_and_through_a_file(tmp_path):
  env = envs.make('gym_SpacesArm-v0')
  spaces = space_of(env)
  # Its only camera is the image, not what render() draws, which a robot does not have.
  assert spaces.observations == {'joint': (2,), 'image': (64, 64, 3)}
  assert spaces.sources == {'image': (20, 30, 1)}
  assert (spaces.low, spaces.high, spaces.shape) == ((-3, 0), (3, 10), (1, 2))
  record_spaces(tmp_path, spaces)
  assert run_spaces(tmp_path) == spaces


def test_runs_without_the_file_are_read_off_their_episodes(tmp_path):
  with pytest.raises(UserError, match=r'neither spaces\.json nor'):
    run_spaces(tmp_path)
  episode = {'place': np.ones((4, 3), np.float32), 'action': np.zeros((4, 2), np.float32)}
  save_episode(tmp_path / 'train_episodes', {**episode, 'log_goal': np.ones((4, 1))})
  spaces = run_spaces(tmp_path)
  assert spaces.observations == {'place': (3,)}
  assert (spaces.low, spaces.bounds_known) == ((-1, -1), False)


def test_damaged_file_is_named_with_the_field(tmp_path):
  (tmp_path / 'spaces.json').write_text(json.dumps({'shape': 3}))
  with pytest.raises(UserError, match=r"spaces\.json': the field 'observations' is missing"):
    run_spaces(tmp_path)
  good = {'observations': {'x': [2]}, 'shape': [2], 'dtype': 'float32', 'sources': {}}
  good |= {'low': [-1, -1], 'high': [1, 1]}
  for change, named in (
    ({'low': 3}, "'low' is 3, not a list of numbers"),
    ({'observations': {'x': 2}}, 'it is damaged'),
    ({'other': 1}, 'it is damaged'),
  ):
    (tmp_path / 'spaces.json').write_text(json.dumps({**good, **change}))
    with pytest.raises(UserError, match=rf'spaces\.json.*{named}'):
      run_spaces(tmp_path)
