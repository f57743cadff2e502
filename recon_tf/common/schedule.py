"""How much work a run is, told from its config alone."""


def online_updates(config, step: int) -> int:
  """Updates that are due after so many online steps: a burst after the random ones, then rounds."""
  if step < config.prefill:
    return 0
  rounds = (step - config.prefill) // config.train_every
  return round(config.burst * config.prefill) + rounds * config.train_steps


def optimizer_updates(config, key: str, rounds: int = 0) -> int:
  """Updates of one optimizer in the whole run; cloning moves the actors alone, in extra rounds."""
  cloning = config.pretrain_bc if key == 'actor_opt' and config.bc_opt == 'adam' else 0
  if config.behavior == 'frozen':
    return cloning * (1 + rounds) + (config.pretrain if key == 'model_opt' else 0)
  return (cloning + config.pretrain + online_updates(config, config.steps)) * (1 + rounds)


def optimizer_options(config, key: str, rounds: int = 0) -> dict:
  """The options of an optimizer, with its decay in updates instead of a share of the run."""
  share = config[key].decay
  return {**config[key], 'decay': round(share * optimizer_updates(config, key, rounds))}


def work_left(config, updates: int = 0, step: int = 0) -> dict[str, int]:
  """What a run still has to do, by kind: updates, online steps, episodes of evaluations."""
  cloned = config.pretrain + config.pretrain_bc
  left = {
    'pretrain': max(0, config.pretrain - updates),
    'clone': max(0, cloned - max(updates, config.pretrain)),
  }
  if config.offline:
    return left
  evaluations = 0
  if config.eval_every:
    evaluations = (step == 0) + max(
      0, config.steps // config.eval_every - step // config.eval_every
    )
  return {
    **left,
    'online': max(0, online_updates(config, config.steps) - max(0, updates - cloned)),
    'steps': max(0, config.steps - step),
    'episodes': evaluations * config.eval_episodes + config.eval_final,
  }
