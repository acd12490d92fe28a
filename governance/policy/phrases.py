"""How do checks name an expression to its author? With its path, its kinds, and what its quotes may mean."""

import re
from collections.abc import Mapping
from typing import Final

from governance.policy import closure_syntax as syn
from governance.policy.closure_syntax import Syntax
from governance.policy.closure_values import Duration, Timestamp, TypeName, Uint
from governance.policy.declarations import ANY, NUMBERS, Kind, Type, Words, kinds
from governance.policy.presence import path_of, spell

__all__ = ["cut", "listed", "literal_type", "named", "quoting", "spell_kinds", "subject"]

WORD_CHARS_MAX: Final = 80


def literal_type(value: object) -> Type:
    if isinstance(value, str):
        return Type(frozenset({Kind.TEXT}), words=Words(frozenset({value}), fixed=True))
    by_type: Mapping[type, Kind] = {
        bool: Kind.BOOL,
        int: Kind.INT,
        Uint: Kind.UINT,
        float: Kind.DOUBLE,
        bytes: Kind.BYTES,
        type(None): Kind.NULL,
        Timestamp: Kind.TIMESTAMP,
        Duration: Kind.DURATION,
        TypeName: Kind.TYPE,
    }
    kind = by_type.get(type(value))
    return ANY if kind is None else kinds(kind)


_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def quoting(literal: Syntax, other: Type) -> str:
    """The hint where quotes make the difference: `"5"` beside a number, or 5 beside a text."""
    if not isinstance(literal, syn.Literal):
        return ""
    value = literal.value
    if isinstance(value, str):
        number = other.kinds & NUMBERS and _NUMBER.fullmatch(value)
        truth = Kind.BOOL in other.kinds and value in ("true", "false")
        return f"write `{value}` without quotes" if number or truth else ""
    if type(value) in (int, float, bool) and Kind.TEXT in other.kinds:
        return f"write `'{str(value).lower()}'` if a text is meant"
    return "ask `has(…)` whether it is there" if value is None else ""


def subject(syntax: Syntax) -> str:
    """What a comparison is about, as a message names it."""
    sides = (syntax.left, syntax.right) if isinstance(syntax, syn.Binary) else ()
    paths = [spell(path) for path in map(path_of, sides) if path]
    return f"`{cut(paths[0])}`" if paths else "the value"


def named(syntax: Syntax, type_: Type) -> str:
    """An expression as a message names it: with its path where it has one, or its literal."""
    path = path_of(syntax)
    if path:
        return f"`{cut(spell(path))}` ({spell_kinds(type_)})"
    if isinstance(syntax, syn.Literal) and isinstance(syntax.value, str):
        return f"the text `{cut(syntax.value)}`"
    return spell_kinds(type_)


def spell_kinds(type_: Type) -> str:
    return "anything" if len(type_.kinds) == len(Kind) else listed(type_.kinds)


def listed(among: frozenset[Kind]) -> str:
    return " or ".join(kind.value for kind in Kind if kind in among) or "nothing"


def cut(word: str) -> str:
    return word if len(word) <= WORD_CHARS_MAX else word[:WORD_CHARS_MAX] + "…"
