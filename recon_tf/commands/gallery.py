"""Lists the trained policies that come with recon_tf; adds runs, and plays them for a page."""

import logging
import pathlib
import re

from recon_tf.card import read_card, score_text
from recon_tf.common.arguments import Parser
from recon_tf.common.config import Config
from recon_tf.common.errors import UserError
from recon_tf.common.marks import marks, replace_between, split_page
from recon_tf.gallery import PLACES, gallery

MARK = 'gallery'
LIMIT = 2_000_000  # bytes of a policy with all its files
FRAMES = 40  # in a thumbnail
WIDTH = 128


def main() -> None:
  parser = Parser(description=__doc__)
  what = 'exports these runs into policies/TASK, in place of what is there'
  parser.add_argument('--add', nargs='+', default=[], metavar='RUN', help=what)
  what = f'puts a table between {" and ".join(marks(MARK))} of this page, with thumbnails for '
  what += 'which every policy is played; after --add only the new ones are'
  parser.add_argument('--write', default='', metavar='PAGE', help=what)
  args = parser.parse_args()
  if args.write:
    split_page(pathlib.Path(args.write), MARK)  # refused before anything is played
  names = {task_of(x): x for x in args.add}
  if len(names) < len(args.add):
    raise UserError('--add: two of these runs are of one task; the gallery has one of each.')
  for name, run in names.items():
    add_policy(run, name)
  cards = {name: read_card(path) for name, path in gallery().items()}
  for name, card in cards.items():
    info = card['info']
    print(f'{name:28}{info["method"]:12}{score_text(info["score"])}')
  if not cards:
    print('There are no policies; `recon-tf gallery --add RUN` adds one.')
  if args.write:
    write_table(pathlib.Path(args.write), cards, names or cards)
    print(f'{args.write} written.')


def task_of(run: str) -> str:
  """The task of a run, as a folder's name."""
  path = pathlib.Path(run) / 'config.yaml'
  if not path.exists():
    raise UserError(f"--add: '{run}' holds no run (no config.yaml in it).")
  return safe(Config.load(path).task)


def add_policy(run: str, name: str) -> None:
  """Both formats within the limit, which at cpu size takes a TFLite file in half precision."""
  from recon_tf.export import export_policy

  logging.getLogger('tensorflow').setLevel(logging.ERROR)
  export_policy(run, PLACES[0] / name, half=True, limit=LIMIT)


def write_table(page: pathlib.Path, cards: dict[str, dict], played) -> None:
  """Replaces what stands between the marks of a page; thumbnails go into gallery/ beside it."""
  for name in cards:
    path = thumbnail(page, name)
    if name in played or not path.exists():
      write_thumbnail(name, path)
  rows = [table_row(page, name, card['info']) for name, card in cards.items()]
  table = ['| | policy | method | score |', '| --- | --- | --- | --- |', *rows]
  replace_between(page, MARK, '\n'.join(table))


def table_row(page: pathlib.Path, name: str, info: dict) -> str:
  picture = f'![{name}](gallery/{thumbnail(page, name).name})'
  return f'| {picture} | `{name}` | {info["method"]} | {score_text(info["score"])} |'


def thumbnail(page: pathlib.Path, name: str) -> pathlib.Path:
  return page.parent / 'gallery' / f'{safe(name)}.gif'


def safe(name: str) -> str:
  return re.sub('[^A-Za-z0-9._-]+', '-', name)


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
