"""How much work a run is, told from its config alone."""

import itertools


def online_updates(config, step: int) -> int:
  """Updates that are due after so many online steps: a burst after the random ones, then rounds."""
  if step < config.prefill:
    return 0
  rounds = (step - config.prefill) // config.train_every
  return round(config.burst * config.prefill) + rounds * config.train_steps


def first_imagined(config) -> int:
  """The number of the update with which imagination begins; those before it only clone."""
  learns = config.agent == 'recon' and config.behavior == 'imitation' and not config.offline
  if not (learns and config.imagine_after):
    return 0
  online = round(config.imagine_after * online_updates(config, config.steps))
  return config.pretrain + config.pretrain_bc + online


def optimizer_updates(config, key: str, rounds: int = 0) -> int:
  """Updates of one optimizer in the whole run; cloning moves the actors alone, in extra rounds."""
  cloning = config.pretrain_bc if key == 'actor_opt' and config.bc_opt == 'adam' else 0
  if config.behavior == 'frozen':
    return cloning * (1 + rounds) + (config.pretrain if key == 'model_opt' else 0)
  joint = config.pretrain + online_updates(config, config.steps)
  if key in ('critic_opt', 'disc_opt') and first_imagined(config):
    joint += config.pretrain_bc - first_imagined(config)  # they learn in imagination alone
  return (cloning + joint) * (1 + rounds)


def optimizer_options(config, key: str, rounds: int = 0) -> dict:
  """The options of an optimizer, with its decay in updates instead of a share of the run."""
  share = config[key].decay
  return {**config[key], 'decay': round(share * optimizer_updates(config, key, rounds))}


def kind_of(config, number: int) -> str:
  """What the update of that number does: joint, follow (nothing is imagined), watch or clone."""
  cloned = config.pretrain + config.pretrain_bc
  if config.pretrain <= number < cloned:
    return 'clone'
  if config.behavior == 'frozen' and number >= cloned:
    return 'watch'
  return 'follow' if number < first_imagined(config) else 'joint'


def work_left(config, updates: int = 0, step: int = 0) -> dict[str, int]:
  """What a run still has to do, by kind: updates, online steps, episodes of evaluations."""
  cloned = config.pretrain + config.pretrain_bc
  online = 0 if config.offline else online_updates(config, config.steps)
  edges = sorted({0, config.pretrain, cloned, first_imagined(config), cloned + online})
  left = {}
  for first, last in itertools.pairwise(edges):
    kind = kind_of(config, first)
    left[kind] = left.get(kind, 0) + max(0, last - max(first, updates))
  if config.offline:
    return left
  evaluations = 0
  if config.eval_every:
    evaluations = (step == 0) + max(
      0, config.steps // config.eval_every - step // config.eval_every
    )
  return {
    **left,
    'steps': max(0, config.steps - step),
    'episodes': evaluations * config.eval_episodes + config.eval_final,
  }
