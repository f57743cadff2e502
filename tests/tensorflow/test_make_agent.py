"""Values that do not fit together are refused, with both keys."""

import pytest

from recon_tf.common import load_config
from recon_tf.common.errors import UserError
from recon_tf.make_agent import check_together


def test_a_range_of_deviations_may_be_one_value_but_not_empty():
  config = load_config('cpu', 'state')
  check_together(config.update({'actor.min_std': 0.1, 'actor.max_std': 0.1}))
  with pytest.raises(UserError, match=r"'actor.min_std' is 0.2.*'actor.max_std'.*0.1"):
    check_together(config.update({'actor.min_std': 0.2, 'actor.max_std': 0.1}))


def test_the_tail_of_a_gate_lies_inside_its_horizon():
  config = load_config('cpu', 'state')
  check_together(config.update({'gate.tail': 5}))
  with pytest.raises(UserError, match=r"'gate.tail' is 6.*'gate.horizon'.*5"):
    check_together(config.update({'gate.tail': 6}))
