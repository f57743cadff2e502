"""Floating-point operations of one update, counted from the config alone.

The rules:
- Only matrix products and convolutions count, a multiplication and an addition each.
- Backward, a layer costs its forward products once more for the gradient of its weights and once
  more for that of its inputs, each only where something needs it: not the weights of networks
  that are frozen here, not the inputs that are data.
- Products that occur twice count once: the program is free to share or to recompute them.
- The one-hot products that pick a head select, they do not compute: not counted.
"""

from recon_tf.nn.nets import select

FORWARD, FROZEN, LEARNED = 1, 2, 3  # products of a layer: alone, with inputs, with weights too


def count_flops(config, shapes: dict[str, tuple], action: int) -> dict[str, int]:
  """Operations of an update by part; `shapes` are those of the observations."""
  rows, extra, length = config.replay.batch, config.replay.expert_batch, config.replay.length
  trained = (rows + extra if config.expert_mix == 'concat' else rows) * length
  features = config.rssm.stoch + config.rssm.deter
  counts = {'model': trained * model_step(config, shapes, action)}
  counts['model'] -= trained // length * stack(config.rssm.stoch + action, [config.rssm.hidden])
  if config.expert_mix != 'concat':
    counts['model'] += extra * length * posterior_step(config, shapes, action)
  pairs = extra * (length - 1)
  if config.behavior != 'imitation':
    cloned = cloning(config, config.main, action, pairs) if config.behavior == 'bc' else 0
    return {k: 2 * v for k, v in {**counts, 'main': cloned}.items()}
  disc = layers(features + action, [*config.disc.layers, 1])
  starts = config.imag_starts if 0 < config.imag_starts < rows * length else rows * length
  counts['main'] = behavior(config, action, starts)
  counts['main'] += cloning(config, config.main, action, pairs)
  if config.main.replay_critic:
    critic = layers(features + action, [*config.critic.layers, 1])
    counts['main'] += starts * (sum(disc) + 2 * on_data(critic))
  imagined = config.horizon * starts
  # Noisy and noise-free logits; the noisy ones of the policy were needed for the reward already.
  counts['disc'] = pairs * (on_data(disc) + sum(disc)) + imagined * on_data(disc)
  if config.explorer.enabled:
    counts['explorer'] = behavior(config, action, starts) + imagined * sum(disc)
    counts['explorer'] += cloning(config, config.explorer, action, pairs)
    counts['explorer'] += starts * gate(config, action)
  return {k: 2 * v for k, v in counts.items()}


def clone_flops(config, shapes: dict[str, tuple], action: int) -> int:
  """Operations of an update that clones: beliefs of the demonstrations, then the actors."""
  extra, length = config.replay.expert_batch, config.replay.length
  policies = [config.main, config.explorer] if config.explorer.enabled else [config.main]
  total = sum(cloning(config, x, action, extra * (length - 1)) for x in policies)
  return 2 * (total + extra * length * posterior_step(config, shapes, action))


def layers(inputs: int, units: list[int]) -> list[int]:
  """Products of each dense layer for one row."""
  return [a * b for a, b in zip([inputs, *units[:-1]], units, strict=True)]


def stack(inputs: int, units: list[int]) -> int:
  return sum(layers(inputs, units))


def on_data(products: list[int]) -> int:
  """A network that learns from inputs that need no gradient."""
  return LEARNED * sum(products) - products[0]


# World model


def model_step(config, shapes, action: int) -> int:
  """Encoder, recurrence, posterior, the drawn prior head and decoder, for one observation."""
  encoders, embed = encoder(config.encoder, shapes)
  heads = config.rssm.ensemble if config.rssm.head_choice != 'batch' else 1
  total = sum(on_data(x) for x in encoders)
  total += LEARNED * (recurrence(config.rssm, action) + posterior(config.rssm, embed))
  total += LEARNED * heads * head(config.rssm, 2 * config.rssm.stoch)
  return total + LEARNED * decoder(config, shapes)


def posterior_step(config, shapes, action: int) -> int:
  """What expert sequences cost that do not train the model."""
  encoders, embed = encoder(config.encoder, shapes)
  return sum(map(sum, encoders)) + recurrence(config.rssm, action) + posterior(config.rssm, embed)


