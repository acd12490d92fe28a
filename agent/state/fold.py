"""What a run's state is, and how one event moves it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, assert_never, cast

from agent.messages import AIMessage, Message, ToolCall, ToolMessage
from agent.state.calls import (
    EPOCH,
    Allowed,
    Answered,
    Call,
    CallState,
    Held,
    Proposed,
    Ruling,
    Running,
    Unknown,
)
from agent.state.events import (
    ENDED,
    ApprovalClosed,
    ApprovalEvent,
    ApprovalGranted,
    ApprovalRequested,
    ApprovalUsed,
    CallDecided,
    CallEnded,
    CallEvent,
    CallResolved,
    CallStarted,
    CallUnknown,
    Event,
    InputReceived,
    Limits,
    ModelEvent,
    ModelRequested,
    ModelResponded,
    Noted,
    Place,
    RunEnded,
    RunEvent,
    RunResumed,
    RunStarted,
    RunSuspended,
    Status,
    VoteCast,
)
from agent.state.wording import at_the_end, denial, refusal
from governance.canonical import JSON, digest, payload_bytes, thaw
from governance.ids import Digest, Micros, RequestId, RunId, SubjectId, call_uid
from governance.lawful.calls import covers
from governance.policy.model import Decision, Effect, Principal

__all__ = ["RunState", "content_digest", "fold", "still_covered"]

NO_DIGEST: Final = Digest(bytes(32))
UNNAMED: Final = SubjectId("agent:unnamed")
UNKNOWN: Final = Principal(SubjectId("user:unknown"))


@dataclass(frozen=True, slots=True)
class RunState:
    """Everything a driver knows. `rseq` is the position the next entry of the run will have.

    `turn` counts the model's answers: a question asked again after a crash is the same turn.
    `calls` are the current turn's; once all are answered they become messages. `tool_starts`, `sums`
    (`tool.argument` -> sum over started calls), `failures` and `tokens` are what limits are checked on.
    `said` are the notes people gave; `rejections` maps what a person said no to, to the refusal.
    `waited`: this turn was suspended.
    """

    run: RunId
    rseq: int = 0
    epoch: int = -1
    status: Status = Status.RUNNING
    because: str = ""
    agent: SubjectId = UNNAMED
    principal: Principal = UNKNOWN
    model: str = ""
    tools: Mapping[str, str] = field(default_factory=dict[str, str])
    limits: Limits = field(default_factory=Limits)
    started: Micros = EPOCH
    messages: tuple[Message, ...] = ()
    turn: int = 0
    asked: bool = False
    calls: tuple[CallState, ...] = ()
    waited: bool = False
    calls_made: int = 0
    tool_starts: Mapping[str, int] = field(default_factory=dict[str, int])
    sums: Mapping[str, int] = field(default_factory=dict[str, int])
    failures: int = 0
    tokens: int = 0
    said: Mapping[RequestId, str] = field(default_factory=dict[RequestId, str])
    rejections: Mapping[Digest, str] = field(default_factory=dict[Digest, str])
    untrusted: tuple[str, ...] = ()
    untrusted_tools: frozenset[str] = frozenset()
    error: str = ""

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    @property
    def response(self) -> AIMessage:
        """The last thing the model said."""
        said = (m for m in reversed(self.messages) if isinstance(m, AIMessage))
        return next(said, AIMessage())


def content_digest(tool: str, definition: Digest, args: bytes) -> Digest:
    """Name what a call would do, whichever turn proposes it. Never recorded: it could be guessed."""
    return digest("governance/content/v1", [tool, definition.hex(), args.decode()])


def fold(state: RunState, event: Event, place: Place) -> RunState:
    """Move `state` by one event of its run."""
    match event:
        case CallDecided() | CallStarted() | CallEnded() | CallUnknown() | CallResolved():
            state = _settle(_fold_call(state, event, place))
        case (
            ApprovalRequested() | VoteCast() | ApprovalGranted() | ApprovalUsed() | ApprovalClosed()
        ):
            state = _settle(_fold_approval(state, event))
        case ModelRequested() | ModelResponded():
            state = _fold_model(state, event)
        case RunStarted() | RunSuspended() | RunResumed() | RunEnded() | InputReceived():
            state = _fold_run(state, event, place)
        case Noted():
            pass
        case _:
            assert_never(event)
    return replace(state, rseq=state.rseq + 1)


def _fold_run(state: RunState, event: RunEvent, place: Place) -> RunState:
    match event:
        case RunStarted():
            return replace(
                state,
                epoch=place.seq,
                agent=event.agent,
                principal=event.principal,
                model=event.model,
                tools=event.tools,
                limits=event.limits,
                started=place.ts,
                messages=event.messages,
            )
        case RunSuspended():
            return replace(
                state,
                status=Status.SUSPENDED,
                because=event.because,
                error=event.error or "",
                waited=state.waited or bool(state.calls),
                asked=False,
            )
        case RunResumed():
            return replace(
                state, status=Status.RUNNING, because="", error="", epoch=place.seq, asked=False
            )
        case RunEnded():
            answers = tuple(_at_the_end(call, event.status) for call in state.calls)
            state = replace(state, status=event.status, calls=answers, error=event.note or "")
            return _settle(replace(state, because=event.reason))
        case InputReceived():
            return replace(state, messages=(*state.messages, event.message))


def _at_the_end(call: CallState, status: Status) -> CallState:
    match call:
        case Answered():
            return call
        case Running() | Unknown():
            return Answered(call.call, at_the_end(None), ok=False)
        case Proposed() | Allowed() | Held():
            return Answered(call.call, at_the_end(status), ok=False, refused=True)


def _fold_model(state: RunState, event: ModelEvent) -> RunState:
    match event:
        case ModelRequested():
            return replace(state, asked=True)
        case ModelResponded():
            calls = tuple(
                Call(
                    call_uid(state.run, event.turn, n),
                    f"call_{event.turn}_{n}",
                    c.name,
                    c.arguments,
                )
                for n, c in enumerate(event.message.tool_calls)
            )
            ours = tuple(ToolCall(id=c.id, name=c.name, arguments=c.arguments) for c in calls)
            message = event.message.model_copy(update={"tool_calls": ours})
            usage = event.message.usage
            return replace(
                state,
                turn=event.turn,
                asked=False,
                waited=False,
                messages=(*state.messages, message),
                calls=tuple(Proposed(call) for call in calls),
                calls_made=state.calls_made + len(calls),
                tokens=state.tokens + usage.input + usage.output,
            )


def _fold_call(state: RunState, event: CallEvent, place: Place) -> RunState:
    old = next((c for c in state.calls if c.call.uid == event.uid), None)
    if old is None:
        return state
    match event:
        case CallDecided():
            return _put(_taint(state, event), _decided(old, event, place.seq))
        case CallStarted():
            return _fold_start(state, old, event)
        case CallEnded():
            state = _put(state, Answered(old.call, _text(event.content), ok=event.error is None))
            failures = state.failures + (event.error is not None)
            tool = old.call.name
            if tool in state.untrusted_tools and tool not in state.untrusted:
                state = replace(state, untrusted=(*state.untrusted, tool))
            return replace(state, failures=failures)
        case CallUnknown():
            request = old.request if isinstance(old, Running) else None
            return _put(state, Unknown(old.call, _ruling(old), request))
        case CallResolved():
            return _put(state, _resolved(old.call, event))


def _taint(state: RunState, event: CallDecided) -> RunState:
    """Remember tools whose output is not to be trusted; their first result taints the run."""
    tool = _tool(event)
    if tool.get("untrusted_output") is True:
        return replace(state, untrusted_tools=state.untrusted_tools | {event.tool})
    return state


def _tool(event: CallDecided) -> Mapping[str, JSON]:
    return cast("Mapping[str, JSON]", (event.input or {}).get("tool", {}))


def _decided(old: CallState, event: CallDecided, seq: int) -> CallState:
    call = old.call
    if event.decision.effect is Effect.DENY or event.definition is None:
        return Answered(call, event.refusal or denial(event.decision), ok=False, refused=True)
    ruling = _new_ruling(old, event, seq)
    if event.decision.effect is Effect.ALLOW:
        return Allowed(call, ruling)
    had = old.request if isinstance(old, Allowed | Unknown) else None
    if had is not None and still_covered(_ruling(old).decision, event.decision):
        # Decided again with demands that its approval meets: the approval goes on standing.
        return Allowed(call, ruling, had)
    return Held(call, ruling)


def still_covered(before: Decision, now: Decision) -> bool:
    """Tell whether an approval that met what `before` demanded meets what `now` demands."""
    given, wanted = before.demands, now.demands
    return wanted is None or (given is not None and covers(given, wanted))


def _new_ruling(old: CallState, event: CallDecided, seq: int) -> Ruling:
    tool = _tool(event)
    again = None
    if event.first is not None and not isinstance(old, Proposed | Answered):
        again = old.ruling
    return Ruling(
        decision=event.decision,
        seq=seq,
        first=again.first if again is not None else seq,
        definition=event.definition or NO_DIGEST,
        args=again.args if again is not None else event.args or b"{}",
        commitment=again.commitment if again is not None else event.commitment or NO_DIGEST,
        side_effect=tool.get("side_effect") is not False,
        idempotent=tool.get("idempotent") is True,
    )


def _fold_start(state: RunState, old: CallState, event: CallStarted) -> RunState:
    ruling = _ruling(old)
    name = old.call.name
    sums = dict(state.sums)
    arguments = cast("Mapping[str, JSON]", thaw(ruling.args))
    for key, value in arguments.items():
        if type(value) is int:
            sums[f"{name}.{key}"] = sums.get(f"{name}.{key}", 0) + value
    starts = {**state.tool_starts, name: state.tool_starts.get(name, 0) + 1}
    call = replace(old.call, attempts=event.attempt)
    state = replace(state, tool_starts=starts, sums=sums)
    return _put(state, Running(call, ruling, state.epoch, event.key, event.request))


def _resolved(call: Call, event: CallResolved) -> CallState:
    match event.how:
        case "again":
            return Proposed(call)
        case "happened":
            return Answered(call, _text(event.content), ok=True)
        case _:
            note = f": {event.note}" if event.note else ""
            return Answered(call, f"outcome unknown, given up by a person{note}", ok=False)


def _ruling(state: CallState) -> Ruling:
    if isinstance(state, Proposed | Answered):
        raise TypeError(f"call {state.call.uid} has no ruling")
    return state.ruling


def _fold_approval(state: RunState, event: ApprovalEvent) -> RunState:
    if isinstance(event, VoteCast):
        return replace(state, said={**state.said, event.request: event.note or ""})
    if isinstance(event, ApprovalUsed):
        return state
    if isinstance(event, ApprovalRequested):
        asked = next((c for c in state.calls if c.call.uid == event.uid), None)
        if asked is None:
            return state
        return _put(state, Held(asked.call, _ruling(asked), event.request, event.decide_by))
    held = _by_request(state, event.request)
    if held is None:
        return state
    match event:
        case ApprovalGranted():
            return _put(state, Allowed(held.call, held.ruling, event.request))
        case ApprovalClosed():
            return _closed(state, held, event)


def _closed(state: RunState, held: Held | Allowed, event: ApprovalClosed) -> RunState:
    text = refusal(event.how, event.reason, state.said.get(event.request))
    match event.how:
        case "superseded":
            return _put(state, Held(held.call, held.ruling))
        case "rejected":
            key = content_digest(held.call.name, held.ruling.definition, held.ruling.args)
            state = replace(state, rejections={**state.rejections, key: text})
        case _:
            pass
    return _put(state, Answered(held.call, text, ok=False, refused=True))


def _by_request(state: RunState, request: RequestId) -> Held | Allowed | None:
    for call in state.calls:
        if isinstance(call, Held | Allowed) and call.request == request:
            return call
    return None


def _put(state: RunState, call: CallState) -> RunState:
    calls = tuple(call if c.call.uid == call.call.uid else c for c in state.calls)
    return replace(state, calls=calls)


def _settle(state: RunState) -> RunState:
    """Once every call of the turn has its result, the results become messages, in the model's order."""
    if not state.calls:
        return state
    results: list[Message] = []
    for call in state.calls:
        if not isinstance(call, Answered):
            return state
        status = "ok" if call.ok else "error"
        results.append(
            ToolMessage(
                tool_call_id=call.call.id, name=call.call.name, content=call.text, status=status
            )
        )
    return replace(state, calls=(), messages=(*state.messages, *results))


def _text(content: JSON) -> str:
    return content if isinstance(content, str) else payload_bytes(content).decode()
