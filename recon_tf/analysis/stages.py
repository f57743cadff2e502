"""Five questions to a run that does not learn, in the order in which to ask them.

Each stage returns flat numbers, 'holds', and images under keys that begin with 'image/'.
"""

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from recon_tf import explorer as exploration
from recon_tf.analysis import markers, posterior
from recon_tf.analysis.heldout import demonstrations, held_out_expert, noisy_expert, stack
from recon_tf.analysis.ranking import auroc
from recon_tf.analysis.trained import Trained
from recon_tf.behavior import ActorCritic
from recon_tf.common.driver import Driver
from recon_tf.common.episodes import load_episode
from recon_tf.common.errors import UserError
from recon_tf.common.replay import Replay
from recon_tf.evaluation import evaluate
from recon_tf.nn.tfutils import Seeds

CONTEXT, AHEAD = 5, 15
OWN = 10  # newest episodes of the run
EPISODES = 20
SAMPLES, SEQUENCES = 20, 64  # sets of sequences that a clone learns from, and their size
NOISE, NOISES = 0.5, (0.3, 0.5, 1.0)  # std of a noisy expert's actions: the one that counts, all
Numbers = dict[str, float | bool | np.ndarray]


def sees(trained: Trained) -> Numbers:
  """1. Does the model see what matters, now and 15 steps ahead?

  On expert episodes it never saw, and ahead on the run's own newest ones too ('own'): a model
  that knows the demonstrated path by heart may know nothing beside it.
  """
  held, own = stack(held_out_expert(trained.run)), _own_episodes(trained)
  now = posterior.reconstruct(trained.agent, held)
  ahead = lambda batch: (batch, posterior.predict(trained.agent, batch, CONTEXT))
  later = {'ahead': ahead(_span(held)), **({'own': ahead(_span(own))} if own else {})}
  if 'image' in now and trained.run.task.startswith('maze_'):
    return _see_markers(held, now['image'], later)
  return _see_anything(held, now, later)


def _own_episodes(trained: Trained) -> dict[str, np.ndarray] | None:
  episodes = [load_episode(x, None) for x in trained.run.episodes()[-OWN:]]
  long = [x for x in episodes if len(x['action']) >= CONTEXT + AHEAD]
  return stack(long) if long else None


