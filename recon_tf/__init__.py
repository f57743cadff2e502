"""RECON: recoverability-conditioned exploration for model-based imitation, in TensorFlow 2."""

__version__ = '0.1.0'
