"""What a figure or table of the paper takes: runs, diagnoses of them, and what is there already."""

import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Iterable, Sequence

from recon_tf.analysis.report.registry import FIGURES, Figure
from recon_tf.analysis.runs import COMMANDS, FILES, anchor_digest, anchor_files, anchor_folder
from recon_tf.common.checkpoint import state_paths
from recon_tf.common.config import Config
from recon_tf.common.errors import UserError, nearest
from recon_tf.common.files import try_json
from recon_tf.common.flags import Flags
from recon_tf.common.folders import check_settings, finished, run_folder
from recon_tf.common.jobs import Job

# Where the paper's labels stand in its order of figures and of tables.
NUMBERS = {
  'figure': {
    3: 'fig:main_curves', 4: 'fig:pointmaze_model', 5: 'fig:recovery_ablation',
    6: 'fig:walker_controls', 7: 'fig:recovery_mechanism', 9: 'fig:additional_diagnostics',
    10: 'fig:uncertainty_deciles',
  },
  'table': {1: 'tab:robustness', 2: 'tab:wm_diagnostics', 4: 'tab:compute_overhead'},
}  # fmt: skip
GAIN = COMMANDS['acquisition']
ANCHORS = ('diagnose', '--what', 'anchors')
OUTPUTS = {**{COMMANDS[k]: v for k, v in FILES.items()}, ANCHORS: 'diagnose/anchors.json'}
MILESTONES = 10  # of a run whose config asks for none, where the acquisition gain is wanted

Command = tuple[str, ...]


# Names


def kind_of(figure: Figure) -> str:
  return 'table' if figure.label.startswith('tab:') else 'figure'


def number_of(figure: Figure) -> int | None:
  """Its number in the paper."""
  found = [k for k, v in NUMBERS[kind_of(figure)].items() if v == figure.label]
  return found[0] if found else None  # ours


def find_figures(kind: str, names: Iterable[str]) -> dict[str, Figure]:
  """Figures or tables by our name, by the paper's label or by its number."""
  known = {k: v for k, v in FIGURES.items() if kind_of(v) == kind}
  chosen = {}
  for name in names:
    fits = lambda k, v, name=name: name in (k, v.label, str(number_of(v) or ''))
    found = {k: v for k, v in known.items() if fits(k, v)}
    if not found and name in FIGURES:
      other = kind_of(FIGURES[name])
      raise UserError(f"--{kind}: '{name}' is a {other}; write --{other} {name}.")
    if not found:
      valid = [*known, *(str(number_of(x)) for x in known.values() if number_of(x))]
      raise UserError(f"--{kind}: there is no '{name}';{nearest(name, valid)} --list shows all.")
    chosen |= found
  return chosen


# Runs


@dataclasses.dataclass(frozen=True)
class Plan:
  """A run that figures need, and the commands that they need on it."""

  config: Config
  preset: str
  flags: tuple[str, ...]  # of train.py
  figures: tuple[str, ...]  # names in the registry

  @property
  def commands(self) -> list[Command]:
    """What the figures need on this run, each once."""
    return list(dict.fromkeys(x for name in self.figures for x in FIGURES[name].commands))

  @property
  def folder(self) -> pathlib.Path:
    return run_folder(self.config)

  @property
  def name(self) -> str:
    return f'{self.config.task} {self.preset} {self.config.seed}'

  @property
  def state(self) -> str:
    """finished, unfinished or missing; a UserError if the folder holds anything else."""
    check_settings(self.config, self.folder)
    if finished(self.config, self.folder):
      return 'finished'
    return 'unfinished' if (self.folder / 'config.yaml').exists() else 'missing'

  def log(self, what: str) -> pathlib.Path:
    """Beside the tasks, so that a run folder holds nothing but the run."""
    name = '-'.join([what, *self.folder.parts[-3:-2], self.preset, str(self.config.seed)])
    return pathlib.Path(self.config.logdir) / 'reproduce' / 'logs' / f'{name}.log'


