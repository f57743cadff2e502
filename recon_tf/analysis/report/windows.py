"""Tables and the figure of what windows bring home, beside the main policy's steps."""

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recon_tf.analysis.report import style
from recon_tf.analysis.report.measures import collector_name
from recon_tf.analysis.report.tables import NONE, Table, digits, fixed, make_table
from recon_tf.analysis.runs import Group, command_line, settings_of, with_data
from recon_tf.analysis.stats import mean_of

METHODS = ('random_collect', 'no_recovery', 'recon')
WHO = ('windows', 'main', 'prefill')
PLACES = {'wall': 'at walls', 'free': 'free'}

_whole = lambda x: fixed(x, 0)
_two = lambda x: fixed(x, 2)
_percent = lambda x: NONE if x is None else f'{100 * x:.1f}'
_thousand = lambda x: digits(None if x is None else 1000 * x)

Columns = dict[str, tuple[str, Callable]]

BROUGHT: Columns = {
  'steps': ('steps', _whole),
  'distance': ('distance', fixed),
  'distance_90': ('90 % below', fixed),
  'speed': ('speed', _two),
  'action_length': ('length of actions', _two),
  'persistence': ('persistence', _two),
  'spread': ('spread', _two),
}
BROUGHT_MAZE: Columns = {
  'cells_off': ('cells off the way', lambda x: fixed(x, 1)),
  'steps_off': ('steps there', _whole),
  'wall_share': ('at walls %', _percent),
}
TAUGHT: Columns = {
  'steps': ('steps', _whole),
  'before': ('U before × 1000', _thousand),
  'after': ('U after × 1000', _thousand),
  'removed': ('removed × 1000', _thousand),
  'gap': ('H5 gap', digits),
}
RETURNED: Columns = {
  'tube': ('tube', fixed),
  'windows': ('windows', _whole),
  'begin': ('distance at begin', fixed),
  'end': ('at end', fixed),
  'outside': ('ended outside', _whole),
  'back': ('back %', _percent),
  'solved': ('solved first %', _percent),
  'cut': ('next window first %', _percent),
  'median': ('median decisions', lambda x: fixed(x, 1)),
}


def _cells(columns: Columns, parts: list[dict]) -> list[str]:
  """Means over seeds."""
  return [show(mean_of([x.get(key) for x in parts])) for key, (_, show) in columns.items()]


def _head(*columns: Columns) -> list[str]:
  return [name for part in columns for name, _ in part.values()]


def _name(group: Group, who: str) -> str:
  return collector_name(group) if who == 'windows' else who


def _actors(results: list[dict]) -> dict[str, list[dict]]:
  found = {who: [x['who'][who] for x in results if who in x['who']] for who in WHO}
  return {k: v for k, v in found.items() if v}


def brought_table(groups: list[Group]) -> Table:
  """Where steps led to and what actions they were; columns of mazes only where there is one."""
  found, rows = with_data(groups, 'windows'), []
  maze = any('cells_off' in x for _, results in found for x in results)
  columns = {**BROUGHT, **(BROUGHT_MAZE if maze else {})}
  for group, results in found:
    for who, parts in _actors(results).items():
      own = (group.setting, group.method, str(len(parts)), _name(group, who))
      rows.append((*own, *_cells(columns, parts)))
  notes = [
    'Distance to the nearest demonstrated state, its mean and where 90 % of the steps are below: '
    "metres in mazes, elsewhere deviations of the demonstrations' vectors per entry. Speed in m/s, "
    'elsewhere deviations per decision. Persistence: mean cosine between successive actions; '
    'spread: deviation of actions, mean over entries.'
  ]
  if maze:
    number = sorted({x['cells_off'] for _, r in found for x in r if 'cells_off' in x})
    notes += [
      f'The mazes have {" or ".join(map(str, number))} cells that no demonstration crosses. At a '
      'wall: no more than 2 cm between it and the ball.'
    ]
  head = ('task', 'method', 'seeds', 'who acted', *_head(columns))
  return make_table('windows', 'What windows bring home', head, rows, notes, 'windows')


