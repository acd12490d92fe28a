"""Which functions may a condition call, and what do they do? Conversions, sizes, tests; texts are beside.

Each takes the frame first, to charge what it reads, and then its arguments. Types are asked for exactly: a
text that does not spell a value is a `range` failure, a value of the wrong type a `type` failure.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from governance import canonical
from governance.policy import closure_texts as texts
from governance.policy import closure_times as times
from governance.policy import patterns
from governance.policy.cel import FailureKind
from governance.policy.closure_values import (
    NUMBERS,
    Duration,
    Failed,
    Frame,
    Run,
    Timestamp,
    Uint,
    Value,
    charge,
    kind_of,
    read,
    type_of,
)
from governance.policy.patterns import Pattern, search_steps

__all__ = ["FUNCTIONS", "METHODS", "Function", "in_int", "in_uint", "searching"]

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_UINT64_MAX: Final = 2**64 - 1


def in_int(number: int) -> int:
    """Keep an integer within 64 bits. Raises Failed."""
    if not _INT64_MIN <= number <= _INT64_MAX:
        raise Failed(FailureKind.RANGE)
    return number


def in_uint(number: int) -> Uint:
    """Keep an unsigned integer within 64 bits. Raises Failed."""
    if not 0 <= number <= _UINT64_MAX:
        raise Failed(FailureKind.RANGE)
    return Uint(number)


_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,20}")
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_DECIMAL_CHARS_MAX: Final = 400
_TRUE: Final = frozenset({"1", "t", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "false", "FALSE", "False"})


def _to_int(_frame: Frame, value: Value) -> Value:
    if type(value) is Timestamp:
        return int(value) // times.NANOS
    return in_int(_whole(value))


def _to_uint(_frame: Frame, value: Value) -> Value:
    return in_uint(_whole(value))


def _whole(value: Value) -> int:
    kind = kind_of(value)
    if kind is int or kind is Uint:
        return int(value)
    if kind is float:
        # The bounds themselves are out: no double tells 2^63 from its neighbours below.
        if not _INT64_MIN < value < 2.0**64:
            raise Failed(FailureKind.RANGE)
        return int(value)
    if not _WHOLE.fullmatch(texts.text(value)):
        raise Failed(FailureKind.RANGE)
    return int(value)


def _to_double(_frame: Frame, value: Value) -> Value:
    if type(value) in NUMBERS:
        return float(value)
    spelled = texts.text(value)
    if len(spelled) > _DECIMAL_CHARS_MAX or not _DECIMAL.fullmatch(spelled):
        raise Failed(FailureKind.RANGE)
    return float(spelled)


def _to_bool(_frame: Frame, value: Value) -> Value:
    if type(value) is bool:
        return value
    spelled = texts.text(value)
    if spelled in _TRUE:
        return True
    if spelled in _FALSE:
        return False
    raise Failed(FailureKind.RANGE)


def _to_bytes(frame: Frame, value: Value) -> Value:
    if type(value) is bytes:
        return value
    read(frame, texts.text(value))
    try:
        return cast("str", value).encode()
    except UnicodeEncodeError:
        raise Failed(FailureKind.RANGE) from None


def _to_string(frame: Frame, value: Value) -> Value:
    kind = kind_of(value)
    if kind is str:
        return value
    if kind is bytes:
        read(frame, value)
    spell = _SPELLINGS.get(kind)
    if spell is None:
        raise Failed(FailureKind.TYPE)
    return spell(value)


def _spell_double(number: float) -> str:
    """As the ledger spells it: `6000`, `0.1`, `1e+21`."""
    if not math.isfinite(number):
        raise Failed(FailureKind.RANGE)
    return canonical.payload_bytes(number).decode()


def _decode(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Failed(FailureKind.RANGE) from None


_SPELLINGS: Final[Mapping[type, Callable[[Any], str]]] = {
    bool: lambda value: "true" if value else "false",
    int: str,
    Uint: lambda value: str(int(value)),
    float: _spell_double,
    bytes: _decode,
    Timestamp: times.spell_moment,
    Duration: times.spell_duration,
}


def _to_timestamp(_frame: Frame, value: Value) -> Value:
    if type(value) is Timestamp:
        return value
    if type(value) is int:
        return times.moment_of(value * times.NANOS)
    return times.parse_moment(texts.text(value))


def _to_duration(_frame: Frame, value: Value) -> Value:
    return value if type(value) is Duration else times.parse_duration(texts.text(value))


def _same(_frame: Frame, value: Value) -> Value:
    return value


def _type(_frame: Frame, value: Value) -> Value:
    return type_of(value)


def _size(_frame: Frame, value: Value) -> Value:
    if type(value) in (str, list, dict, bytes):
        return len(value)
    raise Failed(FailureKind.TYPE)


def _search(frame: Frame, subject: Value, pattern: Pattern) -> bool:
    read(frame, texts.text(subject))
    try:
        searched = cast("str", subject).encode()
    except UnicodeEncodeError:
        raise Failed(FailureKind.REGEX) from None
    steps = search_steps(pattern, searched)
    if steps:
        charge(frame, steps)
    return pattern.search(searched) is not None


def searching(subject: Run, pattern: str) -> Run:
    """`matches` with a pattern known at load. Raises NoPattern if the pattern is none."""
    compiled = patterns.written(pattern)
    return lambda frame: _search(frame, subject(frame), compiled)


def _matches(frame: Frame, subject: Value, pattern: Value) -> Value:
    """Search, as the standard says; anchor the pattern to match the whole text."""
    charge(frame, patterns.compile_steps(texts.text(pattern)))
    try:
        compiled = patterns.computed(pattern)
    except patterns.NoPattern:
        raise Failed(FailureKind.REGEX) from None
    return _search(frame, subject, compiled)


@dataclass(frozen=True, slots=True)
class Function:
    """A function and how many arguments it takes; of a method, without what stands before the dot."""

    apply: Callable[..., Value]
    arguments: frozenset[int]


def _table(counts: set[int], functions: Mapping[str, Callable[..., Value]]) -> dict[str, Function]:
    return {name: Function(apply, frozenset(counts)) for name, apply in functions.items()}


FUNCTIONS: Final[Mapping[str, Function]] = {
    **_table(
        {1},
        {
            "int": _to_int,
            "uint": _to_uint,
            "double": _to_double,
            "bool": _to_bool,
            "string": _to_string,
            "bytes": _to_bytes,
            "timestamp": _to_timestamp,
            "duration": _to_duration,
            "size": _size,
            "dyn": _same,
            "type": _type,
        },
    ),
    **_table({2}, {"matches": _matches}),
}

METHODS: Final[Mapping[str, Function]] = {
    **_table({0}, {"size": _size, **texts.ALONE}),
    **_table({1}, {"matches": _matches, **texts.WITH_ONE}),
    **_table({0, 1}, {"join": texts.join, **times.PARTS}),
    **_table({1, 2}, texts.WITH_ONE_OR_TWO),
    **_table({2, 3}, {"replace": texts.replace}),
}
