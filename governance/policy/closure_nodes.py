"""What runs at each kind of node? The closures themselves, over the closures of their operands.

The commonest shapes have one of their own, since a call of Python's costs as much as what most nodes do: a
field of an input, a comparison with what is known, two terms of `&&` or `||`.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Final

from governance.policy.cel import FailureKind
from governance.policy.closure_operators import COMPARISONS, OPERATORS, contains
from governance.policy.closure_times import moment_of
from governance.policy.closure_values import (
    INPUTS_AT,
    NUMBERS,
    Failed,
    Frame,
    Run,
    Value,
    key_of,
    kind_of,
)

__all__ = [
    "chain",
    "choose",
    "compared_with",
    "field_of",
    "field_of_input",
    "has_field",
    "has_field_of_input",
    "in_list",
    "input_named",
    "is_text",
    "is_the_one",
    "list_of",
    "local_is_text",
    "map_of",
    "now",
    "pair",
    "text_tested",
]

_NANOS_PER_MICRO: Final = 1000


def input_named(name: str) -> Run:
    def run(frame: Frame) -> Value:
        try:
            return frame[INPUTS_AT][name]
        except KeyError:
            raise Failed(FailureKind.MISSING_KEY) from None

    return run


_NOW: Final = input_named("now")


def now(frame: Frame) -> Value:
    """Whole microseconds in the record, a moment in a condition."""
    micros = _NOW(frame)
    if type(micros) is not int:
        raise Failed(FailureKind.TYPE)
    return moment_of(micros * _NANOS_PER_MICRO)


def field_of_input(root: str, name: str) -> Run:
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


def field_of(owner_of: Run, name: str) -> Run:
    def run(frame: Frame) -> Value:
        owner = owner_of(frame)
        if kind_of(owner) is not dict:
            raise Failed(FailureKind.TYPE)
        if name not in owner:
            raise Failed(FailureKind.MISSING_KEY)
        return owner[name]

    return run


def has_field(owner_of: Run, name: str) -> Run:
    """An owner that is in error stays one; only the last field may be absent."""

    def run(frame: Frame) -> Value:
        owner = owner_of(frame)
        if kind_of(owner) is not dict:
            raise Failed(FailureKind.TYPE)
        return name in owner

    return run


def has_field_of_input(root: str, name: str) -> Run:
    def run(frame: Frame) -> Value:
        try:
            owner = frame[INPUTS_AT][root]
        except KeyError:
            raise Failed(FailureKind.MISSING_KEY) from None
        if kind_of(owner) is dict:
            return name in owner
        raise Failed(FailureKind.TYPE)

    return run


def list_of(items: Sequence[Run]) -> Run:
    return lambda frame: [item(frame) for item in items]


def map_of(keys_and_values: Sequence[Run]) -> Run:
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


def choose(ask: Run, yes: Run, no: Run) -> Run:
    def run(frame: Frame) -> Value:
        answer = ask(frame)
        if answer is True:
            return yes(frame)
        if answer is False:
            return no(frame)
        raise Failed(FailureKind.TYPE)

    return run


def pair(first: Run, second: Run, *, stop: bool) -> Run:
    """The commonest chain. Its operands run once each, failed or not."""
    go = not stop

    def run(frame: Frame) -> Value:
        try:
            value = first(frame)
        except Failed as failed:
            return _settled(second, frame, stop, failed.kind)
        if value is go:
            value = second(frame)
            if value is go or value is stop:
                return value
            raise Failed(FailureKind.TYPE)
        return stop if value is stop else _settled(second, frame, stop, FailureKind.TYPE)

    return run


def _settled(last: Run, frame: Frame, stop: bool, failure: FailureKind) -> Value:
    """What `last` makes of a chain that has failed so far. Raises Failed, with the first failure."""
    with contextlib.suppress(Failed):
        if last(frame) is stop:
            return stop
    raise Failed(failure)


def chain(terms: Sequence[Run], *, stop: bool) -> Run:
    go = not stop

    def run(frame: Frame) -> Value:
        failure: FailureKind | None = None
        for term in terms:
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

    return run


def is_text(run: Run, constant: str, *, wanted: bool) -> Run:
    """A text equals nothing but a text, in Python as in CEL; its length bounds what is read."""
    if wanted:
        return lambda frame: run(frame) == constant
    return lambda frame: run(frame) != constant


def is_the_one(run: Run, constant: bool | None, *, wanted: bool) -> Run:
    if wanted:
        return lambda frame: run(frame) is constant
    return lambda frame: run(frame) is not constant


def text_tested(subject: Run, name: str, part: str) -> Run:
    """`startsWith` and `endsWith` of what is known: no more is read than its length."""
    test = str.startswith if name == "startsWith" else str.endswith

    def run(frame: Frame) -> Value:
        value = subject(frame)
        if type(value) is str:
            return test(value, part)
        raise Failed(FailureKind.TYPE)

    return run


def local_is_text(place: int, constant: str) -> Run:
    """`r == 'lead'` in a macro over `r`: what most loops do at every turn."""
    return lambda frame: frame[place] == constant


def compared_with(run: Run, operator: str, constant: Value) -> Run:
    compare, general = COMPARISONS[operator], OPERATORS[operator]

    def compared(frame: Frame) -> Value:
        value = run(frame)
        kind = kind_of(value)
        if kind is int or kind is float:
            return compare(value, constant)
        return general(frame, value, constant)

    return compared


def in_list(items: list[Value]) -> Callable[[Run], Run] | None:
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
