"""A process that has TensorFlow loaded and computing while workers render all tasks."""

import numpy as np
import tensorflow as tf

from recon_tf.envs import TASKS, Worker


def main() -> None:
  for task in TASKS:
    worker = Worker(task)
    images = [worker.reset(0)['image']]
    for _ in range(5):
      action = np.ones(worker.act_space['action'].shape)
      images.append(worker.step({'action': action})['image'])
      tf.reduce_sum(tf.matmul(*[tf.cast(images[-1][..., 0], tf.float32)] * 2)).numpy()
    assert np.std(images[-1]) > 5, f'{task}: an empty picture'
    assert (images[0] != images[-1]).any(), f'{task}: a still picture'
    worker.close()
    print(task)


if __name__ == '__main__':
  main()
