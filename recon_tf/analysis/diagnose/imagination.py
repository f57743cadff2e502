"""Where the deployed policy does not come back: is its model wrong there, or was it not taught?

From every displaced state of the recovery evaluation (displaced.py) the main policy acts in the
simulator and, from the belief that it has there, in its own world model: modes of its actions, and
the mean over the heads' means. Both are judged by the same D, U and critics at the same decisions:

  belief s_0 --a_0--> s_1 --a_1--> ...    posteriors of what the simulator shows
             --a_0--> s_1'--a_1'-> ...    prior alone; a_0 and all that is said of it are the same

If imagination comes back where the policy does not, the model taught it wrongly; if D or the
critics like where it is stuck, they did; if imagination fails as well, nothing has taught it yet.
"""

import numpy as np
import tensorflow as tf

from recon_tf.analysis.diagnose import displaced, mazes, recovery
from recon_tf.analysis.diagnose.episodes import apart
from recon_tf.analysis.diagnose.gap import Model
from recon_tf.analysis.diagnose.loaded import Trained
from recon_tf.analysis.regions import PLANE, find_plane
from recon_tf.analysis.stats import mean_of
from recon_tf.common.errors import UserError
from recon_tf.nn import tfutils

STEPS = 60  # decisions that are imagined
TAIL = 5  # last ones of them that are compared
THINNED = 4  # decisions between the places of a path
OUTCOMES = {True: 'back', False: 'lost'}


class Recorded:
  """An agent that notes beliefs, actions and observations, one episode after the other."""

  def __init__(self, agent):
    self._agent, self.episodes = agent, []

  def policy(self, obs: dict, state, mode: str) -> tuple[dict, dict]:
    outputs, state = self._agent.policy(obs, state, mode)
    if obs['is_first'][0]:
      self.episodes.append([])
    belief = {k: state[k].numpy()[0] for k in ('deter', 'stoch')}
    shown = {k: v[0] for k, v in obs.items()}
    self.episodes[-1].append({**shown, **belief, 'action': outputs['action'][0]})
    return outputs, state


class Judge:
  """What the trained networks say of pairs, and what they imagine."""

  def __init__(self, agent, alpha: float):
    self._agent, self._alpha = agent, alpha
    self.pairs = tfutils.function(self._pairs)
    self.imagine = tfutils.function(self._imagine)

  def _pairs(self, deter, stoch, action):
    """D, U and the smaller Q of pairs [rows, ...], and the reward D - alpha U."""
    agent, rssm = self._agent, self._agent.world_model.rssm
    feature = rssm.features({'deter': deter, 'stoch': stoch})
    disc = agent.disc.prob(feature, action)
    after = rssm.mean_step({'deter': deter, 'stoch': stoch}, action)['deter']
    uncertainty = rssm.uncertainty(after[None])[0]
    critic = tf.minimum(*[q(tf.concat([feature, action], -1))[..., 0] for q in agent.main.critics])
    reward = disc - self._alpha * uncertainty
    return {'disc': disc, 'uncertainty': uncertainty, 'critic': critic, 'reward': reward}

  def _imagine(self, deter, stoch):
    """STEPS pairs of the main policy from beliefs [rows, ...], as [STEPS, rows, ...]."""
    rssm, state = self._agent.world_model.rssm, {'deter': deter, 'stoch': stoch}
    found = []
    for _ in range(STEPS):
      action = self._agent.main.policy(rssm.features(state)).mode()
      found.append({**state, 'action': action})
      state = rssm.mean_step(state, action)
    return {k: tf.stack([x[k] for x in found]) for k in found[0]}

  def decode(self, deter: np.ndarray, stoch: np.ndarray) -> dict[str, np.ndarray]:
    """The vectors that states [steps, ...] stand for; pictures are left out."""
    model = self._agent.world_model
    state = {'deter': tf.constant(deter[None]), 'stoch': tf.constant(stoch[None])}
    means = model.decode(model.rssm.features(state))
    return {k: v.numpy()[0] for k, v in means.items() if len(v.shape) == 3}


