"""Each perturbation on the real simulator: its effect, through resets, and its removal."""

import mujoco
import numpy as np
import pytest

from recon_tf import envs
from recon_tf.common import UserError, load_config
from recon_tf.envs import perturb

TASKS = ('dmc_hopper_stand', 'dmc_walker_run', 'maze_umaze', 'metaworld_hammer', 'gym_Hopper-v5')
KINDS = {
  'noise': {'sigma': 0.1},
  'delay': {'steps': 2},
  'impulse': {'size': -0.3, 'at': 5},
  'dropout': {'prob': 0.5},
  'scale': {'factor': 0.85},
  'kicks': {'chance': 0.9, 'steps': 4},
  'mass': {'factor': 1.25},
  'friction': {'factor': 1.5},
  'mass_friction': {'mass': 1.25, 'friction': 1.5},
}
EDITS = ('mass', 'friction', 'mass_friction')


def make(task, **kwargs):
  return envs.make(task, load_config().update({'env.render': False, **kwargs}))


def rollout(env, steps=15, seed=0, actions=None):
  """Simulator positions and executed actions, with controls that stay inside the bounds."""
  env.reset(seed)
  shape = (steps, *env.act_space['action'].shape)
  if actions is None:
    actions = np.random.default_rng(seed).uniform(-0.5, 0.5, shape)
  observed = [(env.step({'action': x}), env.data.qpos.copy()) for x in actions]
  executed = np.array([x['log_action'] for x, _ in observed])
  return np.array([x for _, x in observed]), executed, actions


def arrays(model):
  """Every array and statistic of a model."""
  names = [x for x in dir(model) if not x.startswith('_')]
  found = {x: np.array(getattr(model, x)) for x in names if _is_array(model, x)}
  for name in ('meaninertia', 'meanmass', 'meansize', 'extent', 'center'):
    found[f'stat.{name}'] = np.array(getattr(model.stat, name))
  return found


def _is_array(model, name):
  return isinstance(getattr(model, name, None), np.ndarray)


def changed(first, second):
  return {x for x in first if first[x].tobytes() != second[x].tobytes()}


@pytest.fixture(scope='module', params=TASKS)
def env(request):
  return make(request.param)


@pytest.mark.parametrize('name', KINDS)
def test_changes_the_motion_survives_reset_and_is_removed_exactly(env, name):
  clean, _, _ = rollout(env)
  before = arrays(env.model)
  perturbed = perturb(env, name, **KINDS[name])
  first, _, _ = rollout(perturbed)
  if not (name == 'friction' and env.task == 'metaworld_hammer'):
    # A free-moving hand feels no friction; the test below shows that the model has it.
    assert np.abs(first - clean).max() > 1e-6
  second, _, _ = rollout(perturbed)
  np.testing.assert_array_equal(first, second)
  restored = perturb.remove(perturbed)
  assert restored is env
  assert changed(before, arrays(env.model)) == set()
  np.testing.assert_array_equal(rollout(restored)[0], clean)


@pytest.mark.parametrize('name', EDITS)
def test_model_edits_touch_what_they_name_and_nothing_drawn(env, name):
  env.reset(0)
  before = arrays(env.model)
  perturbed = perturb(env, name, **KINDS[name])
  perturbed.reset(0)
  after = arrays(env.model)
  names = changed(before, after)
  friction = 'dof_damping' if env.task.startswith('maze') else 'geom_friction'
  if 'mass' in name:
    np.testing.assert_allclose(after['body_mass'], 1.25 * before['body_mass'])
    np.testing.assert_allclose(after['body_inertia'], 1.25 * before['body_inertia'])
    assert 'dof_invweight0' in names
  else:
    assert 'body_mass' not in names
  if 'friction' in name:
    np.testing.assert_allclose(after[friction], 1.5 * before[friction])
  else:
    assert friction not in names
  assert not {x for x in names if x.startswith(('cam_', 'light_', 'stat.extent', 'stat.center'))}
  perturbed.restore()


def test_mass_equals_the_simulators_own_rescaling():
  env = make('maze_umaze')
  perturb(env, 'mass', factor=2.0)
  reference = make('maze_umaze').model
  reference.body_mass[:] *= 2
  reference.body_inertia[:] *= 2
  mujoco.mj_setConst(reference, mujoco.MjData(reference))
  assert changed(arrays(reference), arrays(env.model)) == set()


def test_factors_act_in_their_direction():
  pushed = np.tile([0.2, 0.0], (15, 1))

  def distance(*perturbation, **kwargs):
    env = make('maze_umaze')
    env = perturb(env, *perturbation, **kwargs) if perturbation else env
    positions, _, _ = rollout(env, actions=pushed)
    return positions[-1, 0] - positions[0, 0]

  clean = distance()
  assert distance('mass', factor=1.25) < clean < distance('mass', factor=0.8)
  assert distance('friction', factor=1.5) < clean < distance('friction', factor=0.7)
  assert distance('mass_friction', mass=1.25, friction=1.5) < distance('mass', factor=1.25)


def test_friction_is_felt_by_a_dragged_object():
  # The hopper's foot slides: strong friction shortens the way.
  env = make('gym_Hopper-v5')
  clean, _, _ = rollout(env, 30)
  slippery, _, _ = rollout(perturb(env, 'friction', factor=0.05), 30)
  assert np.abs(clean[-1] - slippery[-1]).max() > 1e-3


