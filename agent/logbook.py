"""Where a driver's bookings go: the ledger, or for an ungoverned run nowhere.

`advance` is the only way a driver moves its run. It takes what just happened, folds in what others wrote
meanwhile (a vote, a cancellation), and books on until something must be done outside: one commit.
A crash before it returns leaves the run as it was before; the outcome of a call in flight is then
unknown, never lost and never assumed.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from anyio import to_thread

from agent.approver import Answer, Approve, Approver
from agent.booking import Desk, Moment, Rules, book
from agent.journal import draft, place, read, replay
from agent.state import (
    Allowed,
    ApprovalClosed,
    CallUnknown,
    Event,
    Held,
    ModelResponded,
    Place,
    Rest,
    RunEnded,
    Running,
    RunResumed,
    RunStarted,
    RunState,
    Status,
    fold,
    plan,
    runnable,
)
from agent.tools import RegisteredTool
from governance.approval.model import Verdict
from governance.errors import ConflictError, InvalidInputError, RefusedError
from governance.gate import ToolFacts, activate, fit, register
from governance.ids import Micros, RunId, SubjectId
from governance.lawful.cards import card_of
from governance.policy.rules import PolicySet
from governance.ports import Clock, Head, Lease, Person, Reader, Signer, Store, Transaction
from governance.queue import Ballot, cast_vote

__all__ = ["BusyError", "FencedError", "LedgerLog", "Logbook", "NoLog", "tool_facts"]

T = TypeVar("T")


class FencedError(ConflictError):
    """Another driver took the run over; whatever this one still does is not recorded as the run's."""


class BusyError(ConflictError):
    """Another driver holds the run's lease. `until` is when it runs out unless renewed."""

    def __init__(self, run: RunId, lease: Lease) -> None:
        super().__init__(
            f"run `{run}` is being driven by `{lease.holder}`",
            hint="wait for it, or cancel the run",
        )
        self.until = lease.until
        self.holder = lease.holder


class Logbook(Protocol):
    async def advance(
        self, state: RunState, first: Sequence[Event] = (), *, book_on: bool = True
    ) -> RunState:
        """Record `first`, then book on from there. Returns the state after the commit.

        With `book_on=False` only `first` is recorded. Raises FencedError when the run has a newer
        driver, UnavailableError when nothing could be written.
        """
        ...


@dataclass(frozen=True, slots=True)
class NoLog:
    """The logbook of an ungoverned run: states move, nothing is kept."""

    desk: Desk

    async def advance(
        self, state: RunState, first: Sequence[Event] = (), *, book_on: bool = True
    ) -> RunState:
        for event in first:
            state = fold(state, event, Place(state.rseq, Micros(0)))
        moment = Moment(self.desk, None, Micros(0), 0)
        while book_on and (events := book(state, plan(state), moment)):
            for event in events:
                state = fold(state, event, Place(state.rseq, Micros(0)))
        return state


