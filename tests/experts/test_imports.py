"""Experts and demonstrations must not bring TensorFlow into a process that renders."""

import subprocess
import sys


def test_experts_and_demos_import_without_tensorflow():
  code = (
    'import sys, recon_tf.demos, recon_tf.experts.dmc, recon_tf.experts.maze;'
    'import recon_tf.experts.metaworld, metaworld.policies, minari, h5py;'
    "sys.exit(any(x.split('.')[0] in ('tensorflow', 'keras', 'tf_keras') for x in sys.modules))"
  )
  assert subprocess.run([sys.executable, '-c', code], check=False).returncode == 0
