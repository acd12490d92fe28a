"""How does anything get onto the terminal? Every text of others is made visible first; nothing is markup.

Answers go to stdout, talk and errors to stderr, so that a pipe carries only what was asked for.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from governance.canonical import payload_bytes
from governance.ids import Micros

__all__ = [
    "FAINT",
    "ReaderGoneError",
    "facts",
    "moment",
    "plain",
    "say",
    "short",
    "show_json",
    "table",
    "talk",
    "visible",
]

FAINT: Final = "dim"
_CUT: Final = "…"
_ID_CHARS: Final = 32
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class ReaderGoneError(Exception):
    """Whoever read our output has closed it. No fault of anybody's."""


class _Screen(Console):
    def on_broken_pipe(self) -> None:
        raise ReaderGoneError


def _screen(*, stderr: bool = False) -> Console:
    return _Screen(stderr=stderr, markup=False, highlight=False, emoji=False)


def plain(text: object) -> str:
    """Write a text of somebody else's so that every character of it can be seen, on one line."""
    given = str(text)
    if given.isascii() and given.isprintable():
        return given  # the usual case does not load the tables
    from governance.web.reveal import printable

    return printable(given)


def visible(text: str) -> str:
    """As `plain`, but line breaks break lines: for texts that people wrote to be read."""
    return "\n".join(plain(line) for line in text.split("\n"))


def short(text: str, chars: int) -> str:
    """Cut `text` to `chars` characters, and show that it was cut."""
    return text if len(text) <= chars else text[: chars - 1] + _CUT


def moment(at: Micros) -> str:
    """Write a moment to the second, UTC."""
    return (_EPOCH + timedelta(microseconds=at)).strftime("%Y-%m-%d %H:%M:%S UTC")


def say(*lines: RenderableType) -> None:
    """Print to stdout. A text is one line, however long; a table fits the terminal."""
    screen = _screen()
    for line in lines:
        screen.print(line, soft_wrap=isinstance(line, str | Text))


def talk(*lines: RenderableType) -> None:
    """Print to stderr: what a script that reads the answer must not find in it."""
    screen = _screen(stderr=True)
    for line in lines:
        screen.print(line, soft_wrap=isinstance(line, str | Text))


def show_json(value: object) -> None:
    """Print one canonical JSON value and a line end, in UTF-8 whatever the terminal's encoding."""
    raw = payload_bytes(value) + b"\n"
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(raw)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise ReaderGoneError from None


def table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    """Lay out rows under quiet headings. Nothing is cut: a long cell takes more lines.

    The first column holds what people copy: it keeps its width as long as it is no longer than an id.
    """
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=FAINT)
    listed = list(rows)
    first = min(max((len(row[0]) for row in listed), default=0), _ID_CHARS)
    for number, column in enumerate(columns):
        shown.add_column(column, overflow="fold", min_width=None if number else first)
    for row in listed:
        shown.add_row(*row)
    return shown


def facts(pairs: Mapping[str, str | Text]) -> Table:
    """Lay out names and values, one pair a line."""
    shown = Table.grid(padding=(0, 2, 0, 0))
    shown.add_column(style=FAINT, no_wrap=True)
    shown.add_column(overflow="fold")
    for name, value in pairs.items():
        shown.add_row(name, value)
    return shown
