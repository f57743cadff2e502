"""How good the experts are, over seeds that made no demonstration."""

import numpy as np

from recon_tf import envs, experts
from recon_tf.common.config import Config, load_config
from recon_tf.common.episodes import Episode
from recon_tf.demos.make import rollout

FIRST_SEED = 40_000  # no actor was trained, searched or chosen on these
HEADER = f'{"task":<26} {"episodes":>8} {"return":>8} {"min":>8} {"success":>8} {"steps":>6}'


def evaluate_experts(tasks: list[str], episodes: int, config: Config | None = None):
  """Yields a table line by line: return, success and steps to it, without rendering.

  With eval_kicks the experts are pushed as policies are in evaluations: their ceiling there.
  """
  yield HEADER
  for task in tasks:
    yield _row(task, expert_rollouts(task, episodes, config or load_config()))


def expert_rollouts(task: str, episodes: int, config: Config) -> list[Episode]:
  """Episodes of the expert, failed ones too, without pictures."""
  env = envs.make(task, config.update({'env.render': False}), seed=0)
  if config.eval_kicks:
    env = envs.perturb(env, 'kicks', chance=config.eval_kicks)
  try:
    expert = experts.make_expert(task, env)
    return [rollout(env, expert, FIRST_SEED + i) for i in range(episodes)]
  finally:
    env.close()


def _row(task: str, rolls: list) -> str:
  returns = [x['reward'].sum() for x in rolls]
  steps = np.mean([len(x['action']) - 1 for x in rolls])
  success = '-'
  if 'log_success' in rolls[0]:
    won = [x['log_success'] > 0 for x in rolls]
    success = f'{100 * np.mean([x.any() for x in won]):.0f} %'
    steps = np.mean([x.argmax() if x.any() else len(x) - 1 for x in won])
  return (
    f'{task:<26} {len(rolls):>8} {np.mean(returns):>8.1f} {np.min(returns):>8.1f} '
    f'{success:>8} {steps:>6.0f}'
  )
