"""TensorFlow and Mesa crash in one process: tests/tensorflow runs in a process of its own."""

import importlib.abc
import pathlib
import sys

import pytest

FOLDER = pathlib.Path(__file__).parent / 'tensorflow'


class RefuseTensorFlow(importlib.abc.MetaPathFinder):
  """Fails what imports TensorFlow here, before it could crash the tests after it."""

  def find_spec(self, name, path=None, target=None):
    if name == 'tensorflow':
      raise ImportError(
        'Tests outside of tests/tensorflow cannot import TensorFlow, which crashes together with '
        'rendering; move this test there, or start a process in it.'
      )


def pytest_collection():
  if 'tensorflow' not in sys.modules:  # tests/tensorflow/conftest.py imports it before
    sys.meta_path.insert(0, RefuseTensorFlow())


def pytest_collection_modifyitems(items):
  if len({FOLDER in x.path.parents for x in items}) > 1:
    raise pytest.UsageError(
      'Tests of tests/tensorflow and others cannot share a process; call pytest once for each.'
    )
