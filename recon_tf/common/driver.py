"""Runs a policy in environments and reports steps and episodes to callbacks."""

from collections.abc import Callable

import numpy as np

from recon_tf.common.errors import UserError, WorkerCrashed

CRASHES = 3  # crashes without a finished episode in between before giving up


class Driver:
  """Whole episodes in rounds: in a round every environment runs one episode, side by side.

  Between calls no episode is in progress, so that a checkpoint there is complete. `episodes`
  counts the episodes started; it decides their seeds, so a resumed run sets it.
  """

  def __init__(self, envs: list, seed: int = 0):
    self.envs = list(envs)
    self.seed = int(seed)
    self.episodes = 0
    self._crashes = 0
    self._on_step, self._on_episode, self._on_drop = [], [], []
    self._idle = [_zeros(env.obs_space) for env in self.envs]

  def on_step(self, callback: Callable[[dict, int], None]) -> None:
    """callback(transition, index): an observation and the action that led to it."""
    self._on_step.append(callback)

  def on_episode(self, callback: Callable[[dict, int], None]) -> None:
    """callback(episode, index): the transitions of a finished episode, stacked."""
    self._on_episode.append(callback)

  def on_drop(self, callback: Callable[[int], None]) -> None:
    """callback(index): the episode in progress was lost in a crash."""
    self._on_drop.append(callback)

  def __call__(self, policy: Callable, episodes: int = 1) -> None:
    """Runs policy(obs, state) -> (outputs, state) until that many episodes are finished.

    Arrays have one row an environment, always of all of them. outputs holds 'action' and may
    hold log_* labels of who acted; the labels are stored with the action they describe.
    """
    while episodes > 0:
      count = min(episodes, len(self.envs))
      self._round(policy, range(count))
      episodes -= count

  def _round(self, policy: Callable, indices: range) -> None:
    running, fresh, state = set(indices), set(indices), None
    histories = {i: [] for i in indices}
    obs = list(self._idle)
    obs_of, _ = self._exchange('reset', {i: self._next_seed(i) for i in indices})
    while running:
      for i, value in obs_of.items():
        obs[i] = value
      outputs, state = policy(_stack(obs), state)
      outputs = {k: np.asarray(v) for k, v in outputs.items()}
      # As the environment does, so that what is stored is what was executed.
      outputs['action'] = np.clip(outputs['action'], -1, 1).astype(np.float32)
      for i in sorted(fresh):
        # Only now, because the first row has the labels of the others, all zero.
        nothing = {k: np.zeros_like(v[i]) for k, v in outputs.items()}
        self._emit(histories[i], obs[i], nothing, i)
      fresh.clear()
      actions = {i: {'action': outputs['action'][i]} for i in sorted(running)}
      obs_of, crashed = self._exchange('step', actions)
      for i, value in obs_of.items():
        if i in crashed:
          histories[i] = []
          fresh.add(i)
          for callback in self._on_drop:
            callback(i)
          continue
        self._emit(histories[i], value, {k: v[i] for k, v in outputs.items()}, i)
        if value['is_last']:
          running.remove(i)
          self._finish(histories.pop(i), i)

  def _exchange(self, name: str, arguments: dict) -> tuple[dict, set]:
    """Resets or steps side by side; crashed environments come back in a new episode."""
    failed, results = {}, {}
    for i, argument in arguments.items():
      if hasattr(self.envs[i], 'receive'):
        failed[i] = _try(getattr(self.envs[i], f'send_{name}'), argument)
    # Every answer is fetched before any callback runs, so that none is left waiting.
    for i, argument in arguments.items():
      if i in failed:
        results[i] = failed[i] or _try(self.envs[i].receive)
      else:
        results[i] = getattr(self.envs[i], name)(argument)
    crashed = {i for i, result in results.items() if isinstance(result, Exception)}
    for i in sorted(crashed):
      results[i] = self._recover(i, results[i])
    return results, crashed

  def _recover(self, i: int, error: Exception) -> dict:
    env = self.envs[i]
    while True:
      self._crashes += 1
      print(f'Worker {i} ({env.task}) lost an episode, {self.episodes} were started: {error}')
      if self._crashes >= CRASHES:
        raise UserError(
          f"Worker {i} of task '{env.task}': {CRASHES} crashes in a row, no episode finished; "
          f'the last one: {error}'
        ) from error
      result = _try(lambda: (env.restart(), env.reset(self._next_seed(i)))[1])
      if not isinstance(result, Exception):
        return result
      error = result

  def _next_seed(self, i: int) -> int:
    sequence = np.random.SeedSequence([self.seed, i, self.episodes])
    self.episodes += 1
    return int(sequence.generate_state(1)[0])

  def _emit(self, history: list, obs: dict, outputs: dict, i: int) -> None:
    transition = {**obs, **outputs}
    history.append(transition)
    for callback in self._on_step:
      callback(transition, i)

  def _finish(self, history: list, i: int) -> None:
    self._crashes = 0
    if self._on_episode:
      episode = {k: np.stack([x[k] for x in history]) for k in history[0]}
      for callback in self._on_episode:
        callback(episode, i)


def _try(function: Callable, *args):
  """The result, or the exception if a worker crashed."""
  try:
    return function(*args)
  except WorkerCrashed as error:
    return error


def _stack(observations: list[dict]) -> dict[str, np.ndarray]:
  return {k: np.stack([x[k] for x in observations]) for k in observations[0]}


def _zeros(space: dict) -> dict[str, np.ndarray]:
  """What the policy sees of an environment that has no part in a round."""
  obs = {k: np.zeros(x.shape, x.dtype) for k, x in space.items()}
  return {**obs, 'is_first': np.ones((), bool)}
