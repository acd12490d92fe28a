"""How does the `closure` engine decide? It runs a condition's closures over the inputs as they are.

Nothing is converted: a condition reads the caller's own dictionaries, which nobody may change meanwhile. Only
`now`, microseconds in the record, becomes a timestamp. An evaluation shares nothing with another but what
is never written, so any number may run at once.

What remains for the author of a rule to know: `error || true` is true by the CEL standard; `matches` is a
search, so anchor it; equal-looking Unicode texts (NFC, NFD, look-alikes) are not equal; named time zones
and message construction are refused. An integer and a double compare exactly: 2^53 + 1 is not 2.0^53.
"""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from governance.canonical import JSON
from governance.policy.cel import INPUTS, Activation, CelFailure, FailureKind, Outcome, error_at
from governance.policy.closure_compile import BadPattern, Code, compile_syntax
from governance.policy.closure_parse import FIRST_PLACE, parse
from governance.policy.closure_syntax import references
from governance.policy.closure_times import moment_of
from governance.policy.closure_values import STEPS_AT, Exhausted, Failed, Frame, Value

__all__ = ["Program", "bind", "compile_program"]

T = TypeVar("T")

_NANOS_PER_MICRO: Final = 1000
_FAILURES: Final = {kind: CelFailure(kind) for kind in FailureKind}


def bind(inputs: Mapping[str, JSON]) -> Activation:
    """Make `inputs` readable. A `now` that is no moment is as if absent."""
    bound: dict[str, Value] = dict(inputs)
    now = bound.pop("now", None)
    if type(now) is int:
        with contextlib.suppress(Failed):
            bound["now"] = moment_of(now * _NANOS_PER_MICRO)
    return Activation(bound)


class Program:
    """A compiled condition, never written to after it was made."""

    __slots__ = ("_blank", "_no", "_references", "_run", "_steps", "_yes")

    def __init__(self, code: Code, names: frozenset[str]) -> None:
        self._run = code.run
        self._steps = code.steps
        self._blank = [None] * max(0, code.places + 1 - FIRST_PLACE)
        self._references = names
        self._yes = Outcome(value=True, steps=code.steps)
        self._no = Outcome(value=False, steps=code.steps)

    @property
    def references(self) -> frozenset[str]:
        return self._references

    def evaluate(self, activation: Activation, budget: int) -> Outcome[bool]:
        left = budget - self._steps
        frame: Frame = [activation, left, *self._blank]
        value = self._value(frame)
        if value is True or value is False:
            if frame[STEPS_AT] == left:  # no loop and no long text: what every condition should be
                return self._yes if value else self._no
            return Outcome(bool(value), budget - frame[STEPS_AT])
        if type(value) is CelFailure:
            return Outcome(value, budget - max(frame[STEPS_AT], 0))
        return Outcome(_FAILURES[FailureKind.NOT_BOOLEAN], budget - frame[STEPS_AT])

    def evaluate_text(self, activation: Activation, budget: int) -> Outcome[str]:
        return self.evaluate_as(activation, budget, _as_text)

    def evaluate_as(
        self, activation: Activation, budget: int, read: Callable[[Value], T | CelFailure]
    ) -> Outcome[T]:
        """Evaluate, and let `read` take the value or refuse it."""
        frame: Frame = [activation, budget - self._steps, *self._blank]
        value = self._value(frame)
        outcome = value if type(value) is CelFailure else read(value)
        return Outcome(outcome, budget - max(frame[STEPS_AT], 0))

    def _value(self, frame: Frame) -> Any:
        """The value, or why there is none. Total: whatever goes wrong is a failure."""
        if frame[STEPS_AT] < 0:
            return _FAILURES[FailureKind.BUDGET]
        try:
            return self._run(frame)
        except Failed as failed:
            return _FAILURES[failed.kind]
        except Exhausted:
            return _FAILURES[FailureKind.BUDGET]
        except Exception:  # noqa: BLE001 - too deep a stack, no memory, or a fault of ours: never a value
            return _FAILURES[FailureKind.INTERNAL]


def _as_text(value: Value) -> str | CelFailure:
    return value if type(value) is str else _FAILURES[FailureKind.TYPE]


def compile_program(source: str, names: frozenset[str] = INPUTS) -> Program:
    """Compile `source` over the inputs `names`. Raises ConditionError."""
    syntax = parse(source, names)
    try:
        return Program(compile_syntax(syntax), references(syntax))
    except BadPattern as bad:
        raise error_at(
            source, bad.position, "pattern is no regular expression", "RE2 syntax, no look-around"
        ) from None
