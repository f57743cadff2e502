"""The simulator's own renderer, kept open; the only file that knows about GL."""

import atexit
import contextlib
import os
import sys
import weakref

import numpy as np

from recon_tf.common.errors import UserError

GL_HELP = (
  'Install the GL library with `apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri libopengl0` '
  '(as root), leave MUJOCO_GL unset, or do without images with --env.render False.'
)


# Pixels up to which coarser shapes look the same.
SMALL = 96


def _import_mujoco():
  """MuJoCo and the reason why it cannot render, if any; vectors work without GL."""
  try:
    import mujoco

    if os.environ.get('MUJOCO_GL') == 'egl':
      # If imported before this package, MuJoCo chose a backend that needs a display.
      from mujoco import egl, gl_context

      gl_context.GLContext = egl.GLContext
    return mujoco, ''
  except Exception as error:  # PyOpenGL raises whatever the broken library makes it raise
    reason = f'MUJOCO_GL={os.environ.get("MUJOCO_GL", "")}: {error}'
  for name in [x for x in sys.modules if x.partition('.')[0] in ('mujoco', 'OpenGL')]:
    del sys.modules[name]
  os.environ['MUJOCO_GL'] = 'off'
  os.environ.pop('PYOPENGL_PLATFORM', None)
  import mujoco

  return mujoco, reason


mujoco, _gl_missing = _import_mujoco()
_open: weakref.WeakSet = weakref.WeakSet()


def gl_error(reason: object) -> UserError:
  """The sentence for a machine that cannot render."""
  reason = ' '.join(str(reason).split()) or 'no reason given'
  return UserError(f'Cannot render images ({reason}). {GL_HELP}')


def require_gl() -> None:
  """Raises the UserError if MuJoCo was loaded without GL."""
  off = os.environ.get('MUJOCO_GL', '').lower() in ('off', 'disable', 'disabled', 'false', '0')
  if _gl_missing or off:
    raise gl_error(_gl_missing or 'MUJOCO_GL turns rendering off')


def _require_display() -> None:
  """Asks EGL for a display first: MuJoCo's half-made contexts are noisy when they go."""
  egl = sys.modules.get('mujoco.egl')
  if egl and os.environ['MUJOCO_GL'] == 'egl' and egl.EGL_DISPLAY is None:
    try:
      found = egl.create_initialized_egl_device_display() != egl.EGL.EGL_NO_DISPLAY
    except Exception as error:
      raise gl_error(error) from error
    if not found:
      raise gl_error('EGL finds no device')


class Renderer:
  """One open renderer for one model; fast because nothing is oversized or shadowed."""

  def __init__(self, model, size: tuple[int, int], camera, rotate: bool = False):
    """camera: a number, a name or an MjvCamera; rotate turns the image by 180 degrees."""
    require_gl()
    _require_display()
    self._camera = camera
    self._rotate = rotate
    height, width = size
    model.vis.quality.offsamples = 0
    model.vis.global_.offheight = height
    model.vis.global_.offwidth = width
    if max(size) <= SMALL:
      # Round shapes in fewer facets: up to twice as fast, and not visible at this size.
      quality = model.vis.quality
      quality.numslices, quality.numstacks, quality.numquads = 16, 10, 2
    # Without shadows there is no use for the shadow map, which is large.
    model.vis.quality.shadowsize = 0
    try:
      self._renderer = mujoco.Renderer(model, height, width)
    except Exception as error:
      raise gl_error(error) from error
    close_at_exit(self)
    flags = self._renderer.scene.flags
    flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False
    flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False

  def __call__(self, data) -> np.ndarray:
    """uint8 image [height, width, 3] of the data's current poses."""
    self._renderer.update_scene(data, self._camera)
    image = self._renderer.render()
    return np.ascontiguousarray(image[::-1, ::-1]) if self._rotate else image

  def close(self) -> None:
    with contextlib.suppress(Exception):  # a second close is harmless
      self._renderer.close()


def close_at_exit(renderer) -> None:
  """Closes it at exit before MuJoCo ends the display; call it once there is a GL context."""
  _open.add(renderer)
  # Handlers run in reverse order, so this one must stay after MuJoCo's.
  atexit.unregister(_close_all)
  atexit.register(_close_all)


def _close_all() -> None:
  for renderer in list(_open):
    renderer.close()


def check_camera(model, camera: int | str, key: str) -> None:
  """Refuses a camera that the model does not have, with the ones it has."""
  names = [model.camera(i).name for i in range(model.ncam)]
  if isinstance(camera, str):
    known = camera in names
  else:
    known = -1 <= camera < model.ncam
  if not known:
    listed = ', '.join(f'{i} {name}'.strip() for i, name in enumerate(names))
    raise UserError(f"{key}: no camera '{camera}' in this task; it has {listed or 'none'}.")
