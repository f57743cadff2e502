"""One table and one figure of a sweep, from the final evaluations of its runs."""

import csv
import pathlib
import statistics
from collections.abc import Sequence

from recon_tf.cluster.grid import Point
from recon_tf.cluster.progress import table

FIELDS = ('task', 'method', 'settings', 'seed', 'step', 'measure', 'score')


def rows(points: Sequence[Point]) -> list[dict]:
  """A row per finished run."""
  found = []
  for point in points:
    result = point.result
    if result:
      measure = 'success' if 'success' in result else 'return'
      found.append({
        'task': point.config.task,
        'method': point.config.method.split('+')[0],
        'settings': ' '.join(f'{k}={v}' for k, v in point.values),
        'seed': point.config.seed,
        'step': result['step'],
        'measure': measure,
        'score': result[measure],
      })  # fmt: skip
  return found


def grouped(found: Sequence[dict]) -> dict[tuple, list[float]]:
  """Scores of all seeds by (task, method, settings, measure)."""
  groups = {}
  for row in found:
    key = (row['task'], row['method'], row['settings'], row['measure'])
    groups.setdefault(key, []).append(row['score'])
  return groups


def summary(found: Sequence[dict]) -> list[str]:
  """The table as lines: mean and range over seeds of every setting."""
  lines = [('task', 'method', 'settings', 'measure', 'seeds', 'mean', 'from', 'to')]
  for key, scores in grouped(found).items():
    numbers = statistics.fmean(scores), min(scores), max(scores)
    lines.append((*key, str(len(scores)), *(f'{x:.3f}' for x in numbers)))
  return [x.rstrip() for x in table(lines)]


def write(found: Sequence[dict], folder: pathlib.Path) -> list[pathlib.Path]:
  """Every run as CSV, the summary as text, and the figure."""
  folder.mkdir(parents=True, exist_ok=True)
  with (folder / 'results.csv').open('w', newline='') as file:
    writer = csv.DictWriter(file, FIELDS)
    writer.writeheader()
    writer.writerows(found)
  (folder / 'results.txt').write_text('\n'.join(summary(found)) + '\n')
  draw(found, folder / 'results.png')
  return [folder / f'results.{x}' for x in ('csv', 'txt', 'png')]


def draw(found: Sequence[dict], path: pathlib.Path) -> None:
  """A panel per task: every seed as a dot and their mean as a line, setting by setting."""
  import matplotlib

  matplotlib.use('Agg')
  from matplotlib import pyplot

  tasks = list(dict.fromkeys(x['task'] for x in found))
  size = (1.5 + 4 * len(tasks), 3.5)
  figure, axes = pyplot.subplots(1, len(tasks), figsize=size, squeeze=False, layout='constrained')
  for axis, task in zip(axes[0], tasks, strict=True):
    groups = {k: v for k, v in grouped(found).items() if k[0] == task}
    labels = [f'{method}\n{settings}'.strip() for _, method, settings, _ in groups]
    for x, scores in enumerate(groups.values()):
      axis.plot([x] * len(scores), scores, 'o', color='tab:blue', alpha=0.6)
      axis.plot([x - 0.25, x + 0.25], [statistics.fmean(scores)] * 2, color='black')
    axis.set_xticks(range(len(labels)), labels, rotation=30, ha='right', fontsize=8)
    axis.set_title(task)
    axis.set_ylabel(next(iter(groups))[3])
  figure.savefig(path, dpi=120)
  pyplot.close(figure)
