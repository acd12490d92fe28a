"""What a run gives back: the conversation, the answer, how it stands and who is waited for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent.booking import Desk
from agent.messages import AIMessage, Message
from agent.state import Held, RunState, Unknown
from governance.canonical import thaw
from governance.ids import CallUid, Micros, RequestId, RunId
from governance.policy.model import Demands

__all__ = ["AgentResult", "PendingApproval", "UnknownOutcome", "result_of"]


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """A call that waits for people. `arguments` is the frozen JSON text of exactly what would run."""

    request: RequestId
    uid: CallUid
    tool: str
    arguments: str
    display: str
    rules: tuple[str, ...]
    demands: Demands
    decide_by: Micros

    @property
    def args(self) -> dict[str, Any]:
        args: dict[str, Any] = thaw(self.arguments.encode())
        return args


@dataclass(frozen=True, slots=True)
class UnknownOutcome:
    """A call that was started and never heard of again. A person says what became of it."""

    uid: CallUid
    tool: str
    arguments: str


@dataclass(frozen=True, slots=True)
class AgentResult:
    """How a run stands.

    `messages`: the whole conversation, calls and results included. `response`: the last thing the model
    said. `iterations`: model turns. `tool_calls_made`: calls proposed, refused ones too. `status`:
    `completed`, `suspended`, `waiting`, `failed`, `cancelled` or `limit_reached`. `run_id` is None for a
    run that no ledger knows.
    """

    messages: list[Message]
    response: AIMessage
    iterations: int
    tool_calls_made: int
    status: str
    pending_approvals: Sequence[PendingApproval] = ()
    unknown_outcomes: Sequence[UnknownOutcome] = ()
    run_id: RunId | None = None
    because: str = ""


def result_of(state: RunState, desk: Desk) -> AgentResult:
    """Tell how `state` stands."""
    return AgentResult(
        messages=list(state.messages),
        response=state.response,
        iterations=state.turn,
        tool_calls_made=state.calls_made,
        status=state.status.value,
        pending_approvals=pending_of(state, desk),
        unknown_outcomes=tuple(
            UnknownOutcome(c.call.uid, c.call.name, c.ruling.args.decode())
            for c in state.calls
            if isinstance(c, Unknown)
        ),
        run_id=state.run if desk.rules is not None else None,
        because=state.because,
    )


def pending_of(state: RunState, desk: Desk) -> tuple[PendingApproval, ...]:
    return tuple(
        _pending(call, call.request, desk)
        for call in state.calls
        if isinstance(call, Held) and call.request is not None
    )


def _pending(held: Held, request: RequestId, desk: Desk) -> PendingApproval:
    decision, tool = held.ruling.decision, desk.tools.get(held.call.name)
    if decision.demands is None:
        raise TypeError(f"call {held.call.uid} is held without demands")
    return PendingApproval(
        request=request,
        uid=held.call.uid,
        tool=held.call.name,
        arguments=held.ruling.args.decode(),
        display=tool.render(held.ruling.args) if tool is not None else held.call.name,
        rules=decision.rules,
        demands=decision.demands,
        decide_by=held.decide_by,
    )
