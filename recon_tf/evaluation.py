"""Evaluation of the deployed policy: the main policy alone, in whole episodes."""

import numpy as np

from recon_tf.common.driver import Driver


def evaluate(agent, envs: list, episodes: int, seed: int, video: bool = False) -> dict:
  """Runs the policy in eval mode; returns, successes and lengths of every episode."""
  driver = Driver(envs, seed)
  result = {'returns': [], 'successes': [], 'last_successes': [], 'lengths': []}
  frames = []

  def record(episode: dict, index: int) -> None:
    result['returns'].append(float(episode['reward'].sum()))
    result['lengths'].append(len(episode['reward']) - 1)
    if 'log_success' in episode:
      result['successes'].append(float(episode['log_success'].max()))
      result['last_successes'].append(float(episode['log_success_now'][-1]))
    if video and not frames and 'image' in episode:
      frames.append(episode['image'])

  driver.on_episode(record)
  driver(lambda obs, state: agent.policy(obs, state, 'eval'), episodes)
  if frames:
    result['video'] = frames[0]
  return result


def summarize(result: dict) -> dict[str, float]:
  """Means for the logs; success only where the task has one."""
  names = {'returns': 'return', 'successes': 'success', 'last_successes': 'success_last'}
  means = {names[k]: float(np.mean(result[k])) for k in names if result[k]}
  return {**means, 'length': float(np.mean(result['lengths']))}
