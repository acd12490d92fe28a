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
from governance.policy.cel import CONDITION_STEPS_MAX, FailureKind
from governance.policy.closure_functions import FUNCTIONS, METHODS, searching
from governance.policy.closure_macros import MACROS, Loop
from governance.policy.closure_operators import (
    COMPARISONS,
    MIRRORED,
    OPERATORS,
    contains,
    index,
    invert,
    negate,
)
from governance.policy.closure_syntax import Syntax
from governance.policy.closure_values import (
    INPUTS_AT,
    NUMBERS,
    Exhausted,
    Failed,
    Frame,
    Run,
    Value,
    key_of,
    kind_of,
)

__all__ = ["BadPattern", "Code", "compile_syntax"]

Apply: TypeAlias = Callable[..., Value]

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
        case syn.Input(name=name):
            return Code(_input(name), 1)
        case syn.Local(place=place):
            return Code(lambda frame: frame[place], 1, place)
        case syn.Field(owner=syn.Input(name=root), name=name):
            return Code(_field_of_input(root, name), 2)
        case syn.Field(owner=owner, name=name):
            inner = compile_syntax(owner)
            return _fold(_field(inner.run, name), inner)
        case syn.Has(owner=owner, name=name):
            inner = compile_syntax(owner)
            return _fold(_has(inner.run, name), inner)
        case syn.Not(operand=operand):
            return _applied(invert, compile_syntax(operand))
        case syn.Negative(operand=operand):
            return _applied(negate, compile_syntax(operand))
        case _:
            return _compile_several(syntax)


def _compile_several(syntax: Syntax) -> Code:
    """The nodes of several operands."""
    match syntax:
        case syn.Binary(operator=operator, left=left, right=right):
            return _binary(operator, compile_syntax(left), compile_syntax(right))
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
            return _fold(_list([code.run for code in codes]), *codes)
        case syn.MapOf():
            codes = [compile_syntax(part) for part in syn.parts(syntax)]
            return _fold(_map([code.run for code in codes]), *codes)
        case syn.Call():
            return _call(syntax)
        case syn.Macro():
            return _macro(syntax)
        case _:
            raise AssertionError(syntax)


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


def _input(name: str) -> Run:
    def run(frame: Frame) -> Value:
        try:
            return frame[INPUTS_AT][name]
        except KeyError:
            raise Failed(FailureKind.MISSING_KEY) from None

    return run


def _field_of_input(root: str, name: str) -> Run:
    """`args.amount`: the commonest node, in one closure."""

    def run(frame: Frame) -> Value:
        try:
            owner = frame[INPUTS_AT][root]
            if kind_of(owner) is dict:
                return owner[name]
        except KeyError:
            raise Failed(FailureKind.MISSING_KEY) from None
        raise Failed(FailureKind.TYPE)

    return run


def _field(owner_of: Run, name: str) -> Run:
    def run(frame: Frame) -> Value:
        owner = owner_of(frame)
        if kind_of(owner) is not dict:
            raise Failed(FailureKind.TYPE)
        if name not in owner:
            raise Failed(FailureKind.MISSING_KEY)
        return owner[name]

    return run


def _has(owner_of: Run, name: str) -> Run:
    """An owner that is in error stays one; only the last field may be absent."""

    def run(frame: Frame) -> Value:
        owner = owner_of(frame)
        if kind_of(owner) is not dict:
            raise Failed(FailureKind.TYPE)
        return name in owner

    return run


def _list(items: Sequence[Run]) -> Run:
    return lambda frame: [item(frame) for item in items]


def _map(keys_and_values: Sequence[Run]) -> Run:
    pairs = tuple(zip(keys_and_values[0::2], keys_and_values[1::2], strict=True))

    def run(frame: Frame) -> Value:
        made: dict[Value, Value] = {}
        for key_run, value_run in pairs:
            key = key_of(key_run(frame))
            if key in made:
                raise Failed(FailureKind.RANGE)
            made[key] = value_run(frame)
        return made

    return run


def _choice(condition: Code, then: Code, otherwise: Code) -> Code:
    chosen = {True: then, False: otherwise}
    if type(condition.constant) is bool:
        return chosen[condition.constant]
    ask, yes, no = condition.run, then.run, otherwise.run

    def run(frame: Frame) -> Value:
        answer = ask(frame)
        if answer is True:
            return yes(frame)
        if answer is False:
            return no(frame)
        raise Failed(FailureKind.TYPE)

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

    def run(frame: Frame) -> Value:
        failure: FailureKind | None = None
        for term in runs:
            try:
                value = term(frame)
            except Failed as failed:
                failure = failure or failed.kind
                continue
            if value is stop:
                return stop
            if value is not go:
                failure = failure or FailureKind.TYPE
        if failure is not None:
            raise Failed(failure)
        return go

    return Code(run, steps, max(term.places for term in terms))


def _binary(operator: str, left: Code, right: Code) -> Code:
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
        return _in_list(constant) if kind is list else None
    if operator in ("==", "!="):
        wanted = operator == "=="
        if kind is str:
            return lambda run: _is_text(run, constant, wanted=wanted)
        if kind is bool or constant is None:
            return lambda run: _is_the_one(run, constant, wanted=wanted)
    if operator in COMPARISONS and kind in (int, float):
        return lambda run: _compared(run, operator, constant)
    return None


def _is_text(run: Run, constant: str, *, wanted: bool) -> Run:
    """A text equals nothing but a text, in Python as in CEL; its length bounds what is read."""
    if wanted:
        return lambda frame: run(frame) == constant
    return lambda frame: run(frame) != constant


def _is_the_one(run: Run, constant: bool | None, *, wanted: bool) -> Run:
    if wanted:
        return lambda frame: run(frame) is constant
    return lambda frame: run(frame) is not constant


def _compared(run: Run, operator: str, constant: Value) -> Run:
    compare, general = COMPARISONS[operator], OPERATORS[operator]

    def compared(frame: Frame) -> Value:
        value = run(frame)
        kind = kind_of(value)
        if kind is int or kind is float:
            return compare(value, constant)
        return general(frame, value, constant)

    return compared


def _in_list(items: list[Value]) -> Callable[[Run], Run] | None:
    """`in` over a literal list of texts and numbers: a set, in which Python finds what CEL calls equal."""
    if not all((type(i) is str or type(i) in NUMBERS) and i == i for i in items):  # noqa: PLR0124 - NaN
        return None
    texts = frozenset(item for item in items if type(item) is str)
    numbers = frozenset(item for item in items if type(item) is not str)

    def build(run: Run) -> Run:
        def is_in(frame: Frame) -> Value:
            value = run(frame)
            if type(value) is str:
                return value in texts
            if type(value) in NUMBERS:
                return value in numbers
            return contains(frame, value, items)

        return is_in

    return build


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
    return _applied(function.apply, *operands)


def _search(subject: Code, pattern: str, position: int) -> Code:
    try:
        return _fold(searching(subject.run, pattern), subject)
    except Failed:
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
    last = macro.place + len(macro.variables)
    return Code(form.build(loop), 1 + over.steps, max(last, *(code.places for code in inner)))
