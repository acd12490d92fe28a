"""Is a text a condition of ours? cel-python's parser reads it, and its parse tree becomes our syntax.

Here every name is looked up, every call is checked against the functions there are, and depth is limited,
so that compiling and evaluating meet no surprise and need little stack. The parser wraps each operand
in nine nodes, one per level of precedence; the wrappers go.
"""

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias, cast

from celpy import celparser

from governance.policy import closure_syntax as syn
from governance.policy.cel import (
    CONDITION_DEPTH_MAX,
    PARSER_LOCK,
    ConditionError,
    did_you_mean,
    miscounted,
)
from governance.policy.closure_functions import FUNCTIONS, METHODS
from governance.policy.closure_macros import MACROS
from governance.policy.closure_source import Source, read_source
from governance.policy.closure_syntax import Syntax
from governance.policy.closure_values import TYPES, TypeName, Uint

__all__ = ["parse"]

Node: TypeAlias = Any
Names: TypeAlias = frozenset[str]

FIRST_PLACE: Final = 2
"""Where the variables of macros begin in a frame."""

_WRAPPERS: Final = frozenset(
    {
        *("expr", "conditionalor", "conditionaland", "relation"),
        *("addition", "multiplication", "unary", "member", "primary", "paren_expr"),
    }
)
_OPERATORS: Final[Mapping[str, str]] = {
    "relation_eq": "==",
    "relation_ne": "!=",
    "relation_in": "in",
    "relation_lt": "<",
    "relation_le": "<=",
    "relation_gt": ">",
    "relation_ge": ">=",
    "addition_add": "+",
    "addition_sub": "-",
    "multiplication_mul": "*",
    "multiplication_div": "/",
    "multiplication_mod": "%",
}


def parse(text: str, names: Names) -> Syntax:
    """Read a condition over the inputs `names`. Raises ConditionError."""
    source = read_source(text)
    try:
        tree = _tree(source)
        return _Reader(source, names).read(tree, _Scope())
    except RecursionError:
        raise source.refuse(0, "condition nests too deep") from None


@functools.cache
def _parser() -> celparser.CELParser:
    return celparser.CELParser()


def _tree(source: Source) -> Node:
    try:
        with PARSER_LOCK:
            return cast("Any", _parser()).parse(source.masked)
    except celparser.CELParseError as exc:
        raise ConditionError(
            "not a CEL expression", line=exc.line or 1, column=exc.column or 1
        ) from None


@dataclass(frozen=True, slots=True)
class _Scope:
    """How deep a node stands, the variables of the macros around it, and their next free place."""

    depth: int = 0
    free: int = FIRST_PLACE
    places: Mapping[str, int] = field(default_factory=dict[str, int])

    def deeper(self) -> "_Scope":
        return replace(self, depth=self.depth + 1)

    def with_variables(self, names: tuple[str, ...]) -> "_Scope":
        places = {name: self.free + number for number, name in enumerate(names)}
        return _Scope(self.depth + 1, self.free + len(names), {**self.places, **places})


