"""What of a decision's inputs may Google's C++ runtime be given? Plain JSON within limits, weighed in steps.

The runtime cuts a text at NUL, and takes its own process down over a value of ten thousand levels. So an
input is looked at before the first program that reads it runs; one that is no plain JSON within the limits
is read by none. The same walk weighs it for `celexpr_price`.
"""

import datetime as dt
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final, cast

from governance.canonical import JSON
from governance.policy.cel import FailureKind

__all__ = ["CHARS_PER_STEP", "Bound", "text_weight"]

CHARS_PER_STEP: Final = 64
LEVELS_MAX: Final = 64
"""Twice what admitted arguments may have."""

_INT64: Final = range(-(2**63), 2**63)
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class _Unfit(Exception):  # noqa: N818 - a signal between functions here: it ends as a CelFailure
    def __init__(self, kind: FailureKind) -> None:
        super().__init__()
        self.kind = kind


class Bound:
    """The inputs of one decision. Each is looked at once, and turned into the runtime's values once."""

    def __init__(
        self, inputs: Mapping[str, JSON], convert: Callable[[Mapping[str, Any]], Any]
    ) -> None:
        self.inputs: Mapping[str, Any] = inputs
        self._convert = convert
        self._faults: dict[str, FailureKind | None] = {}
        self._weights: dict[int, int] = {}

    def fault(self, name: str) -> FailureKind | None:
        """Why input `name` cannot be read; None when it can."""
        if name not in self._faults:
            self._faults[name] = self._look(name)
        return self._faults[name]

    def weight(self, value: object) -> int:
        """How many steps it takes to go through a part of an input that was looked at."""
        if type(value) is str:
            return text_weight(value)
        return self._weights[id(value)] if type(value) in (dict, list) else 1

    @cached_property
    def runtime(self) -> Any:
        """The runtime's own form of them. It converts an input when that is first read, and keeps it."""
        return self._convert({name: self._given(name) for name in self.inputs})

    def _given(self, name: str) -> object:
        if name != "now":
            return self.inputs[name]
        return None if self.fault("now") else _moment(self.inputs["now"])

    def _look(self, name: str) -> FailureKind | None:
        if name not in self.inputs:
            return FailureKind.MISSING_KEY
        try:
            if name == "now":
                _moment(self.inputs[name])
            else:
                self._weigh(self.inputs[name], LEVELS_MAX)
        except _Unfit as unfit:
            return unfit.kind
        return None

    def _weigh(self, value: object, levels: int) -> int:
        """Raises _Unfit for what the runtime must not see."""
        kind = type(value)
        if kind is str:
            return _sound(cast("str", value))
        if kind is dict or kind is list:
            if not levels:
                raise _Unfit(FailureKind.RANGE)
            weight = 1 + sum(self._weigh(part, levels - 1) for part in cast("Any", value))
            if kind is dict:
                members = cast("dict[object, object]", value)
                if any(type(key) is not str for key in members):
                    raise _Unfit(FailureKind.TYPE)
                weight += sum(self._weigh(part, levels - 1) for part in members.values())
            self._weights[id(value)] = weight
        elif kind is int:
            weight = 1
            if value not in _INT64:
                raise _Unfit(FailureKind.RANGE)
        elif value is None or kind is bool or kind is float:
            weight = 1
        else:
            raise _Unfit(FailureKind.TYPE)
        return weight


def text_weight(text: "str | bytes") -> int:
    """How many steps it takes to read a text."""
    return 1 + len(text) // CHARS_PER_STEP


def _sound(text: str) -> int:
    if "\0" in text:
        raise _Unfit(FailureKind.RANGE)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _Unfit(FailureKind.RANGE) from None
    return text_weight(text)


def _moment(value: object) -> dt.datetime:
    if type(value) is not int:
        raise _Unfit(FailureKind.TYPE)
    try:
        return _EPOCH + dt.timedelta(microseconds=value)
    except OverflowError:
        raise _Unfit(FailureKind.RANGE) from None
