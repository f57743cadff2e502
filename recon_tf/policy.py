"""Trained policies for use: observations as the environment gives them, actions in its units."""

import pathlib
from collections.abc import Callable, Sequence

import numpy as np

from recon_tf.card import CARD, read_card
from recon_tf.common.checkpoint import Checkpoint
from recon_tf.common.config import Config, load_config
from recon_tf.common.episodes import list_files, load_meta
from recon_tf.common.errors import UserError
from recon_tf.common.files import check_fields, read_json
from recon_tf.common.spaces import Spaces, from_dict, run_spaces
from recon_tf.common.versions import read_starts
from recon_tf.evaluation import summarize
from recon_tf.experts import NAMES
from recon_tf.gallery import find_policy

# What a run's score is taken from.
EVALUATION = {'step': int, 'returns': [float], 'return?': float, 'success?': float}


class Policy:
  """The deterministic main policy and what it remembers of the episode.

  info: task, method, seed, commit, score and more. spaces: names, shapes and units.
  """

  def __init__(self, info: dict, spaces: Spaces, inputs: list[str], memory: dict, act: Callable):
    self.info, self.spaces, self.inputs = info, spaces, inputs
    self._sizes, self._act = memory, act
    self.reset()

  def reset(self, rows: Sequence[int] | None = None) -> None:
    """Call it where an episode begins; with rows, only those of a batch begin anew."""
    if rows is None or self._memory is None:
      self._memory, self._first = None, None
    elif any(not 0 <= x < len(self._first) for x in rows):
      raise UserError(f'reset: there are {len(self._first)} rows, not those of {list(rows)}.')
    else:
      self._first[list(rows)] = True

  def act(self, obs) -> np.ndarray:
    """The action for one observation, or the actions for a batch of them [batch, ...].

    Takes a dict, nested or not, or the array itself where there is only one. Names that the policy
    does not look at are ignored, and images of another size are resized.
    """
    arrays, batch = self.spaces.inputs(obs, self.inputs)
    count = len(next(iter(arrays.values())))
    if self._memory is None:
      zeros = lambda shape, kind: np.zeros([count, *shape], kind)
      self._memory = {f'memory_{k}': zeros(*v) for k, v in self._sizes.items()}
      self._first = np.ones(count, bool)
    elif len(self._first) != count:
      raise UserError(f'act: {len(self._first)} rows before, {count} now; call reset() between.')
    result = self._act({**arrays, 'is_first': self._first, **self._memory})
    action = np.asarray(result.pop('action'))
    self._memory, self._first = result, np.zeros(count, bool)
    return self.spaces.own(action if batch else action[0])


def load_policy(path: str | pathlib.Path) -> Policy:
  """The policy of a run folder, of a folder made by `recon-tf export`, or of the gallery."""
  folder = find_policy(path)
  return load_exported(folder) if (folder / CARD).exists() else load_run(folder)


def load_run(folder: pathlib.Path) -> Policy:
  """The newest checkpoint of a run."""
  agent, spaces, info = open_agent(folder)
  return policy_of(agent, spaces, info)


def policy_of(agent, spaces: Spaces, info: dict) -> Policy:
  """The policy of an agent of any kind, with the weights that it has."""
  from recon_tf.acting import act_function, acting_of

  acting = acting_of(agent, spaces.observations)
  batch = None if acting.any_batch else 1
  function = act_function(acting, spaces.middle, spaces.half, batch)
  memory = {k: (v.shape, v.dtype.as_numpy_dtype) for k, v in acting.memory.items()}
  act = caller(function, acting.any_batch)
  return Policy(info, spaces, [*acting.inputs], memory, act)


def open_acting(folder: pathlib.Path) -> tuple:
  """The acting part of a run's agent."""
  from recon_tf.acting import acting_of

  agent, spaces, info = open_agent(folder)
  return acting_of(agent, spaces.observations), spaces, info


def open_agent(folder: pathlib.Path) -> tuple:
  """A run's agent with the weights of its newest checkpoint, its spaces and what it is."""
  config, spaces = run_config(folder), run_spaces(folder)
  found = Checkpoint(folder / 'checkpoints').load()
  if found is None:
    raise UserError(f"'{folder}' has no readable checkpoint; let the run get beyond pretraining.")
  arrays, meta = found
  agent = make_agent(config, spaces)
  try:
    agent.restore_weights(arrays)
  except UserError as error:
    raise UserError(f"'{folder}': {error}") from error
  return agent, spaces, run_info(folder, config, meta)