def plan_runs(
  figures: dict[str, Figure], configs: Sequence[str], seeds: Sequence[int], flags: Sequence[str]
) -> list[Plan]:
  """Methods x tasks x seeds, each once; flags are those of train.py and hold for all of them."""
  for key, instead in (('seed', '--seeds'), ('method', '--figure or --table')):
    if any(x.split('=')[0] == f'--{key}' for x in flags):
      raise UserError(f"'--{key}' is set by {instead} here.")
  config, wanted = parse(configs, flags), {}
  for name, figure in figures.items():
    for task, preset in itertools.product(choose_tasks(config, figure), figure.methods):
      wanted.setdefault((task, preset), []).append(name)
  own = lambda task, seed: [*([] if config.task else ['--task', task]), '--seed', str(seed)]
  # Seed by seed: a comparison that is broken off has some seeds of all methods.
  return [
    plan_run(configs, preset, [*flags, *own(task, seed)], tuple(names))
    for seed in dict.fromkeys(seeds)
    for (task, preset), names in wanted.items()
  ]


def choose_tasks(config: Config, figure: Figure) -> list[str]:
  """--task, or what suites and paper have in common; otherwise the suites' tasks or the paper's."""
  if config.task:
    return [config.task]
  return [x for x in config.tasks if x in figure.tasks] or list(config.tasks or figure.tasks)


def plan_run(
  configs: Sequence[str], preset: str, flags: Sequence[str], figures: tuple[str, ...]
) -> Plan:
  """One run; where the acquisition gain is wanted, with milestones."""
  # The method comes last: some need another schedule than a size preset sets for all.
  names = [*configs, preset]
  plan = Plan(parse(names, flags), preset, ('--configs', *names, *flags), figures)
  if GAIN in plan.commands and not plan.config.keep_every:
    every = str(max(1, plan.config.steps // MILESTONES))
    return plan_run(configs, preset, [*flags, '--keep_every', every], figures)
  return plan


def parse(configs: Sequence[str], flags: Sequence[str]) -> Config:
  return Flags().parse([*flags, *(['--configs', *configs] if configs else [])])


# Jobs


def training(plan: Plan) -> Job:
  """Starts the run, or goes on with it."""

  def missing() -> str:
    return '' if finished(plan.config, plan.folder) else 'the run did not reach its last step'

  return Job(f'train {plan.name}', 'train', plan.flags, plan.log('train'), missing)


def diagnoses(plan: Plan) -> list[Job]:
  """Commands on a run alone whose output is missing or older than the run."""
  commands = [ANCHORS if x == GAIN else x for x in plan.commands]
  return [diagnosis(plan, x) for x in commands if missing_output(plan, x)]


def comparisons(plan: Plan, plans: Sequence[Plan]) -> list[Job]:
  """The acquisition gain on the anchors of all methods with this task and seed, if not done."""
  if GAIN not in plan.commands or without_milestones(plan):
    return []
  same = lambda x: (x.config.task, x.config.seed) == (plan.config.task, plan.config.seed)
  folders = [anchor_folder(x.folder) for x in plans if GAIN in x.commands and same(x)]
  files = anchor_files(folders)
  if files and not missing_output(plan, GAIN):
    found = try_json(plan.folder / OUTPUTS[GAIN])
    if found.get('anchor_digest') == anchor_digest(files):
      return []
  return [diagnosis(plan, GAIN, ('--anchors', *map(str, folders)))]


def without_milestones(plan: Plan) -> bool:
  """A run that was finished without any cannot show what its steps taught."""
  wanted = GAIN in plan.commands and finished(plan.config, plan.folder)
  return bool(wanted) and not state_paths(plan.folder / 'milestones')


def diagnosis(plan: Plan, command: Command, extra: Command = ()) -> Job:
  """A command of the registry on one run."""
  script, *flags = command
  what = f'{script}-{pathlib.Path(OUTPUTS[command]).stem}'
  missing = functools.partial(missing_output, plan, command)
  words = (str(plan.folder), *flags, *extra)
  return Job(f'{what} {plan.name}', script, words, plan.log(what), missing)


def missing_output(plan: Plan, command: Command) -> str:
  """What a command has not written, or from before the last step; '' if that is there."""
  final, found = finished(plan.config, plan.folder), try_json(plan.folder / OUTPUTS[command])
  step = None if found is None else found.get('step', max(found.get('steps', [0])))
  done = final and step is not None and step >= final['step']
  return '' if done else f"'{plan.folder / OUTPUTS[command]}' was not written"
