"""What is a value to cel-python, what does looking at it cost, what is wrong with it? One answer for all."""

from collections.abc import Callable, Mapping, Sized
from typing import Any, Final, TypeAlias, cast

import re2  # pyright: ignore[reportMissingTypeStubs] # it has none
from celpy import celtypes as cel
from celpy.evaluation import CELEvalError

from governance.policy.cel import FailureKind

__all__ = [
    "NUMBERS",
    "ORDERED",
    "Call",
    "Exhausted",
    "Meter",
    "Value",
    "failure_kind",
    "kind",
    "pattern_of",
    "plain",
    "text",
]

Value: TypeAlias = Any

CHARS_PER_STEP: Final = 64
PATTERN_CHARS_MAX: Final = 1024

_RE2: Final = cast("Any", re2)
_RegexError: Final = cast("type[Exception]", _RE2.error)


class Exhausted(Exception):  # noqa: N818 - a signal between this file and the evaluator, no error
    """The budget of steps is used up."""


class Meter:
    """The steps left to one evaluation, shared by every macro inside it."""

    __slots__ = ("left",)

    def __init__(self, budget: int) -> None:
        self.left = budget

    def charge(self, steps: int = 1) -> None:
        self.left -= steps
        if self.left < 0:
            raise Exhausted

    def read(self, value: Sized) -> None:
        """Charge for looking through a text."""
        self.charge(1 + len(value) // CHARS_PER_STEP)


class Call:
    """One function on one meter. It answers errors with the first of them, and never raises but for
    `Exhausted`."""

    __slots__ = ("_function", "_meter")
    __name__ = "call"  # cel-python names the function in its debug lines

    def __init__(self, function: Callable[..., Value], meter: Meter) -> None:
        self._function = function
        self._meter = meter

    def __call__(self, *operands: Value) -> Value:
        for operand in operands:
            if isinstance(operand, CELEvalError):
                return operand
        try:
            return self._function(self._meter, *operands)
        except Exhausted:
            raise
        except (LookupError, ValueError, ArithmeticError, TypeError, _RegexError) as exc:
            return CELEvalError(_kind_of(type(exc)))


def failure_kind(error: CELEvalError) -> FailureKind:
    """Tell the kind of an error value, ours or cel-python's; its texts are never looked at."""
    first, *rest = error.args or (None,)
    if isinstance(first, FailureKind):
        return first
    return _kind_of(rest[0]) if rest and isinstance(rest[0], type) else FailureKind.INTERNAL


def _kind_of(exception: type) -> FailureKind:
    for family, kind in (
        (_RegexError, FailureKind.REGEX),
        (KeyError, FailureKind.MISSING_KEY),
        ((IndexError, ValueError, ArithmeticError), FailureKind.RANGE),
        ((TypeError, AttributeError), FailureKind.TYPE),
    ):
        if issubclass(exception, family):
            return kind
    return FailureKind.INTERNAL


_KINDS: Final[Mapping[Any, str]] = {
    cel.BoolType: "bool",
    cel.IntType: "int",
    cel.UintType: "uint",
    cel.DoubleType: "double",
    cel.StringType: "string",
    str: "string",
    cel.BytesType: "bytes",
    cel.ListType: "list",
    cel.MapType: "map",
    cel.TimestampType: "timestamp",
    cel.DurationType: "duration",
    type(None): "null",
}
NUMBERS: Final = frozenset({"int", "uint", "double"})
ORDERED: Final = frozenset({"bool", "string", "bytes", "timestamp", "duration"})


def kind(value: Value) -> str:
    """Name the CEL type of a value."""
    name = _KINDS.get(type(value))
    if name is None:
        raise TypeError
    return name


def text(value: Value) -> str:
    if kind(value) != "string":
        raise TypeError
    return str(value)


def plain(value: Value) -> int | float:
    """A number as Python's own, which compares int with float exactly."""
    return float(value) if kind(value) == "double" else int(value)


def pattern_of(pattern: str) -> Any:
    """Compile a regular expression of linear time. Raises what `failure_kind` calls `regex`."""
    if len(pattern) > PATTERN_CHARS_MAX:
        raise _RegexError
    options = _RE2.Options()
    options.log_errors = False  # it would print the pattern, which may be an argument
    return _RE2.compile(pattern, options)