class _Reader:
    """One walk over one parse tree."""

    def __init__(self, source: Source, names: Names) -> None:
        self._source = source
        self._names = names

    def read(self, tree: Node, scope: _Scope) -> Syntax:
        tree = _unwrap(tree)
        if scope.depth > CONDITION_DEPTH_MAX:
            raise self._refuse(tree, f"condition nests deeper than {CONDITION_DEPTH_MAX} levels")
        return self._readers[tree.data](self, tree, scope)

    def _literal(self, tree: Node, _scope: _Scope) -> Syntax:
        token = tree.children[0]
        position = token.start_pos
        if position is None:  # of `'a' intrue` the parser makes `in` and a `true` without a place
            raise self._source.refuse(0, "not a CEL expression", "write `in` as a word of its own")
        hidden = self._source.hidden.get(position)
        if hidden is not None:
            if len(token) != hidden.length:
                raise self._source.refuse(position, "two text literals stand side by side")
            return syn.Literal(hidden.value, position)
        try:
            return syn.Literal(_number(str(token)), position)
        except ValueError as exc:
            raise self._source.refuse(position, str(exc)) from None

    def _name(self, tree: Node, scope: _Scope) -> Syntax:
        token = tree.children[0]
        name, position = self._bare(token), token.start_pos
        if name in scope.places:
            return syn.Local(name, scope.places[name], position)
        if name in self._names:
            return syn.Input(name, position)
        if name in TYPES:
            return syn.Literal(TypeName(name), position)
        known = self._names | scope.places.keys()
        raise self._source.refuse(
            position, f"unknown name `{name[:80]}`", did_you_mean(name, known)
        )

    def _bare(self, token: Node) -> str:
        """The name of something that is no field. In back quotes it would be the blank that hides it."""
        hidden = self._source.hidden.get(token.start_pos)
        if hidden is not None:
            raise self._source.refuse(
                token.start_pos,
                f"`{str(hidden.value)[:80]}` is no field: back quotes stand only around fields",
            )
        return str(token)

    def _field(self, tree: Node, scope: _Scope) -> Syntax:
        owner, token = tree.children
        dotted = _dotted(tree)
        if dotted in TYPES:
            return syn.Literal(TypeName(dotted), _start(tree))
        return syn.Field(self.read(owner, scope.deeper()), self._field_name(token), token.start_pos)

    def _field_name(self, token: Node) -> str:
        hidden = self._source.hidden.get(token.start_pos)
        return str(token) if hidden is None else str(hidden.value)

    def _index(self, tree: Node, scope: _Scope) -> Syntax:
        owner, key = (self.read(child, scope.deeper()) for child in tree.children)
        return syn.Index(owner, key, _start(tree))

    def _list(self, tree: Node, scope: _Scope) -> Syntax:
        return syn.ListOf(self._several(tree.children, scope.deeper()), _start(tree))

    def _map(self, tree: Node, scope: _Scope) -> Syntax:
        values = self._several(tree.children, scope.deeper())
        pairs = tuple(zip(values[0::2], values[1::2], strict=True))
        return syn.MapOf(pairs, _start(tree))

    def _several(self, rest: list[Node], scope: _Scope) -> tuple[Syntax, ...]:
        """Read what stands in brackets: nothing, or one node with all of it."""
        return tuple(self.read(child, scope) for child in _arguments(rest))

    def _unary(self, tree: Node, scope: _Scope) -> Syntax:
        sign, operand = tree.children
        make = syn.Not if sign.data == "unary_not" else syn.Negative
        return make(self.read(operand, scope.deeper()), _start(tree))

    def _binary(self, tree: Node, scope: _Scope) -> Syntax:
        operation, right = tree.children
        return syn.Binary(
            _OPERATORS[operation.data],
            self.read(operation.children[0], scope.deeper()),
            self.read(right, scope.deeper()),
            _start(tree),
        )

    def _chain(self, tree: Node, scope: _Scope) -> Syntax:
        """`a && b && c`, which the parser nests to the left, is one node."""
        kind, position = tree.data, _start(tree)
        terms: list[Node] = []
        while tree.data == kind:
            terms.append(tree.children[1])
            tree = _unwrap(tree.children[0])
        terms.append(tree)
        make = syn.And if kind == "conditionaland" else syn.Or
        return make(tuple(self.read(term, scope.deeper()) for term in reversed(terms)), position)

    def _choice(self, tree: Node, scope: _Scope) -> Syntax:
        condition, then, otherwise = (self.read(c, scope.deeper()) for c in tree.children)
        return syn.Choice(condition, then, otherwise, _start(tree))

    def _function(self, tree: Node, scope: _Scope) -> Syntax:
        token, *rest = tree.children
        name, given = str(token), _arguments(rest)
        if name == "has":
            return self._has(token, given, scope)
        self._check_call(token, len(given), FUNCTIONS)
        arguments = tuple(self.read(argument, scope.deeper()) for argument in given)
        return syn.Call(name, arguments, is_method=False, position=token.start_pos)

    def _has(self, token: Node, given: list[Node], scope: _Scope) -> Syntax:
        tested = self.read(given[0], scope.deeper()) if len(given) == 1 else None
        if not isinstance(tested, syn.Field):
            raise self._source.refuse(
                token.start_pos, "`has` takes a field", "write `has(args.field)`"
            )
        return syn.Has(tested.owner, tested.name, token.start_pos)

    def _method(self, tree: Node, scope: _Scope) -> Syntax:
        owner, token, *rest = tree.children
        given = _arguments(rest)
        if str(token) in MACROS:
            return self._macro(token, owner, given, scope)
        self._check_call(token, len(given), METHODS)
        arguments = tuple(self.read(child, scope.deeper()) for child in (owner, *given))
        return syn.Call(str(token), arguments, is_method=True, position=token.start_pos)

    def _macro(self, token: Node, owner: Node, given: list[Node], scope: _Scope) -> Syntax:
        name, over = str(token), self.read(owner, scope.deeper())
        form = MACROS[name].get(len(given))
        if form is None:
            raise self._source.refuse(
                token.start_pos, f"`{name}` takes a variable and an expression"
            )
        names = tuple(self._variable(token, node) for node in given[: form.variables])
        if len(set(names)) < len(names):
            raise self._source.refuse(token.start_pos, f"`{name}` names `{names[0]}` twice")
        inside = scope.with_variables(names)
        *guards, body = (self.read(node, inside) for node in given[form.variables :])
        guard = guards[0] if guards else None
        return syn.Macro(name, over, names, scope.free, guard, body, token.start_pos)

    def _variable(self, token: Node, tree: Node) -> str:
        variable = _unwrap(tree)
        if variable.data != "ident":
            raise self._source.refuse(
                token.start_pos, f"the first argument of `{token}` is not a variable"
            )
        chosen = self._bare(variable.children[0])
        if chosen in self._names:
            raise self._source.refuse(
                variable.children[0].start_pos,
                f"variable `{chosen}` hides an input",
                "name it otherwise",
            )
        return chosen

    def _check_call(self, token: Node, given: int, known: Mapping[str, Any]) -> None:
        name = self._bare(token)
        if name not in known:
            others = {"has"} if known is FUNCTIONS else MACROS.keys()
            raise self._source.refuse(
                token.start_pos,
                f"unknown function `{name[:80]}`",
                did_you_mean(name, {*known, *others}),
            )
        allowed = known[name].arguments
        if given not in allowed:
            raise self._source.refuse(token.start_pos, miscounted(name, allowed, given))

    def _no_messages(self, tree: Node, _scope: _Scope) -> Syntax:
        raise self._refuse(tree, "conditions construct no messages")

    def _no_packages(self, tree: Node, _scope: _Scope) -> Syntax:
        raise self._refuse(tree, "names do not begin with a dot")

    def _refuse(self, tree: Node, problem: str) -> ConditionError:
        return self._source.refuse(_start(tree), problem)

    _readers: Final[Mapping[str, Callable[..., Syntax]]] = {
        "literal": _literal,
        "ident": _name,
        "ident_arg": _function,
        "list_lit": _list,
        "map_lit": _map,
        "dot_ident": _no_packages,
        "dot_ident_arg": _no_packages,
        "member_dot": _field,
        "member_dot_arg": _method,
        "member_index": _index,
        "member_object": _no_messages,
        "unary": _unary,
        "multiplication": _binary,
        "addition": _binary,
        "relation": _binary,
        "conditionaland": _chain,
        "conditionalor": _chain,
        "expr": _choice,
    }


