"""What makes demonstrations: a callable from an environment's observation to an action."""

from collections.abc import Callable

import numpy as np

from recon_tf.common.errors import UserError

Expert = Callable[[dict], np.ndarray]
NAMES = {'maze': 'waypoints', 'metaworld': 'scripted', 'dmc': 'sac'}


def make_expert(task: str, env) -> Expert:
  """The expert for a task; env is the environment itself, not a worker process."""
  suite = task.partition('_')[0]
  if suite == 'maze':
    from recon_tf.experts.maze import MazeExpert

    return MazeExpert(env)
  if suite == 'metaworld':
    from recon_tf.experts.metaworld import MetaworldExpert

    return MetaworldExpert(env)
  if suite == 'dmc':
    from recon_tf.experts.dmc import DMCExpert

    return DMCExpert(env)
  raise UserError(
    f"There is no expert for task '{task}'; record demonstrations with recon-tf demos --record, "
    'or import them with --import-npz, --import-minari or --import-hdf5.'
  )
