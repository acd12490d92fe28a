"""What are the parts of a condition? Its syntax tree, as a sum of frozen types.

Names are resolved: an `Input` is declared, a `Local` is the variable of a macro around it, by its place in
the frame. Chains of `&&` and of `||` are one node. `position` is the offset in the text, of what a person
would point at.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from governance.policy.closure_values import Value

__all__ = [
    "And",
    "Binary",
    "Call",
    "Choice",
    "Field",
    "Has",
    "Index",
    "Input",
    "ListOf",
    "Literal",
    "Local",
    "Macro",
    "MapOf",
    "Negative",
    "Not",
    "Or",
    "Syntax",
    "parts",
    "path",
    "references",
]


@dataclass(frozen=True, slots=True)
class Literal:
    value: Value
    position: int


@dataclass(frozen=True, slots=True)
class Input:
    name: str
    position: int


@dataclass(frozen=True, slots=True)
class Local:
    name: str
    place: int
    position: int


@dataclass(frozen=True, slots=True)
class Field:
    owner: "Syntax"
    name: str
    position: int


@dataclass(frozen=True, slots=True)
class Has:
    """`has(owner.name)`."""

    owner: "Syntax"
    name: str
    position: int


@dataclass(frozen=True, slots=True)
class Index:
    owner: "Syntax"
    key: "Syntax"
    position: int


@dataclass(frozen=True, slots=True)
class ListOf:
    items: "tuple[Syntax, ...]"
    position: int


@dataclass(frozen=True, slots=True)
class MapOf:
    entries: "tuple[tuple[Syntax, Syntax], ...]"
    position: int


@dataclass(frozen=True, slots=True)
class Not:
    operand: "Syntax"
    position: int


@dataclass(frozen=True, slots=True)
class Negative:
    operand: "Syntax"
    position: int


@dataclass(frozen=True, slots=True)
class Binary:
    """`operator` is one of `== != < <= > >= in + - * / %`."""

    operator: str
    left: "Syntax"
    right: "Syntax"
    position: int


@dataclass(frozen=True, slots=True)
class And:
    terms: "tuple[Syntax, ...]"
    position: int


@dataclass(frozen=True, slots=True)
class Or:
    terms: "tuple[Syntax, ...]"
    position: int


@dataclass(frozen=True, slots=True)
class Choice:
    condition: "Syntax"
    then: "Syntax"
    otherwise: "Syntax"
    position: int


@dataclass(frozen=True, slots=True)
class Call:
    """A function of its arguments; of a method, the first is what stands before the dot."""

    function: str
    arguments: "tuple[Syntax, ...]"
    is_method: bool
    position: int


@dataclass(frozen=True, slots=True)
class Macro:
    """`over.name(variable, body)` and its kin. `place` is the frame's place of the first of `variables`.

    With a `guard`, only elements for which it holds are looked at (`map` and its kin).
    """

    name: str
    over: "Syntax"
    variables: tuple[str, ...]
    place: int
    guard: "Syntax | None"
    body: "Syntax"
    position: int


Syntax: TypeAlias = (
    Literal
    | Input
    | Local
    | Field
    | Has
    | Index
    | ListOf
    | MapOf
    | Not
    | Negative
    | Binary
    | And
    | Or
    | Choice
    | Call
    | Macro
)


def parts(syntax: Syntax) -> tuple[Syntax, ...]:
    """The expressions directly inside `syntax`, from left to right."""
    match syntax:
        case Literal() | Input() | Local():
            return ()
        case Field(owner=inner) | Has(owner=inner) | Not(operand=inner) | Negative(operand=inner):
            return (inner,)
        case Index(owner=left, key=right) | Binary(left=left, right=right):
            return (left, right)
        case ListOf(items=several) | And(terms=several) | Or(terms=several):
            return several
        case Call(arguments=several):
            return several
        case MapOf(entries=entries):
            return tuple(part for entry in entries for part in entry)
        case Choice(condition=condition, then=then, otherwise=otherwise):
            return (condition, then, otherwise)
        case Macro(over=over, guard=guard, body=body):
            return (over, body) if guard is None else (over, guard, body)


def path(syntax: Syntax) -> str:
    """`args.a.b` for a chain of fields on an input, else nothing. Variables of macros are no inputs."""
    names: list[str] = []
    while isinstance(syntax, (Field, Has)):
        names.append(syntax.name)
        syntax = syntax.owner
    return ".".join([syntax.name, *reversed(names)]) if isinstance(syntax, Input) else ""


def references(syntax: Syntax) -> frozenset[str]:
    """The inputs that `syntax` reads, as dotted names."""
    return frozenset(_paths(syntax))


def _paths(syntax: Syntax) -> Iterator[str]:
    found = path(syntax)
    if found:
        yield found
        return
    for part in parts(syntax):
        yield from _paths(part)
