"""What do operators do with two values? As the CEL standard says: exact types, 64 bits, no wrapping."""

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from governance.policy.cel import FailureKind
from governance.policy.closure_functions import in_int, in_uint
from governance.policy.closure_texts import LIST_ITEMS_MAX, within
from governance.policy.closure_times import moment_of, to_duration
from governance.policy.closure_values import (
    NUMBERS,
    Duration,
    Failed,
    Frame,
    Timestamp,
    Uint,
    Value,
    charge,
    equal,
    kind_of,
    lookup_key,
    read,
)

__all__ = ["COMPARISONS", "MIRRORED", "OPERATORS", "contains", "index", "invert", "negate"]

Operation = Callable[[Frame, Value, Value], Value]

_FAST_ITEMS_PER_STEP: Final = 8
_ORDERED: Final = frozenset({bool, str, bytes, int, float, Uint, Timestamp, Duration})


def _ordering(compare: Callable[[Any, Any], bool]) -> Operation:
    def ordered(frame: Frame, left: Value, right: Value) -> Value:
        kind = kind_of(left)
        if kind is type(right) and kind in _ORDERED:
            if kind is str or kind is bytes:
                read(frame, left)
            return compare(left, right)
        if kind in NUMBERS and type(right) in NUMBERS:
            return compare(left, right)
        raise Failed(FailureKind.TYPE)

    return ordered


COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""What Python does with two numbers that are int or float, and CEL with any two of one ordered type."""
MIRRORED: Final[Mapping[str, str]] = {
    "==": "==",
    "!=": "!=",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}
"""The operator that says the same with its sides exchanged."""


def contains(frame: Frame, item: Value, container: Value) -> bool:
    """`item in container`, for lists and maps; a text holds no items."""
    kind = kind_of(container)
    if kind is dict:
        if type(item) is float and not item.is_integer():
            return False  # it equals no key
        return lookup_key(item) in container
    if kind is not list:
        raise Failed(FailureKind.TYPE)
    if type(item) is str:
        # A text equals nothing but a text, in Python as in CEL, and Python looks fast.
        charge(frame, len(container) // _FAST_ITEMS_PER_STEP)
        return item in container
    charge(frame, len(container))
    return any(equal(frame, item, element) for element in container)


def index(_frame: Frame, container: Value, key: Value) -> Value:
    """`container[key]`. A whole double is an index, as it is a key."""
    kind = kind_of(container)
    if kind is dict:
        found = lookup_key(key)
        if found not in container:
            raise Failed(FailureKind.MISSING_KEY)
        return container[found]
    if kind is not list or type(key) not in NUMBERS:
        raise Failed(FailureKind.TYPE)
    if not 0 <= key < len(container) or key != int(key):
        raise Failed(FailureKind.RANGE)
    return container[int(key)]


def _add(frame: Frame, left: Value, right: Value) -> Value:
    kind = kind_of(left)
    other = kind_of(right)
    if kind is other:
        if kind is str or kind is bytes:
            within(frame, len(left) + len(right))
            return left + right
        if kind is list:
            return _joined(frame, left, right)
        if kind is Duration:
            return to_duration(int(left) + int(right))
    elif {kind, other} == {Timestamp, Duration}:
        return moment_of(int(left) + int(right))
    return _arithmetic(operator.add, left, right)


def _joined(frame: Frame, left: list[Value], right: list[Value]) -> list[Value]:
    if len(left) + len(right) > LIST_ITEMS_MAX:
        raise Failed(FailureKind.RANGE)
    charge(frame, len(left) + len(right))
    return left + right


def _subtract(_frame: Frame, left: Value, right: Value) -> Value:
    kind = kind_of(left)
    other = kind_of(right)
    if kind is other and kind in (Timestamp, Duration):
        return to_duration(int(left) - int(right))
    if kind is Timestamp and other is Duration:
        return moment_of(int(left) - int(right))
    return _arithmetic(operator.sub, left, right)


def _multiply(_frame: Frame, left: Value, right: Value) -> Value:
    return _arithmetic(operator.mul, left, right)


def _divide(_frame: Frame, left: Value, right: Value) -> Value:
    if type(left) is float and type(right) is float and right == 0:
        if left == 0 or math.isnan(left):
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1, right)
    return _arithmetic(_quotient, left, right)


def _quotient(left: Any, right: Any) -> Any:
    """Integers are divided towards zero."""
    if isinstance(left, float):
        return left / right
    if right == 0:
        raise Failed(FailureKind.RANGE)
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(_frame: Frame, left: Value, right: Value) -> Value:
    if type(left) is float:
        raise Failed(FailureKind.TYPE)
    return _arithmetic(_signed_remainder, left, right)


def _signed_remainder(left: int, right: int) -> int:
    """What division towards zero leaves: of the sign of `left`."""
    if right == 0:
        raise Failed(FailureKind.RANGE)
    if right == -1:
        in_int(-left)  # what leaves no quotient leaves no rest
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def _arithmetic(operation: Callable[[Any, Any], Any], left: Value, right: Value) -> Value:
    kind = kind_of(left)
    if kind is not type(right):
        raise Failed(FailureKind.TYPE)
    if kind is int:
        return in_int(operation(left, right))
    if kind is float:
        return operation(left, right)
    if kind is Uint:
        return in_uint(operation(int(left), int(right)))
    raise Failed(FailureKind.TYPE)


def negate(_frame: Frame, value: Value) -> Value:
    kind = kind_of(value)
    if kind is int:
        return in_int(-value)
    if kind is float:
        return -value
    raise Failed(FailureKind.TYPE)


def invert(_frame: Frame, value: Value) -> Value:
    if value is True:
        return False
    if value is False:
        return True
    raise Failed(FailureKind.TYPE)


OPERATORS: Final[Mapping[str, Operation]] = {
    "==": equal,
    "!=": lambda frame, left, right: not equal(frame, left, right),
    **{name: _ordering(COMPARISONS[name]) for name in ("<", "<=", ">", ">=")},
    "in": contains,
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "%": _remainder,
}
