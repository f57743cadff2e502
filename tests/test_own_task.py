"""docs/own_task.md runs as it stands: environment, record, check, train, look, use, export."""

import os
import pathlib
import re
import stat
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PAGE = ROOT / 'docs' / 'own_task.md'


def blocks() -> list[tuple[str, str, str]]:
  """(language, file to write or '', content) in the order of the page."""
  return re.findall(r'```(python|bash)(?: file=(\S+))?\n(.*?)```', PAGE.read_text(), re.S)


def make_command(folder: pathlib.Path) -> dict[str, str]:
  """An environment in which `recon-tf` and `python` are those of this checkout."""
  (folder / 'bin').mkdir()
  for name, flags in (('recon-tf', ' -P -m recon_tf'), ('python', '')):
    path = folder / 'bin' / name
    path.write_text(f'#!/bin/sh\nexec {sys.executable}{flags} "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
  path = os.pathsep.join([str(folder / 'bin'), os.environ['PATH']])
  return {**os.environ, 'PATH': path, 'PYTHONPATH': str(ROOT)}


@pytest.mark.slow
def test_page_runs_as_it_stands(tmp_path):
  env, outputs = make_command(tmp_path), []
  for language, file, content in blocks():
    if file:
      (tmp_path / file).write_text(content)
      continue
    lines = content.strip().splitlines() if language == 'bash' else ['python block.py']
    (tmp_path / 'block.py').write_text(content)
    for line in lines:
      options = {'capture_output': True, 'text': True, 'check': False, 'cwd': tmp_path}
      result = subprocess.run(line, shell=True, **options, env=env)
      assert result.returncode == 0, f'{line}\n{result.stdout[-1500:]}\n{result.stderr[-1500:]}'
      outputs.append(result.stdout)
  text = '\n'.join(outputs)
  assert 'sees            vector [4]' in text
  assert '2 numbers, -1 to 1 is -2 to 2' in text
  assert text.count('12 of 40 decisions of an episode for the explorer\n') == 2  # 30 %
  assert text.count('What recon will learn from') == 2  # check, and train once more
  assert 'learned offline' in text
  assert 'distance at the end' in text
  for name in ('robot.mp4', 'exported.mp4', 'exported/policy.tflite', 'runs/report/index.html'):
    assert (tmp_path / name).exists(), name
  assert len(list((tmp_path / 'shown_from_code').glob('*.npz'))) == 5


def test_names_are_matched_before_training(tmp_path):
  env = make_command(tmp_path)
  (file, content), *_ = [(x[1], x[2]) for x in blocks() if x[1]]
  (tmp_path / file).write_text(content)
  record = 'recon-tf demos --record my_robot:expert --task gym_my_robot:Robot-v0 '
  record += '--env.render False --episodes 1 --outdir shown'
  rename = 'recon-tf demos --import-npz shown --outdir other --rename vector=observation'
  options = {'capture_output': True, 'text': True, 'check': False, 'cwd': tmp_path, 'env': env}
  for line in (record, rename):
    result = subprocess.run(line, shell=True, **options)
    assert result.returncode == 0, result.stderr
  train = 'recon-tf check --configs cpu state --task gym_my_robot:Robot-v0 --demos other'
  result = subprocess.run(train, shell=True, **options)
  assert result.returncode == 1
  assert 'the task has vector [4], they have observation [4]' in result.stderr
  assert 'add --rename observation=vector' in result.stderr
  result = subprocess.run(f'{train} --rename observation=vector', shell=True, **options)
  assert result.returncode == 0, result.stderr
