"""The world model: encoder, ensemble RSSM, decoder, and the loss that trains them."""

import numpy as np
import tensorflow as tf

from recon_tf.nn import microbatch, nets, tfutils
from recon_tf.nn.scaler import Scaler
from recon_tf.rssm import EnsembleRSSM, kl_loss


class WorldModel(tfutils.Module):
  """Equation (world_model_loss) on expert and replay sequences."""

  def __init__(self, rng: np.random.Generator, config, shapes: dict, action: int, scaler: Scaler):
    dtype = tf.bfloat16 if config.precision == 16 else tf.float32
    self._config = config
    self._scaler = scaler
    self.encoder = nets.Encoder(rng, shapes, scaler, **config.encoder, dtype=dtype)
    options = {**config.rssm, 'unroll': config.unroll, 'dtype': dtype}
    self.rssm = EnsembleRSSM(rng, self.encoder.units, action, **options)
    self.decoder = nets.Decoder(rng, self.rssm.units, shapes, **config.decoder, dtype=dtype)
    self.observe = self.rssm.observe  # the agent may put a compiled one here

  def loss(self, data: dict[str, tf.Tensor], noise: dict[str, tf.Tensor]):
    """Loss, posterior states [batch, time] and metrics."""
    config = self._config
    batch, length = data['is_first'].shape
    limit = microbatch.rows_at_once(config.piece, self._floats())
    pieces = microbatch.count_pieces(batch, length, limit)
    args = (self.encoder.variables, {k: data[k] for k in self.encoder.keys})
    embed = microbatch.outputs_in_pieces(self.encoder, pieces, *args)
    post, prior = self.observe(embed, data['action'], data['is_first'], noise)
    kl, kl_value = kl_loss(post, prior, config.kl.free, config.kl.balance)
    targets = {k: data[k] for k in self.decoder.keys}
    pieces = microbatch.count_pieces(length, batch, limit)
    args = (self.decoder.variables, self.rssm.features(post), targets)
    like, metrics, _ = microbatch.loss_in_pieces(self.reconstruction, pieces, *args)
    metrics = {'model/kl': kl_value, **metrics}
    metrics['model/prior_std'] = tf.reduce_mean(prior['std'])
    metrics['model/post_std'] = tf.reduce_mean(post['std'])
    return config.kl.scale * kl - like, post, metrics

  def _floats(self) -> int:
    """Activations of one observation in encoder and decoder."""
    return self.encoder.activations + self.decoder.activations

  def reconstruction(self, features: tf.Tensor, data: dict[str, tf.Tensor]):
    """Weighted mean log p(o | s), the mean error of each key, and nothing for each row."""
    likes, errors = [], {}
    for key, like in self.log_likelihoods(features, data).items():
      scale = self._config.decoder_scale['image' if len(data[key].shape) == 5 else 'vector']
      errors[f'model/{key}_error'] = -tf.reduce_mean(like)
      likes.append(scale * tf.reduce_mean(like))
    return tf.add_n(likes), errors, {}

  def log_likelihoods(self, features: tf.Tensor, data) -> dict[str, tf.Tensor]:
    """log p(o | s) of unit Gaussians up to their constant, summed over pixels or entries."""
    likes = {}
    for key, mean in self.decoder(features).items():
      if len(data[key].shape) == 5:
        target = tf.cast(data[key], tf.float32) / 255 - 0.5
      else:
        target = self._scaler.scale(key, data[key])
      axes = list(range(2, len(target.shape)))
      likes[key] = -0.5 * tf.reduce_sum((mean - target) ** 2, axes)
    return likes

  def open_loop(self, data, context: int, noise) -> dict[str, tf.Tensor]:
    """Decoded means: posterior for the first steps, then the prior mean on recorded actions."""
    embed = self.encoder(data)
    post, _ = self.observe(embed, data['action'], data['is_first'], noise)
    features = [self.rssm.features(post)[:, :context]]
    state = {k: post[k][:, context - 1] for k in ('deter', 'stoch')}
    for t in range(context, data['action'].shape[1]):
      state = self.rssm.mean_step(state, data['action'][:, t])
      features.append(self.rssm.features(state)[:, None])
    return self.decode(tf.concat(features, 1))

  def decode(self, features: tf.Tensor) -> dict[str, tf.Tensor]:
    """Means in the units of the observations; images are shifted by one half."""
    image = lambda x: len(x.shape) == len(features.shape) + 2
    means = self.decoder(features)
    return {k: x if image(x) else self._scaler.unscale(k, x) for k, x in means.items()}
