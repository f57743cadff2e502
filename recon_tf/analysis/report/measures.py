"""Tables of what evaluate and diagnose measured, with the paper's numbers beside ours."""

from collections.abc import Callable, Sequence

from recon_tf.analysis import regions
from recon_tf.analysis.cost import MIB, RECORDS, group_cost
from recon_tf.analysis.paper import COLUMNS, PAIR, load_paper, paper_compute
from recon_tf.analysis.report.tables import (
  NONE,
  Table,
  change,
  digits,
  fixed,
  paired_rows,
  robust_table,
)
from recon_tf.analysis.runs import (
  Group,
  anchors_differ,
  command_line,
  grouped,
  settings_of,
  with_data,
)
from recon_tf.analysis.stats import mean_of

GAP_COLUMNS = {
  'expert_h15': ('Expert H15 gap', lambda x: x['expert']['gap']),
  'replay_h5': ('Replay H5 gap', lambda x: x['replay']['gap']),
  'uncertainty': ('U × 1000', lambda x: 1000 * x['expert']['uncertainty']),
}
DISPLACED = {'distance': 'm', 'cells': 'cells', 'decisions': 'decisions'}  # units of recovery
WHO = ('windows', 'main', 'prefill')
OUTCOMES = {'back': 'comes back', 'lost': 'does not'}
PLACES = {'wall': 'at walls', 'free': 'free'}

Cell = Callable[[list[dict]], str]  # what the entries of all seeds have in one column
Lines = Callable[[Group, list[dict]], dict[tuple[str, ...], list[dict]]]


def measured(
  groups: list[Group], part: str, columns: dict[str, Cell], lines: Lines | None = None
) -> list[tuple[str, ...]]:
  """Setting, method, seeds and cells of each group; lines(group, results) parts it by names."""
  rows = []
  for group, results in with_data(groups, part):
    for names, own in (lines(group, results) if lines else {(): results}).items():
      cells = [cell(own) for cell in columns.values()]
      rows.append((group.setting, group.method, str(len(own)), *names, *cells))
  return rows


def make_table(
  name: str, title: str, columns: Sequence[str], rows: list, notes: list[str], part: str
) -> Table:
  """A table of what `part` of the measurements gives."""
  missing = f'No data yet; `{command_line(part)}` makes them.'
  head = ('task', 'method', 'seeds', *columns)
  return Table(name, title, head, tuple(rows), tuple(notes), missing)


def mean(pick: str | Callable, places: int | None = 3, scale: float = 1) -> Cell:
  """The mean over seeds of a key, or of what pick finds; places None: three digits that count."""
  find = pick if callable(pick) else lambda x: x.get(pick)

  def cell(own: list[dict]) -> str:
    value = mean_of(map(find, own))
    value = None if value is None else scale * value
    return digits(value) if places is None else fixed(value, places)

  return cell


def robustness_table(groups: list[Group]) -> Table:
  """tab:robustness: four columns, and CMIL/RECON pairs with their differences."""
  rows, tasks = [], {x.setting: x.task for x in groups}
  found = with_data(groups, 'robust')
  results = [{**x, 'task': group.setting} for group, own in found for x in own]
  for setting, own in grouped(robust_table(results).rows, lambda x: x[0]).items():
    rows += [*own, *_paper_row('robustness', setting, tasks[setting])]
  episodes = sorted({x['episodes'] for x in results if 'episodes' in x})
  notes = ['Success in percent, return for DMC; means over seeds of the deterministic main policy.']
  notes += [f'Episodes per configuration: {", ".join(map(str, episodes))}.'] if episodes else []
  skipped = sorted({f'{k} ({v})' for x in results for k, v in x.get('skipped', {}).items()})
  notes += [f'Left out: {"; ".join(skipped)}.'] if skipped else []
  return make_table('robustness', 'Robust deployment', COLUMNS, rows, notes, 'robust')


