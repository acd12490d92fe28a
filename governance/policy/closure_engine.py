"""How does the `closure` engine decide? It runs a condition's closures over the inputs as they are.

Nothing is converted: a condition reads the caller's own dictionaries, which nobody may change meanwhile. An
evaluation shares nothing with another but what is never written, so any number may run at once.

What remains for the author of a rule to know: `error || true` is true by the CEL standard; `matches` is a
search, so anchor it; equal-looking Unicode texts (NFC, NFD, look-alikes) are not equal; named time zones
and message construction are refused. An integer and a double compare exactly: 2^53 + 1 is not 2.0^53.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from governance.policy.cel import (
    INPUTS,
    Activation,
    CelFailure,
    Evaluate,
    FailureKind,
    Outcome,
    error_at,
)
from governance.policy.closure_compile import BadPattern, Code, compile_syntax
from governance.policy.closure_parse import FIRST_PLACE, parse
from governance.policy.closure_straight import straighten
from governance.policy.closure_syntax import Syntax, references
from governance.policy.closure_values import STEPS_AT, Exhausted, Failed, Frame, Value

__all__ = ["Program", "compile_program"]

T = TypeVar("T")

_FAILURES: Final = {kind: CelFailure(kind) for kind in FailureKind}


class Program:
    """A compiled condition, never written to after it was made."""

    __slots__ = ("_blank", "_evaluate", "_no", "_references", "_run", "_steps", "_yes")

    def __init__(self, syntax: Syntax, code: Code) -> None:
        self._run = code.run
        self._steps = code.steps
        self._blank = [None] * max(0, code.places + 1 - FIRST_PLACE)
        self._references = references(syntax)
        self._yes = Outcome(value=True, steps=code.steps)
        self._no = Outcome(value=False, steps=code.steps)
        exactly = self.evaluate_exactly
        self._evaluate: Evaluate = straighten(syntax, code, exactly) or exactly

    @property
    def references(self) -> frozenset[str]:
        return self._references

    @property
    def evaluate(self) -> Evaluate:
        return self._evaluate

    def evaluate_exactly(self, activation: Activation, budget: int) -> Outcome[bool]:
        """Evaluate by the closures alone, whatever may be straight."""
        left = budget - self._steps
        if left < 0:
            return Outcome(_FAILURES[FailureKind.BUDGET], budget)
        frame: Frame = [activation, left, *self._blank]
        try:
            value = self._run(frame)
        except Exception as exc:  # noqa: BLE001 - total: see `_failure`
            return Outcome(_failure(exc), budget - max(frame[STEPS_AT], 0))
        if frame[STEPS_AT] == left:  # no loop and no long text, as of nearly every condition
            if value is True:
                return self._yes
            if value is False:
                return self._no
        outcome = value if type(value) is bool else _FAILURES[FailureKind.NOT_BOOLEAN]
        return Outcome(outcome, budget - frame[STEPS_AT])

    def evaluate_text(self, activation: Activation, budget: int) -> Outcome[str]:
        return self.evaluate_as(activation, budget, _as_text)

    def evaluate_as(
        self, activation: Activation, budget: int, read: Callable[[Value], T | CelFailure]
    ) -> Outcome[T]:
        """Evaluate, and let `read` take the value or refuse it."""
        frame: Frame = [activation, budget - self._steps, *self._blank]
        if frame[STEPS_AT] < 0:
            return Outcome(_FAILURES[FailureKind.BUDGET], budget)
        try:
            outcome = read(self._run(frame))
        except Exception as exc:  # noqa: BLE001 - likewise
            outcome = _failure(exc)
        return Outcome(outcome, budget - max(frame[STEPS_AT], 0))


def _failure(exc: Exception) -> CelFailure:
    """Why there is no value. What no rule can cause on purpose is internal: too deep a stack, no memory left,
    a fault of ours; never a value."""
    if isinstance(exc, Failed):
        return _FAILURES[exc.kind]
    if isinstance(exc, Exhausted):
        return _FAILURES[FailureKind.BUDGET]
    return _FAILURES[FailureKind.INTERNAL]


def _as_text(value: Value) -> str | CelFailure:
    return value if type(value) is str else _FAILURES[FailureKind.TYPE]


def compile_program(source: str, names: frozenset[str] = INPUTS) -> Program:
    """Compile `source` over the inputs `names`. Raises ConditionError."""
    syntax = parse(source, names)
    try:
        return Program(syntax, compile_syntax(syntax))
    except BadPattern as bad:
        raise error_at(
            source, bad.position, "pattern is no regular expression", "RE2 syntax, no look-around"
        ) from None
