"""The Gaussian ensemble RSSM: one recurrent state, one posterior, many prior heads."""

import tensorflow as tf

from recon_tf.nn import dists, nets, tfutils

State = dict[str, tf.Tensor]

OWNERS = 4096  # episodes whose owners are drawn; the next ones go round again


class EnsembleRSSM(tfutils.Module):
  """Equation (rssm): h_t = f(h, z, a), z_t ~ q(h_t, o_t), and K prior heads p_k(z_t | h_t).

  Sequences carry DreamerV2's convention: action[t] led to observation[t].
  """

  def __init__(
    self,
    rng,
    embed: int,
    action: int,
    deter: int,
    stoch: int,
    hidden: int,
    ensemble: int,
    min_std: float,
    act: str,
    head_choice: str,
    unroll: bool = False,
    dtype: tf.DType = tf.float32,
  ):
    self._deter, self._stoch, self._hidden, self._ensemble = deter, stoch, hidden, ensemble
    self._min_std, self._act = min_std, nets.ACTS[act]
    self._unroll = unroll
    self._per_sample = head_choice != 'batch'
    self._bootstrap = head_choice == 'episode'
    self.img_in = nets.Linear(rng, stoch + action, hidden, dtype=dtype)
    self.gru = nets.GRU(rng, hidden, deter, dtype=dtype)
    self.head_in = nets.Linear(rng, deter, hidden, heads=ensemble, dtype=dtype)
    self.head_out = nets.Linear(rng, hidden, 2 * stoch, heads=ensemble, dtype=dtype)
    self.obs_in = nets.Linear(rng, deter + embed, hidden, dtype=dtype)
    self.obs_out = nets.Linear(rng, hidden, 2 * stoch, dtype=dtype)
    self.units = stoch + deter

  def initial(self, batch: int) -> State:
    return {'deter': tf.zeros([batch, self._deter]), 'stoch': tf.zeros([batch, self._stoch])}

  def features(self, state: State) -> tf.Tensor:
    return tf.concat([state['stoch'], state['deter']], -1)

  def draw(self, batch: int, length: int, seeds: tfutils.Seeds, episode=None):
    """The noise that observe needs: posterior samples, and which head supplies the prior.

    With the numbers of the rows' episodes, [batch, time], a bootstrap keeps to their owners.
    """
    posterior = seeds.normal([length, batch, self._stoch])
    if self._bootstrap and episode is not None:
      number = tf.reshape(swap(episode), [-1])
      heads = owners_pick(seeds.uniform([length * batch, self._ensemble]), number)
    else:
      picks = [length * batch] if self._per_sample else [length]
      heads = seeds.onehot(picks, self._ensemble)
    return {'posterior': posterior, 'heads': heads}

  def observe(self, embed, action, is_first, noise: dict[str, tf.Tensor]):
    """Posterior and prior of sequences [batch, time, ...]; one drawn head supplies each prior.

    The recurrence needs only posteriors, so priors are computed for all times at once, and
    only by the head that was drawn.
    """
    batch = embed.shape[0]
    # The observation's share of the first posterior layer does not depend on the state.
    embed = nets.matmul(embed, self.obs_in.kernel[self._deter :], self.obs_in._dtype)
    keep = 1 - tf.cast(is_first, tf.float32)
    inputs = (swap(embed), swap(action), swap(keep), noise['posterior'])

    def step(state, inputs):
      embed, action, keep, noise = inputs
      deter = self._recur(state['deter'], state['stoch'], action, keep[:, None])
      mean, std = self._posterior(deter, embed)
      return {'deter': deter, 'stoch': mean + std * noise, 'mean': mean, 'std': std}

    start = self.initial(batch)
    start.update(mean=tf.zeros_like(start['stoch']), std=tf.zeros_like(start['stoch']))
    post = tfutils.scan(step, start, inputs, self._unroll)
    prior = self._drawn_prior(post['deter'], noise['heads'])
    return tf.nest.map_structure(swap, (post, prior))

  def obs_step(self, state: State, action, embed, is_first, noise) -> State:
    """One posterior step while acting; zero noise gives the posterior mean."""
    keep = 1 - tf.cast(is_first, tf.float32)[:, None]
    deter = self._recur(state['deter'], state['stoch'], action, keep)
    embed = nets.matmul(embed, self.obs_in.kernel[self._deter :], self.obs_in._dtype)
    mean, std = self._posterior(deter, embed)
    return {'deter': deter, 'stoch': mean + std * noise}

  def img_step(self, state: State, action, noise, head) -> State:
    """One prior step with the head that the one-hot row picks."""
    deter = self._recur(state['deter'], state['stoch'], action, 1.0)
    mean, std = self._prior(deter[None], head[None])
    return {'deter': deter, 'stoch': mean[0] + std[0] * noise}

  def mean_step(self, state: State, action) -> State:
    """One deterministic prior step: the mean of all heads' means, no sampling."""
    deter = self._recur(state['deter'], state['stoch'], action, 1.0)
    return {'deter': deter, 'stoch': tf.reduce_mean(self.head_means(deter), 0)}

  def head_means(self, deter: tf.Tensor, dtype: tf.DType | None = None) -> tf.Tensor:
    """[batch, deter] to the means of all heads, [heads, batch, stoch]."""
    hidden = self._act(self.head_in.fan_out(deter, dtype))
    return self.head_out.stacked(hidden, self._stoch, dtype)

  def uncertainty(self, deter: tf.Tensor) -> tf.Tensor:
    """U of the transitions that led to these deterministic states, [time, batch].

    In float32 at every precision: heads that agree differ by less than bfloat16 can tell apart.
    """
    time, batch = deter.shape[:2]
    flat = tf.reshape(deter, [time * batch, self._deter])
    return tf.reshape(disagreement(self.head_means(flat, tf.float32)), [time, batch])

  def _recur(self, deter, stoch, action, keep) -> tf.Tensor:
    x = tf.concat([stoch * keep, action * keep], -1)
    return self.gru(self._act(self.img_in(x)), deter * keep)

  def _posterior(self, deter, embed_part):
    kernel = self.obs_in.kernel[: self._deter]
    x = nets.matmul(deter, kernel, self.obs_in._dtype) + embed_part + self.obs_in.bias
    return self._stats(self.obs_out(self._act(x)))

  def _prior(self, deter, heads):
    """[time, batch, deter] with one head a time step, [time, heads]."""
    hidden = self._act(self.head_in.chosen(deter, heads))
    return self._stats(self.head_out.chosen(hidden, heads))

  def _drawn_prior(self, deter, heads) -> State:
    length, batch = deter.shape[:2]
    if self._per_sample:
      flat = tf.reshape(deter, [-1, self._deter])
      hidden = self._act(self.head_in.fan_out(flat))
      stats = self.head_out.stacked(hidden, 2 * self._stoch)
      stats = tf.einsum('kbs,bk->bs', stats, heads)
      mean, std = self._stats(tf.reshape(stats, [length, batch, -1]))
    else:
      mean, std = self._prior(deter, heads)
    return {'mean': mean, 'std': std}

  def _stats(self, x: tf.Tensor):
    mean, raw = tf.split(x, 2, -1)
    return mean, dists.squash_std(raw, self._min_std)


