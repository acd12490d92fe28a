"""What may a condition cost in Google's C++ runtime, at most? Known before it runs: nothing can stop it then.

The runtime counts the turns of loops, 10,000 in one evaluation, and nothing else: no comparison of lists
that double with each `map`, no search of one long text in another, no pattern. So each condition is
priced on the inputs it is about to read, and is not run when it might cost more than its budget. That is
fair to a plain condition and hard on what copies: `map` and `filter` cost the square of what they go
through, as they do in the runtime.

A price is never too low. For that each expression has an `_Extent`, what its value may weigh at most.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from governance.policy import closure_syntax as syn
from governance.policy.celexpr_values import CHARS_PER_STEP, Bound, text_weight
from governance.policy.closure_syntax import Syntax

__all__ = ["TooDear", "price"]

_COPIED_PER_STEP: Final = 16
"""How many elements the runtime copies in the time of a step."""
_WEIGHED_PER_STEP: Final = 64


class TooDear(Exception):  # noqa: N818 - a signal: it ends as a CelFailure
    """The condition may cost more than its budget."""


def price(syntax: Syntax, inputs: Bound, budget: int) -> int:
    """Tell the most that `syntax` may cost, in steps. Raises TooDear as soon as that passes `budget`."""
    pricing = _Pricing(inputs, budget)
    pricing.of(syntax, 1)
    return budget - pricing.left


@dataclass(frozen=True, slots=True)
class _Extent:
    """The bounds of a value: its weight with all its parts, how many it has, what each of them weighs.

    Where `among` is known, the value is one of these, or has no part that these have not.
    """

    weight: int
    count: int = 0
    part: "_Extent | None" = None
    among: tuple[object, ...] | None = None


_SMALL: Final = _Extent(1)
_SEARCHES: Final = frozenset({"contains", "indexOf", "lastIndexOf", "split"})


class _Pricing:
    """One walk over one condition. `times` is how often an expression may be evaluated."""

    def __init__(self, inputs: Bound, budget: int) -> None:
        self._inputs = inputs
        self._variables: dict[int, _Extent] = {}
        self._known: dict[tuple[int, ...], _Extent] = {}
        self.left = budget

    def _charge(self, steps: int, times: int) -> None:
        self.left -= steps * times
        if self.left < 0:
            raise TooDear

    def of(self, syntax: Syntax, times: int) -> _Extent:
        self._charge(1, times)
        match syntax:
            case syn.Literal() | syn.Input() | syn.Local():
                return self._leaf(syntax)
            case syn.Field() | syn.Index():
                return self._read(syntax, times)
            case syn.Binary():
                return self._binary(syntax, times)
            case syn.Call():
                return self._call(syntax, times)
            case syn.Macro():
                return self._macro(syntax, times)
            case syn.ListOf() | syn.MapOf() | syn.Choice():
                return self._built(syntax, times)
            case syn.Has() | syn.Not() | syn.Negative() | syn.And() | syn.Or():
                for part in syn.parts(syntax):
                    self.of(part, times)
                return _SMALL

    def _leaf(self, syntax: syn.Literal | syn.Input | syn.Local) -> _Extent:
        match syntax:
            case syn.Literal(value=str() | bytes() as text):
                return _Extent(text_weight(text))
            case syn.Literal():
                return _SMALL
            case syn.Input(name=name):
                return self._given((self._inputs.inputs[name],))
            case syn.Local(place=place):
                return self._variables[place]

    def _given(self, among: tuple[object, ...]) -> _Extent:
        """The extent of a value that is one of these parts of the inputs."""
        self._charge(len(among) // _WEIGHED_PER_STEP, 1)  # what pricing costs itself
        weight = max(map(self._inputs.weight, among), default=1)
        return _Extent(weight, max(map(_count, among), default=0), among=among)

    # --- parts --------------------------------------------------------------------------------------

    def _read(self, syntax: syn.Field | syn.Index, times: int) -> _Extent:
        owner = self.of(syntax.owner, times)
        if isinstance(syntax, syn.Field):
            name: object = syntax.name
        else:
            self._charge(self.of(syntax.key, times).weight, times)
            name = syntax.key.value if isinstance(syntax.key, syn.Literal) else None
        if type(name) in (str, int) and owner.among is not None:
            return self._given(tuple(p for v in owner.among for p in _named(v, name)))
        return self._element(owner, values=True)

    def _element(self, whole: _Extent, *, values: bool) -> _Extent:
        """What any one part of a list may be; of a map, any key, or with `values` any value."""
        if whole.among is not None:
            key = (*map(id, whole.among), values)
            if key not in self._known:
                among = tuple(p for v in whole.among for p in _parts(v, values=values))
                self._known[key] = self._given(among)
            return self._known[key]
        return whole.part or _Extent(whole.weight, whole.weight)

    def _built(self, syntax: syn.ListOf | syn.MapOf | syn.Choice, times: int) -> _Extent:
        parts = [self.of(part, times) for part in syn.parts(syntax)]
        if isinstance(syntax, syn.Choice):
            return _either(parts[1:])
        weight = 1 + sum(part.weight for part in parts)
        self._charge(len(parts), times)
        return _Extent(weight, len(parts), _either(parts) if parts else _SMALL)

    # --- operators and functions --------------------------------------------------------------------

    def _binary(self, syntax: syn.Binary, times: int) -> _Extent:
        left, right = self.of(syntax.left, times), self.of(syntax.right, times)
        match syntax.operator:
            case "+":
                whole = left.weight + right.weight
                self._charge(whole, times)
                parts = _either([self._element(side, values=False) for side in (left, right)])
                return _Extent(whole, left.count + right.count, parts)
            case "in":
                self._charge(right.weight + left.weight, times)
            case _:
                self._charge(min(left.weight, right.weight), times)
        return _SMALL

    def _call(self, syntax: syn.Call, times: int) -> _Extent:
        given = [self.of(argument, times) for argument in syntax.arguments]
        first = given[0]
        weight = sum(extent.weight for extent in given)
        if syntax.function == "dyn":
            return first
        if syntax.function == "size" and _holds_no_text(first):
            return _SMALL
        if syntax.function == "matches":
            states = max(map(_states, self._patterns(syntax.arguments[1], given[1])), default=0)
            weight += states // _COMPILED_PER_STEP
            weight += first.weight * (states // _STATES_PER_STEP)
        elif syntax.function in _SEARCHES:  # the runtime tries the whole needle at every place
            weight += first.weight * given[1].weight
        elif syntax.function == "replace":  # the new text may stand before and after each character
            weight += (first.weight * CHARS_PER_STEP + 1) * given[2].weight
        elif syntax.function == "join":
            weight += first.count * (given[1].weight if given[1:] else 1)
        self._charge(weight, times)
        count = _pieces(first) if syntax.function == "split" else 0
        return _Extent(weight + count, count, first if count else None)

    def _patterns(self, syntax: Syntax, extent: _Extent) -> Sequence[str]:
        """The texts that a pattern may be. Raises TooDear for one that is computed."""
        if isinstance(syntax, syn.Literal):
            return [syntax.value] if isinstance(syntax.value, str) else []
        if extent.among is None:
            raise TooDear
        return [value for value in extent.among if isinstance(value, str)]

    # --- macros -------------------------------------------------------------------------------------

    def _macro(self, syntax: syn.Macro, times: int) -> _Extent:
        over = self.of(syntax.over, times)
        self._charge(over.count, times)
        for place, extent in self._elements(syntax, over).items():
            self._variables[place] = extent
        turns = times * over.count
        if syntax.guard is not None and turns:
            self.of(syntax.guard, turns)
        made = self.of(syntax.body, turns) if turns else _SMALL
        if syntax.name in ("all", "exists", "exists_one", "existsOne"):
            return _SMALL
        # The runtime copies what there is so far for each element it adds.
        self._charge(over.count * over.count // _COPIED_PER_STEP, times)
        if syntax.name == "filter":
            return _Extent(over.weight, over.count, self._element(over, values=False))
        return _Extent(1 + over.count * made.weight, over.count, made)

    def _elements(self, syntax: syn.Macro, over: _Extent) -> Mapping[int, _Extent]:
        if len(syntax.variables) == 1:
            return {syntax.place: self._element(over, values=False)}
        first = self._element(over, values=False)  # an index, or a key
        return {syntax.place: first, syntax.place + 1: self._element(over, values=True)}


def _either(extents: Sequence[_Extent]) -> _Extent:
    """The extent of a value that has one of these."""
    among = [extent.among for extent in extents if extent.among is not None]
    parts = [extent.part for extent in extents if extent.part is not None]
    return _Extent(
        max(extent.weight for extent in extents),
        max(extent.count for extent in extents),
        _either(parts) if len(parts) == len(extents) else None,
        sum(among, ()) if len(among) == len(extents) else None,
    )


def _pieces(text: _Extent) -> int:
    """How many pieces a text can be split into: its characters, and what may stand at its ends."""
    if text.among is None:
        return text.weight * CHARS_PER_STEP + 1
    return max((len(value) for value in text.among if isinstance(value, str)), default=0) + 1


def _count(value: object) -> int:
    return len(cast("Any", value)) if type(value) in (list, dict) else 0


def _named(value: object, name: object) -> Iterable[object]:
    """What stands in a part of the inputs under a literal name or place."""
    if type(value) is dict:
        members = cast("dict[object, object]", value)
        return (members[name],) if name in members else ()
    if type(value) is list and type(name) is int and name >= 0:
        return cast("list[object]", value)[name : name + 1]
    return ()


def _parts(value: object, *, values: bool) -> Iterable[object]:
    if type(value) is dict:
        members = cast("dict[str, object]", value)
        return members.values() if values else members
    return cast("list[object]", value) if type(value) is list else ()


def _holds_no_text(extent: _Extent) -> bool:
    return extent.part is not None or (
        extent.among is not None and all(type(value) is not str for value in extent.among)
    )


# --- patterns ---------------------------------------------------------------------------------------

_REPEATED: Final = re.compile(r"\{([0-9]{1,4})(?:,([0-9]{0,4}))?\}")
_CLASS: Final = re.compile(r"\\[pP]")
_STATES_PER_CHAR: Final = 16
_STATES_PER_CLASS: Final = 2000
_STATES_PER_STEP: Final = 64
_COMPILED_PER_STEP: Final = 8


def _states(pattern: str) -> int:
    """The most states that the automaton of a pattern has; `{n}` repeats them, and may be nested."""
    states = len(pattern) * _STATES_PER_CHAR + len(_CLASS.findall(pattern)) * _STATES_PER_CLASS
    for least, most in _REPEATED.findall(pattern):
        states *= max(int(least), int(most or 0), 1)
    return states
