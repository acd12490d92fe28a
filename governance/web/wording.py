"""How are times, counts and lists said to people? Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from governance.ids import Micros

__all__ = ["and_list", "iso", "moment", "origin", "outcome", "plural", "sentence", "span"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ORIGINS: Final = {
    "user": "in the user's own words",
    "trusted": "from a trusted result",
    "untrusted": "only in untrusted content",
    "unknown": "written by the model",
}
_SECOND: Final = 1_000_000
_MINUTE_S: Final = 60
_HOUR_S: Final = 60 * 60
_DAY_S: Final = 24 * 60 * 60


def moment(at: Micros) -> str:
    """Write a moment to the second, UTC: `2026-03-01 09:30:05 UTC`."""
    return (_EPOCH + timedelta(microseconds=at)).strftime("%Y-%m-%d %H:%M:%S UTC")


def iso(at: Micros) -> str:
    """Write a moment for programs: `2026-03-01T09:30:05.250000+00:00`."""
    return (_EPOCH + timedelta(microseconds=at)).isoformat()


def span(micros: int) -> str:
    """Write a length of time in its two largest units: `3 h 05 min`. Past is `0 s`."""
    seconds = max(0, micros) // _SECOND
    if seconds >= _DAY_S:
        return f"{seconds // _DAY_S} d {seconds % _DAY_S // _HOUR_S:02} h"
    if seconds >= _HOUR_S:
        return f"{seconds // _HOUR_S} h {seconds % _HOUR_S // _MINUTE_S:02} min"
    if seconds >= _MINUTE_S:
        return f"{seconds // _MINUTE_S} min {seconds % _MINUTE_S:02} s"
    return f"{seconds} s"


def sentence(text: str) -> str:
    """Make a sentence of a message or hint: those are lower case and have no full stop."""
    end = "" if text.endswith((".", "!", "?")) else "."
    return f"{text[:1].upper()}{text[1:]}{end}" if text else ""


def origin(name: str) -> str:
    """Say where the text of an argument occurred before, by the name the decision input has for it."""
    return _ORIGINS.get(name, name)


def outcome(value: bool | str) -> str:
    """Say what a clause came to, or why it could not be evaluated."""
    if isinstance(value, bool):
        return "is true" if value else "is false"
    return f"cannot be evaluated: {value}"


def plural(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def and_list(words: Sequence[str]) -> str:
    """Join words as a sentence does: `a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
