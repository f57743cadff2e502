"""Makes, imports, checks and previews demonstrations."""

import traceback
from collections.abc import Sequence

from recon_tf import common, demos, envs, recording
from recon_tf.common.errors import UserError

ABOUT = 'Makes, imports, checks and previews demonstrations; --task T --episodes 10 --outdir DIR.'
FLAGS = {
  'outdir': ('', 'folder to make or import demonstrations into'),
  'episodes': (0, '[0, inf) how many; 0 for demo_episodes, or for all of an import'),
  'preview': (False, 'also write preview.png and preview.gif into the folder'),
  'check': ('', 'validate this folder and print what it holds'),
  'evaluate': (
    0,
    "[0, inf) print the experts' results over so many seeds, for --task or all tasks",
  ),
  'import-npz': ('', 'folder of DreamerV2 or CMIL episodes'),
  'import-minari': ('', 'id of a local Minari dataset'),
  'import-hdf5': ('', 'robomimic-style HDF5 file'),
  'record': ('', 'MODULE:FUNCTION of a policy to record in --task, as in my_robot:expert'),
  'image-key': ('', 'which image of an import to keep, if it has several'),
  'rescale': ([], '(-inf, inf) LOW HIGH of the actions of an import, to bring them to [-1, 1]'),
}
ACTIONS = ('check', 'record', 'evaluate', 'import-npz', 'import-minari', 'import-hdf5')


def main() -> None:
  config, own = common.Flags(about=ABOUT).parse(extra=FLAGS)
  chosen = [x for x in ACTIONS if own[x]]
  if len(chosen) > 1:
    raise UserError(f"Flags '--{chosen[0]}' and '--{chosen[1]}' exclude each other.")
  if own.evaluate:
    for line in demos.evaluate_experts(
      [config.task] if config.task else envs.TASKS, own.evaluate, config
    ):
      print(line, flush=True)
    return
  folder = own.check or own.outdir
  if not folder:
    raise UserError("Flag '--outdir' is missing: the folder for the demonstrations.")
  if own.record:
    record_demos(config, own)
  elif chosen and not own.check:
    import_demos(config, own, chosen[0])
  elif not own.check:
    make_demos(config, own)
  print(demos.check_folder(folder))
  if own.preview:
    png, gif = demos.write_preview(folder)
    print(f'preview    {png} and {gif}')


def make_demos(config, own) -> None:
  if not config.task:
    raise UserError(f"Flag '--task' is missing; one of {', '.join(envs.TASKS)}.")
  episodes = own.episodes or config.demo_episodes
  demos.make_demos(config.task, episodes, own.outdir, config, config.seed)


def record_demos(config, own) -> None:
  if not config.task:
    raise UserError("Flag '--task' is missing: the environment to record in.")
  policy = recording.find_function(own.record)
  env = envs.make(config.task, config, config.seed)
  try:
    episodes = own.episodes or config.demo_episodes
    recording.record(env, policy, episodes, own.outdir, config.seed)
  except (UserError, KeyboardInterrupt):
    raise
  except Exception as error:  # of the user's own code, whose line the traceback names
    traceback.print_exc()
    reason = f'{type(error).__name__}: {error}'
    raise UserError(f'--record: {own.record} or {config.task} raised {reason}.') from error
  finally:
    env.close()


def import_demos(config, own, kind: str) -> None:
  check_rescale(own.rescale)
  options = {'limit': own.episodes or None, 'size': tuple(config.env.size)}
  options |= {'names': config.rename}
  if kind == 'import-npz':
    for flag in [x for x in ('rescale', 'image-key') if own[x]]:
      raise UserError(f"Flag '--{flag}' is not for --import-npz, which takes episodes as they are.")
    demos.import_npz(own[kind], own.outdir, config.task, **options)
    return
  options |= {'image_key': own['image-key'], 'rescale': tuple(own.rescale) or None}
  convert = demos.import_minari if kind == 'import-minari' else demos.import_hdf5
  convert(own[kind], own.outdir, config.task, **options)


def check_rescale(values: Sequence[float]) -> None:
  if len(values) not in (0, 2):
    raise UserError(f"Flag '--rescale' takes LOW and HIGH, not {len(values)} values.")
  if values and not values[0] < values[1]:
    raise UserError(f"Flag '--rescale' takes LOW below HIGH, not {values[0]:g} and {values[1]:g}.")