def recovery_table(groups: list[Group]) -> Table:
  """From displaced states, by how far off the way they are; ours, the paper has no such table."""

  def lines(_: Group, results: list[dict]) -> dict:
    name = lambda x: (f'{x["difficulty"]:g} {DISPLACED.get(x["kind"], x["kind"])}',)
    levels = grouped((x for result in results for x in result['by_difficulty']), name)
    return {**levels, ('all that count',): [{**x, 'episodes': None} for x in results]}

  def count(own: list[dict]) -> str:
    return NONE if own[0]['episodes'] is None else str(sum(x['episodes'] for x in own))

  columns = {'score': mean('score'), 'expert': mean('expert'), 'episodes': count}
  notes = [
    'Share of episodes in which the deployed policy succeeds after it was displaced (for returns: '
    'its share of what the expert gets from there). What counts: displacements that the expert '
    'itself manages; kinds weigh the same, cells on the way are left out.'
  ]
  rows, title = measured(groups, 'recovery', columns, lines), 'Recovery from displaced states'
  return make_table('recovery', title, ('displaced by', *columns), rows, notes, 'recovery')


def imagination_table(groups: list[Group]) -> Table:
  """After displacements: what really happened beside what the policy imagined."""

  def lines(_: Group, results: list[dict]) -> dict:
    found = {(OUTCOMES[k],): [x['outcomes'][k] for x in results] for k in OUTCOMES}
    found = {k: [x for x in v if x['episodes']] for k, v in found.items()}
    return {k: v for k, v in found.items() if v}

  pair = lambda key, *how: {x: mean(f'{x}_{key}', *how) for x in ('real', 'imagined')}
  parts = {
    'D': pair('disc'), 'U × 1000': pair('uncertainty', 1, 1000), 'distance': pair('distance', 2),
    'return': pair('return', 2),
  }  # fmt: skip
  columns = {f'{k}, {x}': cell for k, own in parts.items() for x, cell in own.items()}
  columns = {'episodes': mean('episodes', 1), **columns, 'critic': mean('critic', 2)}
  results = [x for _, own in with_data(groups, 'imagination') for x in own]
  if any('walls' in x for result in results for x in result['outcomes'].values()):
    columns['in walls %'] = mean('walls', 1, 100)
  steps = max((x['steps'] for x in results), default=0)
  notes = [
    'From the displaced states of the recovery evaluation that the expert comes back from: '
    'the deployed policy in the simulator, and from the same belief in its own model, both up to '
    f'the same decision (at most {steps}). D, U and the distance '
    "to the expert's states are means of the last five of them; the return is the discounted "
    'D - αU with Q at the end, the critic what Q promises at the start. In walls: share of the '
    'imagined places where no ball can be.'
  ]
  rows, title = measured(groups, 'imagination', columns, lines), 'Coming back, really and imagined'
  return make_table('imagination', title, ('policy', *columns), rows, notes, 'imagination')


def gap_table(groups: list[Group]) -> Table:
  """tab:wm_diagnostics: prediction gaps and uncertainty, CMIL/RECON with relative change."""
  rows = []
  for setting, own in grouped(with_data(groups, 'gap'), lambda x: x[0].setting).items():
    values = lambda x: {column: gap_value(x, column) for column in GAP_COLUMNS}
    methods = {group.method: list(map(values, results)) for group, results in own}
    rows += paired_rows(setting, methods, [*GAP_COLUMNS], digits, change)
    rows += _paper_row('gap', setting, own[0][0].task)
  notes = [
    'Discounted squared error of open-loop latents, lower is better: H15 on held-out expert '
    'episodes, where U is measured too, H5 on the replay.',
    "Latents have no common scale, so gaps of other sizes of agent, the paper's among them, do not "
    'compare.',
  ]
  columns = [x for x, _ in GAP_COLUMNS.values()]
  return make_table('gap', 'World-model diagnostics', columns, rows, notes, 'gap')


def gap_value(result: dict, column: str) -> float | None:
  """A run without a replay or without held-out episodes lacks some."""
  try:
    return GAP_COLUMNS[column][1](result)
  except KeyError:
    return None