@dataclass(frozen=True, slots=True)
class LedgerLog:
    """The logbook of a governed run: a ledger, and a lease on the run while it is driven.

    `holder` names this driver to others; `lease_us` is how long after a crash it is thought alive.
    """

    store: Store
    clock: Clock
    desk: Desk
    rules: Rules
    signer: Signer
    agent: SubjectId
    holder: str
    lease_us: int

    async def start(self, run: RunId, started: RunStarted) -> RunState:
        """Begin `run` and book its first steps. Raises ConflictError when it exists already."""

        def work(tx: Transaction) -> RunState:
            if tx.run_head(run) is not None:
                raise ConflictError(
                    f"run `{run}` exists already", hint="resume it, or choose another run id"
                )
            booking = self._begin(tx)
            fresh = RunState(run, agent=started.agent, principal=started.principal)
            return self._hold(booking, booking.append(fresh, started))

        return await self._commit(work)

    async def resume(self, run: RunId, reason: str) -> RunState:
        """Take `run` over if there is anything to do, and book its next steps.

        A run that has ended, or still waits for answers, is returned as it stands and nothing is
        written. Raises BusyError while another driver holds it, InvalidInputError for an unknown run or
        another agent's.
        """
        known = await self.load(run)
        if known.agent != self.agent:
            raise InvalidInputError(
                f"run `{run}` is of `{known.agent}`, not of `{self.agent}`",
                hint="resume it with the agent that began it",
            )

        def work(tx: Transaction) -> RunState:
            booking = self._booking(tx)
            state = booking.catch_up(known)
            if not runnable(state, booking.at):
                return state
            lease = tx.leases.get(run)
            if lease is not None and lease.until > booking.at:
                raise BusyError(run, lease)
            booking = self._begin(tx)
            return self._hold(booking, booking.append(state, RunResumed(self.holder, reason)))

        return await self._commit(work)

    async def advance(
        self, state: RunState, first: Sequence[Event] = (), *, book_on: bool = True
    ) -> RunState:
        def work(tx: Transaction) -> RunState:
            self._fence(tx, state)
            booking = self._booking(tx)
            now = booking.catch_up(state)
            for event in first:
                # What a model says to a run that has meanwhile ended has nobody to be said to.
                if not (now.ended and isinstance(event, ModelResponded)):
                    now = booking.append(now, event)
            return booking.book_on(now) if book_on else now

        return await self._commit(work)

    async def cancel(self, run: RunId, note: str | None) -> RunState:
        """End `run`, whoever drives it. Ending an ended run does nothing."""
        known = await self.load(run)

        def work(tx: Transaction) -> RunState:
            booking = self._booking(tx)
            state = booking.catch_up(known)
            if state.ended:
                return state
            lease = tx.leases.get(run)
            driven = lease is not None and lease.until > booking.at
            return booking.cancel(state, note, driven=driven)

        return await self._commit(work)

    async def answer(
        self, state: RunState, held: Held, approver: Approver | None, answer: Answer | None
    ) -> RunState:
        """Record what the approver at hand said to `held`, and book on. Without one it is a no."""

        def work(tx: Transaction) -> RunState:
            self._fence(tx, state)
            booking = self._booking(tx)
            now = booking.catch_up(state)
            if approver is not None and answer is not None:
                now = booking.vote(now, held, approver, answer, self.signer)
            # One person at hand who does not fill every seat leaves nobody else to ask.
            if any(c == held for c in now.calls) and held.request is not None:
                reason = "no-approver" if approver is None else "quorum-not-at-hand"
                closed = ApprovalClosed(held.request, "withdrawn", reason)
                now = booking.append(now, closed)
            return booking.book_on(now)

        return await self._commit(work)

    async def load(self, run: RunId) -> RunState:
        """Replay `run` as it stands. Raises InvalidInputError for an unknown one."""

        def work(reader: Reader) -> RunState:
            records = reader.run_records(run)
            if not records:
                raise InvalidInputError(
                    f"no run `{run}`", hint="list runs with `governance runs list`"
                )
            return replay(run, records)

        return await to_thread.run_sync(self.store.read, work)

    async def renew(self, run: RunId) -> None:
        """Push the lease out, if it is still ours: a driver that overslept takes it from nobody."""

        def work(tx: Transaction) -> None:
            lease = tx.leases.get(run)
            if lease is not None and lease.holder == self.holder:
                tx.leases.put(Lease(run, self.holder, Micros(self.clock() + self.lease_us)))

        await self._commit(work)

    async def release(self, run: RunId) -> None:
        await self._commit(lambda tx: tx.leases.drop(run, self.holder))

    def _fence(self, tx: Transaction, state: RunState) -> None:
        head = tx.run_head(state.run)
        if head is None or head.epoch != state.epoch:
            raise FencedError(
                f"run `{state.run}` was taken over by another driver",
                hint="let it go on; nothing needs to be done here",
            )

    def _hold(self, booking: "Booking", state: RunState) -> RunState:
        until = Micros(booking.at + self.lease_us)
        booking.tx.leases.put(Lease(state.run, self.holder, until))
        return booking.book_on(state)

    def _begin(self, tx: Transaction) -> "Booking":
        """Open a booking at the start of a drive, when what is in force may have changed."""
        at = self._moment(tx.head())
        tools = tuple(tool_facts(tool) for tool in self.desk.tools)
        policies = self.rules.rulebook.at(tx)
        fit(policies, tools)
        activate(tx, policies, at)
        register(tx, tools, at)
        return Booking(tx, self.desk, policies, at, tx.head().size, self.holder)

    def _booking(self, tx: Transaction) -> "Booking":
        """Open a booking in the middle of a drive. Whatever is in force by now, a drive or a reload has
        activated it: no decision is ahead of the log."""
        head, policies = tx.head(), self.rules.rulebook.at(tx)
        return Booking(tx, self.desk, policies, self._moment(head), head.size, self.holder)

    def _moment(self, head: Head) -> Micros:
        """The clock's, or the last entry's where the clock is behind it: a deadline is judged by the
        time that its entry will bear."""
        return max(self.clock(), head.ts)

    async def _commit(self, work: Callable[[Transaction], T]) -> T:
        # A commit is never abandoned: once queued it may become durable, and the driver must know.
        committed = self.store.submit(work)
        try:
            await _done(committed)
        except asyncio.CancelledError:
            await asyncio.wait([asyncio.wrap_future(committed)])
            raise
        return committed.result()


