"""Metrics to Weights & Biases, beside the other outputs; needs the extra `wandb`."""

import io
import pathlib
import uuid

from recon_tf.common.errors import UserError
from recon_tf.common.files import write_bytes
from recon_tf.common.logger import encode_gif


class WandbOutput:
  """One run per run folder; a resumed one goes on with it. WANDB_MODE=offline writes files only."""

  def __init__(self, project: str, logdir: pathlib.Path, config):
    try:
      import wandb
    except ImportError as error:
      raise UserError(
        "wandb: the package is missing; install it with pip install 'recon_tf[wandb]'."
      ) from error
    self._wandb = wandb
    name = f'{config.task}-{config.method}-{config.seed}'
    key = pathlib.Path(logdir) / 'wandb_id.txt'
    if not key.exists():
      write_bytes(key, uuid.uuid4().hex[:8].encode())
    options = {'project': project, 'name': name, 'id': key.read_text().strip()}
    settings = wandb.Settings(silent=True, console='off')
    self._run = wandb.init(
      **options, dir=str(logdir), config=config.to_dict(), resume='allow', settings=settings
    )
    self._run.define_metric('*', step_metric='step')  # ours, which a resumed run repeats

  def __call__(self, step: int, scalars: dict, others: list) -> None:
    values = dict(scalars)
    for kind, name, value in others:
      if kind == 'histogram':
        values[name] = self._wandb.Histogram(value)
      elif kind == 'image':
        values[name] = self._wandb.Image(value)
      elif kind == 'video':
        frames, fps = value
        # Encoded here, because W&B would need another package for it.
        file = io.BytesIO(encode_gif(frames, fps))
        values[name] = self._wandb.Video(file, format='gif')
    if values:
      self._run.log({**values, 'step': step})

  def close(self) -> None:
    self._run.finish()
