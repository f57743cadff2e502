"""Long runs write thousands of numbers to TensorBoard: none of them may stay in memory."""

import sys

from recon_tf.common.logger import TensorBoardOutput


def test_written_numbers_are_let_go(tmp_path):
  output = TensorBoardOutput(tmp_path, ['eval/return'])
  step, value = int('123456789'), float('0.123456789')  # objects that nobody else holds
  before = sys.getrefcount(step), sys.getrefcount(value)
  output(step, {'eval/return': value}, [])
  assert (sys.getrefcount(step), sys.getrefcount(value)) == before
  output.close()
