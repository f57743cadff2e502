"""The one training loop: demonstrations, pretraining, interaction, evaluation, checkpoints."""

import contextlib
import pathlib
import signal
import time

import numpy as np
from tqdm import tqdm

from recon_tf import envs
from recon_tf.batches import draw
from recon_tf.check import check_training, decision_seconds
from recon_tf.common import (
  Checkpoint,
  Config,
  Counter,
  Driver,
  Every,
  JSONLOutput,
  Logger,
  Milestones,
  Replay,
  TensorBoardOutput,
  TerminalOutput,
  UserError,
)
from recon_tf.common.cache import use_cache_in_process
from recon_tf.common.checkpoint import read_meta
from recon_tf.common.episodes import Episode, fingerprint
from recon_tf.common.errors import Interrupted, postponed
from recon_tf.common.files import sole_writer, write_json
from recon_tf.common.folders import finished, run_folder
from recon_tf.common.schedule import kind_of, online_updates, work_left
from recon_tf.common.spaces import record_spaces, space_of
from recon_tf.common.timing import Timing
from recon_tf.common.versions import record_meta
from recon_tf.common.wandb_output import WandbOutput
from recon_tf.evaluation import evaluate, summarize
from recon_tf.explorer import Collector
from recon_tf.make_agent import make_agent
from recon_tf.measured import Measured
from recon_tf.offline import Recorded
from recon_tf.preparation import (
  check_fresh,
  episode_spec,
  load_demos,
  prepare_folder,
  prepare_tensorflow,
)

CONTEXT = 5  # steps that Agent.report shows to the model before it predicts

# What a checkpoint says besides the agent; older ones lack the optional fields.
FIELDS = {
  'step': int, 'driver_episodes': int, 'collector_episodes': int, 'replay_position': int,
  'demos?': str, 'replay_episodes?': int, 'metrics_lines?': int, 'pending?': dict,
  'replay_firsts?': [list],
}  # fmt: skip

# What tells at a glance how a run is doing; TensorBoard shows these on top.
ESSENTIALS = (
  'eval/success', 'eval/return', 'train/return', 'disc/gap', 'main/uncertainty',
  'explorer/uncertainty', 'main/penalty_share', 'explorer/bonus_share', 'gate/mean',
  'model/model_loss', 'main/bc_loss', 'dadac/q_gap',
  'dadac/entropy', 'iqmpc/q_gap', 'iqmpc/reward_correlation',
)  # fmt: skip


def train(config: Config) -> dict:
  """Trains config.task to the end, or goes on where a killed run was; returns the evaluation."""
  folder = run_folder(config)
  result = finished(config, folder)
  if result:
    print(f'{folder} is finished already.')
    return result
  if config.jit and not config.eager:
    use_cache_in_process()
  prepare_tensorflow(config)
  run = Run(config, folder)
  try:
    run.pretrain()
    if config.offline:
      return {'step': 0}
    run.interact()
    return run.finish()
  except KeyboardInterrupt as error:
    number = getattr(error, 'number', signal.SIGINT)
    raise Interrupted(number, run.describe_stop()) from None
  finally:
    run.close()


def check(config: Config) -> str:
  """What training would say first; raises what it would refuse."""
  worker = None if config.offline else envs.Worker(config.task, collecting(config), config.seed)
  try:
    expert = load_demos(config).contents()
    env = worker or Recorded(config.task, expert, config.demos)
    return check_training(config, env, expert, worker and decision_seconds(worker))
  finally:
    if worker:
      worker.close()


def collecting(config: Config) -> Config:
  """For the environments that collect, whose episodes may be shorter than those of evaluations."""
  return config.update({'env.length': config.train_length}) if config.train_length else config


