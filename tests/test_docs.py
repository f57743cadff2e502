"""README and docs: every command is one that exists, one of each kind runs, links lead somewhere.

Commands stand in ```bash blocks, one per line. All of them are parsed as recon-tf would. Those in
RUNS are run in turn in one folder, at debug size; docs/own_task.md is run whole by
test_own_task.py, every training by tensorflow/test_docs_train.py. The others have to be of a kind
and have flags that the tests in ELSEWHERE run; PARSED names what no test runs.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib

import pytest

from recon_tf.common import load_config
from tests.helpers.pages import PAGES, ROOT, blocks, commands, prose

RUN = 'runs/maze_umaze/recon/0'
# Commands as they stand on a page, and what makes them small; `cpu` becomes `debug` in any case.
RUNS = {
  'recon-tf demos --task maze_umaze --episodes 10 --outdir my_demos --preview': '--episodes 1',
  'recon-tf demos --check my_demos': '',
  'recon-tf train --configs maze clear_maze cpu state --task maze_umaze': (
    '--env.length 60 --env.maze.repeat 8 --prefill 60 --steps 120 --train_every 30 --keep_every 60'
  ),
  f'recon-tf evaluate {RUN} --recovery': '--episodes 1 --workers 2',
  f'recon-tf diagnose {RUN} --what gap': '',
  'recon-tf report runs': '',
  'recon-tf results runs': '',
  'recon-tf reproduce --list': '',
  # The run above is of vectors, which this figure's is not.
  'recon-tf reproduce --figure 3 --configs maze cpu --dry': '--logdir other_runs',
  'recon-tf train --help': '',
  'recon-tf sweep --configs maze cpu --grid main.alpha=0,1,10 --seeds 0 1 2': '--dry',
  'recon-tf gallery': '',
  'recon-tf bench params --configs dmc': '--configs debug',
}
# Where commands of a kind are run with their flags.
ELSEWHERE = {
  'bench': ['tests/scripts/test_bench.py', 'tests/scripts/test_bench_baselines.py'],
  'check': ['tests/tensorflow/test_check.py'],
  'demos': ['tests/scripts/test_demos.py'],
  'diagnose': [
    'tests/scripts/test_diagnose.py',
    'tests/tensorflow/analysis/diagnose/test_stages.py',
  ],
  'docker': ['tests/test_dockerfile.py'],
  'evaluate': ['tests/scripts/test_evaluate.py'],
  'export': ['tests/scripts/test_play.py'],
  'faults': ['tests/scripts/test_faults.py'],
  'gallery': ['tests/scripts/test_play.py'],
  'make': ['tests/test_setup.py'],
  'recon-tf': ['tests/commands/test_main.py'],  # --help
  'reproduce': ['tests/scripts/test_reproduce.py'],
  'sweep': ['tests/cluster/test_sweep.py', 'tests/cluster/test_grid.py'],
  'train': ['tests/tensorflow/test_docs_train.py'],
}
# Only parsed, and why.
PARSED = {
  'recon-tf faults --kills 100': 'hours; test_faults.py makes a few of the kills',
  'recon-tf faults --long 20000': 'hours',
  'recon-tf bench envs': 'fails where the machine is busy',
  'recon-tf bench gpu-plan': "compiles the paper's size",
}
# What has to be refused, or the test of the others is worth nothing.
WRONG = (
  ['train', '--configs', 'mazes'],
  ['train', '--configs', 'maze', '--rssm.detter', '8'],
  ['train', '--configs', 'maze', '--task', 'maze_vmaze'],
  ['evaluate', 'runs', '--robustness'],
  ['reproduce', '--figure', '99'],
  ['report'],
  ['reports', 'runs'],
)
# Programs that are not ours.
FOREIGN = {'pip', 'source', 'tensorboard', 'apt-get', 'git', 'ray', 'sbatch', 'ssh'}


def test_commands_stand_in_shell_blocks():
  """Else they would escape the tests below."""
  for page in PAGES:
    stray = re.findall(r'^ {4,}(?:recon-tf|python|make|docker) .*', prose(page), re.MULTILINE)
    assert not stray, f'{page.name}: {stray}'
    unnamed = [x for x in blocks(page, '') if re.match(r'recon-tf |python |make ', x)]
    assert not unnamed, f'{page.name}: {unnamed}'


def test_every_command_parses():
  """Flags, presets, tasks and values are those that recon-tf takes."""
  found = [x for x in commands() if x.ours]
  assert len(found) > 30
  lines = '\n'.join(json.dumps(x) for x in (*(x.ours for x in found), *WRONG))
  env = {**os.environ, 'PYTHONPATH': str(ROOT), 'RECON_XLA_CACHE': '', 'CUDA_VISIBLE_DEVICES': ''}
  result = subprocess.run(
    [sys.executable, str(ROOT / 'tests' / 'helpers' / 'parse_program.py')],
    input=lines, capture_output=True, text=True, check=False, env=env, cwd=ROOT,
  )  # fmt: skip
  assert result.returncode == 0, result.stderr[-3000:]
  answers = json.loads(result.stdout.splitlines()[-1])
  assert len(answers) == len(found) + len(WRONG)
  assert all(answers[len(found) :]), answers[len(found) :]
  pairs = zip(found, answers, strict=False)
  refused = [f'{x.page.name}: {x.text}\n  {answer}' for x, answer in pairs if answer]
  assert not refused, '\n'.join(refused)


def test_every_command_is_run_somewhere():
  """Here, with its page, or one of its kind with each of its flags in a test that is named."""
  everything = commands()
  texts = {x.text for x in everything}
  known = {*RUNS, *PARSED}
  assert known <= texts, f'no page has {known - texts}'
  left = [x for x in everything if x.text not in known and x.page.name != 'own_task.md']
  left = [x for x in left if x.kind not in FOREIGN]
  assert not {x.kind for x in left} - set(ELSEWHERE)
  tests = {k: '\n'.join((ROOT / x).read_text() for x in v) for k, v in ELSEWHERE.items()}
  settings = {'configs', *load_config().flat}  # train takes them all
  for command in left:
    flags = [x.split('=')[0] for x in command.ours if x.startswith('--')]
    flags = [x for x in flags if x.removeprefix('--') not in settings]
    flags += [f"'{command.ours[1]}'"] if command.kind == 'bench' else []
    missing = [x for x in flags if x not in tests[command.kind]]
    assert not missing, f'{command.page.name}: {command.text}: no test has {missing}'


def test_make_targets_and_extras_exist():
  extras = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']['optional-dependencies']
  for command in commands():
    if command.kind == 'make':
      dry = ['make', '-n', *command.words[1:]]
      result = subprocess.run(dry, cwd=ROOT, capture_output=True, text=True, check=False)
      assert result.returncode == 0, result.stderr
    for extra in re.findall(r'\[(\w+)\]', command.text) if command.kind == 'pip' else ():
      assert extra in extras, command.text


@pytest.mark.slow
def test_commands_run_at_debug_size(tmp_path):
  """In the order above, in one folder, as a reader would type them."""
  env = {**os.environ, 'PYTHONPATH': str(ROOT), 'RECON_XLA_CACHE': '', 'CUDA_VISIBLE_DEVICES': ''}
  for text, small in RUNS.items():
    words = ['debug' if x == 'cpu' else x for x in shlex.split(text)]
    command = [sys.executable, '-m', 'recon_tf', *words[1:], *shlex.split(small)]
    result = subprocess.run(
      command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, f'{text}\n{result.stdout[-1500:]}\n{result.stderr[-1500:]}'
  made = (
    'my_demos/preview.png', f'{RUN}/eval/final.json', f'{RUN}/eval/recovery.json',
    f'{RUN}/diagnose/gap.json', 'results/README.md',
  )  # fmt: skip
  for name in made:
    assert (tmp_path / name).exists(), name


def test_sizes_are_those_of_the_config():
  """The table of docs/training.md: the paper's value of a key and what a suite has at cpu size."""
  suites = [(), ('maze', 'cpu'), ('dmc', 'cpu'), ('metaworld', 'cpu')]
  configs = [load_config(*x) for x in suites]
  page = (ROOT / 'docs' / 'training.md').read_text()
  rows = re.findall(r'^\| `([\w.]+)` ((?:\| [^|]+ ){4})\|', page, re.MULTILINE)
  assert len(rows) > 20
  right = {key: f'| {" | ".join(str(x[key]) for x in configs)} ' for key, _ in rows}
  wrong = [f'`{key}` {right[key]}' for key, cells in rows if cells != right[key]]
  assert not wrong, 'docs/training.md, rows that have to be:\n' + '\n'.join(wrong)


def test_python_blocks_compile():
  for page in PAGES:
    for text in blocks(page, 'python'):
      compile(text, str(page), 'exec')


def test_links_lead_somewhere():
  """To files of the repository, and to headings of pages."""
  for page in PAGES:
    for target in re.findall(r'\]\(([^)\s]+)\)', prose(page)):
      if re.match(r'\w+://', target):
        continue
      path, _, heading = target.partition('#')
      place = (page.parent / path).resolve() if path else page
      assert place.exists(), f'{page.name}: {target}'
      if heading:
        titles = re.findall(r'^#+ (.*)', place.read_text(), re.MULTILINE)
        slug = lambda x: re.sub(r'[^\w -]', '', x.lower()).replace(' ', '-')
        assert heading in map(slug, titles), f'{page.name}: {target}'


def test_every_page_is_linked_from_the_readme():
  readme = (ROOT / 'README.md').read_text()
  missing = [str(x.relative_to(ROOT)) for x in PAGES[1:] if str(x.relative_to(ROOT)) not in readme]
  assert not missing
