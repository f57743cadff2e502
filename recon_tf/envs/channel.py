"""What a worker and its parent say to each other: messages, spaces, shared memory."""

import base64
import json
import mmap
import os
import socket
import struct
import tempfile

import gymnasium
import numpy as np

# One byte starts every message. Observations and actions travel in the shared memory.
STEP, RESET, CALL = b's', b'r', b'c'
OBSERVATION, ANSWER, ERROR = b'o', b'a', b'e'
ALIGN = 64  # bytes, so that arrays do not share cache lines


def create_memory() -> int:
  """A file without a name: it is gone when both processes are, however they end."""
  if hasattr(os, 'memfd_create'):
    return os.memfd_create('recon_tf')
  with tempfile.TemporaryFile() as file:
    return os.dup(file.fileno())


class SharedArrays:
  """Action, seed and observations in memory that both processes map."""

  def __init__(self, file: int, obs_space: dict, act_space: dict):
    # Actions in float64 and seeds as integers, so that a worker gets exactly what was given.
    specs = [('seed', (2,), np.dtype(np.int64))]
    specs += [(f'act/{k}', x.shape, np.dtype(np.float64)) for k, x in act_space.items()]
    specs += [(f'obs/{k}', x.shape, np.dtype(x.dtype)) for k, x in obs_space.items()]
    offsets, size = [], 0
    for _, shape, dtype in specs:
      offsets.append(size)
      size += -(-max(1, int(np.prod(shape)) * dtype.itemsize) // ALIGN) * ALIGN
    if os.fstat(file).st_size < size:
      os.ftruncate(file, size)
    memory = mmap.mmap(file, size)
    arrays = {}
    for (name, shape, dtype), offset in zip(specs, offsets, strict=True):
      arrays[name] = np.ndarray(shape, dtype, memory, offset)
    self.seed = arrays['seed']
    self.actions = {k: arrays[f'act/{k}'] for k in act_space}
    self.observations = {k: arrays[f'obs/{k}'] for k in obs_space}

  def read_observation(self) -> dict[str, np.ndarray]:
    return {k: v.copy() if v.ndim else v[()] for k, v in self.observations.items()}

  def write_observation(self, obs: dict) -> None:
    for key, array in self.observations.items():
      array[...] = obs[key]

  def write_action(self, action: dict) -> None:
    for key, array in self.actions.items():
      value = np.asarray(action[key])
      if value.shape != array.shape:
        raise ValueError(f"Action '{key}' has shape {value.shape}, needs {array.shape}.")
      array[...] = value


def send_message(channel: socket.socket, kind: bytes, content) -> None:
  """A byte, a length and JSON, with arrays inside it kept bit for bit."""
  text = json.dumps(_encode(content)).encode()
  channel.sendall(kind + struct.pack('<Q', len(text)) + text)


def receive_content(channel: socket.socket):
  """The content of a message whose first byte has been read."""
  (length,) = struct.unpack('<Q', receive_exactly(channel, 8))
  return _decode(json.loads(receive_exactly(channel, length)))


def receive_exactly(channel: socket.socket, count: int) -> bytes:
  """That many bytes; EOFError if the other side is gone."""
  parts = bytearray()
  while len(parts) < count:
    part = channel.recv(min(count - len(parts), 1 << 20))
    if not part:
      raise EOFError
    parts += part
  return bytes(parts)


def pack_spaces(spaces: dict) -> dict:
  """Boxes as something that send_message takes."""
  return {k: {'low': x.low, 'high': x.high, 'dtype': str(x.dtype)} for k, x in spaces.items()}


def unpack_spaces(spaces: dict) -> dict[str, gymnasium.spaces.Box]:
  boxes = {}
  for key, space in spaces.items():
    low, high = np.asarray(space['low']), np.asarray(space['high'])
    boxes[key] = gymnasium.spaces.Box(low, high, low.shape, np.dtype(space['dtype']))
  return boxes


def _encode(value):
  if isinstance(value, np.ndarray | np.generic):
    value = np.asarray(value)
    if value.dtype.kind not in 'biuf':
      raise TypeError(f'Arrays of type {value.dtype} cannot be sent to or from a worker.')
    data = base64.b64encode(value.tobytes()).decode()
    return {'__array__': data, 'dtype': value.dtype.str, 'shape': list(value.shape)}
  if isinstance(value, dict):
    return {str(k): _encode(v) for k, v in value.items()}
  if isinstance(value, list | tuple):
    return [_encode(v) for v in value]
  if value is None or isinstance(value, bool | int | float | str):
    return value
  raise TypeError(f'{type(value).__name__} objects cannot be sent to or from a worker.')


def _decode(value):
  if isinstance(value, list):
    return [_decode(v) for v in value]
  if not isinstance(value, dict):
    return value
  if '__array__' in value:
    data = base64.b64decode(value['__array__'])
    array = np.frombuffer(data, value['dtype']).reshape(value['shape']).copy()
    return array if array.ndim else array[()]
  return {k: _decode(v) for k, v in value.items()}
