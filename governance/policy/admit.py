"""May these arguments be decided about at all? A bounded look at them, before any engine sees them.

What one engine reads one way and another, or the tool, another way is refused: numbers beyond 64 bits or
not finite, text with NUL or a lone surrogate, anything that is no plain JSON, anything too large or deep.

Arguments are frozen before they are decided about, so one pass has made the bytes that their commitment is
over and has refused what JSON cannot say. `admits` reads what else there is to refuse off those bytes.
"""

from collections.abc import Iterable, Mapping, Sized
from typing import Final, cast

from governance.canonical import thaw

__all__ = [
    "ARGUMENTS_DEPTH_MAX",
    "ARGUMENTS_NODES_MAX",
    "ARGUMENTS_TEXT_BYTES_MAX",
    "admissible",
    "admits",
]

ARGUMENTS_DEPTH_MAX: Final = 32
"""Levels of lists and objects, the arguments themselves being the first."""
ARGUMENTS_NODES_MAX: Final = 10_000
"""Values, the objects and lists themselves included."""
ARGUMENTS_TEXT_BYTES_MAX: Final = 1024 * 1024
"""UTF-8 bytes of all texts and keys together."""

_REFUSED: Final = -1
_TOO_MUCH: Final = ARGUMENTS_TEXT_BYTES_MAX + 1
_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1


_ZEROS: Final = bytes.maketrans(b"123456789", b"0" * 9)
_LONG: Final = b"0" * 19
"""As many digits as a number beyond 64 bits has at least, each of them told as a zero."""


def admits(frozen: bytes) -> bool:
    """Tell whether the arguments that `canonical.freeze` made `frozen` of are admissible. Total.

    Brackets and commas say how deep and how many values there may be at most, so that most arguments
    need no closer look.
    """
    opened = frozen.count(b"{") + frozen.count(b"[")
    plainly = (
        frozen[:1] == b"{"
        and opened <= ARGUMENTS_DEPTH_MAX
        and opened + frozen.count(b",") < ARGUMENTS_NODES_MAX
        and len(frozen) <= ARGUMENTS_TEXT_BYTES_MAX
        and b"\\u0000" not in frozen
        and _LONG not in frozen.translate(_ZEROS)
    )
    return plainly or admissible(thaw(frozen))


def admissible(arguments: object) -> bool:
    """Tell whether `arguments` are a plain JSON object within the limits. Total."""
    if type(arguments) is not dict:
        return False
    nodes, room = ARGUMENTS_NODES_MAX - 1, ARGUMENTS_TEXT_BYTES_MAX
    level: list[object] = [cast("object", arguments)]
    for _ in range(ARGUMENTS_DEPTH_MAX):
        inside: list[object] = []
        for container in level:
            nodes -= len(cast("Sized", container))
            if nodes < 0:
                return False
            room = _look(container, inside, room)
            if room < 0:
                return False
        if not inside:
            return True
        level = inside
    return False


def _look(container: object, inside: list[object], room: int) -> int:
    """Look at what is directly in a list or an object, and put the lists and objects of it `inside`.

    Returns what is left of `room`, the bytes of text; less than nothing when something may not be there.
    """
    if type(container) is dict:
        members = cast("Mapping[object, object]", container)
        if not all(type(key) is str for key in members):
            return _REFUSED
        room -= _texts(cast("Iterable[str]", members))
        values: Iterable[object] = members.values()
    else:
        values = cast("list[object]", container)
    for value in values:
        kind = type(value)
        if kind is str:
            room -= _texts((cast("str", value),))
        elif kind is int or kind is float:
            if not _is_number(cast("int | float", value)):
                return _REFUSED
        elif kind is dict or kind is list:
            inside.append(value)
        elif value is not None and kind is not bool:
            return _REFUSED
    return room


def _texts(texts: Iterable[str]) -> int:
    """The bytes of `texts` in UTF-8; more than there may be when one cannot be admitted."""
    size = 0
    for text in texts:
        if "\0" in text:
            return _TOO_MUCH
        if text.isascii():
            size += len(text)
            continue
        try:
            size += len(text.encode())
        except UnicodeEncodeError:
            return _TOO_MUCH
    return size


def _is_number(value: "int | float") -> bool:
    if isinstance(value, int):
        return _INT64_MIN <= value <= _INT64_MAX
    return value - value == 0  # false of NaN and the infinities
