"""What is a value to cel-python, what does looking at it cost, what is wrong with it? One answer for all."""

from collections.abc import Callable, Mapping, Sized
from typing import Any, Final, TypeAlias

from celpy import celtypes as cel
from celpy.evaluation import CELEvalError

from governance.policy.cel import FailureKind
from governance.policy.patterns import NoPattern, Pattern, compile_steps, computed

__all__ = [
    "NUMBERS",
    "ORDERED",
    "Call",
    "Exhausted",
    "Meter",
    "Value",
    "failure_kind",
    "kind",
    "plain",
    "text",
]

Value: TypeAlias = Any

CHARS_PER_STEP: Final = 64


class Exhausted(Exception):  # noqa: N818 - a signal between this file and the evaluator, no error
    """The budget of steps is used up."""


class Meter:
    """The steps left to one evaluation, shared by every macro inside it, and the patterns it has paid for."""

    __slots__ = ("_patterns", "left")

    def __init__(self, budget: int) -> None:
        self.left = budget
        self._patterns: dict[str, Pattern] = {}

    def charge(self, steps: int = 1) -> None:
        self.left -= steps
        if self.left < 0:
            raise Exhausted

    def read(self, value: Sized) -> None:
        """Charge for looking through a text."""
        self.charge(1 + len(value) // CHARS_PER_STEP)

    def pattern(self, pattern: str) -> Pattern:
        """Compile a regular expression, wherever it comes from. Raises NoPattern."""
        if pattern not in self._patterns:
            self.charge(compile_steps(pattern))
            self._patterns[pattern] = computed(pattern)
        return self._patterns[pattern]


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
        except (LookupError, ValueError, ArithmeticError, TypeError, NoPattern) as exc:
            return CELEvalError(_kind_of(type(exc)))


def failure_kind(error: CELEvalError) -> FailureKind:
    """Tell the kind of an error value, ours or cel-python's; its texts are never looked at."""
    first, *rest = error.args or (None,)
    if isinstance(first, FailureKind):
        return first
    return _kind_of(rest[0]) if rest and isinstance(rest[0], type) else FailureKind.INTERNAL


def _kind_of(exception: type) -> FailureKind:
    for family, kind in (
        (NoPattern, FailureKind.REGEX),
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
