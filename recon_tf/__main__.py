"""The command line: `recon-tf COMMAND ...`, and `python -m recon_tf COMMAND ...`."""

import importlib
import sys

from recon_tf import __version__
from recon_tf.common.errors import UserError, nearest, run

# Texts stand here and not in the commands, so that help answers without importing any of them.
COMMANDS = {
  'check': 'what a training would learn from what, before it starts',
  'train': 'train a policy: --configs maze cpu --task maze_umaze',
  'demos': 'make, import, check and preview demonstrations',
  'evaluate': 'run the policies of trained runs, calm or disturbed',
  'diagnose': 'prediction gap, recoverability and acquisition gain of runs',
  'report': 'a page of curves, tables and videos from a folder of runs',
  'results': 'small copies of runs with tables and figures, to commit',
  'sweep': 'many runs at once, also on a cluster: seeds, tasks, a grid',
  'reproduce': 'figures and tables of the paper, with the runs that they need',
  'bench': 'measure speed and sizes; its --help lists of what',
  'export': 'the policy of a run as SavedModel and TFLite, with a card',
  'play': 'a video of a policy at work',
  'gallery': 'the trained policies that come with recon_tf',
  'faults': 'kills, damaged files and bad input against training runs',
  'train_expert': 'train the state-based expert of a DMC task',
}


def main() -> None:
  """The console entry."""
  name, arguments = (sys.argv[1:2] or ['--help'])[0], sys.argv[2:]
  if name in ('-h', '--help', 'help'):
    run(lambda: print(help_text(), flush=True))  # its reader, such as head, may leave early
  elif name == '--version':
    run(lambda: print(f'recon_tf {__version__}'))
  else:
    sys.argv = [f'recon-tf {name}', *arguments]
    start(name)


def start(name: str) -> None:
  """Runs one command with the flags in sys.argv; scripts/*.py enter here too."""
  run(lambda: load(name).main())


def load(name: str):
  """The module of a command."""
  if name not in COMMANDS:
    hint = nearest(name, COMMANDS) or f' One of {", ".join(COMMANDS)}.'
    raise UserError(f"There is no command '{name}'.{hint}")
  return importlib.import_module(f'recon_tf.commands.{name}')


def help_text() -> str:
  lines = ['usage: recon-tf COMMAND [FLAGS ...]', '']
  lines += [f'  {name:14}{text}' for name, text in COMMANDS.items()]
  return '\n'.join([*lines, '', '`recon-tf COMMAND --help` lists the flags of a command.'])


if __name__ == '__main__':
  main()
