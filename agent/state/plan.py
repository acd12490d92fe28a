"""What a driver does next, told by the state alone."""

from dataclasses import dataclass
from typing import TypeAlias

from agent.messages import AIMessage
from agent.state.calls import Allowed, CallState, Held, Proposed, Running, Unknown
from agent.state.events import Event, Place, Status
from agent.state.fold import fold
from agent.state.run import RunState
from governance.ids import Micros

__all__ = [
    "AskModel",
    "BookDecisions",
    "BookEnd",
    "BookRequest",
    "BookStarts",
    "BookSuspension",
    "BookUnknown",
    "Effects",
    "Perform",
    "Rest",
    "plan",
    "runnable",
    "step",
]


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing: the run has ended, or is suspended and waits for an answer."""


@dataclass(frozen=True, slots=True)
class BookRequest:
    """Record that the model is asked for turn `turn`."""

    turn: int


@dataclass(frozen=True, slots=True)
class AskModel:
    turn: int


@dataclass(frozen=True, slots=True)
class BookDecisions:
    """Decide each of `proposed`, and open a request for each of `held`."""

    proposed: tuple[Proposed, ...]
    held: tuple[Held, ...] = ()


@dataclass(frozen=True, slots=True)
class BookStarts:
    """Record that these are about to run, in one commit, checked again at that moment."""

    calls: tuple[Allowed | Unknown, ...]


@dataclass(frozen=True, slots=True)
class Perform:
    """Run these now: their starts are durable."""

    calls: tuple[Running, ...]


@dataclass(frozen=True, slots=True)
class BookUnknown:
    """Record that the outcome of these is unknown: whoever started them is gone."""

    calls: tuple[Running, ...]


@dataclass(frozen=True, slots=True)
class BookSuspension:
    """Nothing can go on before people answer."""

    held: tuple[Held, ...]
    unknown: tuple[Unknown, ...]


@dataclass(frozen=True, slots=True)
class BookEnd:
    status: Status
    reason: str = ""


Effects: TypeAlias = (
    Rest
    | BookRequest
    | AskModel
    | BookDecisions
    | BookStarts
    | Perform
    | BookUnknown
    | BookSuspension
    | BookEnd
)


def plan(state: RunState) -> Effects:
    """Tell what a driver of this run does next. `Book…` effects are entries and nothing else."""
    if state.status is not Status.RUNNING:
        return Rest()
    if state.calls:
        return _plan_calls(state)
    if state.asked:
        return AskModel(state.turn + 1)
    last = state.messages[-1] if state.messages else None
    if isinstance(last, AIMessage) and not last.tool_calls:
        return BookEnd(Status.COMPLETED)
    if state.turn >= state.limits.iterations:
        return BookEnd(Status.LIMIT_REACHED, "limit_reached")
    return BookRequest(state.turn + 1)


def _plan_calls(state: RunState) -> Effects:
    calls = state.calls
    running = tuple(c for c in calls if isinstance(c, Running))
    orphans = tuple(c for c in running if c.epoch != state.epoch)
    if orphans:
        return BookUnknown(orphans)
    proposed = tuple(c for c in calls if isinstance(c, Proposed))
    unasked = tuple(c for c in calls if isinstance(c, Held) and c.request is None)
    if proposed or unasked:
        return BookDecisions(proposed, unasked)
    startable = _startable(state)
    one_by_one = state.waited or not state.limits.parallel
    if startable and one_by_one:
        startable = () if running else startable[:1]
    if startable:
        return BookStarts(startable)
    if running:
        return Perform(running)
    held = tuple(c for c in calls if isinstance(c, Held))
    return BookSuspension(held, tuple(c for c in calls if isinstance(c, Unknown)))


def _startable(state: RunState) -> tuple[Allowed | Unknown, ...]:
    """Pick the calls that may start, in the model's order.

    While people are still to answer, only those without side effects: no confirmation is mailed for a
    payment that is then refused. An unknown call starts again only if it was declared idempotent.
    """
    blocked = any(_needs_people(c) for c in state.calls)
    return tuple(
        call
        for call in state.calls
        if (isinstance(call, Allowed) and not (blocked and call.ruling.side_effect))
        or (isinstance(call, Unknown) and call.ruling.idempotent)
    )


def _needs_people(call: CallState) -> bool:
    return isinstance(call, Held) or (isinstance(call, Unknown) and not call.ruling.idempotent)


def runnable(state: RunState, now: Micros) -> bool:
    """Tell whether resuming `state` would move it: all answers are in or overdue, or its driver is gone."""
    if state.ended:
        return False
    if state.status is Status.RUNNING:
        return True
    return not any(_needs_people(call) and not _overdue(call, now) for call in state.calls)


def _overdue(call: CallState, now: Micros) -> bool:
    return isinstance(call, Held) and call.request is not None and now > call.decide_by


def step(state: RunState, event: Event, place: Place) -> tuple[RunState, Effects]:
    """Fold `event` in, and tell what to do next."""
    after = fold(state, event, place)
    return after, plan(after)
