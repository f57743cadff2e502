"""What the tests of several scripts share."""

import pytest

from tests.helpers.run_fixtures import tiny_run


@pytest.fixture(scope='session')
def finished_run(tmp_path_factory):
  """With three episodes of 60 steps, and a milestone before and after each; not to be changed."""
  schedule = {'windows': {'strata': 4, 'length': 6, 'full': 60}}
  return tiny_run(tmp_path_factory.mktemp('finished'), keep=1, keep_every=50, **schedule)
