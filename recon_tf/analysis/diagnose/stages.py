"""Five questions to a run that does not learn, in the order in which to ask them.

Each returns flat numbers, 'holds', and images under keys that begin with 'image/'. Scores are
successes where the task has them and returns elsewhere (DMC); shares of the expert are then
counted from what random actions get, because a policy that lies on the floor has a return too.
"""

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from recon_tf import explorer as exploration
from recon_tf.analysis import regions
from recon_tf.analysis.diagnose import loaded
from recon_tf.analysis.diagnose.episodes import (
  held_out_expert,
  load_demonstrations,
  locate,
  measure_expert,
  metres_per_pixel,
  noisy_expert,
  stack,
)
from recon_tf.analysis.diagnose.loaded import Deployed, Trained
from recon_tf.analysis.stats import auroc
from recon_tf.behavior import ActorCritic
from recon_tf.common.episodes import load_episode
from recon_tf.common.errors import UserError
from recon_tf.common.replay import Replay
from recon_tf.evaluation import evaluate
from recon_tf.nn.tfutils import Seeds

SEED = 31_000  # of random episodes
CONTEXT, AHEAD = 5, 15
SPANS = 4  # places of an episode from which the model predicts
OWN = 10  # newest episodes of the run
EPISODES = 20
RANDOM = 5  # episodes of random actions
SAMPLES, SEQUENCES = 20, 64  # sets of sequences that a clone learns from, and their size
UPDATES = 6000  # of the clone
NOISE, NOISES = 0.5, (0.3, 0.5, 1.0)  # std of a noisy expert's actions: the one that counts, all
Numbers = dict[str, float | bool | np.ndarray]


class Ladder:
  """One run on its way through the stages; what several of them need is measured once."""

  def __init__(self, trained: Trained):
    self.trained, self.run, self.agent = trained, trained.run, trained.agent
    if not hasattr(getattr(self.agent, 'world_model', None), 'rssm'):
      raise UserError(f"method '{self.run.method}' has no world model, which the stages ask about.")

  @functools.cached_property
  def held_out(self) -> list:
    """Expert episodes that the run never saw."""
    return held_out_expert(self.run)

  @functools.cached_property
  def expert(self) -> float:
    """Measured over seeds that made no demonstration; failed episodes count."""
    return measure_expert(self.run, EPISODES)['score']

  @functools.cached_property
  def random(self) -> float:
    episodes = loaded.rollouts(self.trained, 'random', RANDOM, SEED)
    if 'log_success' in episodes[0]:
      return float(np.mean([x['log_success'].max() for x in episodes]))
    return float(np.mean([x['reward'].sum() for x in episodes]))

  @functools.cached_property
  def clone(self) -> dict[str, float]:
    """A fresh actor that was cloned on this model's latents: its score and its error."""
    actor, error = train_clone(self)
    actions = self.trained.env.act_space['action'].shape[0]
    policy = Deployed(self.agent, actor.policy, actions)
    return {'held_out_action_error': error, 'clone': score(self.trained, policy)}

  def share(self, value: float) -> float:
    """Of the expert, 1 is as good."""
    low = 0.0 if self.trained.env.success_task else self.random
    return (value - low) / max(self.expert - low, 1e-8)


def score(trained: Trained, policy) -> float:
  """Success, or the return where the task has none."""
  result = evaluate(policy, [trained.env], EPISODES, 32_000)
  return float(np.mean(result['successes'] or result['returns']))


# 1


def sees(ladder: Ladder) -> Numbers:
  """1. Does the model see what matters, now and 15 steps ahead?

  On expert episodes it never saw, and ahead on the run's newest ones too ('own'): a model that
  knows the demonstrated path by heart may know nothing beside it.
  """
  held, own = stack(ladder.held_out), _own_episodes(ladder.run)
  now = loaded.reconstruct(ladder.agent, held)
  spans = {'ahead': _spans(held), **({'own': _spans(own)} if own else {})}
  later = {k: (x, loaded.predict(ladder.agent, x, CONTEXT)) for k, x in spans.items()}
  if 'image' in now and ladder.run.task.startswith('maze_'):
    return _see_markers(held, now['image'], later)
  return _see_anything({'ahead': held, 'own': own}, now, later)


