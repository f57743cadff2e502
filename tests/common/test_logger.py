import io
import json
import math
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from recon_tf.common.counter import Counter
from recon_tf.common.errors import UserError
from recon_tf.common.logger import JSONLOutput, Logger, Progress, TerminalOutput, encode_gif
from recon_tf.common.seals import seal

# A program of its own finds the package where this one did.
ENV = {**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)}


def read_lines(folder):
  return [json.loads(x) for x in (folder / 'metrics.jsonl').read_text().splitlines()]


def refuse(constant):
  raise ValueError(constant)


def test_jsonl_averages_scalars_and_stays_valid_json(tmp_path):
  step = Counter(7)
  logger = Logger(step, [JSONLOutput(tmp_path)])
  logger.add({'loss': 1.0, 'norm': np.float32(2)}, prefix='model')
  logger.add({'loss': 3.0}, prefix='model')
  logger.scalar('bad', math.nan)
  logger.scalar('worse', math.inf)
  logger.write()
  step.increment()
  logger.scalar('only', 1)
  logger.write()
  lines = (tmp_path / 'metrics.jsonl').read_text().splitlines()
  parsed = [json.loads(x, parse_constant=refuse) for x in lines]
  first = {'step': 7, 'model/loss': 2.0, 'model/norm': 2.0, 'bad': None, 'worse': None}
  assert parsed == [seal(first), seal({'step': 8, 'only': 1.0})]


def write_steps(folder, steps, **kwargs):
  step = Counter()
  logger = Logger(step, [JSONLOutput(folder, **kwargs)])
  for value in steps:
    step.reset(value)
    logger.scalar('x', value)
    logger.write()
  logger.close()


def test_jsonl_is_appended_and_cut_lines_are_removed(tmp_path):
  write_steps(tmp_path, [1, 2])
  with open(tmp_path / 'metrics.jsonl', 'a') as file:
    file.write('{"step": 3, "x"')
  write_steps(tmp_path, [3])
  assert [x['step'] for x in read_lines(tmp_path)] == [1, 2, 3]


def test_jsonl_forgets_what_a_resumed_run_does_again(tmp_path):
  write_steps(tmp_path, [10, 20, 30])
  write_steps(tmp_path, [25], resume=20)
  assert [x['step'] for x in read_lines(tmp_path)] == [10, 20, 25]


def test_jsonl_unwritable(tmp_path):
  (tmp_path / 'file').write_text('')
  with pytest.raises(UserError, match='file'):
    JSONLOutput(tmp_path / 'file')


def test_progress_line():
  times = iter([100.0, 110.0, 120.0])
  progress = Progress(10_000, clock=lambda: next(times))
  assert progress(2000) == 'step 2,000/10,000 (20%)'
  line = progress(3000, {'train/return': 12.345, 'model/loss': 1})
  assert line == 'step 3,000/10,000 (30%) | 100.0 fps | train return 12.35 | ETA 0:01:10'
  line = progress(3500, {'eval/success': 0.4})
  assert line == 'step 3,500/10,000 (35%) | 50.0 fps | eval success 0.40 | ETA 0:01:27'


def test_time_left_may_be_known_better():
  left = iter([None, 100.0])
  progress = Progress(1000, clock=lambda: 5.0, left=lambda: next(left))
  assert 'ETA' not in progress(0)
  assert progress(600).endswith('ETA 0:01:40')


def test_progress_without_time_or_steps_passing():
  progress = Progress(0, 'task', clock=lambda: 5.0)
  assert progress(0).startswith('task | step 0/0')
  assert 'ETA' not in progress(0)


def test_terminal_prints_one_line(capsys):
  logger = Logger(Counter(50), [TerminalOutput(100)])
  logger.text('note', 'not printed')
  logger.write()
  logger.add({'a': 1, 'eval/success': 1})
  logger.write()
  assert capsys.readouterr().out == 'step 50/100 (50%) | eval success 1.00\n'


def test_gif_keeps_frames_and_speed():
  frames = np.zeros((4, 8, 16, 3), np.uint8)
  frames[np.arange(4), :, :, 0] = np.array([0, 80, 160, 240])[:, None, None]
  gif = Image.open(io.BytesIO(encode_gif(frames, 20)))
  assert gif.size == (16, 8)
  assert gif.n_frames == 4
  assert gif.info['duration'] == 50
  gif.seek(3)
  assert gif.convert('RGB').getpixel((3, 3)) == (240, 0, 0)


def test_pixels_are_checked():
  logger = Logger(0, [])
  with pytest.raises(ValueError, match="'x'"):
    logger.image('x', np.zeros((4, 4, 3), np.float32))


def test_logger_does_not_import_tensorflow(tmp_path):
  program = 'import sys, recon_tf.common.logger; sys.exit("tensorflow" in sys.modules)'
  assert subprocess.run([sys.executable, '-c', program], env=ENV).returncode == 0


@pytest.mark.slow
def test_tensorboard_holds_everything(tmp_path):
  # In a process of its own, because TensorFlow must not meet the renderers of other tests.
  program = pathlib.Path(__file__).parents[1] / 'helpers' / 'tensorboard_program.py'
  result = subprocess.run(
    [sys.executable, program, tmp_path], capture_output=True, text=True, env=ENV
  )
  assert result.returncode == 0, result.stderr
  assert json.loads(result.stdout.splitlines()[-1]) == {
    'scalars': {'model/loss': [[5, 2.0]]},
    'histograms': ['gate/values'],
    'images': {'pictures/one': [4, 4, 1], 'videos/eval': [4, 6, 3]},
    'text': '| rssm.deter | 200 |',
  }
