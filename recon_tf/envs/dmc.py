"""DeepMind Control Suite: dmc_<domain>_<task>."""

import numpy as np

from recon_tf.common.errors import UserError, nearest
from recon_tf.envs.base import Environment, decisions, repeats
from recon_tf.envs.render import Renderer, check_camera

from dm_control import suite  # isort: skip (render.py chooses the GL backend first)

# The suite's episodes are 1000 control steps long, whatever their duration.
CONTROL_STEPS = 1000
TASKS = {f'dmc_{domain}_{task}': (domain, task) for domain, task in suite.ALL_TASKS}


class DMC(Environment):
  """Vector keys are the suite's own; rewards of the repeated control steps add up."""

  def __init__(
    self,
    task: str,
    seed: int = 0,
    *,
    size: tuple[int, int] = (64, 64),
    render: bool = True,
    repeat: int = 0,
    length: int = 0,
    camera: int = 0,
  ):
    if task not in TASKS:
      raise UserError(f"Unknown task '{task}'.{nearest(task, TASKS)}")
    repeat = repeats(repeat, 2)
    full = decisions(0, CONTROL_STEPS, repeat)
    super().__init__(task, decisions(length, CONTROL_STEPS, repeat), repeat, seed, full)
    self._env = suite.load(*TASKS[task], task_kwargs={'random': 0})
    self._physics = self._env.physics
    self._task = self._env.task
    self.substeps = round(self._env.control_timestep() / self._physics.timestep())
    self.model = self._physics.model.ptr
    self.data = self._physics.data.ptr
    spec = self._env.action_spec()
    self._actions = spec.shape[0]
    self._middle = (spec.maximum + spec.minimum) / 2
    self._half = (spec.maximum - spec.minimum) / 2
    if render:
      check_camera(self.model, camera, 'env.dmc.camera')
      self._renderer = Renderer(self.model, size, camera)
    self._ready()

  def _reset(self, rng: np.random.Generator) -> None:
    # The suite draws from a RandomState, possibly again during the episode.
    self._task._random = np.random.RandomState(rng.integers(2**32))
    with self._physics.reset_context():
      self._task.initialize_episode(self._physics)

  def _step(self, action: np.ndarray) -> tuple[float, bool]:
    # control.Environment.step, but checked and observed only once per decision.
    action = self._middle + self._half * action
    total = 0.0
    with self._physics.check_invalid_state():
      for _ in range(self.repeat):
        self._task.before_step(action, self._physics)
        self._physics._step_with_up_to_date_position_velocity(self.substeps)
        self._task.after_step(self._physics)
        total += self._task.get_reward(self._physics)
        discount = self._task.get_termination(self._physics)
        if discount is not None:
          self._ended = True
          return total, discount == 0
    return total, False

  def _vectors(self) -> dict[str, np.ndarray]:
    return self._task.get_observation(self._physics)
