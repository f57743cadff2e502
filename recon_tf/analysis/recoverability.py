"""Does the gate tell from where the main policy returns?

Candidates are real states off the expert's path (probes.py), the same for every method. From each
the simulator is set to exactly that state and the main policy acts for 15 real steps: it recovers
if it comes back into the expert's tube. The gate G_H predicts that from imagination alone.
"""

import pathlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from recon_tf.analysis import heldout, probes, regions
from recon_tf.analysis.gap import Model
from recon_tf.analysis.ranking import auroc
from recon_tf.analysis.trained import Trained
from recon_tf.common.errors import UserError

STEPS = 15  # real steps in which to recover, and the longest imagination
SHOWN = (5, 15)  # horizons of the calibration plot
BINS = 10
TUBE = regions.NEAR  # what is near the expert's states counts as back
WIDER = (1.0, 1.5, 2.0, 2.5, 3.5)  # other widths that are looked at too, as factors


def gate_scores(agent, state: dict[str, tf.Tensor], horizon: int = STEPS) -> np.ndarray:
  """D without noise along the main policy's deterministic imagination, [horizon + 1, batch]."""
  rssm, scores = agent.world_model.rssm, []
  for h in range(horizon + 1):
    feature = rssm.features(state)
    action = agent.main.policy(feature).mode()
    scores.append(agent.disc.prob(feature, action).numpy())
    if h < horizon:
      state = rssm.mean_step(state, action)
  return np.stack(scores)


def gates(scores: np.ndarray, delta: float, settings, horizons: Sequence[int]) -> np.ndarray:
  """Equation (implemented_gate) at several horizons, [horizons, batch], from one imagination.

  In float64: near 0 and 1 a float32 sigmoid would make ties of what D tells apart.
  """
  opened = 1 / (1 + np.exp((delta - scores.astype(np.float64)) / settings.tau))
  how = {'max': lambda x: x.max(0), 'mean': lambda x: x.mean(0), 'last': lambda x: x[-1]}
  # The tail lies in the rollout: the end state itself, h = 0, is no part of it.
  tail = lambda h: opened[min(max(h - settings.tail + 1, 1), h) : h + 1]
  return np.stack([how[settings.aggregate](tail(h)) for h in horizons])


def diagnose(trained: Trained, tube: float = TUBE) -> dict:
  """AUROC of G_H and of the oracle at every horizon, and how well G is calibrated."""
  run, agent = trained.run, trained.agent
  model, cloud = Model(agent), regions.expert_cloud(run)
  if cloud is None:
    raise UserError(
      f"recoverability needs demonstrations with positions in the plane; those of '{run.task}' "
      'have none or are gone. Mazes have them.'
    )
  delta = float(agent.delta.numpy())
  if not np.isfinite(delta):
    raise UserError(f"the discriminator of method '{run.method}' was never trained.")
  made = probes.make_probes(trained.env, heldout.held_out_expert(run))
  found = _candidates(trained, model, made, cloud, tube)
  horizons = list(range(1, STEPS + 1))
  gate = gates(found['scores'], delta, run.config.gate, horizons)
  oracle = -np.minimum.accumulate(found['distances'], 0)
  label = found['distances'].min(0) <= tube
  result = {'task': run.task, 'method': run.method, 'seed': run.seed, 'step': trained.meta['step']}
  return {
    **result,
    'tube': tube,
    'delta': delta,
    'candidates': len(label),
    'recovered': float(label.mean()),
    'horizons': horizons,
    'auroc': [_rounded(auroc(x[label], x[~label])) for x in gate],
    'oracle': [_rounded(auroc(x[label], x[~label])) for x in oracle],
    'calibration': {str(h): calibration(gate[h - 1], label) for h in SHOWN},
    'distance': found['start'].tolist(),
    'label': label.tolist(),
    'gate': {str(h): gate[h - 1].tolist() for h in SHOWN},
    'tubes': [_in_tube(found, gate, oracle, factor * tube) for factor in WIDER],
  }


def _in_tube(found: dict[str, np.ndarray], gate, oracle, tube: float) -> dict:
  """The same numbers for another tube: around few demonstrations a narrow one misses their ways."""
  out = found['start'] > tube
  label = found['distances'][:, out].min(0, initial=np.inf) <= tube
  score = lambda x: _rounded(auroc(x[out][label], x[out][~label]))
  return {
    'tube': tube,
    'candidates': int(out.sum()),
    'recovered': float(label.mean()) if len(label) else None,
    **{f'auroc_{h}': score(gate[h - 1]) for h in SHOWN},
    **{f'oracle_{h}': score(oracle[h - 1]) for h in SHOWN},
  }


def calibration(predicted: np.ndarray, happened: np.ndarray) -> dict:
  """Mean prediction and frequency in ten equal intervals of [0, 1], and their mean distance."""
  index = np.minimum((predicted * BINS).astype(int), BINS - 1)
  count = np.bincount(index, minlength=BINS)
  mean = lambda x: np.bincount(index, x, BINS)[count > 0] / count[count > 0]
  first, second = mean(predicted), mean(happened.astype(float))
  error = float((np.abs(first - second) * count[count > 0]).sum() / len(predicted))
  return {
    'predicted': first.tolist(),
    'frequency': second.tolist(),
    'count': count[count > 0].tolist(),
    'error': error,
  }