def make_agent(config: Config, spaces: Spaces):
  from gymnasium.spaces import Box

  from recon_tf import make_agent as agents

  obs = {k: Box(-np.inf, np.inf, v) for k, v in spaces.observations.items()}
  act = {'action': Box(-1, 1, (len(spaces.low),))}
  # How it was trained does not matter any more: one device, and graphs of our own.
  return agents.make_agent(config.update(devices=1, eager=False), obs, act)


def run_config(folder: pathlib.Path) -> Config:
  """The run's config; keys that its version did not know get their defaults."""
  known = load_config()
  saved = Config.load(folder / 'config.yaml').flat
  return known.update({k: v for k, v in saved.items() if k in known.flat})


def run_info(folder: pathlib.Path, config: Config, meta: dict) -> dict:
  """What a policy is: task, method, seed, commit, score, and how long it was trained."""
  starts = read_starts(folder)
  return {
    'task': config.task,
    'method': config.method,
    'seed': config.seed,
    'commit': starts[-1].get('commit', '') if starts else '',
    'step': meta['step'],
    'score': run_score(folder),
    'env': config.env.to_dict(),
    'demonstrations': demonstrations(config),
    'expert': expert_name(config),
  }


def demonstrations(config: Config) -> int:
  """How many were learned from: fewer than asked for, if the user's folder has no more."""
  folder = pathlib.Path(config.demos)
  found = len(list_files(folder)) if config.demos and folder.is_dir() else 0
  return min(found, config.demo_episodes) or config.demo_episodes


def expert_name(config: Config) -> str:
  """Who showed the task: the suite's expert, or what the folder of demonstrations says."""
  if not config.demos:
    return NAMES.get(config.task.partition('_')[0], 'unknown')
  try:
    return (load_meta(config.demos) or {}).get('expert') or 'unknown'
  except UserError:
    return 'unknown'


def run_score(folder: pathlib.Path) -> dict | None:
  """Means of the final evaluation, of the last one on the way, or of `recon-tf evaluate`."""
  paths = [folder / 'eval' / 'final.json', *sorted((folder / 'eval').glob('[0-9]*.json'))[::-1]]
  result = next((x for x in (read_json(path, EVALUATION) for path in paths) if x), None)
  if result is None:
    clean = read_json(folder / 'eval' / 'clean.json', {'configurations': dict, 'step': int})
    if not clean or not clean['configurations']:
      return None
    episodes = next(iter(clean['configurations'].values()))
    result = {**summarize(episodes), **episodes, 'step': clean['step']}
  names = [x for x in ('success', 'return', 'length', 'step') if x in result]
  return {**{k: result[k] for k in names}, 'episodes': len(result['returns'])}


def load_exported(folder: pathlib.Path) -> Policy:
  """What `recon-tf export` wrote: needs TensorFlow, and nothing that was trained with."""
  card = read_card(folder)
  import tensorflow as tf

  try:
    loaded = tf.saved_model.load(str(folder / 'saved_model'))
    function = loaded.signatures['act']
  except (OSError, LookupError, ValueError, tf.errors.OpError) as error:
    reason = str(error).splitlines()[0].rstrip('.')
    raise UserError(f"'{folder}' holds no readable SavedModel of a policy: {reason}.") from error
  spaces, sizes = from_dict(card['spaces'], f"'spaces' in '{folder / CARD}'"), card['memory']
  wanted = {*card['inputs'], 'is_first', *(f'memory_{k}' for k in sizes)}
  if set(function.structured_input_signature[1]) != wanted:
    raise UserError(f"'{folder}': the SavedModel is not the one that {CARD} describes.")
  kinds = {'shape': [int], 'dtype': str}
  sizes = {k: check_fields(v, kinds, f"'memory' in '{folder / CARD}'") for k, v in sizes.items()}
  memory = {k: (v['shape'], v['dtype']) for k, v in sizes.items()}
  act = caller(function, card['any_batch'], loaded)
  return Policy(card['info'], spaces, card['inputs'], memory, act)


def caller(function, any_batch: bool, keep=None) -> Callable:
  """Arrays in, tensors out; what takes one row at a time is called for each."""
  import tensorflow as tf

  def call(arrays: dict, owner=keep) -> dict:  # a SavedModel lives as long as its owner
    return function(**{k: tf.convert_to_tensor(v) for k, v in arrays.items()})

  def row_by_row(arrays: dict) -> dict:
    count = len(arrays['is_first'])
    rows = [call({k: v[i : i + 1] for k, v in arrays.items()}) for i in range(count)]
    return {k: tf.concat([x[k] for x in rows], 0) for k in rows[0]}

  return call if any_batch else row_by_row
