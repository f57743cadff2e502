"""Two logical CPU devices share a batch, with XLA; they must exist before TensorFlow starts."""

import numpy as np
import pytest
import tensorflow as tf

from recon_tf.common.errors import UserError
from tests.helpers import agent_fixtures as fixtures


def main() -> None:
  (cpu,) = tf.config.list_physical_devices('CPU')
  tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
  agent = fixtures.make_agent(devices=2, jit=True, bc_opt='sgd')
  first, results = agent.state(), []
  compare_with_one_device(agent)
  for change in (0.0, 1.0):
    agent.restore(first)
    for number in range(2):
      data, expert = fixtures.batches(number)
      data['position'][2:] += change  # the second device's half
      metrics = agent.train(data, expert)
      assert all(np.isfinite(np.asarray(v)).all() for v in metrics.values())
    for name, value in agent.named.items():
      copies = [x.numpy().tobytes() for x in value.values]
      assert len(copies) == 2, name
      assert copies[0] == copies[1], name
    results.append(agent.state())
  assert agent.updates.numpy() == agent.model_opt.steps.numpy() == 2
  changed = fixtures.different(*results)
  assert 'world_model.decoder.mlp.out.bias' in changed, 'the second half had no influence'
  clones = []
  for change in (0.0, 0.5):
    agent.restore(first)
    data, expert = fixtures.batches()
    expert['action'][1:] -= change  # the second device's half
    agent.clone(data, expert)
    clones.append(agent.state())
  changed = fixtures.different(*clones)
  assert 'main.actor.out.bias' in changed, 'the second half of the expert had no influence'
  action, _ = agent.policy({k: v[:, 0] for k, v in fixtures.batch(3).items()}, None, 'eval')
  assert action['action'].shape == (3, 2)
  with pytest.raises(UserError, match=r'replay\.batch: 3 cannot be shared'):
    agent.train(fixtures.batch(3), fixtures.batch(2))
  refused = {
    'replay.expert_batch: 3 cannot be shared equally by devices: 2': {'replay.expert_batch': 3},
    'imag_starts: 5 cannot be shared equally by devices: 2': {'imag_starts': 5},
    'rssm.head_choice: episode needs devices: 1': {'rssm.head_choice': 'episode'},
  }
  for sentence, change in refused.items():
    with pytest.raises(UserError, match=sentence):
      fixtures.make_agent(devices=2, **change)
  print('equal on both devices')


def compare_with_one_device(agent) -> None:
  """Same noise, same numbers, up to the order of sums."""
  alone = fixtures.make_agent(bc_opt='sgd')
  alone.restore(agent.state())
  for number in range(2):
    data = fixtures.batches(number)
    for batch in data:  # every share has as many pairs that count
      batch['is_first'][:, 1:] = batch['is_last'][:] = batch['is_terminal'][:] = False
    update = 'train' if number == 0 else 'clone'
    one, two = (getattr(x, update)(*data) for x in (alone, agent))
    assert one.keys() == two.keys()
    for key, value in one.items():
      np.testing.assert_allclose(two[key], value, rtol=1e-4, atol=1e-5, err_msg=key)
  one, two = alone.state(), agent.state()
  for key, value in one.items():
    np.testing.assert_allclose(two[key], value, rtol=1e-4, atol=1e-5, err_msg=key)


if __name__ == '__main__':
  main()
