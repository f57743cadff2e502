"""RECON: recoverability-conditioned exploration for model-based imitation, in TensorFlow 2."""

import importlib
import os

from recon_tf import quiet

__version__ = '0.2.0'

# oneDNN's convolutions are two to four times as fast as Eigen's, but TensorFlow turns them on for
# some processors only. It reads this when it is imported.
os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '1')

# TensorFlow's own notes (no CUDA here, oneDNN there) would bury ours; errors that matter come as
# exceptions. The first ones are written before this setting counts.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
quiet.install()

# Loaded on first use: the package itself imports neither TensorFlow nor a simulator.
LAZY = {'load_policy': 'recon_tf.policy', 'record': 'recon_tf.recording'}
__all__ = ['load_policy', 'record']


def __getattr__(name: str):
  if name in LAZY:
    return getattr(importlib.import_module(LAZY[name]), name)
  raise AttributeError(f"module 'recon_tf' has no attribute '{name}'")
