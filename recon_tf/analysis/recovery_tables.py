"""Recoverability, acquisition gain and allocation of real steps in tables."""

from recon_tf.analysis import regions
from recon_tf.analysis.groups import Group
from recon_tf.analysis.measured import anchors_differ, mean_of, with_data
from recon_tf.analysis.texts import NONE, Table, digits, fixed, make_table


def recoverability_table(groups: list[Group]) -> Table:
  """AUROC of the gate and of the oracle, and how well the gate is calibrated."""
  rows, horizons, tubes = [], [], set()
  found = with_data(groups, 'recoverability')
  for _, results in found:
    horizons = horizons or [int(x) for x in results[0]['calibration']]
    tubes |= {x['tube'] for x in results}
  for group, results in found:
    at = lambda key, h, results=results: mean_of(
      [x[key][x['horizons'].index(h)] for x in results if h in x['horizons']]
    )
    cells = [f'{mean_of([x["candidates"] for x in results]):.0f}']
    cells += [f'{100 * mean_of([x["recovered"] for x in results]):.0f}']
    cells += [fixed(at(key, h)) for h in horizons for key in ('auroc', 'oracle')]
    errors = [[x['calibration'].get(str(h), {}).get('error') for x in results] for h in horizons]
    cells += [fixed(mean_of(x)) for x in errors]
    rows.append((group.setting, group.method, str(len(results)), *cells))
  head = ['task', 'method', 'seeds', 'states', 'recovered %']
  head += [f'{name} H{h}' for h in horizons for name in ('AUROC', 'oracle')]
  head += [f'calibration error H{h}' for h in horizons]
  notes = [
    'Does G, from imagination, tell from which states the main policy comes back within 15 real '
    f'steps to {", ".join(map(str, sorted(tubes)))} of the expert? The oracle sees true distances.',
    'The paper prints no numbers of its figure.',
  ]
  title = 'Recoverability: prediction and reality'
  return make_table('recoverability', title, tuple(head), rows, notes, 'recoverability')


def tube_table(groups: list[Group]) -> Table:
  """What counts as back decides what the gate is asked: the same for wider tubes."""
  rows = []
  names = ('auroc_5', 'oracle_5', 'auroc_15', 'oracle_15')
  for group, results in with_data(groups, 'recoverability'):
    tubes = {}  # seeds may have been measured with different ones
    for x in (x for result in results for x in result.get('tubes', ())):
      tubes.setdefault(f'{x["tube"]:.2f}', []).append(x)
    for tube, own in tubes.items():
      mean = lambda key, own=own: mean_of([x[key] for x in own])
      back = mean('recovered')
      cells = [tube, f'{mean("candidates"):.0f}']
      cells += [NONE if back is None else f'{100 * back:.0f}', *(fixed(mean(x)) for x in names)]
      rows.append((group.setting, group.method, str(len(own)), *cells))
  head = ('task', 'method', 'seeds', 'tube', 'states', 'recovered %', 'AUROC H5', 'oracle H5',
          'AUROC H15', 'oracle H15')  # fmt: skip
  notes = [
    'The states outside of a tube, and whether the main policy comes back into it. Around few '
    'demonstrations a narrow tube counts a parallel way to the goal as lost.'
  ]
  title = 'Recoverability by what counts as back'
  return make_table('tubes', title, head, rows, notes, 'recoverability')


def acquisition_table(groups: list[Group]) -> Table:
  """Fall of U on fixed anchors, in all and by online step."""
  rows = []
  found = with_data(groups, 'acquisition')
  for group, results in found:
    mean = lambda pick, results=results: mean_of([pick(x) for x in results])
    ends = [mean(lambda x, i=i: 1000 * x['uncertainty'][i]) for i in (0, -1)]
    steps = f'{mean(lambda x: x["steps"][0]):.0f} to {mean(lambda x: x["steps"][-1]):.0f}'
    gain = [mean(lambda x: 1000 * x['gain']), mean(lambda x: 1e6 * x['gain_per_step'])]
    anchors = f'{mean(lambda x: x["anchors"]):.0f}'
    cells = [digits(x) for x in (*ends, *gain)]
    rows.append((group.setting, group.method, str(len(results)), anchors, steps, *cells))
  head = ('task', 'method', 'seeds', 'anchors', 'online steps', 'U before × 1000',
          'U after × 1000', 'ΔU × 1000', 'ΔU a step × 10⁶')  # fmt: skip
  notes = [
    'Methods compare only on the same anchors: give those of one run to the others with --anchors.',
    'The paper prints no numbers of its figure.',
  ]
  notes += [
    f'These are on different anchors and do not compare: {x}.' for x in anchors_differ(found)
  ]
  return make_table('acquisition', 'Acquisition gain', head, rows, notes, 'acquisition')


def allocation_table(groups: list[Group]) -> Table:
  """Where real steps went: regions by distance to the expert's states."""
  rows = []
  for group in groups:
    found = [x for x in map(regions.real_steps, group.runs) if x]
    if not found:
      continue
    for who, explorer in ((collector_name(group), True), ('main', False)):
      shares = [x for x in (steps.shares(explorer) for steps in found) if x]
      if shares:
        cells = [f'{100 * mean_of([x[name] for x in shares]):.1f}' for name in regions.REGIONS]
        cells += [fixed(mean_of([x.mean_distance(explorer) for x in found]))]
        rows.append((group.setting, group.method, str(len(shares)), who, *cells))
  columns = (f'{x} %' for x in regions.REGIONS)
  head = ('task', 'method', 'seeds', 'who acted', *columns, 'mean distance')
  notes = [
    'Shares of the states that real steps led to, random prefill left out: support up to '
    f'{regions.SUPPORT}, near up to {regions.NEAR}, far beyond, and how far they are on average '
    'from the nearest position of the demonstrations. The paper prints no numbers.'
  ]
  missing = (
    'Steps by region need a maze: collected episodes with log_position, and the demonstrations.'
  )
  return Table('allocation', 'Allocation of real steps', head, tuple(rows), tuple(notes), missing)


def collector_name(group: Group) -> str:
  """Who acts in the windows."""
  return 'random' if group.runs[0].config.windows.collector == 'random' else 'explorer'
