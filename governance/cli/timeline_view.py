"""How is a timeline drawn in a terminal? One rail from top to bottom, readable without colour too."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from audit_viewer.timeline import Line, Sign
from audit_viewer.wording import span
from governance.cli.console import FAINT, plain

__all__ = ["Rail", "render"]

_LOOK: Final = {
    Sign.RUN: ("┌", "bold"),
    Sign.ASK: ("·", FAINT),
    Sign.SAY: ("◆", "cyan"),
    Sign.ALLOW: ("✓", "green"),
    Sign.HOLD: ("?", "yellow"),
    Sign.DENY: ("✗", "red"),
    Sign.BEGIN: ("▷", "blue"),
    Sign.DONE: ("■", "blue"),
    Sign.FAIL: ("!", "bold red"),
    Sign.UNKNOWN: ("¿", "bold magenta"),
    Sign.YES: ("✔", "bold green"),
    Sign.NO: ("✘", "bold red"),
    Sign.LAPSE: ("○", "yellow"),
    Sign.PAUSE: ("‖", "yellow"),
    Sign.RESUME: ("»", "cyan"),
    Sign.END: ("└", "bold green"),
    Sign.NOTE: ("·", FAINT),
}
_BREAKS: Final = frozenset({Sign.ASK, Sign.RESUME, Sign.END})
"""Before these the rail goes on for an empty line: a new turn, a new process, the end."""
_LABEL_CHARS: Final = 12
_TEXT_CHARS_MIN: Final = 24


def render(lines: Sequence[Line]) -> "Rail":
    return Rail(tuple(lines))


class Rail:
    """A timeline that fits itself to the width it is given."""

    def __init__(self, lines: tuple[Line, ...]) -> None:
        self._lines = lines
        self._seq_chars = max((len(str(line.seq)) for line in lines), default=1)
        self._offset_chars = max((len(span(line.offset_us)) for line in lines), default=1)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self._lines:
            if line.sign in _BREAKS:
                yield _joined(self._margin("", "", "│", FAINT), Text())
            yield from self._draw(line, console, options.max_width)

    def _draw(self, line: Line, console: Console, width: int) -> Iterator[Text]:
        glyph, style = _LOOK[line.sign]
        head = self._margin(str(line.seq), span(line.offset_us), glyph, style)
        head.append(f"{line.label:<{_LABEL_CHARS}}", style=style)
        last = " " if line.sign is Sign.END else "│"
        room = max(width - head.cell_len, _TEXT_CHARS_MIN)
        prefix = head
        for text, faint in ((line.text, False), *((detail, True) for detail in line.details)):
            shown = Text(plain(text), style=FAINT if faint else "")
            for part in shown.wrap(console, room) if text else [Text()]:
                part.rstrip()
                yield _joined(prefix, part)
                prefix = self._margin("", "", last, FAINT)
                prefix.append(" " * _LABEL_CHARS)

    def _margin(self, seq: str, offset: str, glyph: str, style: str) -> Text:
        place = f"{seq:>{self._seq_chars}} {offset:>{self._offset_chars}}  "
        return Text.assemble((place, FAINT), (f"{glyph} ", style))


def _joined(prefix: Text, part: Text) -> Text:
    """Put margin and text together, without blanks at the end."""
    line = prefix.copy()
    line.append_text(part)
    line.rstrip()
    return line
