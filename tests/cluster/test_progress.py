"""The table of all runs, from what they write."""

import io
import json

from recon_tf.cluster import progress, work
from recon_tf.common.jobs import Job


def written_run(folder, step, success):
  (folder / 'eval').mkdir(parents=True)
  (folder / 'metrics.jsonl').write_text(f'{json.dumps({"step": step})}\n{{"step": 9')
  (folder / 'eval' / '000000030.json').write_text(json.dumps({'step': 30, 'success': success}))


def test_table_of_a_run(tmp_path):
  folder = tmp_path / 'maze_umaze' / 'recon' / '0'
  flags = ('--configs', 'maze', 'cpu', '--task', 'maze_umaze', '--logdir', str(tmp_path))
  job = Job('a', 'train', flags, tmp_path / 'a.log')
  stream = io.StringIO()
  shown = progress.Progress([job], stream)
  shown.show({'a': 'waiting'})
  written_run(folder, 60, 0.25)
  work.note_attempt(job.log, 'node:1')
  shown.show({'a': 'waiting'})
  shown.show({'a': 'waiting'})  # no news
  work.note_attempt(job.log, 'node:2')
  shown.show({'a': 'waiting'})
  (folder / 'eval' / 'final.json').write_text(json.dumps({'step': 3000, 'success': 0.5}))
  shown.show({'a': 'done'})
  lines = [x.split() for x in stream.getvalue().splitlines()]
  assert lines == [
    ['a', 'waiting'],
    ['a', 'running', '60/3000', '0.25', 'node:1'],
    ['a', 'running,', '2.', '60/3000', '0.25', 'node:2'],
    ['a', 'done', '60/3000', '0.50', 'node:2'],
  ]


def test_remaining_time_counts_from_where_a_run_was_found(tmp_path, monkeypatch):
  job = Job('a', 'demos', (), tmp_path / 'a.log')
  shown, now = progress.Progress([job], io.StringIO()), [0.0]
  monkeypatch.setattr(progress.time, 'monotonic', lambda: now[0])
  assert shown._eta('a', 1000, 3000) == ''
  now[0] = 600.0
  assert shown._eta('a', 2000, 3000) == '10 min'


def test_a_terminal_sees_one_table_in_its_place(tmp_path):
  class Terminal(io.StringIO):
    isatty = lambda self: True

  stream = Terminal()
  shown = progress.Progress([Job('a', 'demos', (), tmp_path / 'a.log')], stream)
  shown.show({'a': 'waiting'})
  first = len(stream.getvalue())
  shown.show({'a': 'done'})
  assert stream.getvalue()[first:].startswith('\x1b[2A')
  assert 'done' in stream.getvalue()[first:]
