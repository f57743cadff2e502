"""The renderer: cheap settings, several at once, and machines without GL."""

import os
import subprocess
import sys

import mujoco
import numpy as np
import pytest

from recon_tf import envs


def test_fast_settings():
  env = envs.make('dmc_walker_run')
  renderer = env._renderer._renderer
  assert env.model.vis.quality.offsamples == 0
  assert (env.model.vis.global_.offheight, env.model.vis.global_.offwidth) == (64, 64)
  assert not renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW]
  assert not renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION]


def test_no_renderer_without_images():
  from recon_tf.common import load_config

  env = envs.make('dmc_walker_run', load_config().update({'env.render': False}))
  assert env._renderer is None
  assert env.render() is None


def test_environments_do_not_draw_into_each_other():
  tasks = ('dmc_walker_run', 'maze_umaze', 'metaworld_hammer', 'metaworld_drawer-open')
  alone = []
  for task in tasks:
    env = envs.make(task)
    alone.append(env.reset(0)['image'])
    env.close()
  together = [envs.make(task) for task in tasks]
  for _ in range(2):
    for env, image in zip(together, alone, strict=True):
      np.testing.assert_array_equal(env.reset(0)['image'], image)


def test_image_is_not_reused():
  env = envs.make('maze_umaze')
  first = env.reset(0)['image']
  copy = first.copy()
  env.reset(1)
  np.testing.assert_array_equal(first, copy)


PROGRAM = """
from recon_tf import envs
from recon_tf.common import UserError, load_config
envs.make('maze_umaze', load_config().update({'env.render': False})).reset()
try:
  envs.make('maze_umaze')
except UserError as error:
  print(error)
"""


@pytest.mark.parametrize(
  'variables',
  [
    {'MUJOCO_GL': 'egl', '__EGL_VENDOR_LIBRARY_DIRS': '/nonexistent'},
    {'MUJOCO_GL': 'nonsense'},
    {'MUJOCO_GL': 'off'},
  ],
)
def test_missing_gl_names_the_packages_and_vectors_still_work(variables):
  done = subprocess.run(
    [sys.executable, '-c', PROGRAM],
    capture_output=True,
    text=True,
    env={**os.environ, **variables},
  )
  assert done.returncode == 0, done.stderr
  assert 'libegl1 libegl-mesa0 libgl1-mesa-dri' in done.stdout
  assert '--env.render False' in done.stdout
  assert len(done.stdout.splitlines()) == 1
  assert 'Traceback' not in done.stderr


def test_mujoco_may_be_imported_first():
  program = "import mujoco\nfrom recon_tf import envs\nenvs.make('maze_umaze').reset()"
  variables = {k: v for k, v in os.environ.items() if k not in ('MUJOCO_GL', 'DISPLAY')}
  done = subprocess.run([sys.executable, '-c', program], capture_output=True, env=variables)
  assert done.returncode == 0, done.stderr
