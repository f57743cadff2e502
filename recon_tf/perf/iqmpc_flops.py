"""Floating-point operations of IQ-MPC, by the rules of perf/flops.py."""

from recon_tf.baselines.iqmpc.model import PICKED
from recon_tf.nn.nets import select
from recon_tf.perf.flops import FROZEN, LEARNED, layers, on_data


def count_update(config, shapes: dict[str, tuple], action: int) -> dict[str, int]:
  """Operations of an online update by part, without those of a gradient penalty."""
  settings = config.iqmpc
  rows, steps = 2 * settings.batch, settings.horizon
  encoder = encoder_products(config, shapes)
  dynamics, prior, head = parts(settings, action)
  first = rows // 2 if settings.value_term == 'v0' else rows * steps
  # Actions are data in the model's losses, latents in the policy's: those need no gradient.
  known, seen = action * settings.units, settings.latent * settings.units
  learned = settings.heads * (LEARNED * sum(head) - known)
  counts = {
    'encoder': rows * (on_data(encoder) + steps * sum(encoder)),
    'dynamics': rows * steps * (LEARNED * sum(dynamics) - known),
    'heads': rows * steps * learned + first * PICKED * LEARNED * sum(head),
    'values': first * FROZEN * sum(prior) + rows * steps * (sum(prior) + PICKED * sum(head)),
    'policy': rows * (steps + 1) * (on_data(prior) + PICKED * (FROZEN * sum(head) - seen)),
  }
  return {k: 2 * v for k, v in counts.items()}


def count_plan(config, shapes: dict[str, tuple], action: int, iterations: int) -> int:
  """Operations of one plan, with the products that sequences share counted once."""
  settings = config.iqmpc
  steps, latent, units = settings.horizon, settings.latent, settings.units
  dynamics, prior, head = parts(settings, action)
  total = sum(encoder_products(config, shapes))
  total += settings.policy_samples * (steps * sum(prior) + (steps - 1) * sum(dynamics))
  # Q of every planned action, and of the policy's in every latent but the first.
  evaluations = 2 * steps - 1
  sample = evaluations * PICKED * (sum(head) - latent * units)
  sample += (steps - 1) * PICKED * latent * units
  sample += (steps - 1) * (sum(dynamics) - latent * units) + (steps - 2) * latent * units
  sample += (steps - 1) * sum(prior)
  # All sequences begin in one latent.
  total += latent * units
  return 2 * (total + iterations * (settings.samples * sample + PICKED * latent * units))


def parts(settings, action: int) -> tuple[list[int], list[int], list[int]]:
  """Products of each layer of dynamics, policy prior and one head."""
  latent, units = settings.latent, settings.units
  dynamics = layers(latent + action, [units, units, latent])
  prior = layers(latent, [units, units, 2 * action])
  # The last layer of a head is a weighted sum, no matrix product.
  return dynamics, prior, layers(latent + action, [units, units])


def encoder_products(config, shapes: dict[str, tuple]) -> list[int]:
  settings = config.iqmpc
  images = select(shapes, config.encoder.cnn_keys, 3)
  if not images:
    inputs = sum(x[0] for x in select(shapes, config.encoder.mlp_keys, 1).values())
    return layers(inputs, [settings.encoder_units, settings.latent])
  channels = settings.stack * sum(x[-1] for x in images.values())
  size = next(iter(images.values()))[0]
  convs = zip(settings.kernels, settings.strides, strict=True)
  return conv_products(size, channels, settings.channels, convs)


def conv_products(size: int, channels: int, units: int, convs) -> list[int]:
  """Products of convolutions without padding, each of a (kernel, stride)."""
  products = []
  for kernel, stride in convs:
    size = (size - kernel) // stride + 1
    products.append(size**2 * kernel**2 * channels * units)
    channels = units
  return products
