"""The one training loop: demonstrations, pretraining, interaction, evaluation, checkpoints."""

import json
import os
import pathlib
import time

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from recon_tf import demos, envs
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
from recon_tf.common.episodes import load_folder
from recon_tf.common.folders import check_settings, finished, run_folder
from recon_tf.common.versions import record_meta
from recon_tf.evaluation import evaluate, summarize
from recon_tf.explorer import Collector
from recon_tf.make_agent import make_agent, sequences

# What tells at a glance how a run is doing; TensorBoard shows these on top.
ESSENTIALS = (
  'eval/success', 'eval/return', 'train/return', 'disc/gap', 'main/uncertainty',
  'explorer/uncertainty', 'main/penalty_share', 'explorer/bonus_share', 'gate/mean',
  'model/model_loss', 'main/bc_loss', 'dadac/q_gap',
  'dadac/entropy', 'iqmpc/q_gap', 'iqmpc/reward_correlation',
)  # fmt: skip

UNREAD = 100  # updates whose metrics may stay on the device


def train(config: Config) -> dict:
  """Trains config.task to the end, or goes on where a killed run was; returns the evaluation."""
  folder = run_folder(config)
  result = finished(config, folder)
  if result:
    print(f'{folder} is finished already.')
    return result
  prepare_tensorflow(config)
  run = Run(config, folder)
  try:
    run.pretrain()
    run.interact()
    return run.finish()
  finally:
    run.close()


