"""The runs of a sweep: tasks x methods x settings x seeds, each once."""

import dataclasses
import itertools
import pathlib
import re
from collections.abc import Sequence

from recon_tf.cluster.settings import Settings
from recon_tf.common.config import Config
from recon_tf.common.errors import UserError
from recon_tf.common.flags import Flags
from recon_tf.common.folders import check_settings, finished, run_folder
from recon_tf.common.jobs import Job

SET_HERE = {'seed': '--seeds', 'method': '--methods and --grid'}


@dataclasses.dataclass(frozen=True)
class Point:
  """One run of a sweep."""

  config: Config
  flags: tuple[str, ...]  # of train
  values: tuple[tuple[str, str], ...]  # of the grid

  @property
  def folder(self) -> pathlib.Path:
    return run_folder(self.config)

  @property
  def name(self) -> str:
    return '/'.join(self.folder.parts[-3:])

  @property
  def result(self) -> dict | None:
    """The final evaluation, None before there is one."""
    return finished(self.config, self.folder)

  @property
  def job(self) -> Job:
    """Starts the run, or goes on with it."""
    missing = lambda: '' if self.result else 'the run did not reach its last step'
    log = pathlib.Path(self.config.logdir) / 'sweep' / 'logs' / f'{self.name.replace("/", "-")}.log'
    return Job(self.name, 'train', self.flags, log, missing)


def parse_grid(texts: Sequence[str]) -> dict[str, list[str]]:
  """`main.alpha=0,1,10` to {'main.alpha': ['0', '1', '10']}; keys and values are checked later."""
  grid = {}
  for text in texts:
    key, equals, values = text.removeprefix('--').partition('=')
    words = [x.strip() for x in values.split(',') if x.strip()]
    if not equals or not words:
      raise UserError(f"--grid: '{text}' is not KEY=VALUE,VALUE, such as main.alpha=0,1,10.")
    if key in SET_HERE:
      raise UserError(f"--grid: '{key}' is set by {SET_HERE[key]} here.")
    if key in grid:
      raise UserError(f"--grid: '{key}' is named twice.")
    grid[key] = list(dict.fromkeys(words))
  return grid


def make_points(
  configs: Sequence[str],
  methods: Sequence[str],
  grid: dict[str, list[str]],
  seeds: Sequence[int],
  flags: Sequence[str],
) -> list[Point]:
  """Seed by seed: a sweep that is broken off has some seeds of every setting."""
  for key, instead in SET_HERE.items():
    if any(x.split('=')[0] == f'--{key}' for x in flags):
      raise UserError(f"'--{key}' is set by {instead} here.")
  known = Flags().config.flat
  combinations = [tuple(zip(grid, x, strict=True)) for x in itertools.product(*grid.values())]
  tasks = [x.task for x in parse([*presets(configs), *flags])]
  if not tasks:
    raise UserError('no task: add a suite, as in --configs maze cpu, or --task NAME.')
  points = {}
  for seed, task, method, values in itertools.product(seeds, tasks, methods or [''], combinations):
    words = [*presets([*configs, *filter(None, [method])]), *without_task(flags)]
    words += ['--task', task, '--seed', str(seed)]
    for key, value in values:
      words += [f'--{key}', *(value.split('+') if isinstance(known.get(key), tuple) else [value])]
    (config,) = parse(words)
    same = str(sorted(config.flat.items()))  # as 1 and 1.0 of a grid are
    if values:  # a folder of its own, beside those of the method itself
      name = folder_name(config.method, values)
      words, config = [*words, '--method', name], config.update(method=name)
    points.setdefault(same, Point(config, tuple(words), values))
  return list(points.values())


def parse(words: Sequence[str]) -> list[Config]:
  return Flags().parse_tasks(words)


def presets(names: Sequence[str]) -> list[str]:
  return ['--configs', *names] if names else []


def without_task(flags: Sequence[str]) -> list[str]:
  """A single --task is one of the tasks already."""
  result, skip = [], False
  for word in flags:
    if word == '--task':
      skip = True
    elif not skip and not word.startswith('--task='):
      result.append(word)
    else:
      skip = False
  return result


def folder_name(method: str, values: Sequence[tuple[str, str]]) -> str:
  text = '+'.join([method, *(f'{k}-{v}' for k, v in values)])
  return re.sub(r'[^\w.+-]', '_', text)


def with_threads(point: Point, settings: Settings) -> Point:
  """As many threads as the run has CPUs, unless it was told otherwise."""
  if point.config.threads or settings.cpus < 1:
    return point
  return dataclasses.replace(point, flags=(*point.flags, '--threads', str(int(settings.cpus))))


def states(points: Sequence[Point]) -> dict[str, str]:
  """finished, unfinished or missing by name; a UserError if a folder holds anything else."""
  result = {}
  for point in points:
    check_settings(point.config, point.folder)
    begun = (point.folder / 'config.yaml').exists()
    result[point.name] = 'finished' if point.result else 'unfinished' if begun else 'missing'
  return result