def deciles_table(groups: list[Group]) -> Table:
  """fig:uncertainty_deciles in numbers: does U rank held-out error?"""

  def lines(_: Group, results: list[dict]) -> dict:
    names = dict.fromkeys(k for x in results for k in x.get('deciles', {}))
    return {(k,): [x['deciles'][k] for x in results if k in x.get('deciles', {})] for k in names}

  def rank(own: list[dict]) -> str:
    value = mean_of(x['rank_correlation'] for x in own)
    return NONE if value is None else f'{value:+.2f}'

  columns = {
    'starts': mean('starts', 0),
    'gap, lowest U': mean(lambda x: x['gap'][0], None),
    'gap, highest U': mean(lambda x: x['gap'][-1], None),
    'rank': rank,
  }
  notes = ['Held-out H15 gap in the lowest and highest decile of U; rank: Spearman, all starts.']
  rows, title = measured(groups, 'gap', columns, lines), 'Disagreement and held-out error'
  return make_table('deciles', title, ('states', *columns), rows, notes, 'gap')


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

_CANDIDATES = {'states': mean('candidates', 0), 'recovered %': mean('recovered', 0, 100)}


def recoverability_table(groups: list[Group]) -> Table:
  """AUROC of the gate and of the oracle, and how well the gate is calibrated."""
  found = [x for _, results in with_data(groups, 'recoverability') for x in results]
  horizons = [int(x) for x in found[0]['calibration']] if found else []
  tubes = sorted({x['tube'] for x in found})
  at = lambda key, h: lambda x: x[key][x['horizons'].index(h)] if h in x['horizons'] else None
  error = lambda h: lambda x: x['calibration'].get(str(h), {}).get('error')
  names = {'AUROC': 'auroc', 'oracle': 'oracle'}
  columns = {f'{k} H{h}': mean(at(v, h)) for h in horizons for k, v in names.items()}
  columns = _CANDIDATES | columns | {f'calibration error H{h}': mean(error(h)) for h in horizons}
  notes = [
    'Does G, from imagination, tell from which states the main policy comes back within 15 real '
    f'steps to {", ".join(map(str, tubes))} of the expert? The oracle sees true distances.',
    'The paper prints no numbers of its figure.',
  ]
  rows = measured(groups, 'recoverability', columns)
  title = 'Recoverability: prediction and reality'
  return make_table('recoverability', title, [*columns], rows, notes, 'recoverability')


def tube_table(groups: list[Group]) -> Table:
  """What counts as back decides what the gate is asked: the same for wider tubes."""
  names = {'AUROC': 'auroc', 'oracle': 'oracle'}
  scores = {f'{k} H{h}': mean(f'{v}_{h}') for h in (5, 15) for k, v in names.items()}
  columns = _CANDIDATES | scores
  # Seeds may have been measured with different tubes.
  tubes = lambda results: (x for result in results for x in result.get('tubes', ()))
  lines = lambda _, results: grouped(tubes(results), lambda x: (f'{x["tube"]:.2f}',))
  notes = [
    'The states outside of a tube, and whether the main policy comes back into it. Around few '
    'demonstrations a narrow tube counts a parallel way to the goal as lost.'
  ]
  rows = measured(groups, 'recoverability', columns, lines)
  title = 'Recoverability by what counts as back'
  return make_table('tubes', title, ('tube', *columns), rows, notes, 'recoverability')


def acquisition_table(groups: list[Group]) -> Table:
  """Fall of U on fixed anchors, in all and per online step."""

  def span(own: list[dict]) -> str:
    first, last = (mean_of(x['steps'][i] for x in own) for i in (0, -1))
    return f'{first:.0f} to {last:.0f}'

  columns = {
    'anchors': mean('anchors', 0),
    'online steps': span,
    'U before × 1000': mean(lambda x: x['uncertainty'][0], None, 1000),
    'U after × 1000': mean(lambda x: x['uncertainty'][-1], None, 1000),
    'ΔU × 1000': mean('gain', None, 1000),
    'ΔU per step × 10⁶': mean('gain_per_step', None, 1e6),
  }
  found = with_data(groups, 'acquisition')
  notes = [
    'Methods compare only on the same anchors: give those of one run to the others with --anchors.',
    'The paper prints no numbers of its figure.',
  ]
  if any(10 * x['online_steps'] < x['steps'][-1] for _, results in found for x in results):
    notes.append('States that are close together show mostly noise; see --before and --keep_every.')
  notes += [
    f'These are on different anchors and do not compare: {x}.' for x in anchors_differ(found)
  ]
  rows = measured(groups, 'acquisition', columns)
  return make_table('acquisition', 'Acquisition gain', [*columns], rows, notes, 'acquisition')