class Run:
  """Everything that one run holds, joined by callbacks."""

  def __init__(self, config: Config, folder: pathlib.Path):
    self.config, self.folder, self.started = config, folder, time.time()
    self.envs, self.eval_envs = self._make_envs(config.env.workers), []
    try:
      self.envs[0].ready()  # a wrong task ends here, before anything is written
      self.expert = load_demos(config)
      prepare_folder(config, folder)
      record_meta(folder)
      self._build()
    except BaseException:
      self.close()
      raise

  def _make_envs(self, number: int, kicks: float = 0.0) -> list:
    config, perturb = self.config, [('kicks', {'chance': kicks})] if kicks else []
    make = lambda: envs.Worker(config.task, config, config.seed, perturb, wait=False)
    return [make() for _ in range(number)]

  def _build(self) -> None:
    config, folder = self.config, self.folder
    self.step = Counter()
    self.agent = make_agent(config, self.envs[0].obs_space, self.envs[0].act_space)
    self.replay = Replay(
      folder / 'train_episodes', config.replay.capacity, config.replay.memory, config.seed
    )
    self.checkpoint = Checkpoint(folder / 'checkpoints', config.keep)
    self.milestones = Milestones(folder / 'milestones', config.keep_every)
    self.should_eval = Every(config.eval_every)
    self.should_video = Every(config.video_every)
    length = self.envs[0].length
    self.collector = Collector(len(self.envs), length, config.windows, config.seed)
    self.driver = Driver(self.envs, config.seed)
    self.driver.on_step(self._on_step)
    self.driver.on_episode(self._on_episode)
    self.driver.on_drop(self._on_drop)
    resumed = self._restore()
    if resumed is None:
      self.agent.scaler.fit(self.expert.contents())
    self.milestones.forget_after(self.step)
    outputs = [TerminalOutput(config.steps, f'{config.task} {config.method}')]
    outputs.append(JSONLOutput(folder, -1 if resumed is None else resumed))
    outputs.append(TensorBoardOutput(folder, ESSENTIALS))
    self.logger = Logger(self.step, outputs)
    if resumed is None:
      self.logger.hyperparameters(config.flat)
    self._histograms, self._pending = {}, []

  def close(self) -> None:
    for env in [*self.envs, *self.eval_envs]:
      env.close()

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
    with tqdm(total=until - done, desc=name, unit='update', mininterval=1) as bar:
      while done < until:
        if done == 0:
          bar.write('Compiling the update (once) ...')
        self._update(update, self.expert)
        done = int(self.agent.updates.numpy())
        bar.update()
        if done % 200 == 0 or done == until:
          self._save()
    self._write()

  def interact(self) -> None:
    """Whole episodes until the budget is spent; between them nothing is in the air."""
    self._evaluate_if_due()
    if self.step == 0:  # a resumed run may count steps that it has not learned from yet
      self._keep_milestone()
    while self.step < self.config.steps:
      self.driver(self._policy, len(self.envs))
      self._write()
      self._evaluate_if_due()
      self._keep_milestone()
      self._save()

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
      self._collect()  # says which loss it was
    return action, state

  def _on_step(self, transition, index) -> None:
    if transition['is_last']:
      self._collect()  # no episode is stored after a loss that is not finite
    self.replay.add_step(transition, index)
    if transition['is_first']:
      return
    self.step.increment()
    while self._updates_due():
      self._update(self.agent.train, self.replay)

  def _updates_due(self) -> bool:
    """Counted from the start, so that a resumed run catches up instead of losing updates."""
    config = self.config
    online = int(self.agent.updates.numpy()) - config.pretrain - config.pretrain_bc
    rounds = (int(self.step) - config.prefill) // config.train_every
    return self.replay.episodes > 0 and online < rounds * config.train_steps

  def _update(self, update, replay) -> None:
    """One update; the next batches load in the background meanwhile."""
    number = int(self.agent.updates.numpy())
    length, mixed = self.config.replay.length, self.config.expert_mix == 'copy'
    own, expert = ({'batch': x, 'length': length} for x in sequences(self.config))
    if mixed:
      data = mixed_sample(replay, self.expert, **own, key=(0, number))
    else:
      data = replay.sample(**own, key=(0, number))
      replay.prefetch(**own, key=(0, number + 1))
    demonstrations = self.expert.sample(**expert, key=(1, number))
    self.expert.prefetch(**expert, key=(1, number + 1))
    self._pending.append((int(self.step), number + 1, update(data, demonstrations)))
    if len(self._pending) == UNREAD:
      self._collect()

  def _collect(self) -> None:
    """Reads what updates measured: only here does the host wait for the device."""
    pending, self._pending = self._pending, []
    for step, number, metrics in pending:
      metrics = {k: np.asarray(v) for k, v in metrics.items()}
      self._check_finite(metrics, step, number)
      for key, value in metrics.items():
        if value.ndim:
          self._histograms[key] = value
        else:
          self.logger.scalar(key, value)

  def _check_finite(self, metrics: dict, step: int, number: int) -> None:
    for key, value in metrics.items():
      if key.endswith('_loss') and not np.isfinite(value):
        raise UserError(
          f"'{key}' became {value} at step {step} (update {number}); checkpoints in {self.folder} "
          'are from before and intact. Lower the learning rates, or look at the data.'
        )

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
    self._collect()
    for key, value in self._histograms.items():
      self.logger.histogram(key, value)
    self._histograms = {}
    self.logger.add(self.replay.stats, 'replay')
    self.logger.scalar('time/minutes', (time.time() - self.started) / 60)
    self.logger.write()

  def _evaluate_if_due(self) -> None:
    if not self.should_eval(self.step):
      return
    video = self.should_video(self.step)
    self._evaluate(self.config.eval_episodes, f'{int(self.step):09d}', video)
    if video:
      batch = self.expert.sample(6, self.config.replay.length, (2, int(self.step)))
      for key, frames in self.agent.report(batch).items():
        self.logger.video(key, frames, 10)
      self.logger.write()

  def _evaluate(self, episodes: int, name: str, video: bool = False) -> dict:
    if not self.eval_envs:
      number = min(episodes, self.config.eval_workers)
      self.eval_envs = self._make_envs(number, self.config.eval_kicks)
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
    self._collect()  # a checkpoint is never from after a loss that is not finite
    meta = {
      'step': int(self.step),
      'driver_episodes': self.driver.episodes,
      'collector_episodes': self.collector.episodes,
      'replay_position': self.replay.position,
      'eval_last': self.should_eval.last,
      'video_last': self.should_video.last,
    }
    # Pretraining moves only the updates.
    number = int(self.step) + int(self.agent.updates.numpy())
    self.checkpoint.save(number, self.agent.state(), meta)

  def _keep_milestone(self) -> None:
    if self.milestones.due(self.step):
      meta = {'updates': int(self.agent.updates.numpy())}
      self.milestones.save(int(self.step), self.agent.weights(), meta)

  def _restore(self) -> int | None:
    """Goes back to the newest checkpoint; returns its step."""
    found = self.checkpoint.load()
    if found is None:
      return None
    arrays, meta = found
    self.agent.restore(arrays)
    # A kill between an episode's file and its checkpoint leaves the file: it counts.
    extra = [x for x in self.replay.lengths if x[0] >= meta['replay_position']]
    self.step.reset(meta['step'] + sum(length for _, length in extra))
    self.driver.episodes = meta['driver_episodes'] + len(extra)
    self.collector.episodes = meta['collector_episodes'] + len(extra)
    self.should_eval.last, self.should_video.last = meta['eval_last'], meta['video_last']
    print(f'Going on at step {int(self.step)} in {self.folder}.')
    return meta['step']


