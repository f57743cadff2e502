"""Exports of every method: parity over an episode, plain TensorFlow, TFLite, cards, refusals."""

import json
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from recon_tf.common import UserError
from recon_tf.export import export_policy
from recon_tf.policy import load_policy
from tests.helpers import policy_fixtures as fixtures

LENGTH = 30
CASES = [(x, 0) for x in fixtures.METHODS] + [('recon', 32), ('dadac', 32)]


@pytest.fixture(scope='module', params=CASES, ids=lambda x: f'{x[0]}-{x[1]}')
def exported(request, tmp_path_factory):
  method, image = request.param
  folder = tmp_path_factory.mktemp('exports')
  changes = {'iqmpc': {'iterations': 2, 'samples': 16, 'elites': 4, 'policy_samples': 2}}
  run = fixtures.write_run(folder / method, 'cpu', method, image=image, **changes)
  export_policy(run, folder / 'out')
  policy = load_policy(run)
  episode = fixtures.observations(policy.spaces, LENGTH)
  return folder / 'out', policy, episode, [policy.act(x) for x in episode]


def test_saved_model_gives_the_same_actions(exported):
  out, policy, episode, expected = exported
  loaded = load_policy(out)
  assert loaded.info == policy.info
  np.testing.assert_allclose([loaded.act(x) for x in episode], expected, atol=1e-6)


def test_lite_gives_the_same_actions(exported):
  out, policy, episode, expected = exported
  if policy.info['method'] == 'iqmpc':
    assert not (out / 'policy.tflite').exists()
    assert 'No TFLite file: the planner' in (out / 'README.md').read_text()
    return
  np.testing.assert_allclose(lite_actions(out, policy, episode), expected, atol=1e-4)


def lite_actions(out, policy, episode) -> np.ndarray:
  """What the TFLite file does in an episode, its memory passed on by hand."""
  act = tf.lite.Interpreter(str(out / 'policy.tflite')).get_signature_runner('act')
  card = json.loads((out / 'policy.json').read_text())
  memory = {
    f'memory_{k}': np.zeros([1, *v['shape']], v['dtype']) for k, v in card['memory'].items()
  }
  actions = []
  for step, obs in enumerate(episode):
    arrays, _ = policy.spaces.inputs(obs, policy.inputs)
    memory = act(**arrays, is_first=np.array([step == 0]), **memory)
    actions.append(memory.pop('action')[0])
  return np.stack(actions)


@pytest.mark.parametrize('exported', [(x, 0) for x in fixtures.METHODS], indirect=True)
def test_comparison_notices_every_weight(exported):
  """A changed weight of the SavedModel moves actions by more than either tolerance."""
  out, policy, episode, expected = exported
  loaded = tf.saved_model.load(str(out / 'saved_model'))
  rows = [policy.spaces.inputs(x, policy.inputs)[0] for x in episode[:8]]

  def acted() -> np.ndarray:
    memory, actions = dict(loaded.signatures['initial'](tf.constant(1))), []
    for arrays in rows:
      tensors = {k: tf.constant(v) for k, v in arrays.items()}
      memory = dict(loaded.signatures['act'](**memory, **tensors))
      actions.append(memory.pop('action').numpy()[0])
      memory['is_first'] = tf.constant([False])
    return np.stack(actions)

  np.testing.assert_allclose(acted(), expected[:8], atol=1e-6)
  planner = policy.info['method'] == 'iqmpc'
  # It takes one of its samples: a small change often leaves the choice as it is.
  strength, unnoticed = 1.0 if planner else 0.02, []
  for weight in loaded.weights:
    before = weight.numpy()
    if before.dtype.kind != 'f':
      continue
    moved = before + strength * (1 + np.abs(before))
    weight.assign(moved if before.ndim else 0 * before)  # a flag says whether scales are known
    if np.abs(acted() - expected[:8]).max() < 1e-4:
      unnoticed.append(before.shape)
    weight.assign(before)
  assert len(loaded.weights) > 5
  assert unnoticed == ([(5, 1)] if planner else [])  # the bias of values favours no plan


