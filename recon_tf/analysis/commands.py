"""The command that repeats a run: the presets that explain its config, and flags for the rest."""

import pathlib
import shlex

from recon_tf.analysis.runs import Group, Run
from recon_tf.common.config import Config, load_config, presets
from recon_tf.common.versions import door
from recon_tf.envs import SUITES

# Where a run lies, not what it does.
PLACES = ('logdir', 'tasks', 'task', 'seed', 'demos')


def train_command(run: Run, logdir: str = 'runs') -> str:
  """What gives this run's config."""
  config = run.config
  names = explain(config)
  words = [*door('train'), '--configs', *names, '--task', config.task]
  words += ['--seed', str(config.seed)]
  words += ['--logdir', logdir] if logdir != load_config().logdir else []
  if config.demos:
    demos = pathlib.Path(config.demos)  # where else than here it lies is nobody else's business
    demos = demos if not demos.is_absolute() else pathlib.Path('demos') / demos.name
    words += ['--demos', demos.as_posix()]
  for key, value in difference(config, names).items():
    words += [f'--{key}', *as_words(value)]
  return ' '.join(shlex.quote(x) for x in words)


def group_commands(groups: list[Group]) -> list[str]:
  """The commands of all runs, each variant in a folder; archives keep those of their version."""
  place = lambda group: f'runs/{group.variant}' if group.variant else 'runs'
  command = lambda group, run: run.kept['command'] if run.kept else train_command(run, place(group))
  return [command(group, run) for group in groups for run in group.runs]


def usual_command(task: str, method: str) -> str:
  """What trains a method on a task, in the paper's size."""
  suite = task.partition('_')[0]
  names = f'{suite} {method}' if suite in SUITES and suite != 'gym' else method
  return ' '.join([*door('train'), '--configs', names, '--task', task])


def explain(config: Config) -> list[str]:
  """Presets in the order suite, others, method, that leave the fewest keys to be set by hand."""
  names = [x for x in ('dmc', 'metaworld', 'maze') if config.task.startswith(f'{x}_')]
  known = presets()
  fitting = [k for k, v in known.items() if v.get('method', config.method) == config.method]
  candidates = [k for k in fitting if 'tasks' not in known[k]]
  methods = [k for k in candidates if 'method' in known[k]]
  # A method is always named, even if it is the default one, and last: some bring a schedule.
  last = [min(methods, key=lambda k: len(difference(config, [*names, k])))] if methods else []
  others = [k for k in candidates if k not in methods]
  while True:
    left = len(difference(config, [*names, *last]))
    trials = {k: len(difference(config, [*names, k, *last])) for k in others if k not in names}
    best = min(trials, key=trials.get, default=None)
    if best is None or trials[best] >= left:
      return [*names, *last]
    names.append(best)


def difference(config: Config, names: list[str]) -> dict:
  """The keys that these presets do not explain."""
  base = load_config(*names).flat
  return {k: v for k, v in config.flat.items() if k not in PLACES and base.get(k) != v}


def as_words(value) -> list[str]:
  """A value as the words after its flag."""
  if isinstance(value, tuple):
    return [str(x) for x in value] or ['[]']
  return [str(value)]
