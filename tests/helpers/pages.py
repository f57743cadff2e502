"""The commands, code and links of README.md and docs/**/*.md."""

import pathlib
import re
import shlex
import typing

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / 'README.md', *sorted((ROOT / 'docs').rglob('*.md'))]
BLOCK = re.compile(r'^```(\w*)[^\n]*\n(.*?)^```', re.MULTILINE | re.DOTALL)


class Command(typing.NamedTuple):
  page: pathlib.Path
  text: str

  @property
  def words(self) -> list[str]:
    return shlex.split(self.text)

  @property
  def ours(self) -> list[str]:
    """The words after `recon-tf`, also where `docker run` starts it; none for other programs."""
    words = self.words
    if words[:2] == ['docker', 'run']:
      image = next(i for i, x in enumerate(words) if re.fullmatch(r'recon_tf(:\w+)?', x))
      return words[image + 1 :]
    if words[0] == 'python' and words[1].startswith('scripts/'):
      return [pathlib.Path(words[1]).stem, *words[2:]]
    return words[1:] if words[0] == 'recon-tf' and words[1][0] != '-' else []

  @property
  def kind(self) -> str:
    """The command of recon-tf, or the program."""
    return self.ours[0] if self.ours else self.words[0]


def blocks(page: pathlib.Path, language: str) -> list[str]:
  """Contents of the page's fenced blocks in this language."""
  return [text for name, text in BLOCK.findall(page.read_text()) if name == language]


def commands() -> list[Command]:
  """Every line of every shell block, without comments, and our commands in scripts."""
  found = []
  for page in PAGES:
    join = lambda block: block.replace('\\\n', ' ').splitlines()
    lines = [x for block in blocks(page, 'bash') for x in join(block)]
    # Scripts have much else in them.
    scripts = [x for block in blocks(page, 'sh') for x in join(block)]
    lines += [x.rstrip(' &') for x in scripts if x.startswith('recon-tf ')]
    texts = [shlex.join(shlex.split(x, comments=True)) for x in lines]
    found += [Command(page, x) for x in texts if x]
  return found


def prose(page: pathlib.Path) -> str:
  """The page without its fenced blocks."""
  return BLOCK.sub('', page.read_text())
