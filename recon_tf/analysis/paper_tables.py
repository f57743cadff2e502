"""The paper's tables from run folders, with the paper's numbers beside ours."""

from recon_tf.analysis import robustness
from recon_tf.analysis.compute import compute_table
from recon_tf.analysis.groups import Group
from recon_tf.analysis.measured import mean_of, with_data
from recon_tf.analysis.paper import PAIR, load_paper
from recon_tf.analysis.recovery_tables import (
  acquisition_table,
  allocation_table,
  recoverability_table,
  tube_table,
)
from recon_tf.analysis.texts import NONE, Table, change, digits, make_table

GAP_COLUMNS = {
  'expert_h15': ('Expert H15 gap', lambda x: x['expert']['gap']),
  'replay_h5': ('Replay H5 gap', lambda x: x['replay']['gap']),
  'uncertainty': ('U × 1000', lambda x: 1000 * x['expert']['uncertainty']),
}


def all_tables(groups: list[Group]) -> list[Table]:
  """Every table, also those without data yet."""
  makers = (
    robustness_table, gap_table, deciles_table, recoverability_table, tube_table,
    acquisition_table, allocation_table, compute_table,
  )  # fmt: skip
  return [make(groups) for make in makers]


def robustness_table(groups: list[Group]) -> Table:
  """tab:robustness: four columns, and CMIL/RECON pairs with their differences."""
  rows = []
  tasks = {x.setting: x.task for x in groups}
  found = with_data(groups, 'robust')
  results = [{**x, 'task': group.setting} for group, own in found for x in own]
  made = robustness.table(results)
  for setting in dict.fromkeys(x[0] for x in made):
    rows += [x for x in made if x[0] == setting]
    rows += _paper_row('robustness', setting, tasks[setting])
  episodes = sorted({x['episodes'] for x in results if 'episodes' in x})
  notes = ['Success in percent, return for DMC; means over seeds of the deterministic main policy.']
  notes += [f'Episodes a configuration: {", ".join(map(str, episodes))}.'] if episodes else []
  skipped = sorted({f'{k} ({v})' for x in results for k, v in x.get('skipped', {}).items()})
  notes += [f'Left out: {"; ".join(skipped)}.'] if skipped else []
  return make_table('robustness', 'Robust deployment', robustness.HEADER, rows, notes, 'robust')


def gap_table(groups: list[Group]) -> Table:
  """tab:wm_diagnostics: prediction gaps and uncertainty, CMIL/RECON with relative change."""
  columns = list(GAP_COLUMNS)
  rows = []
  for setting, own in _by_setting(with_data(groups, 'gap')).items():
    means = {}
    for group, results in own:
      pick = lambda column, results=results: mean_of([gap_value(x, column) for x in results])
      means[group.method] = [pick(x) for x in columns]
      cells = [digits(x) for x in means[group.method]]
      rows.append((setting, group.method, str(len(results)), *cells))
    if set(PAIR) <= set(means):
      seeds = '/'.join(str(len(r)) for m in PAIR for g, r in own if g.method == m)
      cells = [_pair(*x) for x in zip(*(means[m] for m in PAIR), strict=True)]
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


def deciles_table(groups: list[Group]) -> Table:
  """fig:uncertainty_deciles in numbers: does U rank held-out error?"""
  rows = []
  for group, results in with_data(groups, 'gap'):
    names = dict.fromkeys(k for x in results for k in x.get('deciles', {}))
    for name in names:
      own = [x['deciles'][name] for x in results if name in x.get('deciles', {})]
      ends = [mean_of([x['gap'][i] for x in own]) for i in (0, -1)]
      rank = mean_of([x['rank_correlation'] for x in own])
      starts = str(round(mean_of([x['starts'] for x in own])))
      cells = [digits(x) for x in ends]
      cells += [NONE if rank is None else f'{rank:+.2f}']
      rows.append((group.setting, group.method, str(len(own)), name, starts, *cells))
  head = ('task', 'method', 'seeds', 'states', 'starts', 'gap, lowest U', 'gap, highest U', 'rank')
  notes = ['Held-out H15 gap in the lowest and highest decile of U; rank: Spearman, all starts.']
  return make_table('deciles', 'Disagreement and held-out error', head, rows, notes, 'gap')


def _by_setting(found: list[tuple[Group, list[dict]]]) -> dict[str, list]:
  settings = {}
  for group, results in found:
    settings.setdefault(group.setting, []).append((group, results))
  return settings


def _paper_row(table: str, setting: str, task: str) -> list[tuple[str, ...]]:
  """The paper's row for a task with its own rounding, none for tasks that it does not have."""
  cells = load_paper()[table]['tasks'].get(task)
  if not cells:
    return []
  unit = ' %' if table == 'gap' else '' if task.startswith('dmc_') else ' pp'
  show = lambda first, second, third: f'{first}/{second} ({third:+.1f}{unit})'
  seeds = str(load_paper()['protocol']['seeds'])
  return [
    (setting, f'{"/".join(PAIR)}, paper', f'{seeds}/{seeds}', *(show(*x) for x in cells.values()))
  ]


def _pair(first: float | None, second: float | None) -> str:
  """1.23/0.98 (−20.3 %)."""
  return f'{digits(first)}/{digits(second)} ({change(first, second)})'


def gap_value(result: dict, column: str) -> float | None:
  """A run without a replay or without held-out episodes lacks some."""
  try:
    return GAP_COLUMNS[column][1](result)
  except KeyError:
    return None