def _span(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
  """Context and the steps to predict; not the start, where nothing moves yet.

  The first row begins a sequence as those of the replay do, wherever it lies in its episode.
  """
  first = 10 if batch['action'].shape[1] > CONTEXT + AHEAD + 10 else 0
  span = {k: v[:, first : first + CONTEXT + AHEAD].copy() for k, v in batch.items()}
  span['is_first'][:, 0] = True
  return span


def _see_markers(held, now, later) -> Numbers:
  """Metres between true and decoded markers, the median."""
  scale = markers.metres_per_pixel(held['image'], held['log_position'])
  numbers = {}
  for name in ('ball', 'goal'):
    where = lambda x, name=name: markers.locate(x, name)
    numbers[f'{name}_now'] = scale * _distance(where(now), where(held['image']))
    for key, (batch, means) in later.items():
      last = _distance(where(means['image'][:, -1]), where(batch['image'][:, -1]))
      numbers[f'{name}_{key}'] = scale * last
  holds = numbers['ball_now'] < 0.1 and numbers['goal_now'] < 0.25
  holds = holds and all(numbers[f'ball_{key}'] < 0.25 for key in later)
  batch, means = later['own' if 'own' in later else 'ahead']
  truth = batch['image'][:3, CONTEXT - 1 :: 5] / 255
  strips = np.concatenate([truth, means['image'][:3, CONTEXT - 1 :: 5]], -3)
  rows = np.concatenate([np.concatenate(list(x), 1) for x in strips], 0)
  return {**numbers, 'holds': bool(holds), 'image/open_loop': np.uint8(255 * rows)}


def _see_anything(held, now, later) -> Numbers:
  """Squared errors as a share of the variance of what is seen within the expert's episodes."""
  numbers = {}
  error = lambda x, y: np.square(x - y).mean()
  for key in now:
    truth = lambda batch, key=key: batch[key] / 255 if batch[key].dtype == np.uint8 else batch[key]
    # Not what changes within the predicted steps: that may be next to nothing, as a steady speed.
    spread = error(truth(held), truth(held).mean(1, keepdims=True))
    if spread < 1e-8:  # such as the position of a goal
      continue
    numbers[f'{key}_now'] = float(error(now[key], truth(held)) / spread)
    for name, (batch, means) in later.items():
      numbers[f'{key}_{name}'] = float(error(means[key][:, -1], truth(batch)[:, -1]) / spread)
  means = [np.mean([v for k, v in numbers.items() if k.endswith(f'_{x}')]) for x in later]
  return {**numbers, 'holds': bool(max(means) < 0.5)}


def _distance(a: np.ndarray, b: np.ndarray) -> float:
  """Median; a marker that is missing in one of them counts as far away."""
  return float(np.median(np.nan_to_num(np.linalg.norm(a - b, axis=-1), nan=np.inf)))


@functools.lru_cache(maxsize=1)  # stages 2 and 4 ask for the same clone
def clones(trained: Trained, updates: int = 6000) -> Numbers:
  """2. Does a fresh actor, cloned on this model's latents alone, do what the expert does?"""
  agent = trained.agent
  # A clone that has not settled sways off the path: fast at first, and the rate falls.
  rate = {'actor_opt.lr': 1e-3, 'actor_opt.decay': 1.0, 'bc_opt': 'adam'}
  config = trained.run.config.update({**rate, 'pretrain': 0, 'pretrain_bc': updates, 'steps': 0})
  rng = np.random.default_rng(config.seed)
  samples = [_training_pairs(trained, seed) for seed in range(SAMPLES)]
  features, actions, valid = (np.concatenate(x) for x in zip(*samples, strict=True))
  actor = ActorCritic(rng, config, config.main, 'clone', features.shape[-1], actions.shape[-1])
  step = tf.function(lambda *pair: actor.clone(pair), jit_compile=True)
  for _ in range(updates):
    rows = rng.integers(len(features), size=256)
    step(features[rows], actions[rows], valid[rows])
  held, held_actions, _ = _all_pairs(agent, held_out_expert(trained.run))
  error = np.abs(actor.policy(held).mode().numpy() - held_actions).mean()
  own, agent.main = agent.main, actor
  agent._act = {}  # traced with the run's own actor
  try:
    success = _success(trained)
  finally:
    agent.main, agent._act = own, {}
  expert = _expert_success(trained)
  return {
    'held_out_action_error': float(error),
    'clone': success,
    'expert': expert,
    'holds': bool(success >= 0.9 * expert),
  }


def _training_pairs(trained: Trained, seed: int) -> tuple[np.ndarray, ...]:
  """Sampled beliefs that begin anywhere in a demonstration, as in training.

  A clone on beliefs of whole episodes alone learns what no rollout repeats exactly.
  """
  expert = Replay(None, seed=trained.run.config.seed)
  for episode in demonstrations(trained.run):
    expert.add_episode(episode)
  batch = expert.sample(SEQUENCES, trained.run.config.replay.length, (3, seed))
  return _flat(*posterior.pairs(trained.agent, batch, seed))


def _all_pairs(agent, episodes) -> tuple[np.ndarray, ...]:
  return _flat(*posterior.pairs(agent, stack(episodes)))


def _flat(feature, action, valid) -> tuple[np.ndarray, ...]:
  flat = lambda x: np.asarray(x).reshape(-1, *x.shape[2:])
  return flat(feature), flat(action), flat(valid).astype(np.float32)


def discriminates(trained: Trained) -> Numbers:
  """3. Does D tell the held-out expert from random behaviour and from a noisy expert?"""
  agent = trained.agent
  score = lambda episodes: agent.disc.prob(*_all_pairs(agent, episodes)[:2]).numpy()
  expert = score(held_out_expert(trained.run))
  random = score(_rollouts(trained, 'random', 4))
  noisy = {x: score(noisy_expert(trained.run, trained.env, x)) for x in NOISES}
  gap = trained.run.metrics().get('disc/gap', (np.array([]), np.array([])))[1]
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


def imitates(trained: Trained) -> Numbers:
  """4. Did imagination teach the policy something? Meant for a run with main.bc 0, pretrain_bc 0.

  With cloning in the run, its success is set against that of a clone on the same latents.
  """
  config = trained.run.config
  success, expert = _success(trained), _expert_success(trained)
  numbers = {'policy': success, 'expert': expert, 'random': _success(trained, 'random')}
  if config.main.bc == 0 and config.pretrain_bc == 0:
    return {**numbers, 'holds': bool(success >= 0.6 * expert)}
  clone = clones(trained)['clone']
  return {**numbers, 'clone': clone, 'holds': bool(success > clone or success >= 0.95 * expert)}


def explores(trained: Trained, starts: int = 256) -> Numbers:
  """5. Is the explorer more uncertain than the main policy while the gate stays open?"""
  agent, config = trained.agent, trained.run.config
  if agent.explorer is None:
    raise UserError(f"'{trained.run.path}' has no explorer (method {trained.run.method}).")
  begin = _imagination_starts(trained, starts)
  rssm = agent.world_model.rssm
  numbers, gates = {}, {}
  for name, actor in (('main', agent.main), ('explorer', agent.explorer)):
    noise = actor.draw(starts, Seeds(tf.constant([5, 5])))
    seq = actor.imagine(rssm, begin, noise)
    end = {k: seq[k][-1] for k in ('deter', 'stoch')}
    args = (agent.main.policy, end, agent.delta, config.gate)
    gates[name] = exploration.recovery_gate(rssm, agent.disc, *args).numpy()
    numbers[f'{name}_uncertainty'] = float(tf.reduce_mean(rssm.uncertainty(seq['deter'])))
    numbers[f'{name}_disc'] = float(
      tf.reduce_mean(agent.disc.prob(seq['feature'][:-1], seq['action']))
    )
    numbers[f'{name}_gate'] = float(gates[name].mean())
  ratio = numbers['explorer_uncertainty'] / numbers['main_uncertainty']
  numbers |= _real_distance(trained)
  return {**numbers, 'ratio': ratio, 'holds': bool(ratio >= 1.3 and numbers['explorer_gate'] > 0.5)}


def _real_distance(trained: Trained) -> Numbers:
  """How far from the expert's positions each policy was when it acted (mazes only)."""
  episodes = [load_episode(x, None) for x in trained.run.episodes()]
  if not episodes or 'log_position' not in episodes[0] or 'log_explorer' not in episodes[0]:
    return {}
  cloud = np.concatenate([x['log_position'] for x in demonstrations(trained.run)])
  near, who = [], []
  for episode in episodes[len(episodes) // 2 :]:  # the first ones are random
    offset = np.linalg.norm(episode['log_position'][1:, None] - cloud[None], axis=-1)
    near.append(offset.min(1))
    who.append(episode['log_explorer'][1:] > 0)
  near, who = np.concatenate(near), np.concatenate(who)
  mean = lambda x: float(x.mean()) if len(x) else float('nan')
  return {'main_distance': mean(near[~who]), 'explorer_distance': mean(near[who])}


def _imagination_starts(trained: Trained, amount: int) -> dict[str, tf.Tensor]:
  """Beliefs drawn from the run's newest episodes, or from demonstrations if there are none."""
  length = trained.run.config.replay.length
  episodes = [load_episode(x, None) for x in trained.run.episodes()[-20:]]
  episodes = [x for x in episodes if len(x['action']) >= length]
  states = posterior.beliefs(trained.agent, stack(episodes or demonstrations(trained.run), length))
  flat = {k: tf.reshape(v, [-1, v.shape[-1]]) for k, v in states.items()}
  rows = np.random.default_rng(0).integers(flat['deter'].shape[0], size=amount)
  return {k: tf.gather(v, rows) for k, v in flat.items()}


def _rollouts(trained: Trained, mode: str, amount: int) -> list:
  episodes, driver = [], Driver([trained.env], 31_000)
  driver.on_episode(lambda episode, _: episodes.append(episode))
  driver(lambda obs, state: trained.agent.policy(obs, state, mode), amount)
  return episodes


def _success(trained: Trained, mode: str = 'eval') -> float:
  """Success, or the return where the task has none."""
  if mode == 'eval':
    result = evaluate(trained.agent, [trained.env], EPISODES, 32_000)
    return float(np.mean(result['successes'] or result['returns']))
  episodes = _rollouts(trained, mode, 5)
  key = 'log_success' if 'log_success' in episodes[0] else 'reward'
  return float(np.mean([x[key].max() if key == 'log_success' else x[key].sum() for x in episodes]))


def _expert_success(trained: Trained) -> float:
  """Of the held-out expert episodes; failed ones count as they are."""
  episodes = held_out_expert(trained.run)
  if 'log_success' in episodes[0]:
    return float(np.mean([x['log_success'].max() for x in episodes]))
  return float(np.mean([x['reward'].sum() for x in episodes]))


STAGES: dict[str, Callable[[Trained], Numbers]] = {
  '1': sees,
  '2': clones,
  '3': discriminates,
  '4': imitates,
  '5': explores,
}
