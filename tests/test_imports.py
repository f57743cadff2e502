"""Imports go one way: a walk over the sources of the whole package."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PACKAGE = ROOT / 'recon_tf'
# (from, to): modules below the first may not import modules below the second, wherever they do.
FORBIDDEN = [
  ('common', ('nn', 'envs', 'experts', 'demos', 'analysis', 'commands', 'agent', 'loop')),
  ('nn', ('agent', 'world_model', 'behavior', 'loop', 'analysis', 'commands', 'baselines')),
  ('envs', ('nn', 'agent', 'loop', 'analysis', 'commands', 'demos', 'experts')),
  ('experts', ('nn', 'agent', 'loop', 'analysis', 'commands', 'demos')),
  ('demos', ('nn', 'agent', 'loop', 'analysis', 'commands')),
  ('baselines', ('analysis', 'commands', 'loop')),
  ('perf', ('analysis', 'commands')),
  ('analysis', ('commands', 'loop')),
  ('analysis.report', ('analysis.diagnose',)),
  ('analysis.diagnose', ('analysis.report',)),
]
CORE = ('agent', 'world_model', 'rssm', 'discriminator', 'behavior', 'explorer', 'loop')
# These may stand in a process that renders, or that answers at once.
LIGHT = ('common', 'envs', 'experts', 'demos', 'analysis')
HEAVY = ('analysis.diagnose', 'experts.sac')  # need TensorFlow; nothing light imports them
LATE = {'common.logger', 'common.cache'}  # import it inside of a function, where it is needed


def name_of(path: pathlib.Path) -> str:
  """common.config for recon_tf/common/config.py."""
  parts = path.relative_to(PACKAGE).with_suffix('').parts
  return '.'.join(parts[:-1] if parts[-1] == '__init__' else parts)


def imports(path: pathlib.Path) -> set[str]:
  """Full names of all that a file imports, also inside of functions."""
  found = set()
  for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
    if isinstance(node, ast.Import):
      found |= {x.name for x in node.names}
    elif isinstance(node, ast.ImportFrom):
      base = node.module or ''
      if node.level:
        here = ['recon_tf', *name_of(path).split('.')]
        here = here if path.name == '__init__.py' else here[:-1]
        base = '.'.join([*here[: len(here) - node.level + 1], *filter(None, [base])])
      found |= {base, *(f'{base}.{x.name}' for x in node.names)}
  return found


MODULES = {name_of(x): imports(x) for x in sorted(PACKAGE.rglob('*.py'))}


def below(name: str, part: str) -> bool:
  return name == part or name.startswith(f'{part}.')


@pytest.mark.parametrize(('part', 'targets'), FORBIDDEN)
def test_no_import_goes_against_the_arrow(part, targets):
  wrong = [
    f'{name} imports {target}'
    for name, found in MODULES.items()
    if below(name, part)
    for target in sorted(found)
    if any(below(target, f'recon_tf.{x}') for x in targets)
  ]
  assert wrong == []


def test_the_core_knows_neither_analysis_nor_commands():
  wrong = [
    f'{name} imports {target}'
    for name in CORE
    for target in MODULES[name]
    if any(below(target, f'recon_tf.{x}') for x in ('analysis', 'commands'))
  ]
  assert wrong == []


def test_what_renders_or_reports_is_free_of_tensorflow():
  wrong = [
    name
    for name, found in MODULES.items()
    if any(below(name, x) for x in LIGHT)
    and not any(below(name, x) for x in HEAVY)
    and name not in LATE
    and any(below(x, y) for x in found for y in ('tensorflow', 'recon_tf.nn', 'recon_tf.agent'))
  ]
  assert wrong == []


def test_scripts_are_doors_to_the_package():
  """No script imports another one."""
  names = {x.stem for x in (ROOT / 'scripts').glob('*.py')}
  for path in (ROOT / 'scripts').glob('*.py'):
    assert not names & {x.split('.')[0] for x in imports(path)}, path


def test_the_walk_sees_what_there_is():
  """A walk that found nothing would pass everything."""
  assert len(MODULES) > 80
  assert 'recon_tf.explorer.recovery_scores' in MODULES['analysis.diagnose.recoverability']
  assert 'tensorflow' in MODULES['agent']
  assert any(below(x, 'tensorflow') for x in MODULES['common.logger'])
