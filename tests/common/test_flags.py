import subprocess
import sys

import pytest

from recon_tf.common import Flags, UserError, default_config, load_config, presets

SCRIPT = 'from recon_tf.common import Flags, run; run(lambda: print(Flags().parse().seed))'


def parse(*argv):
  return Flags().parse(argv)


def run_script(*argv):
  command = [sys.executable, '-c', SCRIPT, *argv]
  return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_nothing_given_means_defaults():
  assert parse() == default_config()


def test_presets_then_flags_in_any_order():
  wanted = load_config('maze', 'cpu').update({'rssm.deter': 64})
  assert parse('--configs', 'maze', 'cpu', '--rssm.deter', '64') == wanted
  assert parse('--rssm.deter=64', '--configs', 'maze', '--configs', 'cpu') == wanted
  assert parse('--configs=maze,cpu', '--rssm.deter=64') == wanted


def test_suites_add_up():
  assert len(parse('--configs', 'dmc', 'metaworld').tasks) == 6
  assert parse('--configs', 'dmc', '--tasks', 'maze_umaze').tasks == ('maze_umaze',)


@pytest.mark.parametrize(
  ('argv', 'key', 'value'),
  [
    ('--seed 1e5', 'seed', 100000),
    ('--replay.capacity 1e6', 'replay.capacity', 1e6),
    ('--replay.capacity 1000', 'replay.capacity', 1000.0),
    ('--main.alpha -0.5', 'main.alpha', -0.5),
    ('--jit False', 'jit', False),
    ('--jit=true', 'jit', True),
    ('--jit false', 'jit', False),
    ('--eager', 'eager', True),
    ('--eager --seed 1', 'eager', True),
    ('--env.size 32 48', 'env.size', (32, 48)),
    ('--env.size [32,48]', 'env.size', (32, 48)),
    ('--env.size [32, 48]', 'env.size', (32, 48)),
    ('--env.size 32,48', 'env.size', (32, 48)),
    ('--env.size=32,48', 'env.size', (32, 48)),
    ('--disc.layers 64', 'disc.layers', (64,)),
    ('--disc.layers []', 'disc.layers', ()),
    ('--env.maze.start 1 2', 'env.maze.start', (1, 2)),
    ('--tasks a,b', 'tasks', ('a', 'b')),
    ('--task 3', 'task', '3'),
    ('--task=', 'task', ''),
    ('--demos=a=b', 'demos', 'a=b'),
    ('--encoder.mlp_keys .*', 'encoder.mlp_keys', '.*'),
    ('--seed 1 --seed 2', 'seed', 2),
  ],
)
def test_values(argv, key, value):
  parsed = parse(*argv.split())[key]
  assert parsed == value
  assert type(parsed) is type(value)


@pytest.mark.parametrize(
  ('argv', 'message'),
  [
    ('--rssm.detr 3', "Unknown key '--rssm.detr'. Did you mean 'rssm.deter'"),
    ('--deter 3', "Unknown key '--deter'. Did you mean 'rssm.deter'"),
    ('--config maze', "Unknown key '--config'. Did you mean 'configs'"),
    ('--configs mazee', "Unknown preset 'mazee' in --configs. Did you mean 'maze'"),
    ('--configs', "'--configs' needs the name"),
    ('--rssm 3', "'--rssm' is a group of keys; set one of them, such as 'rssm.deter'"),
    ('--seed 1.5', "'seed' wants a whole number, not 1.5"),
    ('--seed 1e999', "'seed' wants a whole number, not inf"),
    ('--seed x', "'seed' wants a whole number, not 'x'"),
    ('--discount high', "'discount' wants a number, not 'high'"),
    ('--discount nan', "'discount' wants a number, not nan"),
    ('--jit 1', "'jit' wants True or False, not 1"),
    ('--env.size 64 a', "'env.size' wants a whole number, not 'a'"),
    ('--env.size [64,64', 'without its other bracket'),
    ('--env.size', "'--env.size' needs a value"),
    ('--seed', "'--seed' needs a value"),
    ('--seed 1 2', "'--seed' takes one value, not 2: 1 2"),
    ('--task a b', "'--task' takes one value, not 2: a b"),
    ('maze --seed 1', "'maze' belongs to no flag"),
  ],
)
def test_refused_in_one_sentence(argv, message):
  with pytest.raises(UserError) as info:
    parse(*argv.split())
  assert message in str(info.value)
  assert '\n' not in str(info.value)


def test_extra_flags_of_a_script():
  extra = {'outdir': ('', 'folder'), 'preview': False, 'sizes': [1]}
  config, own = Flags().parse(['--outdir', 'x', '--seed', '1', '--preview'], extra=extra)
  assert (config.seed, own.outdir, own.preview, own.sizes) == (1, 'x', True, (1,))
  assert 'outdir' not in config
  with pytest.raises(UserError, match=r"Unknown key '--outdi'\. Did you mean 'outdir'"):
    Flags().parse(['--outdi', 'x'], extra=extra)
  with pytest.raises(ValueError, match=r"keys already: \['seed'\]"):
    Flags().parse([], extra={'seed': (0, '[0, inf) as the key')})
  with pytest.raises(ValueError, match=r"need a range: \['rounds'\]"):
    Flags().parse([], extra={'rounds': (3, 'how many')})


def test_flags_over_a_saved_config():
  saved = load_config('cpu', seed=5)
  assert Flags(saved).parse(['--steps', '10']) == saved.update(steps=10)


def test_help_lists_all_presets_and_keys_at_100_columns(capsys):
  with pytest.raises(SystemExit) as info:
    Flags(about='Makes things.').parse(['--help'], extra={'outdir': ('out', 'where to write')})
  assert info.value.code == 0
  text = capsys.readouterr().out
  lines = [line.split() for line in text.splitlines()]
  assert max(len(line) for line in text.splitlines()) <= 100
  assert 'Makes things.' in text
  assert ['--outdir', 'out', 'where', 'to', 'write'] in lines
  for key in default_config().flat:
    assert any(line[:1] == [f'--{key}'] for line in lines), key
  for name in presets():
    assert any(line[:1] == [name] for line in lines), name
  for heading in ('Suites', 'Methods', 'Sizes', 'Environment'):
    assert [heading] in lines


def test_script_ends_with_a_sentence_and_code():
  bad = run_script('--sed', '1')
  assert bad.returncode == 1
  assert bad.stderr == "error: Unknown key '--sed'. Did you mean 'seed'?\n"
  good = run_script('--seed', '7')
  assert (good.returncode, good.stdout) == (0, '7\n')
  helped = run_script('--help')
  assert helped.returncode == 0
  assert helped.stdout.startswith('usage:')


def test_each_task_has_the_settings_of_its_own_suite():
  parse = lambda *argv: Flags().parse_tasks(argv)
  configs = parse('--configs', 'dmc', 'metaworld', 'cpu', 'state', '--seed', '4')
  assert [x.task for x in configs] == [*load_config('dmc').tasks, *load_config('metaworld').tasks]
  for config in configs:
    suite = config.task.split('_')[0]
    assert config.update(tasks=[], task='') == load_config(suite, 'cpu', 'state', seed=4, tasks=[])
  one = parse('--configs', 'dmc', 'metaworld', 'cpu', '--task', 'dmc_walker_run', '--steps', '7')
  assert [(x.task, x.steps, x.env.length) for x in one] == [('dmc_walker_run', 7, 0)]
  assert [x.task for x in parse('--task', 'gym_Pendulum-v1')] == ['gym_Pendulum-v1']
  assert parse('--configs', 'cpu') == []
