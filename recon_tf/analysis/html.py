"""A page in one file: pictures are inside of it, and it needs no network."""

import base64
import html
from collections.abc import Iterable, Sequence

TYPES = {b'\x89PNG': 'image/png', b'GIF8': 'image/gif'}
STYLE = """
:root { color-scheme: light; }
body { margin: 0; background: #f4f5f7; color: #1c2330; font: 15px/1.45 system-ui, sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 16px 20px 60px; }
h1 { font-size: 22px; margin: 0 0 2px; }
h2 { font-size: 17px; margin: 0 0 8px; }
p { margin: 6px 0; }
.lead, .note { color: #57606f; }
.note { font-size: 13px; }
section { background: white; border: 1px solid #dfe3e9; border-radius: 8px; padding: 14px 16px;
  margin-top: 14px; overflow-x: auto; }
.top { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 14px; }
@media (max-width: 900px) { .top { grid-template-columns: minmax(0, 1fr); } }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th, td { text-align: left; padding: 4px 9px; border-bottom: 1px solid #e6e9ee;
  vertical-align: top; }
th { color: #57606f; font-weight: 600; border-bottom-color: #b9c0cb; }
th.part { color: #1c2330; padding-top: 9px; border-bottom-color: #e6e9ee; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
img { max-width: 100%; height: auto; display: block; margin: 0 auto; }
.pictures { display: flex; flex-wrap: wrap; gap: 14px; margin-top: 12px; }
figure { margin: 0; font-size: 13px; color: #57606f; }
figure img { margin: 0 0 3px; }
.pixels img { image-rendering: pixelated; }
pre { background: #f4f5f7; padding: 8px 10px; border-radius: 6px; white-space: pre-wrap;
  overflow-wrap: anywhere; font-size: 12.5px; margin: 6px 0; }
.warning { background: #fff5dd; border-left: 4px solid #e69f00; padding: 6px 10px; margin: 8px 0; }
"""


def page(title: str, lead: str, parts: Iterable[str]) -> str:
  """The whole document; parts are HTML, title and lead are text."""
  # No scripts and nothing from outside: the policy has the browser enforce it.
  policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
  return (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    f'<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n<body><main>'
    f'<h1>{html.escape(title)}</h1><p class="lead">{html.escape(lead)}</p>\n'
    + '\n'.join(parts)
    + '\n</main></body></html>\n'
  )


def section(heading: str, *parts: str, anchor: str = '') -> str:
  """A box with a heading; parts are HTML."""
  mark = f' id="{html.escape(anchor)}"' if anchor else ''
  return f'<section{mark}><h2>{html.escape(heading)}</h2>{"".join(parts)}</section>'


def side_by_side(*parts: str) -> str:
  return f'<div class="top">{"".join(parts)}</div>'


def text(words: str, kind: str = '') -> str:
  """A paragraph; kinds are note and warning."""
  mark = f' class="{kind}"' if kind else ''
  return f'<p{mark}>{html.escape(words)}</p>'


def code(lines: str) -> str:
  return f'<pre>{html.escape(lines)}</pre>'


def table(head: Sequence[str], rows: Iterable, numbers: Sequence[int] = ()) -> str:
  """Rows are lists of cells, or a text as heading; columns in `numbers` are set flush right."""
  mark = lambda i: ' class="number"' if i in numbers else ''
  line = lambda tag, cells: ''.join(
    f'<{tag}{mark(i)}>{html.escape(str(x))}</{tag}>' for i, x in enumerate(cells)
  )
  whole = lambda words: f'<th class="part" colspan="{len(head)}">{html.escape(words)}</th>'
  body = ''.join(f'<tr>{whole(x) if isinstance(x, str) else line("td", x)}</tr>' for x in rows)
  return f'<table><thead><tr>{line("th", head)}</tr></thead><tbody>{body}</tbody></table>'


def picture(content: bytes, words: str, width: int | None = None, caption: bool = False) -> str:
  """An inline PNG or GIF; words describe it, below it or for those who cannot see it."""
  kind = next((v for k, v in TYPES.items() if content.startswith(k)), None)
  if kind is None:
    raise ValueError('A picture must be a PNG or a GIF.')
  data = base64.b64encode(content).decode()
  size = f' width="{width}"' if width else ''
  image = f'<img src="data:{kind};base64,{data}" alt="{html.escape(words)}"{size}>'
  below = f'<figcaption>{html.escape(words)}</figcaption>' if caption else ''
  return f'<figure>{image}{below}</figure>'


def pictures(items: Iterable[str], pixels: bool = False) -> str:
  """Pictures in rows; pixels keeps small ones sharp when they are enlarged."""
  return f'<div class="pictures{" pixels" if pixels else ""}">{"".join(items)}</div>'
