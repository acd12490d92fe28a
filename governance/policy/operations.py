"""What do operators and functions take, and what do they make of it? As tables, for checks before any call.

What a function takes and is still better not given, the texts of a model above all, is told here as well.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from governance.policy import closure_syntax as syn
from governance.policy.closure_syntax import Syntax
from governance.policy.declarations import (
    ANY,
    BOOL,
    INT,
    LIST_OF_TEXT,
    NUMBERS,
    TEXT,
    Kind,
    Type,
    kinds,
)
from governance.policy.flaws import Code, Flaw, Severity
from governance.policy.phrases import listed, named, quoting, spell_kinds
from governance.policy.presence import path_of

__all__ = [
    "ARITHMETIC",
    "ORDER",
    "RECEIVERS",
    "RESULTS",
    "call_flaws",
    "index_flaws",
    "meet",
    "result_of",
]

Pairs: TypeAlias = Mapping[tuple[Kind, Kind], Kind]

_NUMERIC: Final[Pairs] = {(kind, kind): kind for kind in NUMBERS}

ARITHMETIC: Final[Mapping[str, Pairs]] = {
    "+": {
        **_NUMERIC,
        **{(kind, kind): kind for kind in (Kind.TEXT, Kind.BYTES, Kind.LIST, Kind.DURATION)},
        (Kind.TIMESTAMP, Kind.DURATION): Kind.TIMESTAMP,
        (Kind.DURATION, Kind.TIMESTAMP): Kind.TIMESTAMP,
    },
    "-": {
        **_NUMERIC,
        (Kind.TIMESTAMP, Kind.TIMESTAMP): Kind.DURATION,
        (Kind.TIMESTAMP, Kind.DURATION): Kind.TIMESTAMP,
        (Kind.DURATION, Kind.DURATION): Kind.DURATION,
    },
    "*": _NUMERIC,
    "/": _NUMERIC,
    "%": {pair: kind for pair, kind in _NUMERIC.items() if kind is not Kind.DOUBLE},
}
"""Operator -> the pairs of kinds it takes, and the kind of what comes out."""

ORDER: Final = frozenset({"<", "<=", ">", ">="})
_ORDERED: Final = (Kind.BOOL, Kind.TEXT, Kind.BYTES, Kind.TIMESTAMP, Kind.DURATION)

_OF_TEXT: Final = frozenset({Kind.TEXT})
_OF_INT: Final = frozenset({Kind.INT})
_SIZED: Final = frozenset({Kind.TEXT, Kind.BYTES, Kind.LIST, Kind.MAP})
_TIMES: Final = frozenset({Kind.TIMESTAMP, Kind.DURATION})

RECEIVERS: Final[Mapping[str, frozenset[Kind]]] = {
    "size": _SIZED,
    **dict.fromkeys(("contains", "startsWith", "endsWith", "matches"), _OF_TEXT),
    **dict.fromkeys(("lowerAscii", "upperAscii", "trim", "replace", "substring"), _OF_TEXT),
    **dict.fromkeys(("charAt", "split", "indexOf", "lastIndexOf"), _OF_TEXT),
    **dict.fromkeys(("getHours", "getMinutes", "getSeconds", "getMilliseconds"), _TIMES),
    **dict.fromkeys(
        ("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
        frozenset({Kind.TIMESTAMP}),
    ),
    "join": frozenset({Kind.LIST}),
    "int": NUMBERS | {Kind.TEXT, Kind.TIMESTAMP, Kind.BOOL},  # the C++ runtime takes a bool
    **dict.fromkeys(("uint", "double"), NUMBERS | _OF_TEXT),
    "bool": frozenset({Kind.BOOL, Kind.TEXT}),
    "bytes": frozenset({Kind.BYTES, Kind.TEXT}),
    "string": frozenset(Kind) - {Kind.LIST, Kind.MAP, Kind.NULL, Kind.TYPE},
    "timestamp": frozenset({Kind.TIMESTAMP, Kind.TEXT, Kind.INT}),
    "duration": frozenset({Kind.DURATION, Kind.TEXT}),
}
"""Function or method -> the kinds of its first argument, or of what stands before the dot."""

_ARGUMENTS: Final[Mapping[str, Sequence[frozenset[Kind]]]] = {
    **dict.fromkeys(("contains", "startsWith", "endsWith", "matches", "join"), (_OF_TEXT,)),
    **dict.fromkeys(("split", "indexOf", "lastIndexOf"), (_OF_TEXT, _OF_INT)),
    "replace": (_OF_TEXT, _OF_TEXT, _OF_INT),
    "charAt": (_OF_INT,),
    "substring": (_OF_INT, _OF_INT),
    **{name: (_OF_TEXT,) for name in RECEIVERS if name.startswith("get")},
}
"""Function or method -> the kinds of each argument after that."""

_CONVERSIONS: Final = frozenset({"int", "uint", "double", "timestamp", "duration"})
"""What fails on most texts."""

RESULTS: Final[Mapping[str, Type]] = {
    **dict.fromkeys(("contains", "startsWith", "endsWith", "matches", "bool"), BOOL),
    **dict.fromkeys(("size", "int", "indexOf", "lastIndexOf"), INT),
    **{name: INT for name in RECEIVERS if name.startswith("get")},
    **dict.fromkeys(("lowerAscii", "upperAscii", "trim", "replace", "substring"), TEXT),
    **dict.fromkeys(("charAt", "join", "string"), TEXT),
    "split": LIST_OF_TEXT,
    "uint": kinds(Kind.UINT),
    "double": kinds(Kind.DOUBLE),
    "bytes": kinds(Kind.BYTES),
    "timestamp": kinds(Kind.TIMESTAMP),
    "duration": kinds(Kind.DURATION),
    "type": kinds(Kind.TYPE),
}


def meet(operator: str, left: Type, right: Type) -> bool:
    """Tell whether a comparison of these two can come out at all, other than by always differing."""
    if left.kinds & NUMBERS and right.kinds & NUMBERS:
        return True
    common = left.kinds & right.kinds
    return bool(common & set(_ORDERED)) if operator in ORDER else bool(common)


def result_of(operator: str, left: Type, right: Type) -> Type | None:
    """What an arithmetic operator makes of these two; None when it takes no such pair."""
    made = {
        kind
        for (one, other), kind in ARITHMETIC[operator].items()
        if one in left.kinds and other in right.kinds
    }
    if not made:
        return None
    return ANY if Kind.LIST in made else kinds(*made)


def call_flaws(syntax: syn.Call, types: Sequence[Type]) -> Iterator[Flaw]:
    """What is wrong with a call on arguments of these types."""
    name, at = syntax.function, syntax.position
    first, given = types[0], syntax.arguments[0]
    takes = RECEIVERS.get(name)
    if takes is not None and not first.kinds & takes:
        message, hint = f"`{name}` takes no {spell_kinds(first)}", f"it takes {listed(takes)}"
        yield Flaw(at, Severity.ERROR, Code.TYPE, message, hint)
    for argument, type_, kinds_ in zip(
        syntax.arguments[1:], types[1:], _ARGUMENTS.get(name, ()), strict=False
    ):
        if not type_.kinds & kinds_:
            message = f"`{name}` is given {named(argument, type_)}"
            hint = quoting(argument, kinds(*kinds_)) or f"it takes {listed(kinds_)} there"
            yield Flaw(at, Severity.ERROR, Code.TYPE, message, hint)
    if name == "matches":
        yield from _pattern_flaws(at, syntax.arguments[1])
    if name in _CONVERSIONS and Kind.TEXT in first.kinds and _reads_arguments(given):
        message = f"`{name}()` of a text from the arguments fails on most of what may stand there"
        hint = "let the tool's schema give it its type"
        yield Flaw(at, Severity.WARNING, Code.FROM_ARGUMENTS, message, hint)


def index_flaws(syntax: syn.Index, owner: Type, key: Type) -> Iterator[Flaw]:
    """What is wrong with `owner[key]`. The keys of what a decision reads are texts."""
    whole, at = named(syntax.owner, owner), _start(syntax.key)
    if not owner.kinds & {Kind.LIST, Kind.MAP}:
        yield Flaw(syntax.position, Severity.ERROR, Code.TYPE, f"{whole} has no elements")
    elif owner.only(Kind.LIST) and not key.kinds & NUMBERS:
        message = f"{whole} has no element {named(syntax.key, key)}"
        yield Flaw(at, Severity.ERROR, Code.TYPE, message, quoting(syntax.key, INT))
    elif owner.only(Kind.MAP) and path_of(syntax.owner) and Kind.TEXT not in key.kinds:
        message = f"{whole} has no key {named(syntax.key, key)}"
        yield Flaw(at, Severity.ERROR, Code.TYPE, message, quoting(syntax.key, TEXT))


def _start(syntax: Syntax) -> int:
    """Where an expression begins; the position of a field is that of its name."""
    return min([syntax.position, *map(_start, syn.parts(syntax))])


_FLAGS: Final = re.compile(r"\(\?[a-zA-Z]+\)")


def _pattern_flaws(at: int, pattern: Syntax) -> Iterator[Flaw]:
    if isinstance(pattern, syn.Literal) and isinstance(pattern.value, str):
        text = _FLAGS.sub("", pattern.value, count=1)
        if not (text.startswith(("^", r"\A")) and text.endswith(("$", r"\z"))):
            message, hint = (
                "`matches` finds its pattern anywhere",
                "begin it with `^` and end it with `$`",
            )
            yield Flaw(at, Severity.WARNING, Code.UNANCHORED, message, hint)
    elif _reads_arguments(pattern):
        message, hint = "the pattern of `matches` comes from the arguments", "write it in the rule"
        yield Flaw(at, Severity.WARNING, Code.FROM_ARGUMENTS, message, hint)


def _reads_arguments(syntax: Syntax) -> bool:
    if isinstance(syntax, syn.Input):
        return syntax.name == "args"
    return any(map(_reads_arguments, syn.parts(syntax)))
