"""What can a condition do with a text? Positions count characters; one outside is a `range` failure."""

from collections.abc import Callable, Mapping
from typing import Final

from governance.policy.cel import FailureKind
from governance.policy.closure_values import (
    CHARS_PER_STEP,
    Failed,
    Frame,
    Value,
    charge,
    kind_of,
    read,
)

__all__ = [
    "ALONE",
    "LIST_ITEMS_MAX",
    "TEXT_CHARS_MAX",
    "WITH_ONE",
    "WITH_ONE_OR_TWO",
    "join",
    "replace",
    "text",
    "within",
]

TEXT_CHARS_MAX: Final = 1024 * 1024
"""Characters of a text that a condition makes."""
LIST_ITEMS_MAX: Final = 10_000
"""Items of a list that a condition makes from texts or other lists."""

_SPACES: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_UPPER: Final = {ord(char): ord(char) - 32 for char in "abcdefghijklmnopqrstuvwxyz"}
_LOWER: Final = {ord(char): ord(char) + 32 for char in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


def text(value: Value) -> str:
    """Take a text. Raises Failed."""
    if type(value) is not str:
        raise Failed(FailureKind.TYPE)
    return value


def _whole(value: Value) -> int:
    if type(value) is not int:
        raise Failed(FailureKind.TYPE)
    return value


def within(frame: Frame, chars: int) -> None:
    """Pay for making a text of `chars` characters, before it is made. Raises Failed where it is too long."""
    if chars > TEXT_CHARS_MAX:
        raise Failed(FailureKind.RANGE)
    charge(frame, chars // CHARS_PER_STEP)


def _contains(frame: Frame, subject: Value, part: Value) -> Value:
    if type(subject) is not str or type(part) is not str:
        raise Failed(FailureKind.TYPE)
    read(frame, subject)
    return part in subject


def _at_an_end(test: Callable[[str, str], bool]) -> Callable[..., Value]:
    def tested(frame: Frame, subject: Value, part: Value) -> Value:
        if type(subject) is not str or type(part) is not str:
            raise Failed(FailureKind.TYPE)
        read(frame, part)  # no more of `subject` is looked at
        return test(subject, part)

    return tested


def _making(make: Callable[[str], str]) -> Callable[..., Value]:
    def made(frame: Frame, subject: Value) -> Value:
        within(frame, len(text(subject)))
        return make(subject)

    return made


def _char_at(_frame: Frame, subject: Value, position: Value) -> Value:
    start = _position(subject, position)
    return subject[start : start + 1]


def _position(subject: Value, position: Value) -> int:
    """A place in `subject`, its end included."""
    if not 0 <= _whole(position) <= len(text(subject)):
        raise Failed(FailureKind.RANGE)
    return int(position)


def _index_of(frame: Frame, subject: Value, part: Value, start: Value = 0) -> Value:
    read(frame, text(subject))
    return text(subject).find(text(part), _position(subject, start))


def _last_index_of(frame: Frame, subject: Value, part: Value, *last: Value) -> Value:
    read(frame, text(subject))
    if not last:
        return text(subject).rfind(text(part))
    return text(subject).rfind(text(part), 0, _position(subject, *last) + len(text(part)))


def _substring(frame: Frame, subject: Value, start: Value, *end: Value) -> Value:
    first = _position(subject, start)
    last = _position(subject, *end) if end else len(text(subject))
    if last < first:
        raise Failed(FailureKind.RANGE)
    within(frame, last - first)
    return subject[first:last]


def _split(frame: Frame, subject: Value, separator: Value, limit: Value = -1) -> Value:
    """At most `limit` pieces, the last with the rest; a negative one is no limit."""
    whole, at, most = text(subject), text(separator), _whole(limit)
    count = whole.count(at) + 1 if at else len(whole)
    count = min(count, most) if most >= 0 else count
    if count > LIST_ITEMS_MAX:
        raise Failed(FailureKind.RANGE)
    charge(frame, count + len(whole) // CHARS_PER_STEP)
    if count == 0:
        return []
    if at:
        return whole.split(at, count - 1)
    return [*whole[: count - 1], whole[count - 1 :]]


def join(frame: Frame, items: Value, separator: Value = "") -> Value:
    """Join a list of texts."""
    if kind_of(items) is not list:
        raise Failed(FailureKind.TYPE)
    charge(frame, len(items))
    pieces = [text(item) for item in items]
    between = len(text(separator)) * max(len(pieces) - 1, 0)
    within(frame, sum(map(len, pieces)) + between)
    return text(separator).join(pieces)


def replace(frame: Frame, subject: Value, old: Value, new: Value, limit: Value = -1) -> Value:
    """Replace `old` from the left, at most `limit` times; a negative one is no limit."""
    whole, before, after, most = text(subject), text(old), text(new), _whole(limit)
    read(frame, whole)
    count = whole.count(before)
    count = min(count, most) if most >= 0 else count
    within(frame, len(whole) + count * (len(after) - len(before)))
    return whole.replace(before, after, count)


ALONE: Final[Mapping[str, Callable[..., Value]]] = {
    "lowerAscii": _making(lambda subject: subject.translate(_LOWER)),
    "upperAscii": _making(lambda subject: subject.translate(_UPPER)),
    "trim": _making(lambda subject: subject.strip(_SPACES)),
}
WITH_ONE: Final[Mapping[str, Callable[..., Value]]] = {
    "contains": _contains,
    "startsWith": _at_an_end(str.startswith),
    "endsWith": _at_an_end(str.endswith),
    "charAt": _char_at,
}
WITH_ONE_OR_TWO: Final[Mapping[str, Callable[..., Value]]] = {
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "substring": _substring,
    "split": _split,
}
