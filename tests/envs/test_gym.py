"""gym_<id>: registered environments of all shapes, and clear refusals."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from recon_tf import envs
from recon_tf.common import UserError, load_config
from recon_tf.common.pixels import fit_image
from recon_tf.envs import perturb


class Toy(gymnasium.Env):
  """A counter with the observation and action space it is given."""

  metadata = {'render_modes': ['rgb_array'], 'render_fps': 1}

  def __init__(self, observations, actions, render_mode=None):
    self.observation_space, self.action_space = observations, actions
    self.render_mode = render_mode

  def reset(self, seed=None, options=None):
    super().reset(seed=seed)
    self.observation_space.seed(seed)
    self.count = 0
    return self.observation_space.sample(), {}

  def step(self, action):
    self.count += 1
    self.received = action
    return self.observation_space.sample(), 1.0, self.count == 6, self.count == 4, {}

  def render(self):
    # Left half red: shows a flip or a wrong channel.
    image = np.zeros((100, 120, 3), np.uint8)
    image[:, :60, 0] = 255
    return image


def toy(observations=None, actions=None, **kwargs):
  observations = observations or spaces.Box(-1, 1, (3,))
  actions = actions or spaces.Box(-1, 1, (2,))
  gymnasium.register('Toy-v0', lambda **kw: Toy(observations, actions, **kw))
  try:
    config = load_config().update({f'env.{k}': v for k, v in kwargs.items()})
    return envs.make('gym_Toy-v0', config)
  finally:
    del gymnasium.registry['Toy-v0']


def test_box_observation_is_vector_and_render_is_resized():
  obs = toy().reset(0)
  assert obs['vector'].shape == (3,)
  assert obs['image'].shape == (64, 64, 3)
  assert (obs['image'][:, :31, 0] == 255).all()
  assert (obs['image'][:, 33:] == 0).all()


def test_dict_observation_keeps_its_names():
  space = spaces.Dict(
    {
      'arm': spaces.Dict({'angle': spaces.Box(-1, 1, (2,)), 'mode': spaces.Discrete(3)}),
      'reward': spaces.Box(0, 1, (1,)),
      'wrist': spaces.Box(0, 255, (32, 32, 3), np.uint8),
      'front': spaces.Box(0, 255, (50, 70, 3), np.uint8),
    }
  )
  obs = toy(space).reset(0)
  assert obs['arm_angle'].shape == (2,)
  assert obs['arm_mode'].sum() == 1
  assert obs['obs_reward'].shape == (1,)
  assert obs['reward'] == 0
  assert obs['wrist'].shape == obs['front'].shape == obs['image'].shape == (64, 64, 3)
  assert (obs['image'][:, :31, 0] == 255).all()  # of several cameras none is chosen: render()'s


CAMERA = spaces.Dict(
  {'arm': spaces.Box(-9, 9, (2,)), 'camera': spaces.Box(0, 255, (50, 70, 3), np.uint8)}
)


def test_only_image_of_a_dict_is_the_image():
  env = toy(CAMERA)
  obs = env.reset(0)
  assert 'camera' not in obs
  np.testing.assert_array_equal(obs['image'], fit_image(env.given['camera'], (64, 64)))
  assert env.own_units['sources'] == {'image': [50, 70, 3]}


class Faulty(Toy):
  """Goes wrong in one way at its third step, or has no pictures to give."""

  def __init__(self, fault, observations, **kwargs):
    super().__init__(observations, spaces.Box(-1, 1, (2,)), **kwargs)
    self.fault = fault

  def reset(self, **kwargs):
    if self.fault == 'reset':
      raise KeyError('calibration')
    return super().reset(**kwargs)

  def step(self, action):
    obs, reward, *rest = super().step(action)
    if self.count == 3:
      changes = {
        'nan': lambda x: x * np.nan, 'shape': lambda x: x[:2], 'word': lambda x: x.astype(str),
        'key': lambda x: {'camera': x['camera']},
      }  # fmt: skip
      obs = changes.get(self.fault, lambda x: x)(obs)
      reward = np.inf if self.fault == 'reward' else reward
    return obs, reward, *rest

  def render(self):
    raise NotImplementedError


class Blind(Toy):
  """Knows nothing of rendering, not even the argument."""

  def __init__(self, observations):
    super().__init__(observations, spaces.Box(-1, 1, (2,)))

  def render(self):
    raise NotImplementedError


def play(kind, render=False):
  """An episode of a class of environments, registered for as long as it takes."""
  gymnasium.register('Toy-v0', kind)
  try:
    env = envs.make('gym_Toy-v0', load_config().update({'env.render': render}))
  finally:
    del gymnasium.registry['Toy-v0']
  obs = env.reset(0)
  while not obs['is_last']:
    obs = env.step({'action': np.zeros(2)})
  return obs


@pytest.mark.parametrize(
  ('fault', 'sentence'),
  [
    ('nan', "gym_Toy-v0: the observation 'vector' holds NaN or infinite numbers at step 3"),
    ('shape', r"'vector' has shape \(2,\) at step 3, \(3,\) before"),
    ('word', "'vector' is of type <U32; numbers are needed"),
    ('reward', 'the reward is inf at step 3'),
    ('key', "an observation lacks 'arm', which its space names"),
    ('reset', r"its first reset\(\) and step\(\) raised KeyError: 'calibration'"),
  ],
)
def test_wrong_values_are_one_sentence(fault, sentence, capfd):
  space = CAMERA if fault == 'key' else spaces.Box(-1, 1, (3,))
  with pytest.raises(UserError, match=sentence):
    play(lambda **kwargs: Faulty(fault, space, **kwargs))
  # Where the user's own code went wrong is shown, and only there.
  assert ('Traceback' in capfd.readouterr().err) == (fault == 'reset')


def test_environments_that_cannot_render():
  vector = spaces.Box(-np.inf, np.inf, (3,))
  assert play(lambda: Blind(vector))['vector'].shape == (3,)
  assert play(lambda: Blind(CAMERA), render=True)['image'].shape == (64, 64, 3)
  for kind in (lambda: Blind(vector), lambda **kwargs: Faulty('', vector, **kwargs)):
    with pytest.raises(UserError, match=r'render\(\) gives no RGB image.*preset state'):
      play(kind, render=True)


def test_other_kinds_of_numbers_become_float32():
  cases = [
    (spaces.Box(-1, 1, (3,), np.float64), 3), (spaces.Box(0, 9, (2, 2), np.int64), 4),
    (spaces.MultiBinary(5), 5), (spaces.Discrete(4), 4), (spaces.Box(-1, 1, ()), 1),
  ]  # fmt: skip
  for space, size in cases:
    obs = play(lambda space=space: Blind(space))
    assert (obs['vector'].shape, obs['vector'].dtype) == ((size,), np.float32)


@pytest.mark.parametrize('channels', [1, 3])
def test_image_observation_is_the_image(channels):
  env = toy(spaces.Box(0, 255, (64, 64, channels), np.uint8))
  obs = env.reset(0)
  assert obs['image'].shape == (64, 64, 3)
  assert len(np.unique(obs['image'])) > 200
  assert 'vector' not in obs


def test_image_observation_without_images_is_refused():
  with pytest.raises(UserError, match='only images'):
    toy(spaces.Box(0, 255, (64, 64, 3), np.uint8), render=False)


def test_actions_are_scaled_to_the_bounds():
  env = toy(actions=spaces.Box(np.array([0.0, -np.inf]), np.array([4.0, np.inf]), dtype=np.float64))
  env.reset(0)
  env.step({'action': np.array([-1.0, 0.5])})
  np.testing.assert_allclose(env._env.unwrapped.received, [0.0, 0.5])
  env.step({'action': np.array([0.5, 0.5])})
  np.testing.assert_allclose(env._env.unwrapped.received, [3.0, 0.5])


def test_truncation_is_last_but_not_terminal():
  env = toy()
  env.reset(0)
  observed = [env.step({'action': np.zeros(2)}) for _ in range(4)]
  assert [bool(x['is_last']) for x in observed] == [False, False, False, True]
  assert not observed[-1]['is_terminal']


def test_repeat_stops_at_the_end_and_adds_rewards():
  env = toy(repeat=3)
  env.reset(0)
  assert env.step({'action': np.zeros(2)})['reward'] == 3
  last = env.step({'action': np.zeros(2)})
  assert last['is_last']
  assert last['reward'] == 1


@pytest.mark.parametrize('actions', [spaces.Discrete(3), spaces.MultiBinary(3)])
def test_discrete_actions_are_refused(actions):
  with pytest.raises(UserError, match='only continuous'):
    toy(actions=actions)


def test_module_prefix_imports_the_module():
  with pytest.raises(UserError, match="module 'no_such_module'"):
    envs.make('gym_no_such_module:Env-v0')
  env = envs.make('gym_gymnasium_robotics:FetchReach-v4', load_config().update({'env.length': 2}))
  obs = env.reset(0)
  assert {'observation', 'desired_goal', 'achieved_goal', 'image'} <= obs.keys()
  assert env.success_task
  env.close()


def test_own_length_and_terminal():
  env = envs.make('gym_Hopper-v5', load_config().update({'env.render': False}))
  assert env.length == 1000
  obs = env.reset(0)
  while not obs['is_last']:
    obs = env.step({'action': np.ones(3)})
  # The hopper falls long before the limit.
  assert obs['is_terminal']
  assert env.steps < 500


def test_without_simulator_states_and_model_edits_are_refused():
  env = toy()
  env.reset(0)
  with pytest.raises(UserError, match='no MuJoCo model'):
    env.get_state()
  with pytest.raises(UserError, match='no MuJoCo model'):
    perturb(env, 'mass', factor=2.0)
  noisy = perturb(env, 'noise', sigma=0.5)
  noisy.reset(0)
  assert noisy.step({'action': np.zeros(2)})['log_action'].any()
