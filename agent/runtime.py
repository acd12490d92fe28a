"""The one driver: it performs what a run's plan asks for, and has the logbook record it before and after.

    record what is about to happen ──▶ do it ──▶ record what came of it ──▶ plan again

A new run, a resumed one and one found after a crash go through the same loop.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import anyio

from agent.approver import Answer, Approver, Asked
from agent.booking import Desk
from agent.logbook import LedgerLog, Logbook
from agent.messages import AIMessage, ToolCall
from agent.models.port import Model
from agent.state import (
    AskModel,
    BookSuspension,
    CallEnded,
    Event,
    Held,
    ModelResponded,
    Perform,
    Rest,
    Running,
    RunState,
    RunSuspended,
    plan,
)
from agent.tools import CallContext, ToolResult
from governance.errors import GovernanceError, UnavailableError

__all__ = ["Driver", "Failpoint"]

HEARTBEATS_PER_LEASE: Final = 4


Failpoint: TypeAlias = Callable[[str], None]
"""Called by name at each point where a crash matters; tests die there."""


def no_failpoint(_name: str) -> None:
    """Go on."""


@dataclass(slots=True)
class Driver:
    """Drives one run. `log` records, `model` and the desk's tools act, `approver` answers at hand."""

    log: Logbook
    desk: Desk
    model: Model
    approver: Approver | None = None
    failpoint: Failpoint = no_failpoint
    _ended: list[Event] = field(default_factory=list[Event], init=False)
    _commit: anyio.Lock = field(default_factory=anyio.Lock, init=False)
    _offered: Sequence[Mapping[str, Any]] | None = field(default=None, init=False)
    """The tools as the model reads them: the same on every turn of a drive."""

    async def drive(self, state: RunState) -> RunState:
        """Go on until the run rests. Raises ModelError and its kin after recording that the run waits
        for the model, and FencedError when another driver took the run."""
        if isinstance(plan(state), Rest):
            return state
        if not isinstance(self.log, LedgerLog):
            return await self._loop(state)
        heartbeat = asyncio.create_task(self._heartbeat(self.log, state))
        try:
            return await self._loop(state)
        except BaseException:
            with anyio.CancelScope(shield=True), contextlib.suppress(UnavailableError):
                await self.log.release(state.run)
            raise
        finally:
            heartbeat.cancel()

    async def _loop(self, state: RunState) -> RunState:
        while True:
            match plan(state):
                case Rest():
                    return state
                case AskModel(turn=turn):
                    state = await self._ask_model(state, turn)
                case Perform(calls=calls):
                    state = await self._perform(state, calls)
                case BookSuspension(held=held) if not self.desk.waits:
                    state = await self._ask_people(state, held)
                case _:
                    state = await self.log.advance(state)

    async def _ask_model(self, state: RunState, turn: int) -> RunState:
        if self._offered is None:
            self._offered = [tool.schema.to_openai() for tool in self.desk.tools]
        self.failpoint("before-model")
        try:
            message = await self.model.respond(state.messages, self._offered)
        except GovernanceError as exc:
            await self.log.advance(state, [RunSuspended("model-error", error=str(exc))])
            raise
        self.failpoint("after-model")
        # Kept by a commit of its own: what follows may fail, and an answer is paid for once.
        said = [ModelResponded(turn, _recordable(message))]
        state = await self.log.advance(state, said, book_on=False)
        self.failpoint("after-responded")
        state = await self.log.advance(state)
        self.failpoint("after-decided")
        return state

    async def _perform(self, state: RunState, calls: tuple[Running, ...]) -> RunState:
        """Run started calls side by side. Each outcome is recorded as soon as it is there."""
        self.failpoint("before-effect")
        if len(calls) == 1:
            ended = await self._run(state, calls[0])
            return await self.log.advance(state, [ended])
        latest = state

        async def one(call: Running) -> None:
            nonlocal latest
            ended_one = await self._run(state, call)
            self._ended.append(ended_one)  # looked up after the wait: the list is swapped meanwhile
            async with self._commit:
                # Whoever comes first writes down what others finished meanwhile.
                ended, self._ended = self._ended, []
                if ended:
                    latest = await self.log.advance(latest, ended)

        try:
            async with anyio.create_task_group() as tasks:
                for call in calls:
                    tasks.start_soon(one, call)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None  # the first to fail; the rest were cancelled for it
        return latest

    async def _run(self, state: RunState, running: Running) -> CallEnded:
        call, tool = running.call, self.desk.tools.get(running.call.name)
        begun = time.perf_counter_ns()
        if tool is None:
            result = ToolResult.error(f"tool `{call.name}` is gone")
        else:
            result = await tool.run(running.ruling.args, self._context(state, running))
        self.failpoint("after-effect")
        metadata = dict(result.metadata)
        error = metadata.pop("error", None)
        if result.is_error and not isinstance(error, str):
            error = "tool"
        return CallEnded(
            uid=call.uid,
            attempt=call.attempts,
            duration_us=(time.perf_counter_ns() - begun) // 1000,
            content=result.content,
            metadata=metadata,
            error=str(error) if result.is_error else None,
        )

    def _context(self, state: RunState, running: Running) -> CallContext:
        rules, call = self.desk.rules, running.call
        return CallContext(
            run=state.run,
            uid=call.uid,
            attempt=call.attempts,
            idempotency_key=running.key if rules is not None else None,
            principal=state.principal.id,
            agent=state.agent,
        )

    async def _ask_people(self, state: RunState, held: tuple[Held, ...]) -> RunState:
        """Put each held call to the approver at hand, one after another, or refuse where there is none."""
        if not isinstance(self.log, LedgerLog):
            raise TypeError("an ungoverned call is never held")
        for call in held:
            answer = None if self.approver is None else await self._ask_one(self.approver, call)
            state = await self.log.answer(state, call, self.approver, answer)
        return state

    async def _ask_one(self, approver: Approver, held: Held) -> Answer:
        tool, decision = self.desk.tools.get(held.call.name), held.ruling.decision
        if held.request is None or decision.demands is None:
            raise TypeError(f"call {held.call.uid} is held without a request")
        asked = Asked(
            request=held.request,
            uid=held.call.uid,
            tool=held.call.name,
            arguments=held.ruling.args.decode(),
            display=tool.render(held.ruling.args) if tool is not None else held.call.name,
            rules=decision.rules,
            reasons=decision.reasons,
            demands=decision.demands,
        )
        return await approver.answer(asked)

    async def _heartbeat(self, log: LedgerLog, state: RunState) -> None:
        pause = log.lease_us / HEARTBEATS_PER_LEASE / 1_000_000
        while True:
            await anyio.sleep(pause)
            with contextlib.suppress(
                UnavailableError
            ):  # costs the lease, and the epoch still fences
                await log.renew(state.run)


def _recordable(message: AIMessage) -> AIMessage:
    """Replace what no JSON text can hold (lone surrogates), so that the answer can be kept at all."""
    calls = tuple(
        ToolCall(id=_text(c.id), name=_text(c.name), arguments=_text(c.arguments))
        for c in message.tool_calls
    )
    return message.model_copy(
        update={"content": _text(message.content), "tool_calls": calls, "stop": _text(message.stop)}
    )


def _text(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
