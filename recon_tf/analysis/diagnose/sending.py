"""Sends a policy off from displaced states, many at once; TensorFlow only inside of the agent."""

import numpy as np


class Episode:
  """One job under way in one simulator."""

  def __init__(self, env, number: int, job: dict):
    self.env, self.number, self.step = env, number, 0
    self.lead, self.actions = job['lead'], np.array(job['actions'], np.float32)
    self.end = self.lead + len(self.actions)  # decisions until the policy is on its own
    self.outcome = None
    self.obs = env.reset(job['seed'])
    if job['place']:
      self.obs = env.call('place', job['place'][:2], job['place'][2:])
    self._begin_if_displaced()

  @property
  def forced(self) -> np.ndarray | None:
    """The action that displaces, while it does."""
    return self.actions[self.step - self.lead] if self.lead <= self.step < self.end else None

  @property
  def over(self) -> bool:
    solved = self.outcome and self.outcome['success']
    return bool(self.obs['is_last'] or solved)

  def receive(self) -> None:
    self.obs = self.env.receive()
    self.step += 1
    if self.outcome:
      self.outcome['return'] += float(self.obs['reward'])
      self.outcome['success'] = float(self.obs.get('log_success_now', 0.0))
      self.outcome['steps'] = self.step
    elif not self.obs['is_last']:
      self._begin_if_displaced()

  def _begin_if_displaced(self) -> None:
    if self.step == self.end:
      self.outcome = {'success': 0.0, 'return': 0.0, 'steps': self.step, 'obs': self.obs}


def send(agent, workers: list, jobs: list[dict]) -> list[dict | None]:
  """What became of every job; None where the episode was over before the displacement was.

  The belief starts anew with an episode, sees the displacing actions and goes on after them.
  """
  outcomes, waiting = [None] * len(jobs), list(enumerate(jobs))[::-1]
  slots, state = [Episode(worker, *waiting.pop()) for worker in workers], None
  running = list(range(len(slots)))
  while running:
    # A slot without work shows its last observation: the batch keeps its size.
    obs = {k: np.stack([x.obs[k] for x in slots]) for k in slots[0].obs}
    outputs, state = agent.policy(obs, state, 'eval')
    action = np.clip(outputs['action'], -1, 1).astype(np.float32)
    for i in running:
      action[i] = action[i] if slots[i].forced is None else slots[i].forced
      slots[i].env.send_step({'action': action[i]})
    if isinstance(state, dict) and 'action' in state:
      state = {**state, 'action': action}  # what was done, whoever wanted it
    for i in list(running):
      slots[i].receive()
      if slots[i].over:
        outcomes[slots[i].number] = slots[i].outcome
        if waiting:
          slots[i] = Episode(slots[i].env, *waiting.pop())
        else:
          running.remove(i)
  return outcomes
