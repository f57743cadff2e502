"""Types of argparse flags: numbers in a range, written as in configs.yaml."""

import argparse
from collections.abc import Callable

from recon_tf.common.errors import UserError
from recon_tf.common.schema import parse_limit


class Parser(argparse.ArgumentParser):
  """Answers a bad flag as all our errors are: one sentence, without the usage."""

  def error(self, message: str):
    raise UserError(f'{message}; {self.prog} --help lists the flags.')


def ranged(kind: type, text: str) -> Callable[[str], int | float]:
  """For `type=`: an int or a float that is finite and in a range such as '[1, inf)'."""
  limit, _ = parse_limit(text)

  def convert(word: str) -> int | float:
    try:
      value = kind(word)
      limit.check('it', value)
    except (ValueError, UserError):
      name = 'whole number' if kind is int else 'number'
      raise argparse.ArgumentTypeError(f"'{word}' is no {name} in {text}") from None
    return value

  return convert
