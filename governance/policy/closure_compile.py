"""How does a condition become Python closures? One closure a node, over the frame of one evaluation.

What is known at load is done at load: constants are folded, an operand of `&&` or `||` that decides it is the
result, `in` over a literal list is a set, a comparison with a literal has a closure of its own, a regular
expression is compiled. What fails while it is folded is left to fail at every evaluation.

Steps: straight code is charged once, by its number of nodes, before it runs; each turn of a macro charges
its body; what reads texts and lists charges by their size.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from governance.policy import closure_syntax as syn
from governance.policy.cel import CONDITION_STEPS_MAX
from governance.policy.closure_functions import FUNCTIONS, METHODS, searching
from governance.policy.closure_macros import MACROS, Loop
from governance.policy.closure_nodes import (
    chain,
    choose,
    compared_with,
    field_of,
    field_of_input,
    has_field,
    has_field_of_input,
    in_list,
    input_named,
    is_text,
    is_the_one,
    list_of,
    local_is_text,
    map_of,
    now,
    pair,
    text_tested,
)
from governance.policy.closure_operators import (
    COMPARISONS,
    MIRRORED,
    OPERATORS,
    index,
    invert,
    negate,
)
from governance.policy.closure_syntax import Syntax
from governance.policy.closure_values import (
    Exhausted,
    Failed,
    Run,
    Value,
    kind_of,
)
from governance.policy.patterns import NoPattern

__all__ = ["BadPattern", "Code", "compile_syntax"]

_Several: TypeAlias = (
    syn.Binary
    | syn.And
    | syn.Or
    | syn.Choice
    | syn.Index
    | syn.ListOf
    | syn.MapOf
    | syn.Call
    | syn.Macro
)
Apply: TypeAlias = Callable[..., Value]

_PAIR: Final = 2
_VARIES: Final = object()


class BadPattern(Exception):  # noqa: N818 - a signal: it ends as a ConditionError
    """A literal pattern that is no regular expression."""

    def __init__(self, position: int) -> None:
        super().__init__()
        self.position = position


@dataclass(frozen=True, slots=True)
class Code:
    """A compiled expression: what runs it, its steps, how many places it needs, its value where known."""

    run: Run
    steps: int
    places: int = 0
    constant: Value = _VARIES

    @property
    def known(self) -> bool:
        return self.constant is not _VARIES


def compile_syntax(syntax: Syntax) -> Code:
    """Compile. Raises BadPattern."""
    match syntax:
        case syn.Literal(value=value):
            return _constant(value, 1)
        case syn.Input(name="now"):
            return Code(now, 1)
        case syn.Input(name=name):
            return Code(input_named(name), 1)
        case syn.Local(place=place):
            return Code(lambda frame: frame[place], 1, place)
        case syn.Field() | syn.Has():
            return _access(syntax)
        case syn.Not(operand=operand):
            return _applied(invert, compile_syntax(operand))
        case syn.Negative(operand=operand):
            return _applied(negate, compile_syntax(operand))
        case _:
            return _compile_several(syntax)


def _compile_several(syntax: _Several) -> Code:
    """The nodes of several operands."""
    match syntax:
        case syn.Binary():
            return _binary(syntax)
        case syn.And(terms=terms):
            return _junction([compile_syntax(term) for term in terms], stop=False)
        case syn.Or(terms=terms):
            return _junction([compile_syntax(term) for term in terms], stop=True)
        case syn.Choice(condition=condition, then=then, otherwise=otherwise):
            return _choice(*(compile_syntax(part) for part in (condition, then, otherwise)))
        case syn.Index(owner=owner, key=key):
            return _applied(index, compile_syntax(owner), compile_syntax(key))
        case syn.ListOf(items=items):
            codes = [compile_syntax(item) for item in items]
            return _fold(list_of([code.run for code in codes]), *codes)
        case syn.MapOf():
            codes = [compile_syntax(part) for part in syn.parts(syntax)]
            return _fold(map_of([code.run for code in codes]), *codes)
        case syn.Call():
            return _call(syntax)
        case syn.Macro():
            return _macro(syntax)


def _access(syntax: syn.Field | syn.Has) -> Code:
    """`owner.name` and `has(owner.name)`; of an input other than `now`, in one closure."""
    asks, name = isinstance(syntax, syn.Has), syntax.name
    if isinstance(syntax.owner, syn.Input) and syntax.owner.name != "now":
        direct = has_field_of_input if asks else field_of_input
        return Code(direct(syntax.owner.name, name), 2)
    owner = compile_syntax(syntax.owner)
    return _fold((has_field if asks else field_of)(owner.run, name), owner)


def _constant(value: Value, steps: int) -> Code:
    return Code(lambda _frame: value, steps, 0, value)


def _fold(run: Run, *operands: Code) -> Code:
    """A node that `run` evaluates from `operands`; when all of them are known, it runs now."""
    steps = 1 + sum(operand.steps for operand in operands)
    places = max((operand.places for operand in operands), default=0)
    if all(operand.known for operand in operands):
        with contextlib.suppress(Failed, Exhausted):
            return _constant(run([{}, CONDITION_STEPS_MAX]), steps)
    return Code(run, steps, places)


def _choice(condition: Code, then: Code, otherwise: Code) -> Code:
    chosen = {True: then, False: otherwise}
    if type(condition.constant) is bool:
        return chosen[condition.constant]
    run = choose(condition.run, then.run, otherwise.run)
    operands = (condition, then, otherwise)
    return Code(run, 1 + sum(o.steps for o in operands), max(o.places for o in operands))


def _junction(terms: Sequence[Code], *, stop: bool) -> Code:
    """`||` (stop at true) and `&&` (stop at false): one deciding operand settles it, past failures too."""
    go = not stop
    steps = 1 + sum(term.steps for term in terms)
    if any(term.constant is stop for term in terms):
        return _constant(stop, steps)
    runs = tuple(term.run for term in terms if term.constant is not go)
    if not runs:
        return _constant(go, steps)
    run = pair(*runs, stop=stop) if len(runs) == _PAIR else chain(runs, stop=stop)
    return Code(run, steps, max(term.places for term in terms))


def _binary(syntax: syn.Binary) -> Code:
    match syntax:
        case syn.Binary("==", syn.Local(place=place), syn.Literal(value=str() as text)):
            return Code(local_is_text(place, text), 3, place)
        case syn.Binary(operator, left, right):
            return _operation(operator, compile_syntax(left), compile_syntax(right))


def _operation(operator: str, left: Code, right: Code) -> Code:
    if left.known and not right.known and operator in MIRRORED:
        operator, left, right = MIRRORED[operator], right, left
    build = _specialised(operator, right.constant) if right.known and not left.known else None
    if build is not None:
        return Code(build(left.run), 1 + left.steps + right.steps, left.places)
    return _applied(OPERATORS[operator], left, right)


def _specialised(operator: str, constant: Value) -> Callable[[Run], Run] | None:
    """The closure for a comparison with what is known, or None where the general one must do."""
    kind = kind_of(constant)
    if operator == "in":
        return in_list(constant) if kind is list else None
    if operator in ("==", "!="):
        wanted = operator == "=="
        if kind is str:
            return lambda run: is_text(run, constant, wanted=wanted)
        if kind is bool or constant is None:
            return lambda run: is_the_one(run, constant, wanted=wanted)
    if operator in COMPARISONS and kind in (int, float):
        return lambda run: compared_with(run, operator, constant)
    return None


def _applied(apply: Apply, *operands: Code) -> Code:
    """A node that `apply` makes of the values of its operands, left to right."""
    runs = tuple(operand.run for operand in operands)
    if len(runs) == 1:
        (only,) = runs
        return _fold(lambda frame: apply(frame, only(frame)), *operands)
    if len(runs) == 2:  # noqa: PLR2004 - the commonest
        first, second = runs
        return _fold(lambda frame: apply(frame, first(frame), second(frame)), *operands)
    return _fold(lambda frame: apply(frame, *[run(frame) for run in runs]), *operands)


def _call(call: syn.Call) -> Code:
    function = (METHODS if call.is_method else FUNCTIONS)[call.function]
    operands = [compile_syntax(argument) for argument in call.arguments]
    if call.function == "matches" and type(operands[1].constant) is str:
        return _search(operands[0], operands[1].constant, call.arguments[1].position)
    if call.function in ("startsWith", "endsWith") and type(operands[1].constant) is str:
        subject, part = operands
        return Code(
            text_tested(subject.run, call.function, part.constant),
            1 + subject.steps + part.steps,
            subject.places,
        )
    return _applied(function.apply, *operands)


def _search(subject: Code, pattern: str, position: int) -> Code:
    try:
        return _fold(searching(subject.run, pattern), subject)
    except NoPattern:
        raise BadPattern(position) from None


def _macro(macro: syn.Macro) -> Code:
    arguments = len(macro.variables) + (macro.guard is not None) + 1
    form = MACROS[macro.name][arguments]
    over, body = compile_syntax(macro.over), compile_syntax(macro.body)
    guard = compile_syntax(macro.guard) if macro.guard is not None else None
    inner = [code for code in (over, guard, body) if code is not None]
    loop = Loop(
        over=over.run,
        place=macro.place,
        variables=form.variables,
        guard=guard.run if guard is not None else None,
        body=body.run,
        cost=1 + body.steps + (guard.steps if guard is not None else 0),
    )
    last = macro.place + len(macro.variables) - 1
    return Code(form.build(loop), 1 + over.steps, max(last, *(code.places for code in inner)))