def real_distances(agent, env, probe: probes.Probe, row: int, belief: dict, cloud) -> np.ndarray:
  """Distances to the expert's states in 15 real steps of the main policy from a saved state.

  An episode that ends before stays where it ended.
  """
  obs = env.set_state(probe.states[row])
  state = {k: tf.constant(belief[k][row - 1][None]) for k in ('deter', 'stoch')}
  state['action'] = tf.constant(probe.episode['action'][row][None])
  positions = []
  while len(positions) < STEPS and not obs['is_last']:
    batch = {k: np.asarray(v)[None] for k, v in obs.items()}
    outputs, state = agent.policy(batch, state, 'eval')
    obs = env.step({'action': np.clip(outputs['action'][0], -1, 1)})
    positions.append(obs['log_position'])
  positions += positions[-1:] * (STEPS - len(positions))
  return regions.expert_distance(np.array(positions, np.float64), cloud)


def _candidates(trained: Trained, model: Model, made, cloud, tube: float) -> dict[str, np.ndarray]:
  """States outside of the tube: D along imagination, and distances of the real steps."""
  starts, beliefs, distances = [], [], []
  filtered = model.filter([x.episode for x in made])
  for probe, belief in zip(made, filtered, strict=True):
    away = regions.expert_distance(probe.episode['log_position'].astype(np.float64), cloud)
    for row in [x for x in probe.states if away[x] > tube]:
      starts.append(away[row])
      beliefs.append({k: belief[k][row] for k in ('deter', 'stoch')})
      args = (probe, row, belief, cloud)
      distances.append(real_distances(trained.agent, trained.env, *args))
  if not starts:
    raise UserError(f'no probe leaves the tube of {tube}; choose a smaller --tube.')
  state = {k: tf.constant(np.stack([x[k] for x in beliefs])) for k in ('deter', 'stoch')}
  return {
    'start': np.array(starts),
    'scores': gate_scores(trained.agent, state),
    'distances': np.array(distances).T,
  }


def _rounded(value: float) -> float | None:
  """JSON has no NaN: None where all candidates have the same label."""
  return round(value, 6) if np.isfinite(value) else None


# Output


def lines(result: dict) -> list[str]:
  """The result as a table to print."""
  share = 100 * result['recovered']
  text = [
    f'{result["candidates"]} states outside of the tube of {result["tube"]}; '
    f'from {share:.0f} % of them the main policy came back within {STEPS} real steps',
    f'{"horizon":>8}{"AUROC of G":>12}{"oracle":>8}',
  ]
  show = lambda x: '–' if x is None else f'{x:.3f}'
  for h, own, best in zip(result['horizons'], result['auroc'], result['oracle'], strict=True):
    text.append(f'{h:8d}{show(own):>12}{show(best):>8}')
  for h, x in result['calibration'].items():
    text.append(f'calibration error of G at horizon {h}: {x["error"]:.3f}')
  names = [f'{name} H{h}' for name in ('AUROC', 'oracle') for h in SHOWN]
  text.append(''.join(f'{x:>12}' for x in ('tube', 'states', 'recovered', *names)))
  for x in result['tubes']:
    scores = [x[f'{name}_{h}'] for name in ('auroc', 'oracle') for h in SHOWN]
    cells = [f'{x["tube"]:.3f}', x['candidates'], *map(show, (x['recovered'], *scores))]
    text.append(''.join(f'{x:>12}' for x in cells))
  return text


def draw(result: dict, folder: pathlib.Path) -> None:
  """recoverability.png: AUROC by horizon on the left, calibration on the right."""
  import matplotlib as mpl
  from matplotlib.figure import Figure

  from recon_tf.analysis import plots

  with mpl.rc_context(plots.STYLE):
    figure = Figure((8, 3.2), layout='constrained')
    left, right = figure.subplots(1, 2)
  number = lambda values: [np.nan if x is None else x for x in values]
  for name, key, marker, color in (
    ('gate G', 'auroc', 'o', plots.COLORS['recon']),
    ('oracle (true distance)', 'oracle', 's', '#000000'),
  ):
    left.plot(result['horizons'], number(result[key]), marker=marker, color=color, label=name)
  left.axhline(0.5, color='#999999', lw=1, ls='--')
  left.set(
    title='Recovery within 15 real steps', xlabel='horizon H', ylabel='AUROC', ylim=(0, 1.03)
  )
  right.plot([0, 1], [0, 1], color='#999999', lw=1, ls='--')
  colors = plots.COLORS['cmil'], plots.COLORS['recon']
  for (h, x), color in zip(result['calibration'].items(), colors, strict=True):
    right.plot(x['predicted'], x['frequency'], color=color, lw=1, alpha=0.5)
    # Areas are numbers of states: most gates are almost open or almost shut.
    area = 400 * np.array(x['count']) / result['candidates']
    right.scatter(x['predicted'], x['frequency'], 8 + area, color=color, label=f'H = {h}')
  right.set(title='Calibration', xlabel='predicted G', ylabel='recovered', ylim=(-0.03, 1.03))
  for axes in (left, right):
    axes.legend()
  plots.save_figure(figure, folder, 'recoverability')