# Real steps


def collector_name(group: Group) -> str:
  """Who acts in the windows."""
  return 'random' if group.runs[0].config.windows.collector == 'random' else 'explorer'


def allocation_table(groups: list[Group]) -> Table:
  """Where real steps went: distance to the expert's states, and in mazes regions."""
  columns = {f'{x} %': mean(x, 1, 100) for x in regions.REGIONS}
  columns['mean distance'] = mean('distance')
  rows = []
  for group in groups:
    found = [x for x in map(regions.allocation, group.runs) if x]
    for who, name in (('explorer', collector_name(group)), ('main', 'main')):
      own = [x[who] for x in found if who in x]
      if own:
        cells = [cell(own) for cell in columns.values()]
        rows.append((group.setting, group.method, str(len(own)), name, *cells))
  notes = (
    'Shares of the states that real steps led to, random prefill left out: support up to '
    f'{regions.SUPPORT}, near up to {regions.NEAR}, far beyond, and how far they are on average '
    'from the nearest state of the demonstrations: metres in mazes, elsewhere deviations of the '
    "demonstrations' vectors per dimension, without regions. The paper prints no numbers.",
  )
  head = ('task', 'method', 'seeds', 'who acted', *columns)
  missing = 'Distances need collected episodes with vectors, and the demonstrations.'
  return Table('allocation', 'Allocation of real steps', head, tuple(rows), notes, missing)


def _actors(group: Group, results: list[dict]) -> dict[tuple[str, ...], list[dict]]:
  found = {who: [x['who'][who] for x in results if who in x['who']] for who in WHO}
  name = lambda who: collector_name(group) if who == 'windows' else who
  return {(name(k),): v for k, v in found.items() if v}


def brought_table(groups: list[Group]) -> Table:
  """Where steps led to and what actions they were; columns of mazes only where there is one."""
  columns = {
    'steps': mean('steps', 0),
    'distance': mean('distance'),
    '90 % below': mean('distance_90'),
    'speed': mean('speed', 2),
    'length of actions': mean('action_length', 2),
    'persistence': mean('persistence', 2),
    'spread': mean('spread', 2),
  }
  notes = [
    'Distance to the nearest demonstrated state, its mean and where 90 % of the steps are below: '
    "metres in mazes, elsewhere deviations of the demonstrations' vectors per entry. Speed in m/s, "
    'elsewhere deviations per decision. Persistence: mean cosine between successive actions; '
    'spread: deviation of actions, mean over entries.'
  ]
  results = [x for _, own in with_data(groups, 'windows') for x in own]
  number = sorted({x['cells_off'] for x in results if 'cells_off' in x})
  if number:
    columns['cells off the way'] = mean('cells_off', 1)
    columns['steps there'] = mean('steps_off', 0)
    columns['at walls %'] = mean('wall_share', 1, 100)
    columns['places'] = mean('places', 0)
    columns['directions'] = mean('directions', 1)
    notes += [
      f'The mazes have {" or ".join(map(str, number))} cells that no demonstration crosses. At a '
      'wall: no more than 2 cm between it and the ball. Places: squares of 0.25 m that a step led '
      'to; directions: by actions in how many of eight directions, mean over places.'
    ]
  rows, title = measured(groups, 'windows', columns, _actors), 'What windows bring home'
  return make_table('windows', title, ('who acted', *columns), rows, notes, 'windows')


def taught_table(groups: list[Group]) -> Table:
  """U of the transitions before and after learning from them, and the gap of the last model."""

  def lines(group: Group, results: list[dict]) -> dict:
    found = {}
    for names, parts in _actors(group, results).items():
      found[*names, 'all'] = parts
      found |= {(*names, v): [x[k] for x in parts if k in x] for k, v in PLACES.items()}
    return {k: v for k, v in found.items() if any('after' in x for x in v)}

  columns = {
    'steps': mean('steps', 0),
    'U before × 1000': mean('before', None, 1000),
    'U after × 1000': mean('after', None, 1000),
    'removed × 1000': mean('removed', None, 1000),
    'H5 gap': mean('gap', None),
  }
  notes = [
    'U of the same transitions under the last milestone before they were collected and under the '
    'newest weights; the difference is what data removed. Latents have no common scale, so read '
    "windows against the main policy's steps of the same run first. H5 gap: open-loop error of the "
    'newest model from where the steps led to.'
  ]
  rows, names = measured(groups, 'windows', columns, lines), ('who acted', 'where', *columns)
  title = 'What windows teach the model'
  return make_table('windows_model', title, names, rows, notes, 'windows')


