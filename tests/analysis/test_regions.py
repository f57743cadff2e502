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
  points, cloud = rng.normal(size=(50, 2)), rng.normal(size=(40, 2))
  expected = np.sqrt(((points[:, None] - cloud[None]) ** 2).sum(-1)).min(1)
  np.testing.assert_allclose(regions.expert_distance(points, cloud), expected)


def test_shares_count_who_acted_after_the_random_steps(tmp_path):
  walk(tmp_path / 'demos', [[0, 0], [1, 0], [2, 0]])
  run = make_run(tmp_path / 'runs', demos=str(tmp_path / 'demos'), prefill=3)
  folder = run.path / 'train_episodes'
  # Three random steps, which count for nobody; their start never counts.
  walk(folder, [[9, 9], [9, 9], [9, 9], [9, 9]], [0, 0, 0, 0])
  # Distances of the five steps: 0, 0.02, 0.05 (explorer), 0.05, 5 (main).
  walk(folder, [[7, 7], [1, 0], [1, 0.02], [2, -0.05], [2, 0.05], [2, 5]], [0, 1, 1, 1, 0, 0])
  steps = regions.real_steps(run)
  assert len(steps.distance) == 5
  explorer, main = steps.shares(True), steps.shares(False)
  assert explorer == pytest.approx({'support': 2 / 3, 'near': 1 / 3, 'far': 0})
  assert main == pytest.approx({'support': 0, 'near': 1 / 2, 'far': 1 / 2})


def test_only_the_demonstrations_of_the_run_are_its_expert(tmp_path):
  walk(tmp_path / 'demos', [[0, 0], [1, 0]])
  walk(tmp_path / 'demos', [[5, 5], [6, 6]])
  demos = str(tmp_path / 'demos')
  cloud = lambda count: regions.expert_cloud(
    make_run(tmp_path / str(count), demos=demos, demo_episodes=count)
  )
  assert len(cloud(2)) == 4
  assert len(cloud(1)) == 2


def test_what_is_missing_gives_nothing(tmp_path):
  walk(tmp_path / 'demos', [[0, 0], [1, 0]])
  gone = make_run(tmp_path / 'a', demos=str(tmp_path / 'nowhere'), prefill=0)
  walk(gone.path / 'train_episodes', [[0, 0], [0, 0]], [0, 1])
  assert regions.real_steps(gone) is None
  empty = make_run(tmp_path / 'b', demos=str(tmp_path / 'demos'))
  assert regions.real_steps(empty) is None
  damaged = make_run(tmp_path / 'c', demos=str(tmp_path / 'demos'), prefill=0)
  walk(damaged.path / 'train_episodes', [[0, 0], [0, 0]], [0, 0])
  (damaged.path / 'train_episodes' / 'broken.npz').write_bytes(b'PK')
  steps = regions.real_steps(damaged)
  assert steps.shares(True) is None  # nobody explored
  assert steps.shares(False)['support'] == 1


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
  assert len(regions.real_steps(run).distance) == 1
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
  steps = regions.real_steps(run)
  assert steps.position is None
  assert steps.shares(True) is None
  assert steps.mean_distance(True) == pytest.approx(0, abs=1e-4)
  unit = (shown / [shown[:, 0].std(), shown[:, 1].std(), 1])[:, :2]
  far = there[2, :2] / shown[:, :2].std(0)
  expected = np.sqrt(((unit - far) ** 2).mean(1)).min()
  assert steps.mean_distance(False) == pytest.approx(expected, rel=1e-4)
