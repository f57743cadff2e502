"""Connects to Ray, and refuses a cluster on which runs would fail one by one."""

import contextlib
import os
import pathlib
import platform
import socket
import uuid
from collections.abc import Iterator

from recon_tf.cluster.settings import Settings, cores
from recon_tf.common.errors import UserError
from recon_tf.common.versions import ROOT, git_state, package_versions

PORT = 6379
PROBE_TIMEOUT = 120  # seconds until every node has answered; a first worker takes some to start


@contextlib.contextmanager
def connected(settings: Settings, logdir: pathlib.Path) -> Iterator[None]:
  """Ray, started here or found at the address, and checked."""
  ray = import_ray()
  connect(ray, settings)
  try:
    check_resources(settings, [x['Resources'] for x in alive(ray)])
    check_nodes(ray, logdir)
    yield
  finally:
    ray.shutdown()


def import_ray():
  os.environ.setdefault('RAY_USAGE_STATS_ENABLED', '0')
  os.environ.setdefault('RAY_raylet_start_wait_time_s', '180')  # a busy machine takes its time
  os.environ.setdefault('RAY_worker_niceness', '0')  # Ray's 15 would let all else go first
  try:
    import ray
  except ImportError:
    raise UserError(
      "runs side by side need Ray: install it with pip install 'recon_tf[cluster]'."
    ) from None
  return ray


def connect(ray, settings: Settings) -> None:
  quiet = {'log_to_driver': False, 'logging_level': 'error', 'include_dashboard': False}
  if not settings.address:
    if settings.cpus > cores():  # Ray would believe what --workers says
      raise UserError(f'--cpus: a run takes {settings.cpus:g}, but this machine has {cores()}.')
    # Jobs hand over a few words each; files are their results.
    try:
      ray.init(num_cpus=settings.local_cpus, object_store_memory=100 * 2**20, **quiet)
    except Exception as error:  # Ray raises nothing more exact
      text = str(error).strip().splitlines()[0]
      raise UserError(f'Ray did not start here ({text}); --workers 1 does without it.') from error
    return
  missing = f"--address: there is no Ray cluster at '{settings.address}'; `ray status` there shows"
  missing += ' whether it runs, `ray start --head` starts one.'
  if not reachable(settings.address):
    raise UserError(missing)
  try:
    ray.init(settings.address, log_to_driver=False, logging_level='error')
  except (ConnectionError, TimeoutError, ValueError) as error:
    raise UserError(missing) from error
  except RuntimeError as error:  # Ray's own words on versions are on a line of their own
    text = ' '.join(str(error).split())
    raise UserError(f"--address: Ray at '{settings.address}' refuses: {text}") from error


def reachable(address: str) -> bool:
  """Whether something listens there; Ray itself would try for minutes."""
  if address == 'auto':
    return True
  host, _, port = address.rpartition('://')[2].partition(':')
  try:
    socket.create_connection((host, int(port or PORT)), timeout=5).close()
  except (OSError, ValueError):
    return False
  return True


def alive(ray) -> list[dict]:
  return [x for x in ray.nodes() if x['Alive']]


def check_resources(settings: Settings, nodes: list[dict]) -> None:
  """One run has to fit on one node; Ray would wait for ever for a larger one."""
  fits = lambda node: all(node.get(k, 0) >= v for k, v in settings.request.items())
  if any(fits(x) for x in nodes):
    return
  name, wanted = next(
    ((k, v) for k, v in settings.request.items() if all(x.get(k, 0) < v for x in nodes)),
    next(iter(settings.request.items())),
  )
  flag, scale = {'CPU': ('cpus', 1), 'GPU': ('gpus', 1), 'memory': ('memory', 1e9)}[name]
  most = max((x.get(name, 0) for x in nodes), default=0)
  raise UserError(
    f'--{flag}: a run takes {wanted / scale:g}, but no node has all that it takes; the largest '
    f'has {most / scale:g}.'
  )


def check_nodes(ray, logdir: pathlib.Path) -> None:
  """Every node sees the folder of the runs and has the same code and packages."""
  from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

  logdir.mkdir(parents=True, exist_ok=True)
  probe = logdir / f'.probe-{uuid.uuid4().hex}'
  probe.touch()
  ask = ray.remote(num_cpus=0, max_retries=0)(look)
  try:
    nodes = alive(ray)
    refs = [ask.options(scheduling_strategy=On(x['NodeID'], soft=False)) for x in nodes]
    paths = {'--logdir': str(probe), 'working folder': os.getcwd()}
    refs = [x.remote(paths) for x in refs]
    for node, ref in zip(nodes, refs, strict=True):
      check_answer(node['NodeManagerHostname'], answer(ray, node, ref), look(paths))
  finally:
    probe.unlink(missing_ok=True)


def answer(ray, node: dict, ref) -> dict:
  name = node['NodeManagerHostname']
  try:
    return ray.get(ref, timeout=PROBE_TIMEOUT)
  except ray.exceptions.GetTimeoutError:
    raise UserError(f"node '{name}' does not answer; `ray status` shows its state.") from None
  except ray.exceptions.RayError as error:
    line = str(error).strip().splitlines()[-1]
    raise UserError(f"node '{name}' cannot run recon_tf ({line}); install it there.") from error


def look(paths: dict[str, str]) -> dict:
  """What a node has: which paths it does not see, and which code and packages it would run."""
  return {
    'unseen': {k: v for k, v in paths.items() if not os.path.exists(v)},
    'versions': {
      'python': platform.python_version(),
      'commit': git_state(ROOT)['commit'],
      **package_versions(),
    },
  }


def check_answer(name: str, found: dict, own: dict) -> None:
  for key, path in found['unseen'].items():
    folder = os.path.dirname(path) if key == '--logdir' else path
    raise UserError(
      f"{key}: node '{name}' does not see '{folder}'; runs that move between nodes need a folder "
      'that all of them share.'
    )
  here, there = own['versions'], found['versions']
  for key in sorted(here.keys() | there.keys()):
    if here.get(key) != there.get(key):
      raise UserError(
        f"node '{name}' has {key} {there.get(key, 'nowhere')}, this machine "
        f'{here.get(key, "nowhere")}; install the same everywhere.'
      )
