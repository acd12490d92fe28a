"""Which fields has a condition made sure of before it reads them? By `has(args.x)` or `'x' in args`.

`false && error` is false and `true || error` is true, whichever side stands first. So a field may be read
beside a term that is false (in `&&`) or true (in `||`) whenever the field is missing.
"""

from collections.abc import Sequence
from typing import TypeAlias

from governance.policy import closure_syntax as syn
from governance.policy.closure_syntax import Syntax

__all__ = ["Path", "assured", "named_tools", "path_of", "spell"]

Path: TypeAlias = tuple[str, ...]
"""The names from an input to a field: `args.to` and `args['to']` are one."""

_NOTHING: frozenset[Path] = frozenset()


def path_of(syntax: Syntax) -> Path:
    """The path of a field of an input, else nothing."""
    match syntax:
        case syn.Input(name=name):
            return (name,)
        case syn.Field(owner=owner, name=name) | syn.Has(owner=owner, name=name):
            return _beyond(owner, name)
        case syn.Index(owner=owner, key=syn.Literal(value=str(name))):
            return _beyond(owner, name)
        case _:
            return ()


def _beyond(owner: Syntax, name: str) -> Path:
    found = path_of(owner)
    return (*found, name) if found else ()


def spell(path: Path) -> str:
    """The path as a person would write it."""
    first, *rest = path
    return first + "".join(f".{n}" if n.isidentifier() else f"['{n}']" for n in rest)


def assured(syntax: Syntax, *, when: bool) -> frozenset[Path]:
    """The fields that are there if `syntax` is `when`: whenever one is missing, it is the opposite."""
    match syntax:
        case syn.Has():
            return frozenset({path_of(syntax)}) if when else _NOTHING
        case syn.Binary(operator="in", left=syn.Literal(value=str(name)), right=owner):
            return frozenset({_beyond(owner, name)}) if when else _NOTHING
        case syn.Not(operand=operand):
            return assured(operand, when=not when)
        case syn.And(terms=terms):
            return _of_terms(terms, when=when, each=when)
        case syn.Or(terms=terms):
            return _of_terms(terms, when=when, each=not when)
        case _:
            return _NOTHING


def _of_terms(terms: Sequence[Syntax], *, when: bool, each: bool) -> frozenset[Path]:
    """Every term must be `when` (and so each assures), or any one may (and only what all assure is sure)."""
    sure = [assured(term, when=when) for term in terms]
    return _NOTHING.union(*sure) if each else sure[0].intersection(*sure[1:])


def named_tools(syntax: Syntax) -> frozenset[str] | None:
    """The tools that a condition can only be true of, where it names them: `tool.name == 'pay' && …`."""
    named: frozenset[str] | None = None
    for term in syntax.terms if isinstance(syntax, syn.And) else (syntax,):
        found = _names(term)
        if found is not None:
            named = found if named is None else named & found
    return named


def _names(term: Syntax) -> frozenset[str] | None:
    match term:
        case syn.Binary(operator="==", left=left, right=syn.Literal(value=str(name))):
            return frozenset({name}) if path_of(left) == ("tool", "name") else None
        case syn.Binary(operator="in", left=left, right=syn.ListOf(items=items)):
            names = [item.value for item in items if isinstance(item, syn.Literal)]
            whole = len(names) == len(items) and path_of(left) == ("tool", "name")
            return frozenset(name for name in names if isinstance(name, str)) if whole else None
        case _:
            return None