def _own_episodes(run) -> dict[str, np.ndarray] | None:
  episodes = [load_episode(x, None) for x in run.episodes()[-OWN:]]
  long = [x for x in episodes if len(x['action']) >= CONTEXT + AHEAD]
  return stack(long) if long else None


def _spans(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
  """Context and the steps to predict, from several places; not the start, where nothing moves yet.

  The first row begins a sequence as those of the replay do, wherever it lies in its episode.
  """
  length = CONTEXT + AHEAD
  room = batch['action'].shape[1] - length
  starts = np.unique(np.linspace(min(10, room), room, SPANS).astype(int))
  spans = {k: np.concatenate([v[:, x : x + length] for x in starts]) for k, v in batch.items()}
  spans['is_first'][:, 0] = True
  return spans


def _see_markers(held, now, later) -> Numbers:
  """Metres between true and decoded markers, the median."""
  scale = metres_per_pixel(held['image'], held['log_position'])
  numbers = {}
  for name in ('ball', 'goal'):
    where = lambda x, name=name: locate(x, name)
    numbers[f'{name}_now'] = scale * _distance(where(now), where(held['image']))
    for key, (batch, means) in later.items():
      last = _distance(where(means['image'][:, -1]), where(batch['image'][:, -1]))
      numbers[f'{name}_{key}'] = scale * last
  holds = numbers['ball_now'] < 0.1 and numbers['goal_now'] < 0.25
  holds = holds and all(numbers[f'ball_{key}'] < 0.25 for key in later)
  return {**numbers, 'holds': bool(holds), 'image/open_loop': _strips(later)}


def _see_anything(whole, now, later) -> Numbers:
  """Squared errors as a share of what varies within episodes, in each dimension.

  whole: the episodes that `later` is about; the expert's, in 'ahead', say what moves at all.
  """
  numbers, held = {}, whole['ahead']
  for key in now:
    picture = held[key].dtype == np.uint8
    truth = lambda batch, key=key, picture=picture: batch[key] / 255 if picture else batch[key]
    spread = _spread(truth(held), picture)
    moves = spread > max(1e-4 * np.max(spread), 1e-8)  # not such as the position of a goal
    if not np.any(moves):
      continue
    share = lambda x, y, spread, moves=moves: float(
      (np.square(x - y).mean(0) / np.where(moves, spread, np.inf)).sum()
      / (moves.sum() if np.ndim(moves) else x[0].size)
    )
    flat = lambda x: x.reshape(-1, *x.shape[2:])
    numbers[f'{key}_now'] = share(flat(now[key]), flat(truth(held)), spread)
    for name, (batch, means) in later.items():
      # A policy that falls moves more than an expert that does not.
      own = np.maximum(spread, _spread(truth(whole[name]), picture))
      numbers[f'{key}_{name}'] = share(means[key][:, -1], truth(batch)[:, -1], own)
  means = [np.mean([v for k, v in numbers.items() if k.endswith(f'_{x}')]) for x in later]
  pictures = {'image/open_loop': _strips(later)} if 'image' in now else {}
  return {**numbers, 'holds': bool(max(means) < 0.5), **pictures}


def _spread(truth: np.ndarray, picture: bool) -> np.ndarray:
  """Variance within episodes, of each dimension or of all pixels.

  Not what changes within the predicted steps: that may be next to nothing, as a steady speed.
  """
  spread = np.square(truth - truth.mean(1, keepdims=True)).mean((0, 1))
  return spread.mean() if picture else spread


def _strips(later) -> np.ndarray:
  """Truth above prediction, every fifth step, of three sequences."""
  batch, means = later['own' if 'own' in later else 'ahead']
  truth = batch['image'][:3, CONTEXT - 1 :: 5] / 255
  strips = np.concatenate([truth, means['image'][:3, CONTEXT - 1 :: 5]], -3)
  return np.uint8(255 * np.concatenate([np.concatenate(list(x), 1) for x in strips], 0))


def _distance(a: np.ndarray, b: np.ndarray) -> float:
  """Median; a marker that is missing in one of them counts as far away."""
  return float(np.median(np.nan_to_num(np.linalg.norm(a - b, axis=-1), nan=np.inf)))


# 2


def clones(ladder: Ladder) -> Numbers:
  """2. Does a fresh actor, cloned on this model's latents alone, do what the expert does?"""
  found, share = ladder.clone, ladder.share(ladder.clone['clone'])
  return {**found, 'expert': ladder.expert, 'share': share, 'holds': bool(share >= 0.9)}


def train_clone(ladder: Ladder) -> tuple[ActorCritic, float]:
  """The actor, and its mean error on actions of held-out expert episodes."""
  # A clone that has not settled sways off the path: fast at first, and the rate falls.
  rate = {'actor_opt.lr': 1e-3, 'actor_opt.decay': 1.0, 'bc_opt': 'adam'}
  schedule = {'pretrain': 0, 'pretrain_bc': UPDATES, 'steps': 0}
  config = ladder.run.config.update({**rate, **schedule})
  rng = np.random.default_rng(config.seed)
  samples = [_training_pairs(ladder, seed) for seed in range(SAMPLES)]
  features, actions, valid = (np.concatenate(x) for x in zip(*samples, strict=True))
  actor = ActorCritic(rng, config, config.main, 'clone', features.shape[-1], actions.shape[-1])
  step = tf.function(lambda *pair: actor.clone(pair), jit_compile=True)
  for _ in range(UPDATES):
    rows = rng.integers(len(features), size=256)
    step(features[rows], actions[rows], valid[rows])
  held, held_actions, _ = _all_pairs(ladder.agent, ladder.held_out)
  return actor, float(np.abs(actor.policy(held).mode().numpy() - held_actions).mean())


def _training_pairs(ladder: Ladder, seed: int) -> tuple[np.ndarray, ...]:
  """Sampled beliefs that begin anywhere in a demonstration, as in training.

  A clone on beliefs of whole episodes alone learns what no rollout repeats exactly.
  """
  expert = Replay(None, seed=ladder.run.config.seed)
  for episode in load_demonstrations(ladder.run):
    expert.add_episode(episode)
  batch = expert.sample(SEQUENCES, ladder.run.config.replay.length, (3, seed))
  return _flat(*loaded.pairs(ladder.agent, batch, seed))


def _all_pairs(agent, episodes) -> tuple[np.ndarray, ...]:
  return _flat(*loaded.pairs(agent, stack(episodes)))


def _flat(feature, action, valid) -> tuple[np.ndarray, ...]:
  flat = lambda x: np.asarray(x).reshape(-1, *x.shape[2:])
  return flat(feature), flat(action), flat(valid).astype(np.float32)


# 3


def discriminates(ladder: Ladder) -> Numbers:
  """3. Does D tell the held-out expert from random behaviour and from a noisy expert?"""
  trained, agent = ladder.trained, ladder.agent
  rate = lambda episodes: agent.disc.prob(*_all_pairs(agent, episodes)[:2]).numpy()
  expert = rate(ladder.held_out)
  random = rate(loaded.rollouts(trained, 'random', 4, SEED))
  noisy = {x: rate(noisy_expert(ladder.run, trained.env, x)) for x in NOISES}
  gap = ladder.run.metrics().get('disc/gap', (np.array([]), np.array([])))[1]
  numbers = {
    'expert': float(expert.mean()),
    'random': float(random.mean()),
    'noisy_expert': float(noisy[NOISE].mean()),
    'auroc_random': auroc(expert, random),
    'auroc_noisy_expert': auroc(expert, noisy[NOISE]),
    **{f'auroc_noise_{x}': auroc(expert, noisy[x]) for x in NOISES if x != NOISE},
    'gap_min': float(gap.min()) if len(gap) else float('nan'),
    'gap_max': float(gap.max()) if len(gap) else float('nan'),
    'gap_last': float(gap[-1]) if len(gap) else float('nan'),
  }
  # Chance is a gap of 0, saturation one of 1.
  alive = not len(gap) or 0.02 < gap[-1] < 0.9
  good = min(numbers['auroc_random'], numbers['auroc_noisy_expert']) >= 0.9
  return {**numbers, 'holds': bool(good and alive)}


# 4


def imitates(ladder: Ladder) -> Numbers:
  """4. Did imagination teach the policy something? Meant for a run with main.bc 0, pretrain_bc 0.

  With cloning in the run, its score is set against that of a clone on the same latents.
  """
  config, policy = ladder.run.config, score(ladder.trained, ladder.agent)
  share = ladder.share(policy)
  numbers = {'policy': policy, 'expert': ladder.expert, 'random': ladder.random, 'share': share}
  if config.main.bc == 0 and config.pretrain_bc == 0:
    return {**numbers, 'holds': bool(share >= 0.6)}
  clone = ladder.clone['clone']
  return {**numbers, 'clone': clone, 'holds': bool(policy > clone or share >= 0.95)}


# 5


def explores(ladder: Ladder, starts: int = 256) -> Numbers:
  """5. Is the explorer more uncertain than the main policy while the gate stays open?"""
  agent, run = ladder.agent, ladder.run
  if agent.explorer is None:
    raise UserError(f"'{run.path}' has no explorer (method {run.method}).")
  begin = _imagination_starts(ladder, starts)
  rssm = agent.world_model.rssm
  numbers = {}
  for name, actor in (('main', agent.main), ('explorer', agent.explorer)):
    noise = actor.draw(starts, Seeds(tf.constant([5, 5])))
    seq = actor.imagine(rssm, begin, noise)
    end = {k: seq[k][-1] for k in ('deter', 'stoch')}
    args = (agent.main.policy, end, agent.delta, run.config.gate)
    gate = exploration.recovery_gate(rssm, agent.disc, *args)
    numbers[f'{name}_uncertainty'] = float(tf.reduce_mean(rssm.uncertainty(seq['deter'])))
    numbers[f'{name}_disc'] = float(
      tf.reduce_mean(agent.disc.prob(seq['feature'][:-1], seq['action']))
    )
    numbers[f'{name}_gate'] = float(tf.reduce_mean(gate))
  ratio = numbers['explorer_uncertainty'] / numbers['main_uncertainty']
  numbers |= real_distance(run)
  return {**numbers, 'ratio': ratio, 'holds': bool(ratio >= 1.3 and numbers['explorer_gate'] > 0.5)}


def real_distance(run) -> Numbers:
  """How far from the expert's states each policy was when it acted (regions.py)."""
  found = regions.allocation(run) or {}
  return {f'{k}_distance': found[k]['distance'] for k in ('main', 'explorer') if k in found}


def _imagination_starts(ladder: Ladder, count: int) -> dict[str, tf.Tensor]:
  """Beliefs drawn from the run's newest episodes, or from demonstrations if there are none."""
  length = ladder.run.config.replay.length
  episodes = [load_episode(x, None) for x in ladder.run.episodes()[-20:]]
  episodes = [x for x in episodes if len(x['action']) >= length]
  batch = stack(episodes or load_demonstrations(ladder.run), length)
  states = loaded.beliefs(ladder.agent, batch)
  flat = {k: tf.reshape(v, [-1, v.shape[-1]]) for k, v in states.items()}
  rows = np.random.default_rng(0).integers(flat['deter'].shape[0], size=count)
  return {k: tf.gather(v, rows) for k, v in flat.items()}


STAGES: dict[str, Callable[[Ladder], Numbers]] = {
  '1': sees,
  '2': clones,
  '3': discriminates,
  '4': imitates,
  '5': explores,
}