PLAIN = """
import json, sys

sys.modules['recon_tf'] = None  # as if it were not installed
import numpy as np
import tensorflow as tf

folder, inputs = sys.argv[1:]
arrays = dict(np.load(inputs))
model = tf.saved_model.load(f'{folder}/saved_model')
act, memory = model.signatures['act'], model.signatures['initial'](tf.constant(1))
actions = []
for step in range(len(next(iter(arrays.values())))):
  memory = dict(act(**memory, **{k: tf.constant(v[step]) for k, v in arrays.items()}))
  actions.append(memory.pop('action').numpy()[0].tolist())
  memory['is_first'] = tf.constant([False])
print(json.dumps(actions))
"""


@pytest.mark.parametrize('exported', [('recon', 0), ('iqmpc', 0)], indirect=True)
def test_plain_tensorflow_acts_without_the_package(exported, tmp_path):
  out, policy, episode, expected = exported
  rows = [policy.spaces.inputs(x, policy.inputs)[0] for x in episode]
  np.savez(tmp_path / 'inputs.npz', **{k: np.stack([x[k] for x in rows]) for k in rows[0]})
  command = [sys.executable, '-c', PLAIN, str(out), str(tmp_path / 'inputs.npz')]
  env = {'PATH': '/usr/bin:/bin', 'TF_ENABLE_ONEDNN_OPTS': '1'}
  options = {'capture_output': True, 'text': True, 'check': False, 'cwd': tmp_path}
  result = subprocess.run(command, **options, env=env)
  assert result.returncode == 0, result.stderr[-1000:]
  np.testing.assert_allclose(json.loads(result.stdout), expected, atol=1e-6)


def test_small_and_described(exported):
  out, policy, _, _ = exported
  sizes = {x.name: x.stat().st_size for x in out.rglob('*') if x.is_file()}
  lite = sizes.pop('policy.tflite', 0)
  assert lite <= 2e6
  assert sum(sizes.values()) <= 2e6
  card = (out / 'README.md').read_text()
  for part in (policy.info['task'], policy.info['method'], 'success 0.50', '## Limits', 'abc'):
    assert part in card


def test_written_anew_but_not_over_other_files(tmp_path):
  run = fixtures.write_run(tmp_path / 'run', 'cpu', 'debug', 'bc_raw')
  export_policy(run, tmp_path / 'out', tflite=False)
  export_policy(run, tmp_path / 'out')
  assert (tmp_path / 'out' / 'policy.tflite').exists()
  (tmp_path / 'other').mkdir()
  (tmp_path / 'other' / 'thesis.tex').write_text('years of work')
  with pytest.raises(UserError, match='holds other files'):
    export_policy(run, tmp_path / 'other')
  with pytest.raises(UserError, match='nothing to export'):
    export_policy(tmp_path / 'other', tmp_path / 'out')


def test_half_precision_fits_the_gallery(tmp_path):
  run = fixtures.write_run(tmp_path / 'run', 'cpu', 'recon')
  out = tmp_path / 'out'
  export_policy(run, out)
  whole = (out / 'policy.tflite').stat().st_size
  card = export_policy(run, out, half=True, limit=2_000_000)
  assert card['tflite_half']
  assert (out / 'policy.tflite').stat().st_size < 0.55 * whole
  assert 'weights in 16 bits' in (out / 'README.md').read_text()
  before = (out / 'policy.json').read_bytes()
  with pytest.raises(UserError, match='more than 1,000'):
    export_policy(run, out, limit=1000)
  assert (out / 'policy.json').read_bytes() == before
  assert (out / 'policy.tflite').exists()