@dataclass(frozen=True, slots=True)
class Booking:
    """One transaction of one driver. `at` is the one moment everything in it happens."""

    tx: Transaction
    desk: Desk
    policies: PolicySet
    at: Micros
    fresh_from: int
    holder: str

    def append(self, state: RunState, event: Event) -> RunState:
        behalf = event.principal.id if isinstance(event, RunStarted) else state.principal.id
        record = self.tx.append(draft(event, state.run, state.agent, behalf), self.at)
        return fold(state, read(record), place(record))

    def catch_up(self, state: RunState) -> RunState:
        """Fold in what others wrote since `state` was planned on."""
        head = self.tx.run_head(state.run)
        if head is None or head.rseq == state.rseq:
            return state
        for record in self.tx.run_records(state.run, start=state.rseq):
            state = fold(state, read(record), place(record))
        return state

    def vote(
        self, state: RunState, held: Held, approver: Approver, answer: Answer, signer: Signer
    ) -> RunState:
        """Cast the answer of the approver at hand. An answer they had no right to give is a no."""
        request = held.request
        if request is None:
            return state
        person = Person(approver.subject, approver.subject, approver.roles, active=True)
        yes = isinstance(answer, Approve)
        note = answer.note if isinstance(answer, Approve) else answer.reason or None
        ballot = Ballot(
            request=request,
            voter=person.subject,
            verdict=Verdict.APPROVE if yes else Verdict.REJECT,
            meaning="approve" if yes else "reject",
            note=note,
            card=card_of(self.tx.run_records(state.run), request).digest,
        )
        try:
            cast_vote(self.tx, signer, ballot, person, self.at)
        except RefusedError:
            refused = ApprovalClosed(request, "withdrawn", "approver-not-entitled")
            return self.append(state, refused)
        return self.catch_up(state)

    def book_on(self, state: RunState) -> RunState:
        """Book until something must be done outside, or nothing is left; then let the lease go."""
        moment = Moment(self.desk, self.tx, self.at, self.fresh_from, self.policies)
        effect = plan(state)
        while events := book(state, effect, moment):
            for event in events:
                state = self.append(state, event)
            effect = plan(state)
        if isinstance(effect, Rest):
            self.tx.leases.drop(state.run, self.holder)
        return state

    def cancel(self, state: RunState, note: str | None, *, driven: bool) -> RunState:
        """Withdraw what is open and end the run. A call that a live driver performs keeps its outcome."""
        for call in state.calls:
            if isinstance(call, Held | Allowed) and call.request is not None:
                state = self.append(
                    state, ApprovalClosed(call.request, "withdrawn", "run-cancelled")
                )
            elif isinstance(call, Running) and not driven:
                state = self.append(state, CallUnknown(call.call.uid, call.call.attempts))
        ended = RunEnded(Status.CANCELLED, state.turn, state.calls_made, note=note)
        return self.append(state, ended)


async def _done(future: Future[Any]) -> None:
    """Wait for `future` on this event loop, without a hold on it: cancelling the wait leaves it alone."""
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()

    def wake() -> None:
        if not waiter.done():
            waiter.set_result(None)

    def tell(_: Future[Any]) -> None:
        if not loop.is_closed():  # else nobody waits any more
            loop.call_soon_threadsafe(wake)

    future.add_done_callback(tell)
    await waiter


def tool_facts(tool: RegisteredTool) -> ToolFacts:
    definition = tool.definition
    return ToolFacts(
        name=definition.name,
        definition=definition.digest,
        profile=definition.profile,
        schema={"description": definition.description, "parameters": definition.parameters},
    )
