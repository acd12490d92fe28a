"""How are a duration, a value or a text written for people? Raw: whoever draws it makes it visible first."""

from typing import Any, Final

from governance.canonical import payload_bytes

__all__ = ["counted", "place", "quote", "short", "span", "spelled", "spelled_json"]

TEXT_CHARS_MAX: Final = 300
"""How much of a text a line quotes; the log has the whole."""

_CUT: Final = "…"
_MILLI: Final = 1_000
_SECOND: Final = 1_000_000
_MINUTE_S: Final = 60
_HOUR_S: Final = 60 * 60
_DAY_S: Final = 24 * 60 * 60


def span(micros: int) -> str:
    """Write how long something took: `0.4 ms`, `12 ms`, `3.2 s`, `4 min 05 s`, `3 h 10 min`."""
    if micros < 10 * _MILLI:
        return f"{micros / _MILLI:.1f} ms"
    if micros < _SECOND:
        return f"{micros // _MILLI} ms"
    if micros < 60 * _SECOND:
        return f"{micros / _SECOND:.1f} s"
    seconds = micros // _SECOND
    if seconds < _HOUR_S:
        return f"{seconds // _MINUTE_S} min {seconds % _MINUTE_S:02} s"
    if seconds < _DAY_S:
        return f"{seconds // _HOUR_S} h {seconds % _HOUR_S // _MINUTE_S:02} min"
    return f"{seconds // _DAY_S} d {seconds % _DAY_S // _HOUR_S:02} h"


def spelled(args: Any) -> str:
    """Write arguments as `name: value`, the way people read them."""
    if not isinstance(args, dict):
        return str(args)
    return short(
        "(" + ", ".join(f"{name}: {spelled_json(value)}" for name, value in args.items()) + ")"
    )


def quote(text: str) -> str:
    return f"“{short(text)}”"


def short(text: str) -> str:
    return text if len(text) <= TEXT_CHARS_MAX else text[: TEXT_CHARS_MAX - 1] + _CUT


def spelled_json(value: object) -> str:
    return payload_bytes(value).decode()


def counted(count: int, one: str) -> str:
    return f"{count} {one}" if count == 1 else f"{count} {one}s"


def place(uid: str) -> str:
    return uid.rpartition("/")[2]
