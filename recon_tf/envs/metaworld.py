"""Meta-World v3 tasks: metaworld_<name>, e.g. metaworld_drawer-open."""

from collections.abc import Mapping

import numpy as np

from recon_tf.common.errors import UserError, nearest
from recon_tf.envs.base import Environment, assign_numbers, decisions, numbers, repeats
from recon_tf.envs.render import Renderer, check_camera, mujoco

from metaworld.env_dict import ALL_V3_ENVIRONMENTS  # isort: skip (after the GL backend)

STEPS = 500
TASKS = {f'metaworld_{name.removesuffix("-v3")}': name for name in ALL_V3_ENVIRONMENTS}


class MetaWorld(Environment):
  """Vector key 'state' is the suite's 39 numbers with the goal hidden (its last three are 0).

  The goal is in log_goal, and the episode goes on after success as in the suite.
  """

  success_task = True
  # Several tasks place their objects by editing the model.
  layout = ('body_pos', 'body_quat', 'site_pos')

  def __init__(
    self,
    task: str,
    seed: int = 0,
    *,
    size: tuple[int, int] = (64, 64),
    render: bool = True,
    repeat: int = 0,
    length: int = 0,
    camera: str = 'corner4',
  ):
    if task not in TASKS:
      raise UserError(f"Unknown task '{task}'.{nearest(task, TASKS)}")
    repeat = repeats(repeat, 1)
    full = decisions(0, STEPS, repeat)
    super().__init__(task, decisions(length, STEPS, repeat), repeat, seed, full)
    self._env = ALL_V3_ENVIRONMENTS[TASKS[task]]()
    self._env.max_path_length = self.length * repeat + 1
    # Draw the layout of each episode from our seed instead of from a task list.
    self._env._set_task_called = True
    self._env._freeze_rand_vec = False
    self._env.seeded_rand_vec = True
    self._env._set_task_inner()
    self.substeps = self._env.frame_skip
    self.model = self._env.model
    self.data = self._env.data
    self._actions = 4
    self._state = np.zeros(39)
    self._solved_now = False
    if render:
      check_camera(self.model, camera, 'env.metaworld.camera')
      # The suite's cameras hang upside down.
      self._renderer = Renderer(self.model, size, camera, rotate=True)
    self._ready()

  def _reset(self, rng: np.random.Generator) -> None:
    self._env.seed(int(rng.integers(2**31)))
    self._env.reset()
    # The suite moves objects after the last forward pass, and would show the old places.
    mujoco.mj_forward(self.model, self.data)
    self._env._prev_obs = self._env._get_curr_obs_combined_no_goal()
    self._state = self._env._get_obs()
    self._solved_now = False

  def _step(self, action: np.ndarray) -> tuple[float, bool]:
    total = 0.0
    solved = False
    for _ in range(self.repeat):
      self._state, reward, _, _, info = self._env.step(action)
      total += float(reward)
      solved = solved or bool(info['success'])
    self._solved_now = solved
    return total, False

  def _vectors(self) -> dict[str, np.ndarray]:
    return {'state': self._state}

  def _logs(self) -> dict[str, np.ndarray]:
    return {'log_goal': self._env._target_pos}

  def _solved(self) -> bool:
    return self._solved_now

  def _save(self) -> dict[str, np.ndarray]:
    attributes = {f'env_{k}': v for k, v in numbers(self._env).items()}
    return {'state': self._state, 'solved': self._solved_now, **attributes}

  def _load(self, state: Mapping[str, np.ndarray]) -> None:
    self._state = np.array(state['state'])
    self._solved_now = bool(state['solved'])
    values = {k.removeprefix('env_'): v for k, v in state.items() if k.startswith('env_')}
    assign_numbers(self._env, values)
