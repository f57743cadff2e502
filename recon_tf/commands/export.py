"""Writes the policy of a run as files that need nothing of recon_tf: SavedModel and TFLite."""

import logging
import pathlib

from recon_tf.common.arguments import Parser


def main() -> None:
  parser = Parser(description=__doc__)
  parser.add_argument('run', metavar='RUN', help='a run folder, logdir/task/method/seed')
  parser.add_argument('out', metavar='OUT', help='the folder to write, such as policies/NAME')
  lite = parser.add_mutually_exclusive_group()
  lite.add_argument('--no-tflite', action='store_true', help='only the SavedModel')
  what = 'weights of the TFLite file in 16 bits: half the size, actions a little off'
  lite.add_argument('--half', action='store_true', help=what)
  args = parser.parse_args()
  from recon_tf.export import (
    export_policy,
    folder_size,
  )  # late: --help and bad flags answer at once

  logging.getLogger('tensorflow').setLevel(logging.ERROR)
  card = export_policy(args.run, args.out, not args.no_tflite, args.half)
  size = folder_size(pathlib.Path(args.out)) / 1e6
  print(f'{args.out}: {card["info"]["task"]}, {card["info"]["method"]}, {size:.2f} MB')
  if card['tflite_missing']:
    print(f'No TFLite file: {card["tflite_missing"]}.')