def diagnose(trained: Trained) -> dict:
  """Real and imagined steps after displacements, by whether the policy came back."""
  run, agent = trained.run, trained.agent
  Model(agent)  # says so where there is no ensemble world model
  if not np.isfinite(float(agent.delta.numpy())):
    raise UserError(f"the discriminator of method '{run.method}' was never trained.")
  plan = apart(displaced.make_jobs, run)
  plan['jobs'] = [x for x in plan['jobs'] if x['kind'] != 'cells' or x['difficulty'] > 0]
  recorded = Recorded(agent)
  outcomes = recovery.send(recorded, [trained.env], plan['jobs'])
  way = find_plane(run) or recovery.expert_way(run, trained.env.obs_space)
  judge, rows = Judge(agent, run.config.main.alpha), []
  for job, outcome, episode in zip(plan['jobs'], outcomes, recorded.episodes, strict=True):
    if outcome:
      row = recovery.episode_row(plan, job, outcome, None)
      if recovery.manages(plan, row):
        begin = job['lead'] + len(job['actions'])
        found = compare(judge, episode[begin:], way, run.config.discount)
        rows.append({**row, **found, 'back': came_back(plan, row)})
  if not rows:
    raise UserError('the expert manages none of the displacements, so none is looked at.')
  if run.task.startswith('maze_') and rows[0]['imagined_places'] is not None:
    add_walls(run, rows)
  result = {**run.identity, 'step': trained.meta['step'], 'steps': STEPS}
  result['outcomes'] = {k: means([x for x in rows if x['back'] == b]) for b, k in OUTCOMES.items()}
  if 'maze' in plan:
    result |= {'maze': plan['maze'], 'paths': paths(rows)}
  return result


def came_back(plan: dict, row: dict) -> bool:
  """Success, or at least half of what the expert gets from there."""
  if plan['measure'] == 'success':
    return row['value'] > 0
  whole = plan['high'] if row['expert'] is None else row['expert']
  return row['value'] >= recovery.MANAGES * whole


def compare(judge: Judge, episode: list[dict], way, discount: float) -> dict:
  """Both ways from one belief, over as many decisions as the real one has of STEPS."""
  real = {k: np.stack([x[k] for x in episode[:STEPS]]) for k in episode[0]}
  count, first = len(real['action']), {k: real[k][:1] for k in ('deter', 'stoch')}
  imagined = {k: v.numpy()[:count, 0] for k, v in judge.imagine(**first).items()}
  shown = judge.decode(imagined['deter'], imagined['stoch'])
  row = {'count': count}
  for name, pairs, vectors in (('real', real, real), ('imagined', imagined, shown)):
    said = {k: v.numpy() for k, v in judge.pairs(*_padded(pairs)).items()}
    said = {k: v[:count] for k, v in said.items()}
    row |= {f'{name}_{k}': float(said[k][-TAIL:].mean()) for k in ('disc', 'uncertainty')}
    row[f'{name}_return'] = partial_return(said['reward'], said['critic'][-1], discount)
    row['critic'] = float(said['critic'][0])  # the same for both: it is the same pair
    places = points(way, vectors)
    near = None if places is None else float(way.distance(places[-TAIL:]).mean())
    row |= {f'{name}_distance': near, f'{name}_places': places}
  return row


def _padded(pairs: dict[str, np.ndarray]) -> list[np.ndarray]:
  """Rows of one number, so that one graph serves all."""
  fill = lambda x: np.concatenate([x, np.repeat(x[-1:], STEPS - len(x), 0)])
  return [fill(pairs[k]) for k in ('deter', 'stoch', 'action')]


def points(way, vectors: dict[str, np.ndarray]) -> np.ndarray | None:
  """What distances are measured between; None where these vectors are not decoded."""
  if way is None:
    return None
  if way.plane and PLANE not in vectors and 'position' in vectors:
    vectors = {PLANE: vectors['position']}
  return way.points(vectors) if all(k in vectors for k in way.keys) else None


def partial_return(reward: np.ndarray, last: float, discount: float) -> float:
  """Discounted rewards of all pairs but the last, and the critic's word for that one."""
  weights = discount ** np.arange(len(reward))
  return float((weights[:-1] * reward[:-1]).sum() + weights[-1] * last)


def add_walls(run, rows: list[dict]) -> None:
  """The share of imagined places that lie in a wall, where no ball can be."""
  places = np.concatenate([x['imagined_places'] for x in rows])
  inside = apart(mazes.in_walls, run.task, run.config, places)
  ends = np.cumsum([x['count'] for x in rows])
  for row, part in zip(rows, np.split(inside, ends[:-1]), strict=True):
    row['walls'] = float(part.mean())


def means(rows: list[dict]) -> dict:
  """How many episodes, and the mean of every number."""
  keys = (
    [k for k in rows[0] if k.startswith(('real_', 'imagined_', 'critic', 'walls'))] if rows else []
  )
  numbers = {k: mean_of(x[k] for x in rows) for k in keys if not k.endswith('_places')}
  return {'episodes': len(rows), **numbers}


def paths(rows: list[dict]) -> list[dict]:
  """A real and an imagined way from every cell, thinned; a lost one where there is one."""
  found, thin = {}, lambda x: None if x is None else x[::THINNED].round(2).tolist()
  for row in sorted((x for x in rows if 'cell' in x), key=lambda x: x['back']):
    ways = {k: thin(row[f'{k}_places']) for k in ('real', 'imagined')}
    found.setdefault(tuple(row['cell']), {'cell': row['cell'], 'back': row['back'], **ways})
  return list(found.values())
