"""Lists the trained policies that come with recon_tf; --write plays them for the documentation."""

import argparse
import pathlib
import re

from recon_tf.card import score_text
from recon_tf.common.folders import read_json
from recon_tf.common.marks import marks, replace_between, split_page
from recon_tf.gallery import gallery

MARK = 'gallery'
FRAMES = 40  # in a thumbnail
WIDTH = 128


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  what = f'plays every policy and puts a table between {" and ".join(marks(MARK))} of this page'
  parser.add_argument('--write', default='', metavar='PAGE', help=what)
  args = parser.parse_args()
  cards = {name: read_json(path / 'policy.json') for name, path in gallery().items()}
  for name, card in cards.items():
    info = card['info']
    print(f'{name:28}{info["method"]:12}{score_text(info["score"])}')
  if not cards:
    print('There are no policies; `recon-tf export RUN policies/NAME --no-tflite` adds one.')
  if args.write:
    page = pathlib.Path(args.write)
    write_table(page, cards)
    print(f'{page} written.')


def write_table(page: pathlib.Path, cards: dict[str, dict]) -> None:
  """Replaces what stands between the marks of a page; thumbnails go into gallery/ beside it."""
  split_page(page, MARK)  # a page without marks is refused before anything is played
  rows = [table_row(name, card, page.parent) for name, card in cards.items()]
  table = ['| | policy | method | score |', '| --- | --- | --- | --- |', *rows]
  replace_between(page, MARK, '\n'.join(table))


def table_row(name: str, card: dict, folder: pathlib.Path) -> str:
  path = folder / 'gallery' / f'{re.sub("[^A-Za-z0-9._-]+", "_", name)}.gif'
  write_thumbnail(name, path)
  info = card['info']
  picture = f'![{name}](gallery/{path.name})'
  return f'| {picture} | `{name}` | {info["method"]} | {score_text(info["score"])} |'


def write_thumbnail(name: str, path: pathlib.Path) -> None:
  """A short, small film of one episode."""
  import numpy as np
  from PIL import Image

  from recon_tf import play
  from recon_tf.policy import load_policy

  policy = load_policy(name)
  with play.stage(policy) as worker:
    frames = play.play_episode(policy, worker, play.SEED).frames
  chosen = np.linspace(0, len(frames) - 1, min(FRAMES, len(frames))).round().astype(int)
  height = round(frames[0].shape[0] * WIDTH / frames[0].shape[1])
  small = lambda x: np.asarray(Image.fromarray(x).resize((WIDTH, height), Image.BOX))
  play.write_video(path, [small(frames[i]) for i in chosen], fps=10)
