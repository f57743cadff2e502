"""These tests need TensorFlow: imported first, it tells tests/conftest.py to allow it."""

import tensorflow  # noqa: F401
