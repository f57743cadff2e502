"""Commands side by side: logs, reasons, and no child that outlives its parent."""

import os
import signal
import subprocess
import sys
import time

import psutil

from recon_tf.common.jobs import Failure, Job, failure_reason, run_jobs

ENV = {**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)}


def test_one_that_fails_does_not_stop_the_others(tmp_path, capsys):
  gone = tmp_path / 'gone'
  jobs = [
    Job('bad', 'demos', ('--check', str(gone)), tmp_path / 'logs' / 'bad.log'),
    Job('good', 'demos', ('--help',), tmp_path / 'logs' / 'good.log'),
    Job('idle', 'demos', ('--help',), tmp_path / 'logs' / 'idle.log', lambda: 'x is missing'),
  ]
  failures = {x.name: x for x in run_jobs(jobs)}
  assert failures.keys() == {'bad', 'idle'}
  assert str(gone) in failures['bad'].reason
  assert failures['idle'] == Failure('idle', 'x is missing', tmp_path / 'logs' / 'idle.log')
  assert str(failures['idle']) == f'idle: x is missing (log: {tmp_path / "logs" / "idle.log"})'
  text = (tmp_path / 'logs' / 'bad.log').read_text()
  assert text.splitlines()[0] == f'python scripts/demos.py --check {gone}' == jobs[0].command
  assert '--outdir' in (tmp_path / 'logs' / 'good.log').read_text()
  shown = capsys.readouterr().out
  assert 'bad: failed' in shown
  assert 'good: done' in shown


def test_reasons(tmp_path):
  log = tmp_path / 'log'
  log.write_text('python x\nerror: first\nmore\nerror: the last one\nKilled workers\n')
  assert failure_reason(1, log) == 'the last one'
  log.write_text('python x\nTraceback\nValueError: 3\n\n')
  assert failure_reason(1, log) == 'ValueError: 3'
  log.write_text('python x\n')
  assert failure_reason(2, log) == 'ended with code 2'
  assert failure_reason(-9, log) == 'ended by signal 9'


PROGRAM = """
import pathlib, signal, sys
from recon_tf.common.jobs import Job, run_jobs
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
folder = pathlib.Path(sys.argv[1])
flags = ('--task=maze_umaze', '--env.render=False', '--episodes=100000')
run_jobs([
  Job(x, 'demos', (*flags, f'--outdir={folder / x}'), folder / f'{x}.log') for x in 'ab'
])
"""


def test_interrupt_ends_what_runs_and_starts_no_more(tmp_path):
  command = [sys.executable, '-c', PROGRAM, str(tmp_path)]
  process = subprocess.Popen(command, env=ENV, stdout=subprocess.DEVNULL)
  deadline = time.time() + 300
  while not list(tmp_path.glob('a/*.npz')):
    assert process.poll() is None
    assert time.time() < deadline
    time.sleep(0.1)
  children = psutil.Process(process.pid).children()
  assert children
  process.send_signal(signal.SIGTERM)
  assert process.wait(60) == 143
  assert not any(x.is_running() for x in children)
  assert not (tmp_path / 'b').exists()
