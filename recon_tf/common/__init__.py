"""Building blocks without TensorFlow; each name is loaded from its file when it is first used."""

import importlib

EXPORTS = {
  'config': ('Config', 'apply_presets', 'default_config', 'load_config', 'load_saved', 'presets'),
  'flags': ('Flags',),
  'errors': ('UserError', 'nearest', 'run'),
  'counter': ('Counter',),
  'when': ('Every',),
  'driver': ('Driver',),
  'replay': ('Replay',),
  'episodes': ('save_episode', 'load_episode', 'load_folder', 'episode_files'),
  'logger': ('Logger', 'Progress', 'TerminalOutput', 'JSONLOutput', 'TensorBoardOutput'),
  'checkpoint': ('Checkpoint', 'Milestones', 'load_checkpoint'),
}
MODULES = {name: module for module, names in EXPORTS.items() for name in names}

__all__ = list(MODULES)


def __getattr__(name: str):
  if name not in MODULES:
    raise AttributeError(f"module 'recon_tf.common' has no attribute '{name}'")
  value = getattr(importlib.import_module(f'.{MODULES[name]}', __name__), name)
  globals()[name] = value
  return value


def __dir__() -> list[str]:
  return sorted([*globals(), *MODULES])
