"""How many updates a run makes, told from its config alone."""


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
