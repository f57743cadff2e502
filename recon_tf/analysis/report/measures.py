"""Tables of what evaluate and diagnose measured, with the paper's numbers beside ours."""

from collections.abc import Callable, Iterable

from recon_tf.analysis import regions
from recon_tf.analysis.cost import MIB, RECORDS, group_cost
from recon_tf.analysis.paper import PAIR, load_paper, paper_compute
from recon_tf.analysis.report.tables import (
  NONE,
  Table,
  change,
  digits,
  fixed,
  make_table,
  robust_rows,
  robust_table,
)
from recon_tf.analysis.runs import Group, anchors_differ, grouped, settings_of, with_data
from recon_tf.analysis.stats import mean_of

GAP_COLUMNS = {
  'expert_h15': ('Expert H15 gap', lambda x: x['expert']['gap']),
  'replay_h5': ('Replay H5 gap', lambda x: x['replay']['gap']),
  'uncertainty': ('U × 1000', lambda x: 1000 * x['expert']['uncertainty']),
}
DISPLACED = {'distance': 'm', 'cells': 'cells', 'decisions': 'decisions'}  # units of recovery


def measured_rows(
  groups: list[Group], part: str, cells: Callable, lines: Callable | None = None
) -> list[tuple[str, ...]]:
  """Setting, method, seeds and cells(entries) of each group; lines(results) parts it by name."""
  rows = []
  for group, results in with_data(groups, part):
    for name, own in (lines(results) if lines else {'': results}).items():
      names = (name,) if lines else ()
      rows.append((group.setting, group.method, str(len(own)), *names, *cells(own)))
  return rows


def _mean(entries: Iterable[dict], key: str) -> float | None:
  return mean_of(x[key] for x in entries)


def robustness_table(groups: list[Group]) -> Table:
  """tab:robustness: four columns, and CMIL/RECON pairs with their differences."""
  rows = []
  tasks = {x.setting: x.task for x in groups}
  found = with_data(groups, 'robust')
  results = [{**x, 'task': group.setting} for group, own in found for x in own]
  made = robust_rows(results)
  for setting in dict.fromkeys(x[0] for x in made):
    rows += [x for x in made if x[0] == setting]
    rows += _paper_row('robustness', setting, tasks[setting])
  episodes = sorted({x['episodes'] for x in results if 'episodes' in x})
  notes = ['Success in percent, return for DMC; means over seeds of the deterministic main policy.']
  notes += [f'Episodes per configuration: {", ".join(map(str, episodes))}.'] if episodes else []
  skipped = sorted({f'{k} ({v})' for x in results for k, v in x.get('skipped', {}).items()})
  notes += [f'Left out: {"; ".join(skipped)}.'] if skipped else []
  head = robust_table([]).head
  return make_table('robustness', 'Robust deployment', head, rows, notes, 'robust')


def recovery_table(groups: list[Group]) -> Table:
  """From displaced states, by how far off the way they are; ours, the paper has no such table."""

  def lines(results: list[dict]) -> dict:
    name = lambda x: f'{x["difficulty"]:g} {DISPLACED.get(x["kind"], x["kind"])}'
    levels = grouped((x for result in results for x in result['by_difficulty']), name)
    return {**levels, 'all that count': [{**x, 'episodes': None} for x in results]}

  def cells(own: list[dict]) -> list[str]:
    count = NONE if own[0]['episodes'] is None else str(sum(x['episodes'] for x in own))
    return [fixed(_mean(own, 'score')), fixed(_mean(own, 'expert')), count]

  head = ('task', 'method', 'seeds', 'displaced by', 'score', 'expert', 'episodes')
  notes = [
    'Share of episodes in which the deployed policy succeeds after it was displaced (for returns: '
    'its share of what the expert gets from there). What counts: displacements that the expert '
    'itself manages; kinds weigh the same, cells on the way are left out.'
  ]
  rows = measured_rows(groups, 'recovery', cells, lines)
  return make_table('recovery', 'Recovery from displaced states', head, rows, notes, 'recovery')


