"""Imports TensorFlow without the notes that it writes before anybody can turn them off."""

import os
import sys
import tempfile


def import_tensorflow() -> None:
  """Call before the first `import tensorflow`; if that fails, everything it said is shown."""
  if 'tensorflow' in sys.modules:
    return
  sys.stderr.flush()
  shown = os.dup(2)
  with tempfile.TemporaryFile() as notes:
    os.dup2(notes.fileno(), 2)
    try:
      import tensorflow
      import tensorflow_probability

      del tensorflow, tensorflow_probability
    except BaseException:
      notes.seek(0)
      os.write(shown, notes.read())
      raise
    finally:
      os.dup2(shown, 2)
      os.close(shown)
