"""RECON: recoverability-conditioned exploration for model-based imitation, in TensorFlow 2."""

import os

__version__ = '0.1.0'

# oneDNN's convolutions are two to four times as fast as Eigen's, but TensorFlow turns them on for
# some processors only. It reads this when it is imported.
os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '1')

# TensorFlow's own start-up notes (no CUDA here, oneDNN there) would bury ours; errors that matter
# come as exceptions.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