def encoder(settings, shapes) -> tuple[list[list[int]], int]:
  """Products of each layer of its networks, and the size of the embedding."""
  networks, embed = [], 0
  images, vectors = select(shapes, settings.cnn_keys, 3), select(shapes, settings.mlp_keys, 1)
  if images:
    size, channels = next(iter(images.values()))[0], sum(x[-1] for x in images.values())
    networks.append([])
    for i, kernel in enumerate(settings.cnn_kernels):
      size, units = (size - kernel) // 2 + 1, settings.cnn_depth * 2**i
      networks[-1].append(size**2 * kernel**2 * channels * units)
      channels = units
    embed += size**2 * channels
  if vectors:
    networks.append(layers(sum(x[0] for x in vectors.values()), settings.mlp_layers))
    embed += settings.mlp_layers[-1]
  return networks, embed


def decoder(config, shapes) -> int:
  settings, features = config.decoder, config.rssm.stoch + config.rssm.deter
  images, vectors = select(shapes, settings.cnn_keys, 3), select(shapes, settings.mlp_keys, 1)
  total = 0
  if images:
    size, channels = 1, 32 * settings.cnn_depth
    total += features * channels
    depths = [settings.cnn_depth * 2**i for i in reversed(range(len(settings.cnn_kernels) - 1))]
    depths.append(sum(x[-1] for x in images.values()))
    for units, kernel in zip(depths, settings.cnn_kernels, strict=True):
      total += size**2 * kernel**2 * channels * units  # every input pixel meets the whole kernel
      size, channels = 2 * (size - 1) + kernel, units
  if vectors:
    total += stack(features, [*settings.mlp_layers, sum(x[0] for x in vectors.values())])
  return total


def recurrence(rssm, action: int) -> int:
  return (rssm.stoch + action) * rssm.hidden + (rssm.hidden + rssm.deter) * 3 * rssm.deter


def posterior(rssm, embed: int) -> int:
  return stack(rssm.deter + embed, [rssm.hidden, 2 * rssm.stoch])


def head(rssm, units: int) -> int:
  return stack(rssm.deter, [rssm.hidden, units])


# Behaviours


def cloning(config, settings, action: int, pairs: int) -> int:
  """The pairs of the demonstrations once, and once more in the extra rounds together."""
  actor = layers(config.rssm.stoch + config.rssm.deter, [*config.actor.layers, 2 * action])
  return (2 if settings.bc_rounds else 1) * pairs * on_data(actor)


def behavior(config, action: int, starts: int) -> int:
  """Imagination, rewards, and the losses of an actor and two critics, without replay targets."""
  rssm, features = config.rssm, config.rssm.stoch + config.rssm.deter
  actor = layers(features, [*config.actor.layers, 2 * action])
  critic = layers(features + action, [*config.critic.layers, 1])
  disc = stack(features + action, [*config.disc.layers, 1])
  imagined, valued = config.horizon * starts, (config.horizon - 1) * starts
  rollout = on_data(actor) + FROZEN * (recurrence(rssm, action) + head(rssm, 2 * rssm.stoch))
  reward = FROZEN * (disc + rssm.ensemble * head(rssm, rssm.stoch))
  values = (2 * FROZEN + FORWARD) * sum(critic)  # both critics with gradients, and one target
  total = imagined * (rollout + reward + values)
  return total + valued * 2 * (on_data(critic) - sum(critic))  # their values are known already


def gate(config, action: int) -> int:
  """The recovery rollout from one end state."""
  settings, rssm = config.gate, config.rssm
  if settings.kind == 'none':
    return 0
  features = rssm.stoch + rssm.deter
  horizon = 0 if settings.kind == 'terminal' else settings.horizon
  tail = min(settings.tail, horizon + 1) if horizon else 1
  total = horizon * (recurrence(rssm, action) + rssm.ensemble * head(rssm, rssm.stoch))
  total += (horizon + 1) * stack(features, [*config.actor.layers, 2 * action])
  total += tail * stack(features + action, [*config.disc.layers, 1])
  return (FORWARD if settings.stopgrad else FROZEN) * total
