"""The Slurm job file: its syntax, and that the sweep in it takes the flags of its example."""

import re
import shlex
import subprocess

from tests.helpers.run_fixtures import ROOT, script

JOB = ROOT / 'scripts' / 'slurm_sweep.sh'


def test_bash_can_read_it():
  result = subprocess.run(['bash', '-n', JOB], capture_output=True, text=True)
  assert result.returncode == 0, result.stderr


def test_the_example_names_runs(tmp_path):
  (example,) = re.findall(r'slurm_sweep.sh (--.*)', JOB.read_text())
  result = script('sweep', *shlex.split(example), '--seeds', '0', '--dry', cwd=tmp_path)
  assert result.returncode == 0, result.stderr
  assert 'missing' in result.stdout