def _start(tree: Node) -> int:
    return getattr(tree.meta, "start_pos", None) or 0


def _unwrap(tree: Node) -> Node:
    while tree.data in _WRAPPERS and len(tree.children) == 1:
        tree = tree.children[0]
    return tree


def _arguments(rest: list[Node]) -> list[Node]:
    return list(rest[0].children) if rest else []


def _dotted(tree: Node) -> str:
    """`a.b.c` for a chain of plain names, else nothing."""
    names: list[str] = []
    while tree.data == "member_dot":
        owner, token = tree.children
        names.append(str(token))
        tree = _unwrap(owner)
    return ".".join([str(tree.children[0]), *reversed(names)]) if tree.data == "ident" else ""


_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_UINT64_MAX: Final = 2**64 - 1
_NUMBER: Final = re.compile(r"-?(?:0x[0-9a-fA-F]+|[0-9]+)(?P<unsigned>[uU]?)")
_DOUBLE: Final = re.compile(r"-?(?:[0-9]+\.[0-9]+|\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NUMBER_CHARS_MAX: Final = 400


def _number(spelled: str) -> object:
    """Read `null` or a number. Raises ValueError with what is wrong."""
    if spelled == "null":
        return None
    if len(spelled) > _NUMBER_CHARS_MAX:
        raise ValueError("literal is out of range")
    whole = _NUMBER.fullmatch(spelled)
    if whole:
        value = int(spelled.rstrip("uU"), 16 if "0x" in spelled else 10)
        unsigned = bool(whole["unsigned"])
        lowest, highest = (0, _UINT64_MAX) if unsigned else (_INT64_MIN, _INT64_MAX)
        if not lowest <= value <= highest:
            raise ValueError("literal is out of range")
        return Uint(value) if unsigned else value
    if not _DOUBLE.fullmatch(spelled):
        raise ValueError("not a number")
    double = float(spelled)
    if double in (float("inf"), float("-inf")):
        raise ValueError("literal is out of range")
    return double
