"""How do macros run over a list or a map? Every turn costs its body, and may end the loop.

| form | over a list | over a map |
|---|---|---|
| `over.all(x, p)` | the elements | the keys |
| `over.all(k, v, p)` | index and element | key and value |

`all` and `exists` stop when they are decided and absorb failures, as `&&` and `||` do. Others fail at once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, cast

from governance.policy.cel import FailureKind
from governance.policy.closure_values import (
    STEPS_AT,
    Exhausted,
    Failed,
    Frame,
    Run,
    Value,
    key_of,
    key_value,
    kind_of,
)

__all__ = ["MACROS", "Form", "Loop"]


@dataclass(frozen=True, slots=True)
class Form:
    """One way to write a macro: how many variables, and what runs it."""

    variables: int
    build: "Callable[[Loop], Run]"


@dataclass(frozen=True, slots=True)
class Loop:
    """A macro, compiled but for its kind. `cost` is what one turn takes, guard and body together."""

    over: Run
    place: int
    variables: int
    guard: Run | None
    body: Run
    cost: int

    def turns(self, frame: Frame) -> Iterator[Value]:
        """Go through the elements: set the variables, charge, and skip what the guard rules out."""
        place, cost, guard = self.place, self.cost, self.guard
        elements = _pairs if self.variables > 1 else _elements
        for element in elements(self.over(frame)):
            frame[STEPS_AT] -= cost
            if frame[STEPS_AT] < 0:
                raise Exhausted
            if self.variables > 1:
                frame[place], frame[place + 1] = element
            else:
                frame[place] = element
            if guard is None or _truth(guard(frame)):
                yield element


def _elements(value: Value) -> Iterable[Value]:
    kind = kind_of(value)
    if kind is list:
        return value  # type: ignore[no-any-return] # a list of values
    if kind is dict:
        return map(key_value, value)
    raise Failed(FailureKind.TYPE)


def _pairs(value: Value) -> Iterable[tuple[Value, Value]]:
    kind = kind_of(value)
    if kind is list:
        return enumerate(cast("list[Value]", value))
    if kind is dict:
        return ((key_value(key), item) for key, item in value.items())
    raise Failed(FailureKind.TYPE)


def _truth(value: Value) -> bool:
    if value is True or value is False:
        return bool(value)
    raise Failed(FailureKind.TYPE)


def _quantifier(*, stop: bool) -> Callable[[Loop], Run]:
    """`exists` stops at the first true, `all` at the first false."""

    def build(loop: Loop) -> Run:
        over, place, body, cost = loop.over, loop.place, loop.body, loop.cost
        several = loop.variables > 1

        def run(frame: Frame) -> Value:
            failure: FailureKind | None = None
            elements = over(frame)
            for element in _pairs(elements) if several else _elements(elements):
                frame[STEPS_AT] -= cost
                if frame[STEPS_AT] < 0:
                    raise Exhausted
                if several:
                    frame[place], frame[place + 1] = element
                else:
                    frame[place] = element
                try:
                    value = body(frame)
                except Failed as failed:
                    failure = failure or failed.kind
                    continue
                if value is stop:
                    return stop
                if value is not (not stop):
                    failure = failure or FailureKind.TYPE
            if failure is not None:
                raise Failed(failure)
            return not stop

        return run

    return build


def _exists_one(loop: Loop) -> Run:
    body = loop.body
    return lambda frame: sum(_truth(body(frame)) for _ in loop.turns(frame)) == 1


def _filter(loop: Loop) -> Run:
    body = loop.body
    return lambda frame: [element for element in loop.turns(frame) if _truth(body(frame))]


def _map(loop: Loop) -> Run:
    body = loop.body
    return lambda frame: [body(frame) for _ in loop.turns(frame)]


def _transform_map(loop: Loop) -> Run:
    body = loop.body
    return lambda frame: {key_of(key): body(frame) for key, _ in loop.turns(frame)}


_all, _exists = _quantifier(stop=False), _quantifier(stop=True)

MACROS: Final[Mapping[str, Mapping[int, Form]]] = {
    "all": {2: Form(1, _all), 3: Form(2, _all)},
    "exists": {2: Form(1, _exists), 3: Form(2, _exists)},
    "exists_one": {2: Form(1, _exists_one), 3: Form(2, _exists_one)},
    "existsOne": {3: Form(2, _exists_one)},
    "filter": {2: Form(1, _filter)},
    "map": {2: Form(1, _map), 3: Form(1, _map)},
    "transformList": {3: Form(2, _map), 4: Form(2, _map)},
    "transformMap": {3: Form(2, _transform_map), 4: Form(2, _transform_map)},
}
"""Macro -> how many arguments -> its form. The last argument is the body, one before it the guard."""
