"""The card beside an exported policy: what it is, how good, how to use it, where it ends."""

import pathlib

from recon_tf.common.errors import UserError
from recon_tf.common.files import check_fields, read_json

CARD = 'policy.json'
FORMAT = 1
FIELDS = {'info': dict, 'inputs': [str], 'memory': dict, 'any_batch': bool, 'spaces': dict}
INFO = {'task': str, 'method': str, 'seed': int, 'env': dict, 'score': object}


def read_card(folder: pathlib.Path) -> dict:
  """policy.json of an exported policy; a UserError names what is wrong with it."""
  path = folder / CARD
  card = read_json(path)
  if not card or card.get('format') != FORMAT:
    raise UserError(
      f"'{path}' is not of this version of recon_tf; export the run anew with "
      '`recon-tf export RUN OUT`.'
    )
  lacking = [k for k in FIELDS if k not in card]
  if lacking:
    raise UserError(f"'{path}' lacks {lacking}; export the run anew.")
  check_fields(card, FIELDS, f"'{path}'")
  check_fields(card['info'], INFO, f"'info' in '{path}'")
  if card['info']['score'] is not None:
    score = {'success?': float, 'return?': float, 'episodes': int}
    check_fields(card['info']['score'], score, f"'score' in '{path}'")
  return card


def write_card(folder: pathlib.Path, card: dict) -> None:
  """README.md of an exported policy, from what policy.json says."""
  (folder / 'README.md').write_text(card_text(card))


def card_text(card: dict) -> str:
  info, spaces = card['info'], card['spaces']
  lines = [
    f'# {info["task"]}: {info["method"]}, seed {info["seed"]}',
    '',
    f'- **Task** {info["task"]}; an action is held for {spaces["repeat"]} simulator step(s).',
    f'- **Data** {info["demonstrations"]} demonstrations (expert: {info["expert"]}); no rewards.',
    f'- **Method** {info["method"]}, {info["step"]:,} steps of interaction.',
    f'- **Score** {score_text(info["score"])}.',
    f'- **Made by** recon_tf {card["version"]}, commit {info["commit"][:12] or "unknown"}.',
    '',
    '## Inputs and outputs',
    '',
    '`saved_model/` has two signatures. `act` takes tensors by name and gives `action` with the '
    'memory to pass back in; `initial(batch)` gives the memory and `is_first` of a new episode.',
    '',
    '| name | shape | meaning |',
    '| --- | --- | --- |',
    *(f'| {k} | {shape_text(spaces["observations"][k])} | {meaning(k, spaces)} |'
      for k in card['inputs']),
    f'| is_first | {"batch" if card["any_batch"] else "1"}, bool | True where an episode begins |',
    *(f'| memory_{k} | {[*v["shape"]]} {v["dtype"]} | from the last call |'
      for k, v in card['memory'].items()),
    f'| action (output) | {[*spaces["shape"]]} | from {numbers(spaces["low"])} '
    f'to {numbers(spaces["high"])} |',
    '',
    *usage(card),
    '',
    '## Limits',
    '',
    *limits(card),
    '',
  ]  # fmt: skip
  return '\n'.join(lines)


def score_text(score: dict | None) -> str:
  if not score:
    return 'not evaluated'
  parts = [f'{k} {score[k]:.2f}' for k in ('success', 'return') if k in score]
  return f'{", ".join(parts)} over {score["episodes"]} episodes'


def shape_text(shape: list[int]) -> str:
  return f'{[*shape]} {"uint8" if len(shape) == 3 else "float32"}'


def meaning(key: str, spaces: dict) -> str:
  source = spaces['sources'].get(key)
  if source:
    return f'image; the environment gives {source[0]}x{source[1]}, averaged to this size'
  if key in spaces.get('discrete', {}):
    low = spaces['discrete'][key]
    return f'one-hot of {low} to {low + spaces["observations"][key][0] - 1}'
  return 'image' if len(spaces['observations'][key]) == 3 else 'as the environment gives it'


def numbers(values: list[float]) -> str:
  texts = [f'{x:g}' for x in values]
  return texts[0] if len(set(texts)) == 1 else f'[{", ".join(texts)}]'


def usage(card: dict) -> list[str]:
  """Without recon_tf, and with it."""
  first = card['inputs'][0]
  return [
    '```python',
    'import tensorflow as tf',
    '',
    "model = tf.saved_model.load('saved_model')",
    "act, memory = model.signatures['act'], model.signatures['initial'](tf.constant(1))",
    f'memory.update(act(**memory, {first}=...))  # [1, ...]; all inputs by name',
    "action = memory.pop('action')",
    "memory['is_first'] = tf.constant([False])",
    '```',
    '',
    "With the package: `policy = recon_tf.load_policy('FOLDER')`, then `policy.act(observation)`.",
  ]


def limits(card: dict) -> list[str]:
  lines = [
    '- Learned from few demonstrations at one size of network: expect failures away from them.',
    '- Deterministic: the mode of the main policy; the explorer is not part of it.',
  ]
  if not card['spaces']['bounds_known']:
    lines.append('- The units of the actions were not recorded: they are in [-1, 1].')
  if not card['tflite']:
    lines.append(f'- No TFLite file: {card["tflite_missing"]}.')
  elif card.get('tflite_half'):
    lines.append('- The TFLite file has its weights in 16 bits: its actions are a little off.')
  return lines
