"""Which updates the benchmarks measure."""

from recon_tf.commands import bench_train
from recon_tf.common import load_config
from recon_tf.common.schedule import kind_of


def test_updates_that_are_measured_imagine_whatever_comes_first_in_a_run():
  config = load_config('dmc', 'cpu', 'state', 'debug')
  assert kind_of(config, 0) == 'follow'
  assert kind_of(bench_train.make_agent(config)._config, 0) == 'joint'