def owners_pick(uniform: tf.Tensor, episode: tf.Tensor) -> tf.Tensor:
  """One-hot rows [rows, heads]: one of the heads that own the row's episode, each as likely.

  Who owns an episode is fixed by its number: every head with a chance of one half, which is the
  double-or-nothing bootstrap. An episode that nobody owns belongs to all.
  """
  heads = uniform.shape[-1]
  table = tf.random.stateless_uniform([OWNERS, heads], [0, 0]) < 0.5
  owned = tf.gather(table, tf.math.floormod(episode, OWNERS))
  return tf.one_hot(tf.argmax(uniform + tf.cast(owned, tf.float32), -1), heads)


def disagreement(means: tf.Tensor) -> tf.Tensor:
  """Equation (implemented_uncertainty): mean over dims of the std over heads [heads, ..., dims].

  The epsilon keeps the gradient of the root finite where all heads agree.
  """
  centred = means - tf.reduce_mean(means, 0, keepdims=True)
  var = tf.reduce_mean(centred**2, 0)
  return tf.reduce_mean(tf.sqrt(var + 1e-12), -1)


def kl_loss(post: State, prior: State, free: float, balance: float):
  """Balanced KL with free nats on the batch mean, and the plain KL for the logs."""
  stop = lambda state: {k: tf.stop_gradient(v) for k, v in state.items()}
  kl = lambda a, b: dists.kl_gaussian(a['mean'], a['std'], b['mean'], b['std'])
  to_post, to_prior = kl(post, stop(prior)), kl(stop(post), prior)
  floor = lambda x: tf.maximum(tf.reduce_mean(x), free)
  return (1 - balance) * floor(to_post) + balance * floor(to_prior), tf.reduce_mean(to_post)


def swap(x: tf.Tensor) -> tf.Tensor:
  """Batch-major to time-major and back."""
  return tf.transpose(x, [1, 0, *range(2, len(x.shape))])
