"""A policy at work: whole episodes in a process that renders, with the result on the pictures."""

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from recon_tf import envs
from recon_tf.common.config import load_config
from recon_tf.common.errors import UserError
from recon_tf.policy import Policy

SIDE = 256  # pixels of a shown picture
SEED = 20_000  # of the first episode; evaluations have others


@dataclasses.dataclass(frozen=True)
class Episode:
  """What was seen, and how it went; success is None where the task has none."""

  frames: list[np.ndarray]
  returns: float
  success: bool | None

  @property
  def result(self) -> str:
    if self.success is None:
      return f'return {self.returns:.1f}'
    return f'{"success" if self.success else "no success"}, return {self.returns:.1f}'


@contextlib.contextmanager
def stage(policy: Policy, render: bool = True) -> Iterator[envs.Worker]:
  """The policy's task, with pictures; large ones where the policy does not look at them."""
  env, looks = dict(policy.info['env']), 'image' in policy.inputs
  size = env['size'] if looks else [SIDE, SIDE]
  config = load_config().update(env={**env, 'render': render or looks, 'size': list(size)})
  worker = envs.Worker(policy.info['task'], config, policy.info['seed'])
  try:
    yield worker
  finally:
    worker.close()


def play_episode(policy: Policy, worker: envs.Worker, seed: int) -> Episode:
  """One episode to its end."""
  title, total, frames = f'{policy.info["task"]}, {policy.info["method"]}', 0.0, []
  for obs in observations(policy, worker, seed):
    total += float(obs['reward'])
    success = bool(obs['log_success'] > 0) if 'log_success' in obs else None
    episode = Episode(frames, total, success)
    frames.append(captioned(obs['image'], title, episode.result))
  return episode


def observations(policy: Policy, worker: envs.Worker, seed: int) -> Iterator[dict]:
  """What the policy meets in an episode, from the first to the last."""
  policy.reset()
  obs = worker.reset(seed)
  yield obs
  while not obs['is_last']:
    obs = worker.step({'action': policy.spaces.scaled(policy.act(obs))})
    yield obs


def captioned(image: np.ndarray, *lines: str) -> np.ndarray:
  """The picture enlarged, with lines of text under it."""
  scale = max(1, SIDE // image.shape[1])
  height, width = image.shape[0] * scale, image.shape[1] * scale
  row = 18
  canvas = Image.new('RGB', (width, height + row * len(lines)), 'white')
  canvas.paste(Image.fromarray(image).resize((width, height), Image.NEAREST))
  draw = ImageDraw.Draw(canvas)
  for number, line in enumerate(lines):
    place = (4, height + row * number + 2)
    draw.text(place, line, 'black', ImageFont.load_default(12))
  even = canvas.size[0] // 2 * 2, canvas.size[1] // 2 * 2  # what video codecs take
  return np.asarray(canvas.crop((0, 0, *even)))


def write_video(path: pathlib.Path, frames: list[np.ndarray], fps: int = 20) -> None:
  """.mp4, or .gif by the name."""
  import imageio

  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == '.gif':
      from recon_tf.common.logger import encode_gif

      path.write_bytes(encode_gif(np.stack(frames), fps))
    else:
      imageio.mimwrite(path, frames, fps=fps, macro_block_size=None)
  except (OSError, ValueError) as error:
    raise UserError(f"Cannot write '{path}': {error}.") from error