class Run:
  """Everything that one run holds, joined by callbacks."""

  def __init__(self, config: Config, folder: pathlib.Path):
    self.config, self.folder, self.started = config, folder, time.time()
    workers = 0 if config.offline else config.env.workers
    self.envs, self.eval_envs = self._make_envs(workers, collecting(config)), []
    self._lock = contextlib.ExitStack()
    try:
      for env in self.envs[:1]:
        env.ready()  # a wrong task ends here, before anything is written
      self._lock.enter_context(sole_writer(folder, wait=False))
      self.expert = load_demos(config)
      self.demos = fingerprint(self.expert.contents())
      self.envs = self.envs or [Recorded(config.task, self.expert.contents(), config.demos)]
      if config.agent == 'iqmpc' and not config.iqmpc.episode:
        # Saved with the run, so that whoever loads it has the same discount.
        length = config.env.length or self.envs[0].full
        self.config = config = config.update({'iqmpc.episode': length})
      print(check_training(config, self.envs[0], self.expert.contents()), flush=True)
      prepare_folder(config, folder)
      record_spaces(folder, space_of(self.envs[0]))
      self._build()
      self.eval_envs = [] if config.offline else self._make_eval_envs()
    except BaseException:
      self.close()
      raise

  def _make_envs(self, number: int, config: Config, kicks: float = 0.0) -> list:
    perturb = [('kicks', {'chance': kicks})] if kicks else []
    make = lambda: envs.Worker(config.task, config, config.seed, perturb, wait=False)
    return [make() for _ in range(number)]

  def _make_eval_envs(self) -> list:
    """As many as the first evaluation needs, and a resumed run the same, for the same seeds.

    Their processes start beside the first updates, so that no evaluation waits for them.
    """
    config = self.config
    episodes = config.eval_episodes if config.eval_every else config.eval_final
    return self._make_envs(min(episodes, config.eval_workers), config, config.eval_kicks)

  def _build(self) -> None:
    config, folder = self.config, self.folder
    self.step, self.timing = Counter(), Timing()
    self.checkpoint = Checkpoint(folder / 'checkpoints', config.keep, FIELDS)
    arrays, meta = self.checkpoint.load() or (None, None)
    if meta is None:
      check_fresh(folder)
    else:
      self._check_demos(meta)
    record_meta(folder)
    self.agent = make_agent(config, self.envs[0].obs_space, self.envs[0].act_space)
    self.replay = Replay(
      folder / 'train_episodes',
      config.replay.capacity,
      config.replay.memory,
      config.seed,
      until=0 if meta is None else meta['replay_position'],
      hold=True,
      spec=episode_spec(self.envs[0]),
      openings=config.replay.openings,
      absorb=config.replay.absorb,
    )
    self._firsts = {}  # number of a checkpoint -> the oldest episode that it needs
    self.milestones = Milestones(folder / 'milestones', config.keep_every)
    self.should_eval = Every(config.eval_every)
    self.should_video = Every(config.video_every)
    args = (self.envs[0].length, config.windows, config.seed, self.envs[0].full)
    self.collector = Collector(len(self.envs), *args)
    self.driver = Driver(self.envs, config.seed)
    self.driver.on_step(self._on_step)
    self.driver.on_episode(self._on_episode)
    self.driver.on_drop(self._on_drop)
    if meta is None:
      self.agent.scaler.fit(self.expert.contents())
    else:
      self._restore(arrays, meta)
    self.milestones.forget_after(self.step)
    self._make_logger(meta)
    self.measured = Measured(folder, self.logger)

  def _make_logger(self, meta: dict | None) -> None:
    config, before = self.config, meta or {'step': -1}
    self.metrics = JSONLOutput(self.folder, before['step'], before.get('metrics_lines'))
    work = lambda: work_left(config, int(self.agent.updates.numpy()), int(self.step))
    left = lambda: self.timing.left(work())
    outputs = [TerminalOutput(config.steps, f'{config.task} {config.method}', left)]
    outputs += [self.metrics, TensorBoardOutput(self.folder, ESSENTIALS)]
    if config.wandb:
      outputs.append(WandbOutput(config.wandb, self.folder, config))
    self.logger = Logger(self.step, outputs)
    self.logger.pending = before.get('pending', {})
    if meta is None:
      self.logger.hyperparameters(config.flat)

  def close(self) -> None:
    for env in [*self.envs, *self.eval_envs]:
      env.close()
    for part in ('replay', 'expert', 'logger'):
      if hasattr(self, part):
        getattr(self, part).close()
    self._lock.close()

  def describe_stop(self) -> str:
    """What to say after a signal."""
    paths = self.checkpoint.paths()
    if not paths:
      return f"Stopped before the first checkpoint in '{self.folder}'."
    saved = read_meta(paths[-1])
    return (
      f'Stopped at step {int(self.step)}; the state of step {saved["step"]} is saved in '
      f"'{self.folder}', and the same command goes on from there."
    )

  # Phases

  def pretrain(self) -> None:
    """Joint updates on demonstrations, then cloning; a killed run goes on inside."""
    config = self.config
    self._phase('Pretraining', self.agent.train, config.pretrain)
    self._phase('Cloning', self.agent.clone, config.pretrain + config.pretrain_bc)
    if not self.checkpoint.paths():
      self._save()

  def _phase(self, name: str, update, until: int) -> None:
    done = int(self.agent.updates.numpy())
    if done >= until:
      return
    # Closed in any case, so that an error has a line of its own.
    show = tqdm(total=until - done, desc=name, unit='update', mininterval=1)
    with postponed() as stopping, show as bar:
      while done < until and not stopping():
        if done == 0:
          bar.write('Compiling the update (once) ...')
        self._update(update, self.expert)
        done = int(self.agent.updates.numpy())
        bar.update()
        if done % 200 == 0 and done < until:
          self._save()
      if done == until:
        self._write()
      self._save()

  def interact(self) -> None:
    """Whole episodes until the budget is spent; a checkpoint between them is complete.

    A killed run goes on from its checkpoint and does everything after it once more, to the bit:
    metrics are cut back to it, and an episode that was stored since is learned from, not made.
    """
    self._after_round()
    while self.step < self.config.steps:
      stored = self.replay.peek() if len(self.envs) == 1 else None
      before = int(self.step)
      with self.timing.measure('steps', lambda before=before: int(self.step) - before):
        if stored is None:
          self.driver(self._policy, len(self.envs))
        else:
          self._repeat(stored)
      self._write()
      self._save()
      self._after_round()

  def _after_round(self) -> None:
    if self._evaluate_if_due():
      self._save()
    self._keep_milestone()

  def finish(self) -> dict:
    """The last policy in many episodes: eval/final.json is the result of the run."""
    print(f'Evaluating the final policy in {self.config.eval_final} episodes ...', flush=True)
    return {'step': int(self.step), **self._evaluate(self.config.eval_final, 'final')}

  # Acting and learning

  def _policy(self, obs, state):
    """Random actions at first; then main policy and explorer take turns."""
    mask = self.collector(obs['is_first'])
    warm = self.step < self.config.prefill and self.config.prefill_policy == 'random'
    action, state = self.agent.policy(obs, state, 'random' if warm else mask)
    if not np.isfinite(action['action']).all():
      self.measured.read()  # says which loss it was
    return action, state

  def _on_step(self, transition, index) -> None:
    if transition['is_last']:
      self.measured.read()  # no episode is stored after a loss that is not finite
    self.replay.add_step(transition, index)
    if not transition['is_first']:
      self._learn()

  def _learn(self) -> None:
    """Another step is done: makes the updates that are due by then."""
    self.step.increment()
    while self._updates_due():
      self._update(self.agent.train, self.replay)

  def _repeat(self, episode: Episode) -> None:
    """What the driver would do, with an episode that a killed process stored as its last act."""
    self.driver.episodes += 1
    self.collector.episodes += 1
    steps = len(episode['action']) - 1
    self.agent.acts.assign_add(steps)  # the policy drew a seed for each
    for number in range(1, steps + 1):
      if number == steps:
        self.replay.admit()
      self._learn()
    self._on_episode(episode, 0)

  def _updates_due(self) -> bool:
    """Counted from the start, whatever the lengths of the episodes are."""
    config = self.config
    online = int(self.agent.updates.numpy()) - config.pretrain - config.pretrain_bc
    return self.replay.episodes > 0 and online < online_updates(config, int(self.step))

  def _update(self, update, replay) -> None:
    number = int(self.agent.updates.numpy())
    with self.timing.measure(kind_of(self.config, number)):
      metrics = update(*draw(self.config, replay, self.expert, number))
      self.measured.add(int(self.step), number + 1, metrics)

  def _on_episode(self, episode, index) -> None:
    self.logger.scalar('train/return', episode['reward'].sum())
    self.logger.scalar('train/length', len(episode['reward']) - 1)
    self.logger.scalar('train/explorer_share', episode['log_explorer'][1:].mean())
    if 'log_success' in episode:
      self.logger.scalar('train/success', episode['log_success'].max())

  def _on_drop(self, index) -> None:
    self.replay.drop(index)

  # Reports

  def _write(self) -> None:
    self.measured.hand_over()
    self.logger.add(self.replay.stats, 'replay')
    self.logger.scalar('time/minutes', (time.time() - self.started) / 60)
    self.logger.write()

  def _evaluate_if_due(self) -> bool:
    if not self.should_eval(self.step):
      return False
    video = self.should_video(self.step)
    self._evaluate(self.config.eval_episodes, f'{int(self.step):09d}', video)
    if video:
      # Long enough for the steps that the model sees before it predicts.
      length = max(2 * CONTEXT, self.config.replay.length)
      batch = self.expert.sample(6, length, (2, int(self.step)))
      for key, frames in self.agent.report(batch).items():
        self.logger.video(key, frames, 10)
      self.logger.write()
    return True

  def _evaluate(self, episodes: int, name: str, video: bool = False) -> dict:
    with self.timing.measure('episodes', lambda: episodes):
      result = evaluate(self.agent, self.eval_envs, episodes, 10_000 + self.config.seed, video)
    frames = result.pop('video', None)
    if frames is not None:
      self.logger.video('eval/video', frames)
    means = summarize(result)
    self.logger.add(means, 'eval')
    self.logger.write()
    write_json(self.folder / 'eval' / f'{name}.json', {'step': int(self.step), **means, **result})
    return means

  # Checkpoints

  def _save(self) -> None:
    self.measured.read()  # a checkpoint is never from after a loss that is not finite
    meta = {
      'step': int(self.step),
      'driver_episodes': self.driver.episodes,
      'collector_episodes': self.collector.episodes,
      'replay_position': self.replay.position,
      'eval_last': self.should_eval.last,
      'video_last': self.should_video.last,
      'demos': self.demos,
      'replay_episodes': self.replay.episodes,
      'metrics_lines': self.metrics.sync(),
      'pending': self.logger.pending,
    }
    # Pretraining moves only the updates.
    number = int(self.step) + int(self.agent.updates.numpy())
    self._firsts[number] = self.replay.first
    for old in sorted(self._firsts)[: -self.checkpoint.keep]:
      del self._firsts[old]
    meta['replay_firsts'] = list(self._firsts.items())
    self.checkpoint.save(number, self.agent.state(), meta)
    self.replay.release(min(self._firsts.values()))

  def _keep_milestone(self) -> None:
    if self.milestones.due(self.step):
      meta = {'updates': int(self.agent.updates.numpy())}
      self.milestones.save(int(self.step), self.agent.weights(), meta)

  def _check_demos(self, meta: dict) -> None:
    """The same demonstrations as before, wherever they lie now."""
    if meta.get('demos', self.demos) != self.demos:
      raise UserError(
        f'The demonstrations ({self.config.demos or "made for this task"}) are not those that the '
        f"run in '{self.folder}' began with; set --demos to those, or another --logdir."
      )

  def _restore(self, arrays: dict, meta: dict) -> None:
    """Goes back to a checkpoint."""
    self.agent.restore(arrays)
    self.step.reset(meta['step'])
    self._firsts = dict(meta.get('replay_firsts', ()))
    self.replay.release(min(self._firsts.values(), default=0))
    self.driver.episodes = meta['driver_episodes']
    self.collector.episodes = meta['collector_episodes']
    self.should_eval.last, self.should_video.last = meta.get('eval_last'), meta.get('video_last')
    missing = meta.get('replay_episodes', 0) - self.replay.episodes
    if missing > 0:
      print(f'Warning: {missing} episodes are gone since; the run goes on without them.')
    stored = self.replay.waiting.values() if len(self.envs) == 1 else ()
    step = meta['step'] + sum(int(x.stem.split('-')[-1]) for x in stored)
    print(f'Going on at step {step} in {self.folder}.')