def recovery_at(results: list[dict], kind: str, difficulty: float) -> list[dict]:
  """One level of every seed that has it."""
  fits = lambda x: (x['kind'], x['difficulty']) == (kind, difficulty)
  return [x for result in results for x in result['by_difficulty'] if fits(x)]


def gap_table(groups: list[Group]) -> Table:
  """tab:wm_diagnostics: prediction gaps and uncertainty, CMIL/RECON with relative change."""
  columns = list(GAP_COLUMNS)
  rows = []
  for setting, own in grouped(with_data(groups, 'gap'), lambda x: x[0].setting).items():
    means = {}
    for group, results in own:
      pick = lambda column, results=results: mean_of([gap_value(x, column) for x in results])
      means[group.method] = [pick(x) for x in columns]
      cells = [digits(x) for x in means[group.method]]
      rows.append((setting, group.method, str(len(results)), *cells))
    if set(PAIR) <= set(means):
      seeds = '/'.join(str(len(r)) for m in PAIR for g, r in own if g.method == m)
      pairs = zip(*(means[m] for m in PAIR), strict=True)
      cells = [f'{digits(a)}/{digits(b)} ({change(a, b)})' for a, b in pairs]
      rows.append((setting, '/'.join(PAIR), seeds, *cells))
    rows += _paper_row('gap', setting, own[0][0].task)
  head = ('task', 'method', 'seeds', *(x for x, _ in GAP_COLUMNS.values()))
  notes = [
    'Discounted squared error of open-loop latents, lower is better: H15 on held-out expert '
    'episodes, where U is measured too, H5 on the replay.',
    "Latents have no common scale, so gaps of other sizes of agent, the paper's among them, do not "
    'compare.',
  ]
  return make_table('gap', 'World-model diagnostics', head, rows, notes, 'gap')


def gap_value(result: dict, column: str) -> float | None:
  """A run without a replay or without held-out episodes lacks some."""
  try:
    return GAP_COLUMNS[column][1](result)
  except KeyError:
    return None


def deciles_table(groups: list[Group]) -> Table:
  """fig:uncertainty_deciles in numbers: does U rank held-out error?"""

  def lines(results: list[dict]) -> dict:
    names = dict.fromkeys(k for x in results for k in x.get('deciles', {}))
    return {k: [x['deciles'][k] for x in results if k in x.get('deciles', {})] for k in names}

  def cells(own: list[dict]) -> list[str]:
    ends = [digits(mean_of(x['gap'][i] for x in own)) for i in (0, -1)]
    rank = _mean(own, 'rank_correlation')
    return [str(round(_mean(own, 'starts'))), *ends, NONE if rank is None else f'{rank:+.2f}']

  head = ('task', 'method', 'seeds', 'states', 'starts', 'gap, lowest U', 'gap, highest U', 'rank')
  notes = ['Held-out H15 gap in the lowest and highest decile of U; rank: Spearman, all starts.']
  rows = measured_rows(groups, 'gap', cells, lines)
  return make_table('deciles', 'Disagreement and held-out error', head, rows, notes, 'gap')


def _paper_row(table: str, setting: str, task: str) -> list[tuple[str, ...]]:
  """The paper's row for a task with its rounding, none for tasks that it does not have."""
  cells = load_paper()[table]['tasks'].get(task)
  if not cells:
    return []
  unit = ' %' if table == 'gap' else '' if task.startswith('dmc_') else ' pp'
  show = lambda first, second, third: f'{first}/{second} ({third:+.1f}{unit})'
  seeds = str(load_paper()['seeds'])
  return [
    (setting, f'{"/".join(PAIR)}, paper', f'{seeds}/{seeds}', *(show(*x) for x in cells.values()))
  ]


# Recoverability and acquisition