def test_noise_has_its_size_and_depends_on_seed_and_step():
  env = perturb(make('maze_umaze', **{'env.maze.terminate': False}), 'noise', sigma=0.1)
  zeros = np.zeros((250, 2))
  first = rollout(env, actions=zeros)[1]
  assert first.std() == pytest.approx(0.1, rel=0.15)
  assert abs(first.mean()) < 0.02
  assert len(np.unique(first)) == first.size
  np.testing.assert_array_equal(first, rollout(env, actions=zeros)[1])
  assert (first != rollout(env, seed=1, actions=zeros)[1]).all()


def test_delay_shifts_actions_and_forgets_them_at_reset():
  env = perturb(make('dmc_hopper_stand'), 'delay', steps=2)
  for _ in range(2):
    _, executed, actions = rollout(env)
    np.testing.assert_array_equal(executed[:2], 0)
    np.testing.assert_allclose(executed[2:], actions[:-2], atol=1e-6)


@pytest.mark.parametrize('size', [0.3, -0.15])
def test_impulse_comes_once_at_step_fifty(size):
  env = perturb(make('dmc_hopper_stand'), 'impulse', size=size)
  for _ in range(2):
    _, executed, actions = rollout(env, 60)
    difference = executed - actions
    np.testing.assert_allclose(difference[50], size, atol=1e-6)
    np.testing.assert_allclose(np.delete(difference, 50, 0), 0, atol=1e-6)


def test_dropout_drops_components_at_its_rate():
  env = perturb(make('dmc_walker_run'), 'dropout', prob=0.1)
  _, executed, actions = rollout(env, 200)
  dropped = executed == 0
  assert dropped.mean() == pytest.approx(0.1, abs=0.03)
  # Component-wise: rarely the whole action.
  assert dropped.all(1).mean() < 0.01
  np.testing.assert_allclose(executed[~dropped], actions[~dropped], atol=1e-6)


def test_scale_multiplies():
  _, executed, actions = rollout(perturb(make('dmc_walker_run'), 'scale', factor=0.85))
  np.testing.assert_allclose(executed, 0.85 * actions, atol=1e-6)


@pytest.mark.parametrize(
  ('name', 'kwargs'),
  [('noise', {'sigma': 2.0}), ('impulse', {'size': 5.0, 'at': 0}), ('scale', {'factor': 9.0})],
)
def test_perturbed_actions_are_clipped(name, kwargs):
  _, executed, _ = rollout(perturb(make('dmc_walker_run'), name, **kwargs))
  assert np.abs(executed).max() == 1


def test_perturbations_stack_and_come_off_together():
  env = make('dmc_walker_run')
  before = arrays(env.model)
  stacked = perturb(perturb(perturb(env, 'mass'), 'mass_friction'), 'scale', factor=0.5)
  stacked = perturb(stacked, 'delay')
  np.testing.assert_allclose(env.model.body_mass, 1.25**2 * before['body_mass'])
  _, executed, actions = rollout(stacked)
  np.testing.assert_allclose(executed[1:], 0.5 * actions[:-1], atol=1e-6)
  assert stacked.restore() is env
  assert changed(before, arrays(env.model)) == set()


@pytest.mark.parametrize('name', KINDS)
def test_saved_states_include_the_perturbation(name):
  env = perturb(perturb(make('dmc_walker_run'), 'delay', steps=1), name, **KINDS[name])
  rollout(env, 3)
  state = env.get_state()
  actions = np.random.default_rng(1).uniform(-1, 1, (10, 6))
  first = [env.step({'action': x}) for x in actions]
  rollout(env, 4, seed=9)
  env.set_state(state)
  second = [env.step({'action': x}) for x in actions]
  for x, y in zip(first, second, strict=True):
    np.testing.assert_array_equal(x['velocity'], y['velocity'])
    np.testing.assert_array_equal(x['log_action'], y['log_action'])


def test_mass_does_not_change_the_picture():
  env = envs.make('dmc_walker_run')
  image = env.reset(0)['image']
  heavy = perturb(env, 'mass', factor=1.25)
  assert np.abs(heavy.reset(0)['image'].astype(int) - image).max() <= 1


@pytest.mark.parametrize(
  ('name', 'kwargs', 'words'),
  [
    ('nois', {}, "Did you mean 'noise'"),
    ('noise', {'size': 1.0}, "no parameter 'size'; it has sigma"),
    ('noise', {'sigma': -1.0}, 'sigma must be 0 or more'),
    ('noise', {'sigma': 'big'}, 'must be a number'),
    ('delay', {'steps': 1.5}, 'whole number'),
    ('dropout', {'prob': 1.5}, 'from 0 to 1'),
    ('mass', {'factor': 0.0}, 'above 0'),
    ('friction', {'factor': float('nan')}, 'above 0'),
  ],
)
def test_bad_perturbations_are_refused(name, kwargs, words):
  with pytest.raises(UserError, match=words):
    perturb(make('maze_umaze'), name, **kwargs)


def test_kicks_hold_one_direction_for_a_stretch():
  env = perturb(make('maze_umaze'), 'kicks', chance=0.5, steps=4)
  _, executed, asked = rollout(env, steps=40)
  kicked = (np.abs(executed - asked) > 1e-6).any(-1).reshape(10, 4)
  assert (kicked.all(-1) == kicked.any(-1)).all()  # whole stretches or nothing
  assert 0 < kicked.any(-1).sum() < 10
  stretches = executed.reshape(10, 4, -1)[kicked.all(-1)]
  np.testing.assert_allclose(stretches, stretches[:, :1].repeat(4, 1), rtol=1e-6)
  np.testing.assert_allclose(np.abs(stretches).max(-1), 1, rtol=1e-6)  # at full force
  assert len(np.unique(stretches[:, 0], axis=0)) == len(stretches)
