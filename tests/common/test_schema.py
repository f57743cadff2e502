"""Limits and help texts after the keys of configs.yaml, and what they refuse."""

import pathlib

import pytest
from ruamel.yaml import YAML

from recon_tf.common import Config, Flags, UserError, default_config, load_config, load_saved
from recon_tf.common.aliases import modernize
from recon_tf.common.config import documented
from recon_tf.common.folders import check_settings
from recon_tf.common.schema import comments_by_line, key_lines, parse_limit

OLD = pathlib.Path(__file__).parent / 'old_config.yaml'  # of a run made before the renamed keys


def test_every_key_has_a_help_text_of_its_own():
  for key in default_config().flat:
    assert documented().helps.get(key), f'{key} has no comment in configs.yaml'


def test_every_number_has_a_range_and_every_default_lies_in_it():
  for key, value in default_config().flat.items():
    first = value[0] if isinstance(value, tuple) and value else value
    if isinstance(first, (int, float)) and not isinstance(first, bool):
      assert key in documented().limits, f'{key} has no range in configs.yaml'
    if key in documented().limits:
      documented().limits[key].check(key, value)


@pytest.mark.parametrize(
  ('comment', 'good', 'bad'),
  [
    ('[1, inf) x', [1, 5, 1e9], [0, -3, float('inf')]),
    ('(0, 1] x', [0.1, 1], [0, 1.1, -1]),
    ('[2, 3] x 2 size', [(2, 3)], [(2,), (2, 2, 2), (1, 2)]),
    ('[0, inf) x 0|2 cell', [(), (0, 4)], [(1,), (-1, 0), ('a', 'b')]),
    ('[1, inf) x 1+ layers', [(1,), (3, 4, 5)], [(), (0,)]),
    ('{a, b} letters', ['a', 'b'], ['c', '', 'A']),
    ('{16, 32} bits', [16, 32], [8]),
    ('<name> of it', ['recon', 'no_recovery', 'a+b.c'], ['../x', 'a/b', '', '..', '.x', 'a b']),
    ('<regex> of keys', ['image', '$^', '.*'], ['(', '[']),
    ('just words', ['anything', 3, True], []),
  ],
)
def test_limits(comment, good, bad):
  limit, rest = parse_limit(comment)
  assert rest.isalpha() or ' ' in rest
  for value in good:
    limit.check('key', value)
  for value in bad:
    with pytest.raises(UserError, match="Key 'key'"):
      limit.check('key', value)


# The cases of a campaign against an earlier version, which trained or ended in a traceback.
BAD = [
  '--gate.kind foo', '--expert_mix foo', '--eval_mode foo', '--precision 8', '--replay.batch 0',
  '--replay.batch -3', '--replay.length 0', '--replay.length 1', '--horizon 0', '--horizon 1',
  '--horizon -1', '--rssm.ensemble 0', '--eval_final 0', '--env.workers 0', '--encoder.act foo',
  '--encoder.mlp_keys (', '--method ../../../x', '--steps -5', '--replay.expert_batch 0',
  '--model_opt.lr inf', '--model_opt.lr nan', '--discount -inf', '--env.size 64', '--agent foo',
  '--env.maze.start 1', '--encoder.cnn_kernels []', '--gate.tau 0', '--seed -1', '--keep 0',
]  # fmt: skip


@pytest.mark.parametrize('flags', BAD)
def test_bad_values_are_refused_with_key_and_value(flags):
  key, value = flags.removeprefix('--').split()
  with pytest.raises(UserError) as error:
    Flags().parse(['--configs', 'maze', f'--{key}', value])
  assert f"'{key}'" in str(error.value)
  assert value.strip('[]') in str(error.value)


def test_choices_are_listed_and_the_nearest_is_named():
  with pytest.raises(UserError, match=r"'recovry'; allowed: \{recovery, terminal, none\}\. Did"):
    load_config(gate={'kind': 'recovry'})


def test_limits_hold_in_presets_saved_configs_and_python(tmp_path):
  config = load_config('maze', 'cpu').update(seed=3)
  with pytest.raises(UserError, match="'horizon' is 1; allowed: \\[2, inf\\)"):
    config.update({'horizon': 1})
  path = tmp_path / 'config.yaml'
  Config({**config.flat, 'horizon': 1}).save(path)
  with pytest.raises(UserError, match=r"config\.yaml' is .* Key 'horizon' is 1"):
    load_saved(path)
  with pytest.raises(UserError, match=r"config\.yaml' is .* Key 'horizon' is 1"):
    check_settings(config, tmp_path)


def test_config_with_foreign_keys_only_is_no_run(tmp_path):
  (tmp_path / 'config.yaml').write_text('a: 1\nb: {c: 2}\n')
  with pytest.raises(UserError, match="Unknown key 'a'"):
    check_settings(load_config('maze'), tmp_path)


def test_old_run_folders_open():
  saved = Config.load(OLD)
  assert saved['recon_scale.vector'] == 300.0
  assert saved['uncertainty.main_scale'] == 0.1
  config = load_saved(OLD)
  assert config.decoder_scale.vector == 300.0
  assert config.main.alpha == saved['main.alpha'] * 0.1
  assert config.explorer.beta == saved['explorer.beta'] * 4.0
  assert (config.task, config.method, config.seed) == ('maze_pointmaze', 'cmil', 2)
  assert load_saved(OLD) == config
  with pytest.raises(UserError, match=r"is called 'decoder_scale\.image' now"):
    Flags().parse(['--recon_scale.image', '3'])


def test_old_baselines_keep_the_smaller_batch():
  old = {'agent': 'dadac', 'replay.batch': 128, 'dadac.batch': 64, 'recon_scale.image': 1.0}
  assert modernize(old) == {'agent': 'dadac', 'dadac.batch': 64, 'decoder_scale.image': 1.0}
  new = {'agent': 'dadac', 'replay.batch': 8, 'dadac.batch': 64, 'decoder_scale.image': 1.0}
  assert modernize(new) == new


def test_comments_are_found_by_line():
  tree = YAML().load("""
# Top of the file.
defaults:

  # Run
  seed: 0  # the seed
  name: 'a # b'  # the name
  net: {size: [1, 2]}  # the net
  group:  # of keys
    inner: 1

# Sizes

cpu:
  seed: 1

# What it is.
gpu: {seed: 2}
""")
  comments, lines = comments_by_line(tree), dict(key_lines(tree))
  after = {key: comments[line] for key, line in lines.items() if line in comments}
  assert after == {
    'defaults.seed': 'the seed', 'defaults.name': 'the name', 'defaults.net': 'the net',
    'defaults.net.size': 'the net', 'defaults.group': 'of keys',
  }  # fmt: skip
  assert comments[lines['defaults.seed'] - 1] == 'Run'
  assert comments[lines['cpu'] - 2] == 'Sizes'
  assert comments[lines['gpu'] - 1] == 'What it is.'
