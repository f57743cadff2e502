"""Several devices that share one batch, each with a copy of the weights."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from recon_tf.common.errors import UserError


def make_strategy(config) -> tf.distribute.Strategy:
  """One device, or as many as share a batch."""
  if config.devices == 1:
    return tf.distribute.get_strategy()
  kind = 'GPU' if tf.config.list_logical_devices('GPU') else 'CPU'
  found = tf.config.list_logical_devices(kind)
  if len(found) < config.devices:
    raise UserError(f'devices: {config.devices}, but TensorFlow sees {len(found)} {kind}s.')
  for key in ('replay.batch', 'replay.expert_batch', 'imag_starts'):
    check_share(key, config.flat[key], config.devices)
  if config.rssm.head_choice == 'episode':
    raise UserError('rssm.head_choice: episode needs devices: 1; choose batch or sample.')
  return tf.distribute.MirroredStrategy([x.name for x in found[: config.devices]])


def check_share(key: str, rows: int, devices: int) -> None:
  if rows % devices:
    raise UserError(
      f'{key}: {rows} cannot be shared equally by devices: {devices}; choose a multiple.'
    )


def replicated(strategy: tf.distribute.Strategy, fn: Callable) -> Callable:
  """fn(data, expert, seed) on every device with its share of both batches.

  All get the same seed: they draw the noise of the whole batch and take their share of that too,
  so that an update does not depend on how many devices there are.
  """
  devices = strategy.num_replicas_in_sync

  def on_device(data, expert, seed):
    mine = lambda batch: {k: own_share(v, 0) for k, v in batch.items()}
    return fn(mine(data), mine(expert), seed)

  def call(data, expert, seed):
    check_share('replay.batch', data['is_first'].shape[0], devices)
    check_share('replay.expert_batch', expert['is_first'].shape[0], devices)
    metrics = strategy.run(on_device, (data, expert, seed))
    return {k: joined(k, strategy.experimental_local_results(v)) for k, v in metrics.items()}

  return call


def joined(name: str, values: Sequence[tf.Tensor]) -> tf.Tensor:
  """One metric of the whole batch from those of its shares."""
  if values[0].shape.rank:
    return tf.concat(values, 0)
  kinds = {'min': tf.reduce_min, 'max': tf.reduce_max}
  return kinds.get(name.rpartition('/')[2], tf.reduce_mean)(tf.stack(values))


def own_share(x: tf.Tensor, axis: int, parts: Sequence[int] = ()) -> tf.Tensor:
  """This device's rows of what was made for all of them.

  parts: its rows of several batches that lie one after the other; each is shared by itself.
  """
  context = tf.distribute.get_replica_context()
  devices, number = context.num_replicas_in_sync, context.replica_id_in_sync_group
  if devices == 1:
    return x
  batches = tf.split(x, [devices * n for n in parts], axis) if parts else [x]
  return tf.concat([cut(batch, axis, number, devices) for batch in batches], axis)


def cut(x: tf.Tensor, axis: int, number: int, count: int) -> tf.Tensor:
  """One of so many equal pieces of an axis."""
  begin, size = [0] * len(x.shape), x.shape.as_list()
  size[axis] //= count
  begin[axis] = number * size[axis]
  return tf.slice(x, begin, size)