def recoverability_table(groups: list[Group]) -> Table:
  """AUROC of the gate and of the oracle, and how well the gate is calibrated."""
  found = [x for _, results in with_data(groups, 'recoverability') for x in results]
  horizons = [int(x) for x in found[0]['calibration']] if found else []
  tubes = {x['tube'] for x in found}

  def cells(own: list[dict]) -> list[str]:
    at = lambda key, h: mean_of(x[key][x['horizons'].index(h)] for x in own if h in x['horizons'])
    error = lambda h: mean_of(x['calibration'].get(str(h), {}).get('error') for x in own)
    scores = [fixed(at(key, h)) for h in horizons for key in ('auroc', 'oracle')]
    return [*_candidates(own), *scores, *(fixed(error(h)) for h in horizons)]

  head = ['task', 'method', 'seeds', 'states', 'recovered %']
  head += [f'{name} H{h}' for h in horizons for name in ('AUROC', 'oracle')]
  head += [f'calibration error H{h}' for h in horizons]
  notes = [
    'Does G, from imagination, tell from which states the main policy comes back within 15 real '
    f'steps to {", ".join(map(str, sorted(tubes)))} of the expert? The oracle sees true distances.',
    'The paper prints no numbers of its figure.',
  ]
  title = 'Recoverability: prediction and reality'
  rows = measured_rows(groups, 'recoverability', cells)
  return make_table('recoverability', title, tuple(head), rows, notes, 'recoverability')


def _candidates(own: list[dict]) -> list[str]:
  back = _mean(own, 'recovered')
  return [f'{_mean(own, "candidates"):.0f}', NONE if back is None else f'{100 * back:.0f}']


def tube_table(groups: list[Group]) -> Table:
  """What counts as back decides what the gate is asked: the same for wider tubes."""
  names = ('auroc_5', 'oracle_5', 'auroc_15', 'oracle_15')
  cells = lambda own: [*_candidates(own), *(fixed(_mean(own, x)) for x in names)]
  # Seeds may have been measured with different tubes.
  tubes = lambda results: (x for result in results for x in result.get('tubes', ()))
  lines = lambda results: grouped(tubes(results), lambda x: f'{x["tube"]:.2f}')
  head = ('task', 'method', 'seeds', 'tube', 'states', 'recovered %', 'AUROC H5', 'oracle H5',
          'AUROC H15', 'oracle H15')  # fmt: skip
  notes = [
    'The states outside of a tube, and whether the main policy comes back into it. Around few '
    'demonstrations a narrow tube counts a parallel way to the goal as lost.'
  ]
  title = 'Recoverability by what counts as back'
  rows = measured_rows(groups, 'recoverability', cells, lines)
  return make_table('tubes', title, head, rows, notes, 'recoverability')


def acquisition_table(groups: list[Group]) -> Table:
  """Fall of U on fixed anchors, in all and per online step."""

  def cells(own: list[dict]) -> list[str]:
    first, last = (mean_of(x['steps'][i] for x in own) for i in (0, -1))
    numbers = [mean_of(1000 * x['uncertainty'][i] for x in own) for i in (0, -1)]
    numbers += [mean_of(1000 * x['gain'] for x in own)]
    numbers += [mean_of(1e6 * x['gain_per_step'] for x in own)]
    return [f'{_mean(own, "anchors"):.0f}', f'{first:.0f} to {last:.0f}', *map(digits, numbers)]

  found = with_data(groups, 'acquisition')
  head = ('task', 'method', 'seeds', 'anchors', 'online steps', 'U before × 1000',
          'U after × 1000', 'ΔU × 1000', 'ΔU per step × 10⁶')  # fmt: skip
  notes = [
    'Methods compare only on the same anchors: give those of one run to the others with --anchors.',
    'The paper prints no numbers of its figure.',
  ]
  if any(10 * x['online_steps'] < x['steps'][-1] for _, results in found for x in results):
    notes.append('States that are close together show mostly noise; see --before and --keep_every.')
  notes += [
    f'These are on different anchors and do not compare: {x}.' for x in anchors_differ(found)
  ]
  rows = measured_rows(groups, 'acquisition', cells)
  return make_table('acquisition', 'Acquisition gain', head, rows, notes, 'acquisition')


