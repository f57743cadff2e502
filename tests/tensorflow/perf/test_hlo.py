"""Counts of programs that are known, in the text that XLA writes."""

import pytest
import tensorflow as tf

from recon_tf.common import UserError
from recon_tf.nn import microbatch
from recon_tf.perf import hlo

TEXT = """HloModule m

%inner_cond (p: (s32[])) -> pred[] {
  %p = (s32[]) parameter(0)
  %limit = s32[] constant(5)
  ROOT %less = pred[] compare(%p, %limit), direction=LT
}

%inner (p: (s32[])) -> (s32[]) {
  %p.1 = (s32[]) parameter(0)
  %add.1 = s32[] add(%p.1, %p.1)
  ROOT %t.1 = (s32[]) tuple(%add.1)
}

%outer (p: (s32[])) -> (s32[]) {
  %p.2 = (s32[]) parameter(0)
  %mul.1 = f32[2,2]{1,0} multiply(%p.2, %p.2)
  ROOT %w.1 = (s32[]) while(%p.2), condition=%inner_cond, body=%inner
}

ENTRY %main (p: f32[2]) -> f32[2] {
  %p.3 = f32[2]{0} parameter(0)
  %dot.1 = f32[2]{0} dot(%p.3, %p.3)
  %w.2 = (s32[]) while(%p.3), condition=%outer_cond, body=%outer, backend_config={"known_trip_count":{"n":"3"}}
  ROOT %f.1 = f32[2]{0} fusion(%p.3, %dot.1), kind=kLoop, calls=%fused
}
"""  # noqa: E501


def test_loops_count_as_often_as_they_turn():
  # Two kernels, and three times one with five times another inside.
  assert hlo.count(TEXT) == hlo.Counts(kernels=2 + 3 * (1 + 5), loops=2, trips=3 + 15, unknown=0)


def test_a_loop_of_unknown_length_is_not_counted_as_short():
  text = TEXT.replace(', backend_config={"known_trip_count":{"n":"3"}}', '')
  with pytest.raises(UserError, match="'outer'"):
    hlo.count(text.replace('%outer_cond', '%inner'))


def test_a_real_program_and_its_gradient():
  """The backward loop has the length of the forward one, which XLA does not know there."""
  weights = tf.Variable(tf.eye(4))

  def steps(x):
    return tf.scan(lambda state, _: tf.tanh(state @ weights), tf.range(7), x)[-1]

  @tf.function(jit_compile=True, autograph=False)
  def gradient(x):
    with tf.GradientTape() as tape:
      loss = tf.reduce_sum(steps(x))
    return tape.gradient(loss, weights)

  forward = tf.function(steps, jit_compile=True, autograph=False)
  count = lambda fn: hlo.count(fn.experimental_get_compiler_ir(tf.ones([2, 4]))('optimized_hlo'))
  one, both = count(forward), count(gradient)
  assert (one.loops, one.trips, one.unknown) == (1, 7, 0)
  assert (both.loops, both.trips, both.unknown) == (2, 14, 7)
  assert both.kernels > one.kernels >= 7


def test_loops_inside_of_pieces_turn_in_every_piece():
  weights = tf.Variable(tf.eye(4))

  def loss(start, inputs):
    y = tf.scan(lambda state, x: tf.tanh(state @ weights) + x, inputs, start[0])
    return tf.reduce_mean(y), {}, {}

  @tf.function(jit_compile=True, autograph=False)
  def gradient(inputs):
    with tf.GradientTape() as tape:
      value, *_ = microbatch.loss_in_pieces(loss, 3, [weights], tf.ones([1, 6, 4]), inputs)
    return tape.gradient(value, weights)

  text = gradient.experimental_get_compiler_ir(tf.ones([7, 6, 4]))('optimized_hlo')
  counts = hlo.count(text)
  # Three pieces, in each seven steps forward and as many backward.
  assert (counts.loops, counts.trips, counts.unknown) == (3, 3 + 3 * 7 + 3 * 7, 3 * 7)
