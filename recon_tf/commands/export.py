"""Writes the policy of a run as files that need nothing of recon_tf: SavedModel and TFLite."""

import argparse
import logging
import pathlib


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('run', metavar='RUN', help='a run folder, logdir/task/method/seed')
  parser.add_argument('out', metavar='OUT', help='the folder to write, such as policies/NAME')
  parser.add_argument('--no-tflite', action='store_true', help='only the SavedModel')
  args = parser.parse_args()
  from recon_tf.export import export_policy  # late: --help and bad flags answer at once

  logging.getLogger('tensorflow').setLevel(logging.ERROR)
  card = export_policy(args.run, args.out, tflite=not args.no_tflite)
  files = [x for x in pathlib.Path(args.out).rglob('*') if x.is_file()]
  size = sum(x.stat().st_size for x in files) / 1e6
  print(f'{args.out}: {card["info"]["task"]}, {card["info"]["method"]}, {size:.2f} MB')
  if card['tflite_missing']:
    print(f'No TFLite file: {card["tflite_missing"]}.')
