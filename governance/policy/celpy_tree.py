"""Is a parsed condition one we evaluate? Shapes cel-python's parse tree, or refuses it.

The parser wraps every operand in nine nodes, one per level of precedence. Shaping drops the wrappers,
joins chains of `&&` and `||`, reads literals, and checks every name against what is declared, so that
an evaluation meets no surprise and needs little stack.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

import lark
from celpy import evaluation

from governance.policy.cel import (
    CONDITION_DEPTH_MAX,
    FUNCTIONS,
    INPUTS,
    MACROS,
    METHODS,
    ConditionError,
    did_you_mean,
    miscounted,
)

__all__ = ["references", "shape"]

Node: TypeAlias = Any

_WRAPPERS: Final = frozenset(
    {
        *("expr", "conditionalor", "conditionaland", "relation"),
        *("addition", "multiplication", "unary", "member"),
    }
)
_MACRO_ARGUMENTS: Final = 2


def shape(tree: Node) -> Node:
    """Turn a parse tree into the one that is evaluated. Raises ConditionError."""
    return _Shaper().node(tree, 0, frozenset())


class _Shaper:
    """One pass over one parse tree. `local` are the variables of the macros around a node."""

    def node(self, tree: Node, depth: int, local: frozenset[str]) -> Node:
        tree = _unwrap(tree)
        if depth > CONDITION_DEPTH_MAX:
            raise _refuse(tree, f"condition nests deeper than {CONDITION_DEPTH_MAX} levels")
        if tree.data in ("conditionalor", "conditionaland"):
            terms = [self.node(term, depth + 1, local) for term in _chain(tree)]
            return _like(tree, tree.data, terms)
        special: Mapping[str, Callable[[Node, int, frozenset[str]], Node]] = {
            "primary": self.primary,
            "member_dot_arg": self.method,
            "member_object": _no_messages,
        }
        if tree.data in special:
            return special[tree.data](tree, depth, local)
        return self.generic(tree, depth, local)

    def generic(self, tree: Node, depth: int, local: frozenset[str]) -> Node:
        children = [
            self.node(child, depth + 1, local) if isinstance(child, lark.Tree) else child
            for child in tree.children
        ]
        return _like(tree, tree.data, children)

    def primary(self, tree: Node, depth: int, local: frozenset[str]) -> Node:
        child = tree.children[0]
        match child.data:
            case "literal":
                return _like(tree, "constant", [_literal(child)])
            case "ident":
                name = child.children[0]
                if name not in local and name not in INPUTS:
                    raise _refuse(
                        child, f"unknown name `{name[:80]}`", did_you_mean(name, INPUTS | local)
                    )
                return tree
            case "ident_arg":
                return self.function(tree, depth, local)
            case "list_lit" | "map_lit":
                return _like(tree, "primary", [self.generic(child, depth, local)])
            case _:
                raise _refuse(child, "names do not begin with a dot")

    def function(self, tree: Node, depth: int, local: frozenset[str]) -> Node:
        call = tree.children[0]
        name, arguments = call.children[0], _arguments(call.children[1:])
        _check_call(call, name, len(arguments), FUNCTIONS)
        shaped = [self.node(argument, depth + 2, local) for argument in arguments]
        if name == "has" and shaped[0].data != "member_dot":
            raise _refuse(call, "`has` takes a field", "write `has(args.field)`")
        inner = _like(call, "ident_arg", [name, _like(call, "exprlist", shaped)])
        return _like(tree, "primary", [inner])

    def method(self, tree: Node, depth: int, local: frozenset[str]) -> Node:
        owner, name = tree.children[:2]
        arguments = _arguments(tree.children[2:])
        over = self.node(owner, depth + 1, local)
        if name in MACROS:
            variable = _variable(tree, arguments)
            body = self.node(arguments[1], depth + 2, local | {variable})
            return _like(tree, "macro", [over, name, variable, body])
        _check_call(tree, name, len(arguments), METHODS, MACROS)
        shaped = [self.node(argument, depth + 2, local) for argument in arguments]
        rest = [_like(tree, "exprlist", shaped)] if shaped else []
        return _like(tree, "member_dot_arg", [over, name, *rest])


def references(tree: Node) -> frozenset[str]:
    """The inputs that a shaped tree reads, as dotted names."""
    found: set[str] = set()
    open_nodes = [tree]
    while open_nodes:
        node = open_nodes.pop()
        path = _path(node)
        if path:
            found.add(path)
        else:
            open_nodes += [child for child in node.children if isinstance(child, lark.Tree)]
    return frozenset(found)


def _path(node: Node) -> str:
    """`args.a.b` for a chain of fields on an input, else nothing. Macro variables are no inputs."""
    fields: list[str] = []
    while node.data == "member_dot":
        node, field = node.children
        fields.append(str(field))
    if node.data != "primary" or node.children[0].data != "ident":
        return ""
    root = str(node.children[0].children[0])
    return ".".join([root, *reversed(fields)]) if root in INPUTS else ""


def _like(tree: Node, data: str, children: list[Node]) -> Node:
    """Make a node that stands where `tree` stood: cel-python's errors read positions."""
    return lark.Tree(data, children, tree.meta)