def taught_table(groups: list[Group]) -> Table:
  """U of the transitions before and after learning from them, and the gap of the last model."""
  rows = []
  for group, results in with_data(groups, 'windows'):
    for who, parts in _actors(results).items():
      places = {'all': parts}
      places |= {v: [x[k] for x in parts if k in x] for k, v in PLACES.items()}
      for place, own in places.items():
        if any('after' in x for x in own):
          name = (group.setting, group.method, str(len(own)), _name(group, who), place)
          rows.append((*name, *_cells(TAUGHT, own)))
  notes = [
    'U of the same transitions under the last milestone before they were collected and under the '
    'newest weights; the difference is what data removed. Latents have no common scale, so read '
    "windows against the main policy's steps of the same run first. H5 gap: open-loop error of the "
    'newest model from where the steps led to.'
  ]
  head = ('task', 'method', 'seeds', 'who acted', 'where', *_head(TAUGHT))
  return make_table('windows_model', 'What windows teach the model', head, rows, notes, 'windows')


def returned_table(groups: list[Group]) -> Table:
  """What the main policy does after a window."""
  rows = []
  for group, results in with_data(groups, 'windows'):
    own = [x['returns'] for x in results if 'returns' in x]
    if own:
      name = (group.setting, group.method, str(len(own)), _name(group, 'windows'))
      rows.append((*name, *_cells(RETURNED, own)))
  notes = [
    'Windows that ended outside of the tube around the demonstrated way, the share of them after '
    'which the main policy was back in it before the next window or the end of the episode, and '
    'how many decisions that took; solved first: it reached the goal without. The tube is 0.25 m '
    'in mazes, elsewhere the 90th percentile of the distances of each demonstration to the others.'
  ]
  head = ('task', 'method', 'seeds', 'who acted', *_head(RETURNED))
  return make_table('windows_returns', 'Returns after windows', head, rows, notes, 'windows')


# Figure


@style.STYLED
def windows_figure(groups: list[Group]) -> Figure:
  """A row for each setting: U of window steps before and after, and returns by decision."""
  found = [x for x in with_data(groups, 'windows') if any('windows' in y['who'] for y in x[1])]
  settings = list(settings_of([x for x, _ in found])) or ['']
  names = style.titles([x for x, _ in found])
  figure, grid = style.make_grid(len(settings), 2, 4.2)
  for setting, row in zip(settings, grid, strict=True):
    own = [x for x in found if x[0].setting == setting]
    title = f'{names[setting]}: ' if setting else ''
    for axes, words, draw in zip(
      row, ('U of window steps', 'back after a window'), (falls, curves), strict=True
    ):
      axes.set_title(f'{title}{words}', fontsize=8.5)
      if not own:
        style.say(axes, f'No data yet. Make them with\n{command_line("windows")}')
      elif draw(axes, own) is False:
        style.say(axes, 'The runs have none of this.')
  return style.legend_above(figure, grid.flat)


def _look(group: Group) -> dict:
  return style.method_style([group.method])[group.method]


def falls(axes: Axes, found: list[tuple[Group, list[dict]]]) -> bool | None:
  """Bars are U under the newest weights, black edges U before; dots are seeds."""
  pick = lambda results, place, key: [
    1000 * x[key]
    for x in (r['who']['windows'] if place == 'all' else r['who']['windows'].get(place, {})
              for r in results if 'windows' in r['who'])
    if x.get(key) is not None
  ]  # fmt: skip
  places = [x for x in ('all', *PLACES) if any(pick(r, x, 'after') for _, r in found)]
  for number, (group, results) in enumerate(found):
    spots, width = style.side_by_side(len(places), number, len(found))
    after = [pick(results, x, 'after') for x in places]
    before = [np.mean(x) if x else np.nan for x in (pick(results, y, 'before') for y in places)]
    style.bars(axes, spots, after, width, _look(group)['color'], style.label(group.method))
    axes.bar(spots, before, 0.92 * width, fill=False, ec='black', lw=0.9)
  axes.set_xticks(range(len(places)), [PLACES.get(x, x) for x in places])
  axes.set_ylabel('U × 1000; edges: before')
  return None if places else False


def curves(axes: Axes, found: list[tuple[Group, list[dict]]]) -> bool | None:
  """Share of the windows that ended outside of the tube after which the main policy is back."""
  drawn = False
  for group, results in found:
    lines = [x['returns']['curve'] for x in results if 'curve' in x.get('returns', {})]
    if lines:
      line, look = 100 * np.mean(lines, 0), _look(group)
      place = {'markevery': 5, 'lw': 1.8, 'ms': 4}
      axes.plot(range(len(line)), line, **look, **place, label=style.label(group.method))
      drawn = True
  axes.set(xlabel='decisions after the window', ylabel='back in the tube (%)', ylim=(-3, 103))
  return None if drawn else False
