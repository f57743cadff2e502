import copy
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

from recon_tf.common import Config, UserError, default_config, load_config, load_saved, presets
from recon_tf.common import config as config_module

NESTED = {'a': 1, 'b': {'c': 2.5, 'd': {'e': [1, 2]}}, 'f': True, 'g': 'text', 'h': []}


def test_access():
  config = Config(NESTED)
  assert config.b.d.e == (1, 2)
  assert config['b.d.e'] == (1, 2)
  assert config.b['c'] == 2.5
  assert 'b.c' in config
  assert 'b.x' not in config
  assert 'a.x' not in config
  assert list(config.flat) == ['a', 'b.c', 'b.d.e', 'f', 'g', 'h']
  assert dict(**config.b)['c'] == 2.5
  assert Config({'b.c': 2.5, 'b': {'d.e': [1, 2]}}).b == config.b


def test_immutable():
  config = Config(NESTED)
  with pytest.raises(AttributeError, match='immutable'):
    config.a = 2
  with pytest.raises(AttributeError, match='immutable'):
    config.b.c = 2.0
  with pytest.raises(AttributeError, match='immutable'):
    del config.a
  with pytest.raises(TypeError):
    config['a'] = 2
  with pytest.raises(TypeError):
    config.b.d.e[0] = 5
  plain = config.to_dict()
  plain['b']['d']['e'].append(3)
  assert config.b.d.e == (1, 2)


def test_missing_attribute_suggests():
  with pytest.raises(AttributeError, match="Did you mean 'stoch'"):
    _ = default_config().rssm.stoc
  assert not hasattr(default_config(), 'nothing_like_it')


def test_update_copies_and_converts():
  config = Config(NESTED)
  new = config.update({'b.c': 3, 'b': {'d': {'e': [7]}}, 'a': 1e5}, f=False)
  assert config.to_dict() == NESTED
  assert (new.a, new.b.c, new.b.d.e, new.f) == (100000, 3.0, (7,), False)
  assert type(new.a) is int
  assert type(new.b.c) is float
  numpy = config.update(a=np.int64(3), b={'c': np.float32(0.5)})
  assert (type(numpy.a), type(numpy.b.c)) == (int, float)


@pytest.mark.parametrize(
  ('key', 'value', 'wanted'),
  [
    ('a', 1.5, 'a whole number'),
    ('a', '3', 'a whole number'),
    ('a', True, 'a whole number'),
    ('a', float('inf'), 'a whole number'),
    ('b.c', 'x', 'a number'),
    ('b.c', float('nan'), 'a number'),
    ('f', 1, 'True or False'),
    ('f', 'True', 'True or False'),
    ('g', 3, 'a text'),
    ('b.d.e', 3, 'a list'),
    ('b.d.e', [1, 2.5], 'a whole number'),
  ],
)
def test_wrong_type_names_key_value_and_type(key, value, wanted):
  with pytest.raises(UserError) as info:
    Config(NESTED).update({key: value})
  assert f"'{key}' wants {wanted}" in str(info.value)
  assert repr(value if not isinstance(value, list) else value[1]) in str(info.value)


@pytest.mark.parametrize(
  ('key', 'suggestion'),
  [('rssm.detr', 'rssm.deter'), ('deter', 'rssm.deter'), ('step', 'steps'), ('taks', 'tasks')],
)
def test_unknown_key_suggests(key, suggestion):
  with pytest.raises(UserError, match=f"Unknown key '{key}'. Did you mean '{suggestion}'"):
    load_config(**{key: 1})


def test_group_given_a_value_is_refused():
  with pytest.raises(UserError, match="'rssm' is a group of keys"):
    load_config(rssm=3)


def test_value_given_a_group_is_refused():
  with pytest.raises(UserError, match=r"Unknown key 'seed\.a'"):
    load_config(seed={'a': 3})


def test_clash_of_value_and_group_is_refused():
  with pytest.raises(UserError, match='at once'):
    Config({'a': 1, 'a.b': 2})