def allocation_table(groups: list[Group]) -> Table:
  """Where real steps went: distance to the expert's states, and in mazes regions."""
  rows = []
  for group in groups:
    found = [x for x in map(regions.real_steps, group.runs) if x]
    for who, explorer in ((collector_name(group), True), ('main', False)):
      means = [x for x in (steps.mean_distance(explorer) for steps in found) if x is not None]
      if means:
        shares = [x for x in (steps.shares(explorer) for steps in found) if x]
        share = lambda name, shares=shares: mean_of([100 * x[name] for x in shares])
        cells = [fixed(share(name), 1) for name in regions.REGIONS]
        cells += [fixed(mean_of(means))]
        rows.append((group.setting, group.method, str(len(means)), who, *cells))
  columns = (f'{x} %' for x in regions.REGIONS)
  head = ('task', 'method', 'seeds', 'who acted', *columns, 'mean distance')
  notes = [
    'Shares of the states that real steps led to, random prefill left out: support up to '
    f'{regions.SUPPORT}, near up to {regions.NEAR}, far beyond, and how far they are on average '
    'from the nearest state of the demonstrations: metres in mazes, elsewhere deviations of the '
    "demonstrations' vectors per dimension, without regions. The paper prints no numbers."
  ]
  missing = 'Distances need collected episodes with vectors, and the demonstrations.'
  return Table('allocation', 'Allocation of real steps', head, tuple(rows), tuple(notes), missing)


def collector_name(group: Group) -> str:
  """Who acts in the windows."""
  return 'random' if group.runs[0].config.windows.collector == 'random' else 'explorer'


# Compute


def compute_table(groups: list[Group]) -> Table:
  """tab:compute_overhead: CMIL and RECON of each task, and the paper's."""
  rows = []
  for setting, own in settings_of([x for x in groups if x.method in PAIR]).items():
    costs = {x.method: group_cost(x) for x in own}
    costs = {k: v for k, v in costs.items() if v.parts or v.fps}
    for name, (pick, show) in _COMPUTE.items():
      values = [pick(costs[m]) if m in costs else None for m in PAIR]
      if any(x is not None for x in values):
        cells = [NONE if x is None else show(x) for x in values]
        shift = NONE if 'deviation' in name else change(*values)
        rows.append((setting, name, *cells, shift, *_paper_compute(name, show)))
  head = ('task', 'quantity', 'CMIL', 'RECON', 'change', 'CMIL, paper', 'RECON, paper')
  notes = [
    'Parameters with target networks, without optimizers. Our checkpoints hold the optimizers too; '
    "the paper's checkpoints of 83 and 98 MiB are about as large as its parameters in FP32.",
    f'FPS: environment steps per second with updates, last {RECORDS} records, evaluations '
    'left out; mean over seeds. It depends on machine, size and load.',
    f'The paper measured {load_paper()["compute"]["task"]}.',
  ]
  missing = 'The compute table needs runs of CMIL or RECON with a checkpoint.'
  return Table('compute', 'Compute overhead', head, tuple(rows), tuple(notes), missing)


_MILLIONS = lambda x: f'{x / 1e6:.2f} M' if x >= 1e6 else f'{x:,}'
_COMPUTE: dict[str, tuple[Callable, Callable]] = {
  'world-model parameters': (lambda x: (x.parts or {}).get('world_model'), _MILLIONS),
  'all parameters': (lambda x: x.parameters, _MILLIONS),
  'explorer, % of all': (lambda x: x.explorer_share, lambda x: f'{x:.1f}'),
  'parameters in FP32, MiB': (
    lambda x: x.parameters and 4 * x.parameters / MIB, lambda x: f'{x:.3g}'
  ),
  'checkpoint, MiB': (lambda x: x.checkpoint_mib, lambda x: f'{x:.3g}'),
  'FPS': (lambda x: x.fps, lambda x: f'{x:.3f}'),
  'FPS, deviation': (lambda x: x.fps_std, lambda x: f'{x:.3f}'),
}  # fmt: skip
_PAPER_NAMES = {
  'world-model parameters': 'world_model_parameters', 'all parameters': 'parameters',
  'checkpoint, MiB': 'checkpoint_mib', 'FPS': 'fps', 'FPS, deviation': 'fps_std',
}  # fmt: skip


def _paper_compute(name: str, show: Callable) -> tuple[str, str]:
  if name.startswith('explorer'):
    return NONE, show(load_paper()['compute']['recon_only']['explorer_share'])
  values = [paper_compute(_PAPER_NAMES.get(name, ''), x) for x in PAIR]
  return tuple(NONE if x is None else show(x) for x in values)
