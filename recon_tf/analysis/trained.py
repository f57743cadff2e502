"""The trained agent of a run folder, with an environment of its task; nothing is written there."""

import contextlib
import dataclasses
from collections.abc import Iterator

from recon_tf import envs
from recon_tf.analysis.runs import RunFolder
from recon_tf.common import Checkpoint, UserError
from recon_tf.make_agent import make_agent


@dataclasses.dataclass(frozen=True, eq=False)
class Trained:
  """An agent as its newest checkpoint left it."""

  run: RunFolder
  agent: object
  meta: dict  # of the checkpoint: step and counters
  env: envs.Worker


@contextlib.contextmanager
def trained(run: RunFolder) -> Iterator[Trained]:
  """Loads the newest checkpoint; the environment closes at the end."""
  config = run.config
  found = Checkpoint(run.path / 'checkpoints').load()
  if found is None:
    raise UserError(f"'{run.path}' has no readable checkpoint; let the run get beyond pretraining.")
  arrays, meta = found
  env = envs.Worker(config.task, config, config.seed)
  try:
    agent = make_agent(config, env.obs_space, env.act_space)
    agent.restore(arrays)
    yield Trained(run, agent, meta, env)
  finally:
    env.close()