def test_save_and_load_keep_values_and_types(tmp_path):
  tricky = Config(
    {'x': 3e-4, 'y': 5e6, 'z': 1e-12, 'big': 10**15, 'one': 1.0, 'inf': float('inf')},
    texts={'a': '', 'b': 'True', 'c': '3', 'd': '$^', 'e': '1e-3', 'f': 'a: b # c', 'g': 'ünï'},
    lists={'a': [], 'b': ['x', 'y'], 'c': [1.0, 2.0], 'd': [True, False]},
  )
  for config in (tricky, default_config(), load_config('dmc', 'metaworld', 'cpu')):
    config.save(tmp_path / 'config.yaml')
    loaded = Config.load(tmp_path / 'config.yaml')
    assert loaded == config
    assert list(loaded.flat) == list(config.flat)
    assert [type(v) for v in loaded.flat.values()] == [type(v) for v in config.flat.values()]
  assert [path.name for path in tmp_path.iterdir()] == ['config.yaml']


def test_copies_survive_processes():
  config = default_config()
  assert copy.deepcopy(config) == config
  assert pickle.loads(pickle.dumps(config)) == config
  assert Config(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize(
  ('text', 'message'),
  [
    ('a: [1, 2', 'not valid YAML'),
    ('a: 1\na: 2', 'not valid YAML in line 2'),
    ('', 'holds no keys'),
    ('- 1', 'holds no keys'),
    ('a: null', 'not None'),
  ],
)
def test_bad_file_is_named(tmp_path, text, message):
  path = tmp_path / 'config.yaml'
  path.write_text(text)
  with pytest.raises(UserError, match=message) as info:
    Config.load(path)
  assert message == 'not None' or str(path) in str(info.value)


def test_missing_and_binary_files_are_named(tmp_path):
  with pytest.raises(UserError, match=r'nothing\.yaml: No such file'):
    Config.load(tmp_path / 'nothing.yaml')
  (tmp_path / 'binary.yaml').write_bytes(b'\xff\xfe\x00')
  with pytest.raises(UserError, match=r'binary\.yaml: it is not a text file'):
    Config.load(tmp_path / 'binary.yaml')


def test_save_below_a_file_is_refused(tmp_path):
  (tmp_path / 'file').write_text('')
  with pytest.raises(UserError, match=r"file/config\.yaml': File exists"):
    default_config().save(tmp_path / 'file' / 'config.yaml')


def test_defaults_have_the_types_they_look_like():
  config = default_config()
  assert config.replay.capacity == 5e6
  assert type(config.replay.capacity) is float
  assert config.model_opt.lr == 3e-4
  assert type(config.steps) is int
  assert config.deterministic is True
  assert config.encoder.mlp_keys == '$^'


def test_no_key_hides_behind_a_method():
  parts = {part for key in default_config().flat for part in key.split('.')}
  assert not parts & set(dir(Config))


@pytest.mark.parametrize('name', presets())
def test_every_preset_loads(name):
  assert load_config(name) != Config()


def test_presets_merge_left_to_right():
  assert load_config('cmil').explorer.enabled is False
  assert load_config('cmil', 'no_recovery').method == 'no_recovery'
  assert load_config('cpu', rssm={'deter': 7}).rssm.deter == 7
  assert load_config('cpu').rssm.ensemble == default_config().rssm.ensemble
  assert load_config('defaults', 'cpu') == load_config('cpu')


def test_a_size_does_not_undo_the_schedule_of_an_agent():
  for agent in ('dadac', 'iqmpc'):
    with pytest.raises(UserError, match=rf"'cpu'.*undo.*pretrain.*train_steps.*'{agent}' after it"):
      load_config('maze', agent, 'state', 'cpu')
    config = load_config('maze', 'cpu', agent, 'state')
    assert (config.train_steps, config.pretrain, config.env.render) == (1, 0, False)
  assert load_config('dadac', 'iqmpc').agent == 'iqmpc'


def test_where_a_suite_meets_a_size_it_has_its_own_budget():
  alone = load_config('cpu')
  for names in (('metaworld', 'cpu'), ('cpu', 'metaworld'), ('metaworld', 'recon', 'cpu', 'state')):
    assert load_config(*names).env.length == 150
  assert load_config('metaworld').env.length == alone.env.length == 0
  assert load_config('maze', 'cpu').env.maze.repeat == 4
  assert load_config('metaworld', 'cpu', 'debug').steps == load_config('debug').steps


def test_the_size_changes_no_task():
  """Camera, colours, goal and termination belong to clear_maze."""
  same = lambda *names: load_config(*names).env.maze.flat
  changed = {k for k, v in same('maze', 'cpu').items() if v != same('maze')[k]}
  assert changed == {'repeat'}
  assert {k for k, v in same('clear_maze').items() if v != same()[k]} == {
    'goal_noise', 'terminate', 'marker', 'hue', 'close'
  }  # fmt: skip


def test_tasks_of_suites_add_up():
  dmc, meta = load_config('dmc').tasks, load_config('metaworld').tasks
  assert dmc == ('dmc_hopper_stand', 'dmc_walker_run')
  assert load_config('dmc', 'metaworld').tasks == dmc + meta
  assert load_config('metaworld', 'cpu', 'dmc', 'metaworld').tasks == meta + dmc
  assert load_config('dmc', 'metaworld', tasks=['maze_umaze']).tasks == ('maze_umaze',)


def test_unknown_preset_suggests():
  with pytest.raises(UserError, match=r"Unknown preset 'mazee'.* Did you mean 'maze'"):
    load_config('mazee')


@pytest.mark.parametrize(
  ('content', 'message'),
  [
    ({'rssm.detr': 3}, "Preset 'own'.*'rssm.detr'.*'rssm.deter'"),
    ({'rssm': {'deter': 'x'}}, "Preset 'own'.*'rssm.deter' wants a whole number"),
  ],
)
def test_broken_preset_is_named(tmp_path, monkeypatch, content, message):
  path = tmp_path / 'configs.yaml'
  Config({'defaults': default_config().to_dict(), 'own': content}).save(path)
  monkeypatch.setattr(config_module, 'PACKAGE', tmp_path)
  with pytest.raises(UserError, match=message):
    load_config('own')


def test_saved_config_of_another_version(tmp_path, capsys):
  path = tmp_path / 'config.yaml'
  values = load_config('cpu', seed=3).flat
  del values['keep']
  Config(values).save(path)
  assert load_saved(path) == load_config('cpu', seed=3)
  Config({**values, 'rssm.old': 1}).save(path)
  with pytest.raises(UserError, match=r"config\.yaml' is .* Unknown key 'rssm\.old'"):
    load_saved(path)
  Config({**values, 'seed': 'x'}).save(path)
  with pytest.raises(UserError, match=r"config\.yaml' is .* Key 'seed' wants a whole number"):
    load_saved(path)


def test_import_is_light():
  code = (
    'import sys, recon_tf, recon_tf.common as c; c.load_config("cpu"); c.Flags; c.UserError;'
    'heavy = {"tensorflow", "numpy", "mujoco", "gymnasium"} & set(sys.modules);'
    'assert not heavy, heavy'
  )
  subprocess.run([sys.executable, '-c', code], check=True)


def test_unknown_name_in_common_is_an_attribute_error():
  import recon_tf.common

  assert not hasattr(recon_tf.common, 'Nothing')
  assert 'Config' in dir(recon_tf.common)


def test_all_names_of_common_load_without_tensorflow():
  code = (
    'import sys, recon_tf.common as c; [getattr(c, name) for name in c.__all__];'
    'assert "tensorflow" not in sys.modules'
  )
  subprocess.run([sys.executable, '-c', code], check=True)