def _unwrap(tree: Node) -> Node:
    while True:
        if tree.data in _WRAPPERS and len(tree.children) == 1:
            tree = tree.children[0]
        elif tree.data == "primary" and tree.children[0].data == "paren_expr":
            tree = tree.children[0].children[0]
        else:
            return tree


def _chain(tree: Node) -> list[Node]:
    """The operands of `a || b || c`, which the parser nests to the left."""
    terms: list[Node] = []
    kind = tree.data
    while tree.data == kind:
        terms.append(tree.children[1])
        tree = _unwrap(tree.children[0])
    return [tree, *reversed(terms)]


def _arguments(rest: list[Node]) -> list[Node]:
    return list(rest[0].children) if rest else []


def _variable(tree: Node, arguments: list[Node]) -> str:
    name = tree.children[1]
    if len(arguments) != _MACRO_ARGUMENTS:
        raise _refuse(tree, f"`{name}` takes a variable and an expression")
    variable = _unwrap(arguments[0])
    if variable.data != "primary" or variable.children[0].data != "ident":
        raise _refuse(tree, f"the first argument of `{name}` is not a variable")
    chosen = str(variable.children[0].children[0])
    if chosen in INPUTS:
        raise _refuse(tree, f"variable `{chosen}` hides an input", "name it otherwise")
    return chosen


def _check_call(
    tree: Node,
    name: str,
    given: int,
    known: Mapping[str, frozenset[int]],
    others: frozenset[str] = frozenset(),
) -> None:
    if name not in known:
        raise _refuse(
            tree, f"unknown function `{name[:80]}`", did_you_mean(name, {*known, *others})
        )
    if given not in known[name]:
        raise _refuse(tree, miscounted(name, known[name], given))


def _literal(tree: Node) -> Any:
    """Read a literal once, at load. cel-python's own reading, without the ones that make no text."""
    value = cast("Any", evaluation.Evaluator(tree, evaluation.Activation())).literal(tree)
    if isinstance(value, evaluation.CELEvalError):
        raise _refuse(tree, "literal is out of range")
    if isinstance(value, str) and not _is_text(value):
        raise _refuse(tree, "text literal holds a lone surrogate")
    return value


def _is_text(value: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in value)


def _no_messages(tree: Node, _depth: int, _local: frozenset[str]) -> Node:
    raise _refuse(tree, "conditions construct no messages")


def _refuse(tree: Node, problem: str, hint: str = "") -> ConditionError:
    meta = tree.meta
    return ConditionError(
        problem,
        line=getattr(meta, "line", None) or 1,  # of `true`, cel-python keeps none
        column=getattr(meta, "column", None) or 1,
        hint=hint,
    )