def prepare_tensorflow(config: Config) -> None:
  """Threads, determinism, and one line on the device."""
  if config.threads:
    tf.config.threading.set_intra_op_parallelism_threads(config.threads)
  if config.deterministic:
    tf.config.experimental.enable_op_determinism()
    tf.random.set_seed(config.seed)
  gpus = tf.config.list_physical_devices('GPU')
  for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
  where = f'{len(gpus)} GPU(s)' if gpus else f'the CPU ({os.cpu_count()} cores), no GPU was found'
  print(f'TensorFlow {tf.__version__} runs on {where}.')


def prepare_folder(config: Config, folder: pathlib.Path) -> None:
  """Saves the config; a folder that holds a run with other settings is refused."""
  try:
    folder.mkdir(parents=True, exist_ok=True)
  except OSError as error:
    raise UserError(f"Cannot write to '{folder}': {error.strerror}; set --logdir.") from error
  check_settings(config, folder)
  config.save(folder / 'config.yaml')


def load_demos(config: Config) -> Replay:
  """The demonstrations as a replay in memory, made first if there are none."""
  folder = config.demos
  if not folder:
    folder = demos.demo_folder('demos', config.task, config)
    demos.ensure_demos(config.task, config.demo_episodes, folder, config)
  expert = Replay(None, seed=config.seed)
  for episode in load_folder(folder, tuple(config.env.size), config.demo_episodes):
    expert.add_episode(episode)
  print(f'{expert.episodes} demonstrations with {expert.steps} steps from {folder}.')
  return expert


def mixed_sample(replay: Replay, expert: Replay, batch: int, length: int, key: tuple) -> dict:
  """Sequences as if the demonstrations were copied into the replay, which is CMIL's code."""
  share = expert.steps / (expert.steps + replay.steps)
  rng = np.random.default_rng([replay.seed, *key, 7])
  count = int(rng.binomial(batch, share)) if replay is not expert else batch
  parts = [(expert, count), (replay, batch - count)]
  drawn = [source.sample(number, length, key) for source, number in parts if number]
  keys = set.intersection(*(set(x) for x in drawn))
  return {k: np.concatenate([x[k] for x in drawn]) for k in sorted(keys)}


def write_json(path: pathlib.Path, value: dict) -> None:
  path.parent.mkdir(parents=True, exist_ok=True)
  temporary = path.with_suffix('.writing')
  temporary.write_text(json.dumps(value, indent=1))
  temporary.replace(path)
