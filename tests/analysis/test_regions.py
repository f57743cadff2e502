"""Real steps by region, against a brute-force version and by hand."""

import numpy as np
import pytest

from recon_tf.analysis import regions
from recon_tf.analysis.cost import run_cost
from recon_tf.common import save_episode
from tests.helpers.written_runs import make_run, walk


def test_boundaries_belong_to_the_nearer_region():
  distance = np.array([0, 0.025, 0.025001, 0.1, 0.100001, 3])
  names = [regions.REGIONS[i] for i in regions.region_of(distance)]
  assert names == ['support', 'support', 'near', 'near', 'far', 'far']


def test_distance_is_that_to_the_nearest_expert_state():
  rng = np.random.default_rng(0)
  points, states = rng.normal(size=(50, 2)), rng.normal(size=(40, 2))
  expected = np.sqrt(((points[:, None] - states[None]) ** 2).sum(-1)).min(1)
  way = regions.Way([{regions.PLANE: states[:15]}, {regions.PLANE: states[15:]}])
  assert way.plane
  np.testing.assert_allclose(way.distance(points), expected)


def test_shares_count_who_acted_after_the_random_steps(tmp_path):
  walk(tmp_path / 'demos', [[0, 0], [1, 0], [2, 0]])
  run = make_run(tmp_path / 'runs', demos=str(tmp_path / 'demos'), prefill=3)
  folder = run.path / 'train_episodes'
  # Three random steps, which count for nobody; their start never counts.
  walk(folder, [[9, 9], [9, 9], [9, 9], [9, 9]], [0, 0, 0, 0])
  # Distances of the five steps: 0, 0.02, 0.05 (explorer), 0.05, 5 (main).
  walk(folder, [[7, 7], [1, 0], [1, 0.02], [2, -0.05], [2, 0.05], [2, 5]], [0, 1, 1, 1, 0, 0])
  found = regions.allocation(run)
  shares = lambda who: {k: found[who][k] for k in regions.REGIONS}
  assert (found['explorer']['steps'], found['main']['steps']) == (3, 2)
  assert shares('explorer') == pytest.approx({'support': 2 / 3, 'near': 1 / 3, 'far': 0})
  assert shares('main') == pytest.approx({'support': 0, 'near': 1 / 2, 'far': 1 / 2})
  assert found['explorer']['distance'] == pytest.approx(0.07 / 3)
  assert found['main']['distance'] == pytest.approx(5.05 / 2)


def test_only_the_demonstrations_of_the_run_are_its_expert(tmp_path):
  walk(tmp_path / 'demos', [[0, 0], [1, 0]])
  walk(tmp_path / 'demos', [[5, 5], [6, 6]])
  demos = str(tmp_path / 'demos')
  way = lambda count: regions.find_plane(
    make_run(tmp_path / str(count), demos=demos, demo_episodes=count)
  )
  assert len(way(2).states) == 4
  assert len(way(1).states) == 2


def test_a_map_counts_steps_by_cell_and_shows_the_expert():
  half = regions.CELL / 2
  places = np.array([[half, half], [half, half], [-half, 5 * half]])
  found = regions.map_visits(places, np.array([[0.0, 0.123], [1.0, 2.0]]))
  assert found['low'] == [-1, 0]
  assert found['counts'] == [[0, 0, 1], [2, 0, 0]]
  assert found['expert'] == [[0.0, 0.12], [1.0, 2.0]]


def test_what_is_missing_gives_nothing(tmp_path):
  walk(tmp_path / 'demos', [[0, 0], [1, 0]])
  gone = make_run(tmp_path / 'a', demos=str(tmp_path / 'nowhere'), prefill=0)
  walk(gone.path / 'train_episodes', [[0, 0], [0, 0]], [0, 1])
  assert regions.allocation(gone) is None
  empty = make_run(tmp_path / 'b', demos=str(tmp_path / 'demos'))
  assert regions.allocation(empty) is None
  damaged = make_run(tmp_path / 'c', demos=str(tmp_path / 'demos'), prefill=0)
  walk(damaged.path / 'train_episodes', [[0, 0], [0, 0]], [0, 0])
  (damaged.path / 'train_episodes' / 'broken.npz').write_bytes(b'PK')
  found = regions.allocation(damaged)
  assert 'explorer' not in found  # nobody explored
  assert found['main']['support'] == 1


def test_damaged_files_are_named_and_left_out(tmp_path, capsys):
  demos = tmp_path / 'demos'
  walk(demos, [[0, 0], [1, 0]])
  (demos / 'meta.json').write_text('{"successes": 3}')
  run = make_run(tmp_path / 'runs', demos=str(demos), prefill=0)
  walk(run.path / 'train_episodes', [[0, 0], [1, 0]], [0, 0])
  broken = run.path / 'train_episodes' / '0-broken-1.npz'
  state = run.path / 'checkpoints' / '000000000001.npz'
  state.parent.mkdir(exist_ok=True)
  for path in (broken, state):
    path.write_bytes(b'PK')
  assert regions.allocation(run)['main']['support'] == 1
  assert regions.demo_success(run) is None
  assert run_cost(run).parts is None
  said = capsys.readouterr().err
  assert f"the episode '{broken}' is damaged and left out" in said
  assert f"the checkpoint '{state}' is damaged and left out" in said
  assert "'successes' is 3" in said


def test_without_a_plane_vectors_are_compared_in_their_deviations(tmp_path):
  """Entries of any scale count alike, those that never change do not count."""
  rng = np.random.default_rng(0)
  shown = rng.normal(size=(60, 3)) * [1, 100, 0]
  save = lambda folder, rows, **more: save_episode(
    folder, {'action': np.zeros((len(rows), 2), np.float32), 'reward': np.zeros(len(rows)),
             'state': rows.astype(np.float32), **more}
  )  # fmt: skip
  save(tmp_path / 'demos', shown)
  options = {'task': 'metaworld_hammer', 'demos': str(tmp_path / 'demos'), 'prefill': 0}
  run = make_run(tmp_path / 'runs', **options)
  acted = np.array([0, 1, 0], np.float32)
  there = np.stack([shown[0], shown[1], shown[2] + [5 * shown[:, 0].std(), 0, 7]])
  save(run.path / 'train_episodes', there, log_explorer=acted)
  found = regions.allocation(run)
  assert 'map' not in found
  assert set(found['explorer']) == {'steps', 'distance'}  # no regions
  assert found['explorer']['distance'] == pytest.approx(0, abs=1e-4)
  unit = (shown / [shown[:, 0].std(), shown[:, 1].std(), 1])[:, :2]
  far = there[2, :2] / shown[:, :2].std(0)
  expected = np.sqrt(((unit - far) ** 2).mean(1)).min()
  assert found['main']['distance'] == pytest.approx(expected, rel=1e-4)
