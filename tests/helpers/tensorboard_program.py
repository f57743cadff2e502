"""Writes with TensorBoardOutput, reads the events back and prints what they hold."""

import io
import json
import sys

import numpy as np
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray

from recon_tf.common.logger import Logger, TensorBoardOutput


def main(folder: str) -> None:
  logger = Logger(5, [TensorBoardOutput(folder)])
  logger.scalar('model/loss', 2)
  logger.histogram('gate/values', np.arange(10))
  logger.image('pictures/one', np.full((4, 4, 3), 7, np.uint8))
  logger.video('videos/eval', np.arange(3, dtype=np.uint8)[:, None, None, None] * _ones(4, 6), 10)
  logger.hyperparameters({'rssm.deter': 200})
  logger.write()
  logger.close()
  events = EventAccumulator(folder)
  events.Reload()
  found = {'scalars': {}, 'histograms': [], 'images': {}, 'text': None}
  for tag in events.Tags()['images']:
    found['images'][tag] = _describe(events.Images(tag)[0].encoded_image_string)
  for tag in events.Tags()['tensors']:
    event = events.Tensors(tag)[0]
    value = make_ndarray(event.tensor_proto)
    plugin = events.SummaryMetadata(tag).plugin_data.plugin_name
    if plugin == 'scalars':
      found['scalars'][tag] = [[event.step, value.item()]]
    elif plugin == 'histograms':
      found['histograms'].append(tag)
    elif plugin == 'images':
      found['images'][tag] = _describe(value[2])
    elif plugin == 'text':
      found['text'] = value.item().decode().splitlines()[-1]
  print(json.dumps(found))


def _ones(height: int, width: int) -> np.ndarray:
  return np.full((1, height, width, 3), 50, np.uint8)


def _describe(data: bytes) -> list[int]:
  image = Image.open(io.BytesIO(data))
  return [image.height, image.width, getattr(image, 'n_frames', 1)]


if __name__ == '__main__':
  main(sys.argv[1])
