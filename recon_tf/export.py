"""Policies as files that need nothing of this package: SavedModel, TFLite, and a card."""

import pathlib
import re
import shutil
import tempfile

import tensorflow as tf

from recon_tf import __version__
from recon_tf.acting import Acting, act_function
from recon_tf.card import CARD, FORMAT, write_card
from recon_tf.common.errors import UserError
from recon_tf.common.files import write_json
from recon_tf.common.spaces import Spaces
from recon_tf.policy import open_acting


def export_policy(
  run: str | pathlib.Path,
  out: str | pathlib.Path,
  tflite: bool = True,
  half: bool = False,
  limit: int = 0,
) -> dict:
  """Writes OUT/{saved_model,policy.tflite,policy.json,README.md}; returns what policy.json says.

  half: the TFLite file keeps its weights in 16 bits. limit: the bytes of all files, 0 for any.
  """
  run, out = pathlib.Path(run), pathlib.Path(out)
  if not (run / 'config.yaml').exists():
    raise UserError(f"'{run}' holds no run (no config.yaml in it), so there is nothing to export.")
  if out.is_file() or not out.name:
    what = 'is a file' if out.name else 'is the working folder'
    raise UserError(f"'{out}' {what}; choose a folder for the policy.")
  if out.exists() and any(out.iterdir()) and not (out / CARD).exists():
    raise UserError(f"'{out}' holds other files; choose an empty folder.")
  acting, spaces, info = open_acting(run)
  beside = out.with_name(f'.{out.name}.writing')
  shutil.rmtree(beside, ignore_errors=True)
  try:
    beside.mkdir(parents=True)
    write_saved_model(acting, spaces, beside / 'saved_model')
    reason = 'it was not asked for'
    if tflite:
      reason = write_lite(acting, spaces, beside / 'policy.tflite', half)
    card = describe(acting, spaces, info, reason, half)
    write_json(beside / CARD, card)
    write_card(beside, card)
    if limit and folder_size(beside) > limit:
      raise UserError(
        f"The policy of '{run}' has {folder_size(beside):,} bytes, more than {limit:,}; "
        f"'{out}' stays as it was."
      )
    shutil.rmtree(out, ignore_errors=True)
    beside.rename(out)
  except (OSError, tf.errors.OpError) as error:
    reason = getattr(error, 'strerror', None) or str(error).splitlines()[0]
    reason = re.sub(r'^{{.*?}} ', '', reason)  # TensorFlow's name of its operation
    raise UserError(f"Cannot write '{out}': {reason}.") from error
  finally:
    shutil.rmtree(beside, ignore_errors=True)
  return card


def folder_size(folder: pathlib.Path) -> int:
  return sum(x.stat().st_size for x in folder.rglob('*') if x.is_file())


def describe(acting: Acting, spaces: Spaces, info: dict, reason: str, half: bool = False) -> dict:
  """policy.json: all that a user of the files has to know."""
  kind = lambda x: {'shape': [*x.shape], 'dtype': x.dtype.name}
  return {
    'format': FORMAT,
    'version': __version__,
    'info': info,
    'inputs': [*acting.inputs],
    'memory': {k: kind(v) for k, v in acting.memory.items()},
    'any_batch': acting.any_batch,
    'tflite': not reason,
    'tflite_missing': reason,
    'tflite_half': half and not reason,
    'spaces': spaces.to_dict(),
  }


def write_saved_model(acting: Acting, spaces: Spaces, folder: pathlib.Path, batch=None) -> None:
  """Signatures `act` and `initial`; only the variables that acting reads are kept."""
  batch = batch if acting.any_batch else 1
  act = act_function(acting, spaces.middle, spaces.half, batch)

  @tf.function(input_signature=[tf.TensorSpec([], tf.int32, 'batch')], autograph=False)
  def initial(batch):
    zeros = lambda x: tf.zeros(tf.concat([[batch], tf.constant([*x.shape], tf.int32)], 0), x.dtype)
    memory = {f'memory_{k}': zeros(v) for k, v in acting.memory.items()}
    return {**memory, 'is_first': tf.ones([batch], tf.bool)}

  module = tf.Module()
  module.weights = weights_of(act)
  signatures = {'act': act, 'initial': initial.get_concrete_function()}
  options = tf.saved_model.SaveOptions(save_debug_info=False, experimental_custom_gradients=False)
  tf.saved_model.save(module, str(folder), signatures, options)


def weights_of(function) -> list[tf.Variable]:
  """In the order in which the graph reads them, so that exporting again writes the same files."""
  variables = {id(x.handle): x for x in function.graph.variables}
  return [variables[id(x)] for x, _ in function.graph.captures if id(x) in variables]


def write_lite(acting: Acting, spaces: Spaces, path: pathlib.Path, half: bool = False) -> str:
  """The same for one row as a TFLite file; returns why not, if its operations do not allow it."""
  if not acting.any_batch:
    return 'the planner draws random numbers in a way that TFLite has no operation for'
  usual = acting.scaler.asinh
  acting.scaler.asinh = plain_asinh
  try:
    with tempfile.TemporaryDirectory() as folder:
      write_saved_model(acting, spaces, pathlib.Path(folder), batch=1)
      converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=['act'])
      if half:  # stored so; what is computed stays in 32 bits
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.target_spec.supported_types = [tf.float16]
      path.write_bytes(converter.convert())
  except OSError:  # a full disk is no lack of operations
    raise
  except Exception as error:  # the converter raises all kinds; the SavedModel is there anyway
    return f'{type(error).__name__}: {str(error).splitlines()[0]}'
  finally:
    acting.scaler.asinh = usual
  return ''


def plain_asinh(x: tf.Tensor) -> tf.Tensor:
  """From operations that TFLite knows; both signs are computed as the positive one, to be exact."""
  size = tf.abs(x)
  return tf.sign(x) * tf.math.log(size + tf.sqrt(size * size + 1))
