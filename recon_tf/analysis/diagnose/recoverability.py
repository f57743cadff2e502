"""Does the gate tell from where the main policy returns?

Candidates are real states off the expert's path (the probes of episodes.py), the same for every
method. From each the simulator is set to exactly that state and the main policy acts for 15 real
steps: it recovers if it comes back into the expert's tube. The gate G_H predicts that from
imagination alone.
"""

import numpy as np
import tensorflow as tf

from recon_tf.analysis import regions
from recon_tf.analysis.diagnose import episodes as recorded
from recon_tf.analysis.diagnose.gap import Model
from recon_tf.analysis.diagnose.loaded import Trained
from recon_tf.analysis.stats import auroc, calibration
from recon_tf.common.errors import UserError
from recon_tf.explorer import open_gate, recovery_scores, tail_start

STEPS = 15  # real steps in which to recover, and the longest imagination
SHOWN = (5, 15)  # horizons of the calibration plot
TUBE = regions.NEAR  # what is near the expert's states counts as back
WIDER = (1.0, 1.5, 2.0, 2.5, 3.5)  # other widths that are looked at too, as factors


def gates(agent, state: dict[str, tf.Tensor], settings) -> np.ndarray:
  """G at every horizon up to STEPS, [STEPS, batch], from one imagination of the main policy.

  In float64: near 0 and 1 a float32 sigmoid would make ties of what D tells apart.
  """
  scores = recovery_scores(agent.world_model.rssm, agent.disc, agent.main.policy, state, STEPS)
  scores = [tf.cast(x, tf.float64) for x in scores]
  delta = tf.cast(agent.delta, tf.float64)
  tail = lambda h: scores[tail_start(h, settings) : h + 1]
  at = lambda h: open_gate(tail(h), delta, settings).numpy()
  return np.stack([at(h) for h in range(1, STEPS + 1)])


def diagnose(trained: Trained, tube: float = TUBE) -> dict:
  """AUROC of G_H and of the oracle at every horizon, and how well G is calibrated."""
  run, agent = trained.run, trained.agent
  model, way = Model(agent), regions.find_plane(run)
  if way is None:
    raise UserError(
      f"recoverability needs demonstrations with positions in the plane; those of '{run.task}' "
      'have none or are gone. Mazes have them.'
    )
  delta = float(agent.delta.numpy())
  if not np.isfinite(delta):
    raise UserError(f"the discriminator of method '{run.method}' was never trained.")
  made = recorded.make_probes(trained.env, recorded.held_out_expert(run))
  found = _candidates(trained, model, made, way, tube)
  horizons = list(range(1, STEPS + 1))
  gate = found['gate']
  oracle = -np.minimum.accumulate(found['distances'], 0)
  label = found['distances'].min(0) <= tube
  return {
    **run.identity,
    'step': trained.meta['step'],
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


def real_distances(agent, env, probe: recorded.Probe, row: int, belief: dict, way) -> np.ndarray:
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
  return way.distance(np.array(positions, np.float64))


def _candidates(trained: Trained, model: Model, made, way, tube: float) -> dict[str, np.ndarray]:
  """States outside of the tube: G from imagination, and distances of the real steps."""
  starts, beliefs, distances = [], [], []
  filtered = model.filter([x.episode for x in made])
  for probe, belief in zip(made, filtered, strict=True):
    away = way.distance(probe.episode['log_position'].astype(np.float64))
    for row in [x for x in probe.states if away[x] > tube]:
      starts.append(away[row])
      beliefs.append({k: belief[k][row] for k in ('deter', 'stoch')})
      args = (probe, row, belief, way)
      distances.append(real_distances(trained.agent, trained.env, *args))
  if not starts:
    raise UserError(f'no probe leaves the tube of {tube}; choose a smaller --tube.')
  state = {k: tf.constant(np.stack([x[k] for x in beliefs])) for k in ('deter', 'stoch')}
  return {
    'start': np.array(starts),
    'gate': gates(trained.agent, state, trained.run.config.gate),
    'distances': np.array(distances).T,
  }


def _rounded(value: float) -> float | None:
  """JSON has no NaN: None where all candidates have the same label."""
  return round(value, 6) if np.isfinite(value) else None
