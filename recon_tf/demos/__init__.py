"""Demonstrations: made by the experts or imported, checked, previewed. No TensorFlow in here."""

from recon_tf.demos.check import check_folder
from recon_tf.demos.ensure import demo_folder, ensure_demos, ensure_for
from recon_tf.demos.evaluate import evaluate_experts
from recon_tf.demos.importers import import_hdf5, import_minari, import_npz
from recon_tf.demos.make import make_demos
from recon_tf.demos.match import match_demos, rename
from recon_tf.demos.preview import write_preview

__all__ = [
  'check_folder',
  'demo_folder',
  'ensure_demos',
  'ensure_for',
  'evaluate_experts',
  'import_hdf5',
  'import_minari',
  'import_npz',
  'make_demos',
  'match_demos',
  'rename',
  'write_preview',
]
