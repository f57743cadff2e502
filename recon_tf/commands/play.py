"""Plays a policy in its task and writes a video with success or return on it."""

import pathlib
import re

import numpy as np

from recon_tf.common.arguments import Parser, ranged
from recon_tf.common.errors import UserError


def main() -> None:
  parser = Parser(description=__doc__)
  what = 'a policy of the gallery (recon-tf gallery lists them), an exported policy or a run'
  parser.add_argument('policy', metavar='POLICY', help=what)
  count = ranged(int, '[1, inf)')
  parser.add_argument('--episodes', type=count, default=3, help='how many (3); one video')
  seed = ranged(int, '[0, 1000000]')
  parser.add_argument('--seed', type=seed, default=0, help='other numbers give other episodes')
  parser.add_argument('--out', default='', help='.mp4 or .gif to write; TASK-METHOD.mp4 if empty')
  args = parser.parse_args()
  if args.out and pathlib.Path(args.out).suffix not in ('.mp4', '.gif'):
    raise UserError(f"--out: '{args.out}' ends neither in .mp4 nor in .gif; name a file that does.")
  from recon_tf import play  # late: --help and bad flags answer at once
  from recon_tf.policy import load_policy

  policy = load_policy(args.policy)
  stem = re.sub('[^A-Za-z0-9._-]+', '_', f'{policy.info["task"]}-{policy.info["method"]}')
  path = pathlib.Path(args.out or f'{stem}.mp4')
  episodes = []
  with play.stage(policy) as worker:
    for number in range(args.episodes):
      episode = play.play_episode(policy, worker, play.SEED + args.episodes * args.seed + number)
      print(f'episode {number}: {episode.result}, {len(episode.frames) - 1} decisions', flush=True)
      episodes.append(episode)
  play.write_video(path, [x for episode in episodes for x in episode.frames])
  print(f'mean return {np.mean([x.returns for x in episodes]):.2f}; {path} written.')
