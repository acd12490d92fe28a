"""Which calls in a condition can never come out? What the type checker of Google's C++ runtime adds.

Our own checks (`conditions`) know names, comparisons, words and what most functions take; this one knows
every overload, and the types of more expressions. It is stricter than a condition need be: to it an
integer and a double never compare, and both sides of a `? :` have one type. So it is heard on calls and
indices alone, where no error was found, and what it says is a warning: whether a set loads does not
depend on a package that may be absent.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from cel_expr_python import cel  # pyright: ignore[reportMissingTypeStubs] # of the package itself

from governance.policy.celexpr_engine import environment
from governance.policy.declarations import Kind, Type
from governance.policy.flaws import Code, Flaw, Severity

__all__ = ["call_flaws"]

_LEVELS_MAX: Final = 4
"""How deep fields are declared one by one: `args.order.lines` is three."""
_HINT: Final = "so says the type checker of `celexpr`"


def call_flaws(source: str, inputs: Mapping[str, Type], known: Iterable[Flaw]) -> tuple[Flaw, ...]:
    """What no call in `source` can be given, other than where one of the `known` errors stands.

    `source` is a condition that our own parser reads.
    """
    said = _complaints(source, inputs)
    taken = {flaw.position for flaw in known if flaw.severity is Severity.ERROR}
    found = (_flaw(source, *complaint) for complaint in _OVERLOAD.findall(said))
    return tuple(flaw for flaw in found if flaw is not None and flaw.position not in taken)


def _complaints(source: str, inputs: Mapping[str, Type]) -> str:
    variables: dict[str, Any] = {}
    for name, type_ in inputs.items():
        variables.update(_declared(name, type_, _LEVELS_MAX))
    try:
        environment(variables).compile(source)
    except RuntimeError as exc:
        return str(exc)
    return ""


_OVERLOAD: Final = re.compile(
    r"ERROR: <input>:([0-9]+):([0-9]+): found no matching overload for '([^']+)' applied to '\((.*)\)'"
)
_FUNCTION: Final = re.compile(r"[A-Za-z]+")


def _flaw(source: str, line: str, column: str, function: str, applied: str) -> Flaw | None:
    types = [_word(type_) for type_ in _split(applied)]
    if "*error*" in types:  # of something that was told already
        return None
    at = _offset(source, int(line), int(column))
    if function == "_[_]" and types[0] in ("list", "map"):
        message = f"`[ ]` of a {types[0]} takes no {types[1]}"
        at += len(source[at + 1 :]) - len(source[at + 1 :].lstrip()) + 1  # past the bracket
    elif _FUNCTION.fullmatch(function):
        at = source.rfind(function, 0, at + 1)  # it points at the bracket
        message = f"`{function}` takes no such values: {', '.join(types)}"
    else:
        return None
    return Flaw(at, Severity.WARNING, Code.TYPE, message, _HINT)


def _offset(source: str, line: int, column: int) -> int:
    start = 0
    for _ in range(line - 1):
        start = source.find("\n", start) + 1
    return start + column - 1


_WORDS: Final = {
    "string": "text",
    "null_type": "null",
    "google.protobuf.Timestamp": "timestamp",
    "google.protobuf.Duration": "duration",
    "dyn": "value",
}


def _word(type_: str) -> str:
    """The runtime's name of a type in the words of our own messages."""
    name = type_.partition("(")[0]
    return _WORDS.get(name, name)


def _split(types: str) -> Iterator[str]:
    """Split `list(int), map(string, dyn)` at the outer commas."""
    depth = start = 0
    for at, char in enumerate(types):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if char == "," and not depth:
            yield types[start:at].strip()
            start = at + 1
    yield types[start:].strip()


# --- declarations -----------------------------------------------------------------------------------

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN: Final[Mapping[Kind, Any]] = {
    Kind.BOOL: cel.Type.BOOL,
    Kind.INT: cel.Type.INT,
    Kind.UINT: cel.Type.UINT,
    Kind.DOUBLE: cel.Type.DOUBLE,
    Kind.TEXT: cel.Type.STRING,
    Kind.BYTES: cel.Type.BYTES,
    Kind.NULL: cel.Type.NULL,
    Kind.TIMESTAMP: cel.Type.TIMESTAMP,
    Kind.DURATION: cel.Type.DURATION,
}


def _declared(name: str, type_: Type, levels: int) -> Iterator[tuple[str, Any]]:
    """A map as a whole, where anything may be in it, and each of its fields as a name of its own."""
    yield name, _type(type_)
    if type_.only(Kind.MAP) and levels > 1:
        for key, member in type_.members.items():
            if _NAME.fullmatch(key):
                yield from _declared(f"{name}.{key}", member.type, levels - 1)


def _type(type_: Type) -> Any:
    """What is of several kinds may be anything to the runtime."""
    if len(type_.kinds) != 1:
        return cel.Type.DYN
    (kind,) = type_.kinds
    if kind is Kind.LIST:
        return cel.Type.List(_type(type_.item()))
    if kind is Kind.MAP:
        rest = None if type_.members else type_.rest
        return cel.Type.Map(cel.Type.STRING, cel.Type.DYN if rest is None else _type(rest))
    return _PLAIN.get(kind, cel.Type.DYN)
