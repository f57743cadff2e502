"""Robustness of the deployed policy: the four columns of the paper's table, without TensorFlow.

How many configurations the last column has. The paper's protocol (appendix) says 'nine dynamics
shifts including signed single-step action impulses of magnitude 0.15 or 0.30 at t = 50', dropout
0.10, action scale 0.85, mass 1.25 or 0.80, friction 1.50 or 0.70 and the joint scale. That is
2 + 1 + 1 + 2 + 2 + 1 = 9 if a magnitude is one configuration with both signs in it; with a
configuration for every sign it would be 11. The published table agrees with nine: in that column
the success rates of Faucet, Handle and Hammer (15.6/66.1, 77.8/86.1, 10.0/3.9) are all whole
multiples of 5/9 % up to rounding, and only 10.0 is one of 5/11 %. So half of the episodes of an
impulse configuration get the positive impulse, the other half the negative one, from the same
starts.

Averages go in the order of the protocol: episodes within a configuration, configurations within a
column, columns over seeds. Every configuration weighs the same, whatever number of episodes it
has, and every seed too.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from recon_tf.analysis.paper import COLUMNS
from recon_tf.analysis.runs import PUSHED, grouped
from recon_tf.common.errors import UserError
from recon_tf.evaluation import evaluate

EVAL_SEED = 10_000  # added to the run's seed, as in its own evaluations

Shift = tuple[str, dict]


@dataclasses.dataclass(frozen=True)
class Configuration:
  """One deployment condition; its episodes are shared out evenly over the variants."""

  name: str
  column: str
  variants: tuple[tuple[Shift, ...], ...]


def _single(column: str, kind: str, key: str, value: float) -> Configuration:
  return Configuration(f'{kind} {value:g}', column, (((kind, {key: value}),),))


def _impulse(size: float) -> Configuration:
  signed = tuple((('impulse', {'size': sign * size, 'at': 50}),) for sign in (1, -1))
  return Configuration(f'impulse {size:g}', 'Impulse/scale', signed)


def pushes(chance: float) -> Configuration:
  """Evaluations with pushes, as eval_kicks makes them in a run's own."""
  return _single(PUSHED, 'kicks', 'chance', chance)


JOINT = ('mass_friction', {'mass': 1.25, 'friction': 1.5})
CLEAN = Configuration('clean', 'Clean', ((),))
CONFIGURATIONS = (
  CLEAN,
  _single('Noise', 'noise', 'sigma', 0.05),
  _single('Noise', 'noise', 'sigma', 0.10),
  _single('Delay', 'delay', 'steps', 1),
  _single('Delay', 'delay', 'steps', 2),
  _impulse(0.15),
  _impulse(0.30),
  _single('Impulse/scale', 'dropout', 'prob', 0.10),
  _single('Impulse/scale', 'scale', 'factor', 0.85),
  _single('Impulse/scale', 'mass', 'factor', 1.25),
  _single('Impulse/scale', 'mass', 'factor', 0.80),
  _single('Impulse/scale', 'friction', 'factor', 1.50),
  _single('Impulse/scale', 'friction', 'factor', 0.70),
  Configuration('mass 1.25 friction 1.5', 'Impulse/scale', ((JOINT,),)),
)


@contextlib.contextmanager
def perturbed(workers: list, shifts: Sequence[Shift]) -> Iterator[None]:
  """All workers with these perturbations, and without them afterwards."""
  try:
    for worker in workers:
      for name, options in shifts:
        worker.perturb(name, **options)
    yield
  finally:
    for worker in workers:
      worker.restore()


def evaluate_configuration(
  agent, workers: list, configuration: Configuration, episodes: int, seed: int, video: bool = False
) -> dict:
  """Whole episodes of the main policy; every configuration has the same starts."""
  count = len(configuration.variants)
  result = {}
  for index, shifts in enumerate(configuration.variants):
    share = (episodes + count - 1 - index) // count
    if not share:
      continue
    with perturbed(workers, shifts):
      part = evaluate(agent, workers, share, seed, video and not result)
    for key, value in part.items():
      result[key] = value if key == 'video' else [*result.get(key, []), *value]
  return {'column': configuration.column, **result}


def measure_of(found: Mapping[str, dict]) -> str:
  """'success' where the task has one, 'return' elsewhere (DMC)."""
  return 'success' if any(x['successes'] for x in found.values()) else 'return'


def column_means(found: Mapping[str, dict], measure: str) -> dict[str, float]:
  """Episodes are averaged within a configuration, then configurations within a column."""
  key = {'success': 'successes', 'return': 'returns'}[measure]
  columns = grouped(found.values(), lambda x: x['column'])
  mean = lambda column: float(np.mean([np.mean(x[key]) for x in columns[column]]))
  return {x: mean(x) for x in (*COLUMNS, PUSHED) if x in columns}


def summarize(run, step: int, found: dict, skipped: dict[str, str]) -> dict:
  """What eval/robust.json holds: the columns, and every episode that they are from."""
  if not found:
    raise UserError(f"'{run.path}': no configuration could be evaluated: {skipped}.")
  measure = measure_of(found)
  return {
    **run.identity,
    'step': step,
    'measure': measure,
    'columns': column_means(found, measure),
    'configurations': found,
    'skipped': skipped,
  }