def returned_table(groups: list[Group]) -> Table:
  """What the main policy does after a window."""

  def lines(group: Group, results: list[dict]) -> dict:
    own = [x['returns'] for x in results if 'returns' in x]
    return {(collector_name(group),): own} if own else {}

  columns = {
    'tube': mean('tube'),
    'windows': mean('windows', 0),
    'distance at begin': mean('begin'),
    'at end': mean('end'),
    'ended outside': mean('outside', 0),
    'back %': mean('back', 1, 100),
    'solved first %': mean('solved', 1, 100),
    'next window first %': mean('cut', 1, 100),
    'median decisions': mean('median', 1),
  }
  notes = [
    'Windows that ended outside of the tube around the demonstrated way, the share of them after '
    'which the main policy was back in it before the next window or the end of the episode, and '
    'how many decisions that took; solved first: it reached the goal without. The tube is 0.25 m '
    'in mazes, elsewhere the 90th percentile of the distances of each demonstration to the others.'
  ]
  rows, title = measured(groups, 'windows', columns, lines), 'Returns after windows'
  return make_table('windows_returns', title, ('who acted', *columns), rows, notes, 'windows')


# Compute

_MILLIONS = lambda x: f'{x / 1e6:.2f} M' if x >= 1e6 else f'{x:,}'
# What it is of a Cost, how it is written, and its name in paper.yaml.
_COMPUTE: dict[str, tuple[Callable, Callable, str]] = {
  'world-model parameters': (
    lambda x: (x.parts or {}).get('world_model'), _MILLIONS, 'world_model_parameters'
  ),
  'all parameters': (lambda x: x.parameters, _MILLIONS, 'parameters'),
  'explorer, % of all': (lambda x: x.explorer_share, lambda x: f'{x:.1f}', ''),
  'parameters in FP32, MiB': (lambda x: x.parameters and 4 * x.parameters / MIB, digits, ''),
  'checkpoint, MiB': (lambda x: x.checkpoint_mib, digits, 'checkpoint_mib'),
  'FPS': (lambda x: x.fps, fixed, 'fps'),
  'FPS, deviation': (lambda x: x.fps_std, fixed, 'fps_std'),
}  # fmt: skip


def compute_table(groups: list[Group]) -> Table:
  """tab:compute_overhead: CMIL and RECON of each task, and the paper's."""
  rows = []
  for setting, own in settings_of([x for x in groups if x.method in PAIR]).items():
    costs = {x.method: group_cost(x) for x in own}
    costs = {k: v for k, v in costs.items() if v.parts or v.fps}
    for name, (pick, show, paper) in _COMPUTE.items():
      values = [pick(costs[m]) if m in costs else None for m in PAIR]
      if any(x is not None for x in values):
        known = [paper_compute(paper, x) for x in PAIR]
        if name.startswith('explorer'):
          known = [None, load_paper()['compute']['recon_only']['explorer_share']]
        first, second, *others = [NONE if x is None else show(x) for x in (*values, *known)]
        shift = NONE if 'deviation' in name else change(*values)
        rows.append((setting, name, first, second, shift, *others))
  head = ('task', 'quantity', 'CMIL', 'RECON', 'change', 'CMIL, paper', 'RECON, paper')
  notes = (
    'Parameters with target networks, without optimizers. Our checkpoints hold the optimizers too; '
    "the paper's checkpoints of 83 and 98 MiB are about as large as its parameters in FP32.",
    f'FPS: environment steps per second with updates, last {RECORDS} records, evaluations '
    'left out; mean over seeds. It depends on machine, size and load.',
    f'The paper measured {load_paper()["compute"]["task"]}.',
  )
  missing = 'The compute table needs runs of CMIL or RECON with a checkpoint.'
  return Table('compute', 'Compute overhead', head, tuple(rows), notes, missing)
