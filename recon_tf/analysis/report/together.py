"""RECON against another method over several comparisons at once, each with seeds of its own."""

from recon_tf.analysis.report.style import task_name
from recon_tf.analysis.report.tables import Table
from recon_tf.analysis.runs import grouped
from recon_tf.analysis.stats import differences_interval

RECON = 'recon'
LEAST = 5  # seeds of both methods for a comparison to count
METRICS = {
  'recovery': 'recovery',
  'recovery_cells': 'from cells off the way',
  'recovery_distance': 'from places in sight of the way',
}


def together_table(summary: list[dict]) -> Table:
  """From the entries of summary.json: recovery, all comparisons together and by task."""
  rows, own = [], [x for x in summary if not x['method'].startswith(f'{RECON}-')]
  for metric, words in METRICS.items():
    entries = [x for x in own if x['metric'] == metric]
    for other in dict.fromkeys(x['method'] for x in entries if x['method'] != RECON):
      pairs = _pairs(entries, other)
      tasks = grouped(pairs, lambda x: x['task'])
      for task, mine in tasks.items():
        rows += _row(task_name(task), words, other, mine)
      if len(tasks) > 1:
        rows += _row('all', words, other, pairs)
  head = ('task', 'evaluation', 'RECON −', 'comparisons', 'seeds', 'difference', '95 % interval')
  notes = (
    'In points. Each comparison weighs the same; seeds are redrawn within each method of each.',
    f'Comparisons in which both methods have {LEAST} seeds. No protocol planned to put them '
    'together, and later ones were made because of earlier ones.',
  )
  title = 'Recovery, comparisons put together'
  return Table('together', title, head, tuple(rows), notes if rows else ())


def _pairs(entries: list[dict], other: str) -> list[dict]:
  """The values of both methods in every comparison that has enough of them."""
  found = []
  place = lambda x: (x['variant'], x['task'], x['observations'])
  for (variant, task, _), own in grouped(entries, place).items():
    values = {x['method']: x['values'] for x in own}
    pair = [values.get(RECON, ()), values.get(other, ())]
    if min(map(len, pair)) >= LEAST:
      found.append({'variant': variant, 'task': task, 'values': pair})
  return found


def _row(task: str, words: str, other: str, pairs: list[dict]) -> list[tuple[str, ...]]:
  """One line; a single comparison has its own elsewhere."""
  if len(pairs) < 2:
    return []
  mean, (low, high) = differences_interval([x['values'] for x in pairs])
  seeds = sum(len(x['values'][0]) for x in pairs)
  names = ', '.join(f'`{x["variant"]}`' for x in pairs)
  shown = f'{100 * mean:+.1f}', f'{100 * low:+.1f} to {100 * high:+.1f}'
  return [(task, words, f'`{other}`', names, str(seeds), *shown)]
