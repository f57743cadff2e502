"""The paper's tables from what was measured, by hand."""

import numpy as np

from recon_tf.analysis.report.registry import FIGURES
from recon_tf.analysis.runs import find_runs, group_runs
from tests.helpers.written_measures import (
  write,
  write_acquisition,
  write_gap,
  write_recoverability,
  write_robust,
)
from tests.helpers.written_runs import make_run, walk


def tables(folder):
  groups = group_runs(find_runs(folder))
  made = [make(groups) for entry in FIGURES.values() for make in entry.tables]
  return {x.name: x for x in made}


def test_pairs_with_the_papers_below(tmp_path):
  for seed, success in enumerate((0.4, 0.6)):
    run = make_run(tmp_path, 'cmil', seed, 'maze_umaze')
    write_robust(run, {'Clean': success, 'Delay': 0.25})
    write_gap(run, 1.0 + seed, 0.5, 0.004)
  run = make_run(tmp_path, 'recon', 0, 'maze_umaze')
  write_robust(run, {'Clean': 0.75, 'Delay': 0.2})
  write_gap(run, 1.2, 0.4, 0.005)
  found = tables(tmp_path)
  assert found['robustness'].rows == (
    ('maze_umaze', 'cmil', '2', '50.0', '–', '25.0', '–'),
    ('maze_umaze', 'recon', '1', '75.0', '–', '20.0', '–'),
    ('maze_umaze', 'cmil/recon', '2/1', '50.0/75.0 (+25.0 pp)', '–/–', '25.0/20.0 (-5.0 pp)',
     '–/–'),
    ('maze_umaze', 'cmil/recon, paper', '3/3', '40.0/45.0 (+5.0 pp)', '31.7/38.3 (+6.7 pp)',
     '36.7/44.2 (+7.5 pp)', '32.5/38.3 (+5.8 pp)'),
  )  # fmt: skip
  assert found['gap'].rows == (
    ('maze_umaze', 'cmil', '2', '1.5', '0.5', '4'),
    ('maze_umaze', 'recon', '1', '1.2', '0.4', '5'),
    ('maze_umaze', 'cmil/recon', '2/1', '1.5/1.2 (-20.0 %)', '0.5/0.4 (-20.0 %)',
     '4/5 (+25.0 %)'),
    ('maze_umaze', 'cmil/recon, paper', '3/3', '7.049/7.06 (+0.2 %)', '2.45/2.471 (+0.9 %)',
     '8.1/7.7 (-5.3 %)'),
  )  # fmt: skip
  assert ('maze_umaze', 'recon', '1', 'far', '50', '1.8', '5.4', '+0.50') in found['deciles'].rows


def test_recoverability_and_acquisition(tmp_path):
  for seed in (0, 1):
    run = make_run(tmp_path, 'recon', seed)
    auroc = [0.5 + 0.1 * seed] * 15
    write_recoverability(run, [*auroc[:14], None] if seed else auroc, 0.2)
    write_acquisition(run, {0: 0.02, 500: 0.015 - 0.001 * seed, 1000: 0.01 - 0.002 * seed})
  found = tables(tmp_path)
  (row,) = found['recoverability'].rows
  assert found['recoverability'].head[5:7] == ('AUROC H5', 'oracle H5')
  # At H15 only one seed has candidates of both kinds.
  assert row[:5] == ('maze_pointmaze', 'recon', '2', '100', '60')
  assert row[5:] == ('0.550', f'{0.7 + 0.3 * 4 / 14:.3f}', '0.500', '1.000', '0.200', '0.100')
  (row,) = found['tubes'].rows
  cells = ('0.20', '80', '70', '0.550', '0.800', '0.500', '1.000')
  assert row == ('maze_pointmaze', 'recon', '2', *cells)
  (row,) = found['acquisition'].rows
  assert row == ('maze_pointmaze', 'recon', '2', '500', '0 to 1000', '20', '9', '11', '11')


def test_seeds_with_other_tubes_are_not_averaged(tmp_path):
  for seed, tube in enumerate((0.2, 0.4)):
    run = make_run(tmp_path, 'recon', seed)
    write_recoverability(run, [0.5 + seed / 10] * 15, tube=tube)
  rows = tables(tmp_path)['tubes'].rows
  assert [x[2:4] + x[6:7] for x in rows] == [('1', '0.20', '0.500'), ('1', '0.40', '0.600')]


def test_gains_on_different_anchors_are_named(tmp_path):
  for method in ('cmil', 'recon'):
    same, other = (make_run(tmp_path, method, seed) for seed in (0, 1))
    write_acquisition(same, {0: 0.02, 10: 0.01}, anchor_digest='a')
    if method == 'cmil':
      write_acquisition(other, {0: 0.02, 10: 0.01}, anchor_digest='b')
  # Seeds may have anchors of their own, methods with one seed may not.
  assert not any('different' in x for x in tables(tmp_path)['acquisition'].notes)
  write_acquisition(other, {0: 0.02, 10: 0.01}, anchor_digest='c')
  assert 'do not compare: maze_pointmaze' in tables(tmp_path)['acquisition'].notes[-1]


def test_a_run_without_held_out_episodes_lacks_only_those(tmp_path):
  run = make_run(tmp_path, 'cmil', task='gym_Robot-v0')
  write(run, 'gap', {'replay': {'gap': 0.25, 'uncertainty': 0.1}, 'left_out': {'expert': 'gone'}})
  found = tables(tmp_path)
  # A task of one's own has no row of the paper.
  assert found['gap'].rows == (('gym_Robot-v0', 'cmil', '1', '–', '0.25', '–'),)
  assert found['deciles'].rows == ()


def test_without_data_a_sentence_names_the_command(tmp_path):
  run = make_run(tmp_path, 'cmil')
  (run.path / 'eval' / 'robust.json').write_text('{"half')
  found = tables(tmp_path)
  assert all(not x.rows for x in found.values())
  assert found['robustness'].markdown() == (
    'No data yet; `python scripts/evaluate.py RUN --robust` makes them.'
  )
  assert 'diagnose.py RUN --what acquisition' in found['acquisition'].markdown()


def test_allocation_tells_who_acted(tmp_path):
  walk(tmp_path / 'demos', [[0, 0], [1, 0]])
  for method, explorer in (('cmil', [0, 0, 0]), ('random_collect', [0, 0, 1])):
    run = make_run(tmp_path / 'runs', method, demos=str(tmp_path / 'demos'), prefill=0)
    walk(run.path / 'train_episodes', [[0, 0], [0, 0.01], [0, 0.05]], explorer)
  assert tables(tmp_path / 'runs')['allocation'].rows == (
    ('maze_pointmaze', 'cmil', '1', 'main', '50.0', '50.0', '0.0', '0.030'),
    ('maze_pointmaze', 'random_collect', '1', 'random', '0.0', '100.0', '0.0', '0.050'),
    ('maze_pointmaze', 'random_collect', '1', 'main', '100.0', '0.0', '0.0', '0.010'),
  )


def test_markdown_is_a_table(tmp_path):
  write_robust(make_run(tmp_path, 'recon'), {'Clean': 1.0})
  lines = tables(tmp_path)['robustness'].markdown().splitlines()
  assert lines[0] == '| task | method | seeds | Clean | Noise | Delay | Impulse/scale |'
  assert {x.count('|') for x in lines[:4]} == {8}
  assert lines[-1].startswith('- Episodes per configuration: 20')
  assert np.all([not x or x[0] in '|-' for x in lines])
