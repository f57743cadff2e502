"""What evaluate.py and diagnose.py write into a run folder, with chosen numbers."""

import json

import numpy as np

from recon_tf.analysis.diagnose import robustness
from recon_tf.analysis.runs import FILES, Run

HORIZONS = list(range(1, 16))


def write(run: Run, part: str, content: dict) -> None:
  path = run.path / FILES[part]
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(json.dumps(content))


def write_robust(run: Run, successes: dict[str, float], episodes: int = 20) -> None:
  """Successes by column, through the writer of scripts/evaluate.py."""
  found = {}
  for configuration in robustness.CONFIGURATIONS:
    if configuration.column in successes:
      hits = round(successes[configuration.column] * episodes)
      values = [1.0] * hits + [0.0] * (episodes - hits)
      found[configuration.name] = {'column': configuration.column, 'returns': values,
                                   'successes': values, 'lengths': [9] * episodes}  # fmt: skip
  content = robustness.summarize(run, 100, found, {})
  write(run, 'robust', {**content, 'episodes': episodes})


def write_recovery(run: Run, scores: list[float]) -> None:
  """Scores at 1, 2, ... metres off the way and in two cells, the expert always arrives."""
  level = lambda kind, x, score: {
    'kind': kind, 'difficulty': x, 'score': score, 'expert': 1.0, 'episodes': 4,
  }  # fmt: skip
  levels = [level('distance', 1.0 + i, x) for i, x in enumerate(scores)]
  cells = [{'cell': [1, 1 + i], 'off': i, 'score': x, 'expert': 1.0, 'episodes': 4, 'steps': 9,
            'explorer_steps': 3} for i, x in enumerate(scores[:2])]  # fmt: skip
  write(run, 'recovery', {
    **_identity(run), 'step': 100, 'measure': 'success', 'score': float(np.mean(scores)),
    'expert': 1.0, 'scores': {}, 'by_difficulty': [*levels, level('cells', 1, scores[0])],
    'cells': cells, 'maze': {'free': [[0] * 5, [0, 1, 1, 1, 0], [0] * 5], 'goal': [1, 3]},
  })  # fmt: skip


def write_windows(
  run: Run, distance: float, before: float, after: float, maze: bool = True
) -> None:
  """The windows of a run; its main policy has half of every number."""
  judged = lambda scale: {
    'before': scale * before, 'after': scale * after, 'removed': scale * (before - after),
    'gap': scale,
  }  # fmt: skip
  actor = lambda scale: {
    'steps': round(100 * scale), 'action_length': scale, 'persistence': scale, 'spread': scale,
    'distance': scale * distance, 'distance_90': 2 * scale * distance, 'speed': scale,
    **judged(scale),
  }  # fmt: skip
  places = lambda scale: {
    'cells_off': round(4 * scale), 'steps_off': round(40 * scale), 'wall_share': 0.25 * scale,
    'places': round(60 * scale), 'directions': 4 * scale,
    'wall': {'steps': 25, **judged(2 * scale)}, 'free': {'steps': 75, **judged(scale)},
  }  # fmt: skip
  who = {k: actor(x) | (places(x) if maze else {}) for k, x in (('windows', 1.0), ('main', 0.5))}
  write(run, 'windows', {
    **_identity(run), 'step': 100, **({'cells_off': 14} if maze else {}), 'who': who,
    'returns': {
      'tube': 0.25, 'windows': 10, 'begin': 0.1, 'end': distance, 'outside': 8, 'back': 0.75,
      'solved': 0.05, 'cut': 0.125, 'median': 4.0,
      'curve': [min(1.0, k / 8) * 0.75 for k in range(41)],
    },
    'horizon': 5, 'left_out': {},
  })  # fmt: skip


def write_imagination(run: Run, real: float, imagined: float, lost: int = 4) -> None:
  """D of a run of a maze at the end of its lost ways; those that come back have 0.5."""
  keys = ('disc', 'uncertainty', 'distance', 'return')
  part = lambda episodes, a, b: {
    'episodes': episodes, **{f'real_{k}': a for k in keys}, **{f'imagined_{k}': b for k in keys},
    'critic': 2 * b, 'walls': b / 10,
  }  # fmt: skip
  free = [[0, 0, 0, 0], [0, 1, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
  write(run, 'imagination', {
    **_identity(run), 'step': 100, 'steps': 60,
    'outcomes': {
      'back': part(6, 0.5, 0.5), 'lost': part(lost, real, imagined) if lost else {'episodes': 0},
    },
    'maze': {'free': free, 'goal': [1, 1]},
    'paths': [
      {'cell': [2, 1], 'back': False, 'real': [[-0.5, -0.5], [-0.5, 0.5]],
       'imagined': [[-0.5, -0.5], [0.5, 0.5]]},
      {'cell': [1, 2], 'back': True, 'real': [[0.5, 0.5], [-0.5, 0.5]], 'imagined': None},
    ],
  })  # fmt: skip


def _identity(run: Run) -> dict:
  return {'task': run.task, 'method': run.method, 'seed': run.seed}


def write_gap(run: Run, expert: float, replay: float, uncertainty: float) -> None:
  """Regions and deciles follow from the expert's gap."""
  part = lambda gap, horizon: {
    'horizon': horizon, 'episodes': 8, 'gap': gap, 'uncertainty': uncertainty, 'starts': 100,
  }  # fmt: skip
  scales = {'support': 1.0, 'near': 1.5, 'far': 3.0}
  rise = np.linspace(0.5, 1.5, 10)
  content = {**_identity(run), 'step': 100, 'expert': part(expert, 15), 'replay': part(replay, 5)}
  content['regions'] = {
    k: {'gap': expert * v, 'uncertainty': uncertainty, 'starts': 50} for k, v in scales.items()
  }
  content['deciles'] = {
    k: {
      'uncertainty': (uncertainty * rise).tolist(),
      'gap': (expert * v * rise).tolist(),
      'starts': 50,
      'rank_correlation': 0.5,
    }
    for k, v in scales.items()
  }
  write(run, 'gap', content)


def write_recoverability(
  run: Run, auroc: list[float | None], error: float = 0.1, tube: float = 0.2
) -> None:
  """AUROC by horizon; the oracle rises to 1."""
  bins = {'predicted': [0.05, 0.5, 0.95], 'frequency': [0.1, 0.4, 0.8], 'count': [30, 10, 60]}
  content = {
    **_identity(run), 'step': 100, 'tube': 0.1, 'delta': 0.5, 'candidates': 100, 'recovered': 0.6,
    'horizons': HORIZONS, 'auroc': auroc, 'oracle': np.linspace(0.7, 1, 15).tolist(),
    'calibration': {'5': {**bins, 'error': error}, '15': {**bins, 'error': error / 2}},
    'tubes': [{
      'tube': tube, 'candidates': 80, 'recovered': 0.7, 'auroc_5': auroc[4], 'oracle_5': 0.8,
      'auroc_15': auroc[14], 'oracle_15': 1.0,
    }],
  }  # fmt: skip
  write(run, 'recoverability', content)


def write_acquisition(run: Run, uncertainty: dict[int, float], **more) -> None:
  """U on the anchors by online step."""
  steps, values = list(uncertainty), list(uncertainty.values())
  fall, online = values[0] - values[-1], steps[-1] - steps[0]
  content = {'steps': steps, 'uncertainty': values, 'gain': fall, 'online_steps': online}
  content |= {'gain_per_step': fall / online, 'anchors': 500}
  write(run, 'acquisition', {**_identity(run), **content, **more})