def test_exporting_again_writes_the_same_weights(tmp_path):
  run = fixtures.write_run(tmp_path / 'run', 'cpu', 'debug', 'recon')
  files = []
  for name in ('first', 'second'):
    export_policy(run, tmp_path / name, tflite=False)
    (path,) = (tmp_path / name).glob('saved_model/variables/*.data*')
    files.append(path.read_bytes())
  assert files[0] == files[1]


def test_old_and_damaged_exports_are_one_sentence(tmp_path):
  run = fixtures.write_run(tmp_path / 'run', 'cpu', 'debug', 'bc_raw')
  out = tmp_path / 'out'
  card = export_policy(run, out, tflite=False)
  (out / 'saved_model' / 'saved_model.pb').unlink()
  with pytest.raises(UserError, match='no readable SavedModel'):
    load_policy(out)
  export_policy(run, out, tflite=False)
  (weights,) = out.glob('saved_model/variables/*.data*')
  weights.write_bytes(weights.read_bytes()[:50])
  with pytest.raises(UserError, match='no readable SavedModel'):
    load_policy(out)
  export_policy(run, out, tflite=False)
  (out / 'policy.json').write_text(json.dumps({**card, 'inputs': ['place']}))
  with pytest.raises(UserError, match=r'not the one that policy\.json describes'):
    load_policy(out)
  (out / 'policy.json').write_text(json.dumps({'format': card['format']}))
  with pytest.raises(UserError, match=r"lacks \['info', 'inputs'"):
    load_policy(out)
  with pytest.raises(UserError, match='is a file; give the folder'):
    load_policy(out / 'policy.json')
  for change, named in (
    ({'info': 'x'}, '\'info\' is "x", not an object'),
    ({'info': {k: v for k, v in card['info'].items() if k != 'env'}}, "'env' is missing"),
    ({'info': {**card['info'], 'score': {'success': 'y'}}}, '\'success\' is "y", not a number'),
    ({'memory': dict.fromkeys(card['memory'], 1) or {'x': 1}}, 'describes|holds no JSON object'),
    ({'spaces': {}}, "'spaces' in .*: the field 'observations' is missing"),
  ):
    (out / 'policy.json').write_text(json.dumps({**card, **change}))
    with pytest.raises(UserError, match=named):
      load_policy(out)
  (out / 'policy.json').write_text(json.dumps({**card, 'format': 0}))
  with pytest.raises(UserError, match='export the run anew'):
    load_policy(out)


def test_places_that_an_export_cannot_take_are_one_sentence(tmp_path):
  run = fixtures.write_run(tmp_path / 'run', 'cpu', 'debug', 'bc_raw')
  (tmp_path / 'file').write_text('')
  with pytest.raises(UserError, match="file' is a file; choose a folder"):
    export_policy(run, tmp_path / 'file')
  with pytest.raises(UserError, match=r"'\.' is the working folder; choose a folder"):
    export_policy(run, '.')
  with pytest.raises(UserError, match='Cannot write'):
    export_policy(run, tmp_path / 'file' / 'out', tflite=False)


@pytest.mark.parametrize('limit', [0, 1000, 20_000])
def test_full_disk_leaves_the_older_export_and_nothing_else(tmp_path, limit):
  run = fixtures.write_run(tmp_path / 'run', 'cpu', 'debug', 'bc_raw')
  export_policy(run, tmp_path / 'out', tflite=False)
  before = {x: x.read_bytes() for x in (tmp_path / 'out').rglob('*') if x.is_file()}
  usual = resource.getrlimit(resource.RLIMIT_FSIZE)
  handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
  resource.setrlimit(resource.RLIMIT_FSIZE, (limit, usual[1]))
  try:
    with pytest.raises(UserError, match=r"Cannot write '[^{]*$"):
      export_policy(run, tmp_path / 'out')
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    signal.signal(signal.SIGXFSZ, handler)
  assert {x: x.read_bytes() for x in (tmp_path / 'out').rglob('*') if x.is_file()} == before
  assert {x.name for x in tmp_path.iterdir()} == {'run', 'out'}
