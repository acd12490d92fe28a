"""May these arguments be decided about at all? A bounded look at them, before any engine sees them.

What one engine reads one way and another, or the tool, another way is refused: numbers beyond 64 bits or
not finite, text with NUL or a lone surrogate, anything that is no plain JSON, anything too large or deep.
"""

from collections.abc import Mapping
from typing import Final, cast

__all__ = [
    "ARGUMENTS_DEPTH_MAX",
    "ARGUMENTS_NODES_MAX",
    "ARGUMENTS_TEXT_BYTES_MAX",
    "admissible",
]

ARGUMENTS_DEPTH_MAX: Final = 32
"""Levels of lists and objects, the arguments themselves being the first."""
ARGUMENTS_NODES_MAX: Final = 10_000
"""Values, the objects and lists themselves included."""
ARGUMENTS_TEXT_BYTES_MAX: Final = 1024 * 1024
"""UTF-8 bytes of all texts and keys together."""

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1


def admissible(arguments: object) -> bool:
    """Tell whether `arguments` are a plain JSON object within the limits. Total."""
    return type(arguments) is dict and _Limits().admit(cast("object", arguments), 1)


class _Limits:
    """What is left of the limits during one walk."""

    __slots__ = ("_bytes", "_nodes")

    def __init__(self) -> None:
        self._nodes = ARGUMENTS_NODES_MAX
        self._bytes = ARGUMENTS_TEXT_BYTES_MAX

    def admit(self, value: object, depth: int) -> bool:
        self._nodes -= 1
        kind = type(value)
        if self._nodes < 0:
            return False
        if kind is str:
            return self._text(cast("str", value))
        if kind is int or kind is float:
            return _is_number(cast("int | float", value))
        if kind is list or kind is dict:
            return depth <= ARGUMENTS_DEPTH_MAX and self._inside(value, depth + 1)
        return value is None or kind is bool

    def _inside(self, value: object, depth: int) -> bool:
        if type(value) is dict:
            members = cast("Mapping[object, object]", value)
            return all(
                type(key) is str and self._text(key) and self.admit(item, depth)
                for key, item in members.items()
            )
        return all(self.admit(item, depth) for item in cast("list[object]", value))

    def _text(self, text: str) -> bool:
        try:
            self._bytes -= len(text) if text.isascii() else len(text.encode())
        except UnicodeEncodeError:
            return False
        return self._bytes >= 0 and "\0" not in text


def _is_number(value: "int | float") -> bool:
    if isinstance(value, int):
        return _INT64_MIN <= value <= _INT64_MAX
    return value - value == 0  # false of NaN and the infinities
