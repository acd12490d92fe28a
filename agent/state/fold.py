"""What a run's state is, and how one event moves it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, assert_never, cast

from agent.messages import AIMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from agent.state.calls import (
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
from agent.state.run import Heard, RunState
from agent.state.wording import at_the_end, denial, refusal
from governance.canonical import JSON, digest, payload_bytes, thaw
from governance.ids import Digest, RequestId, call_uid
from governance.lawful.calls import covers
from governance.policy.model import Decision, Effect

__all__ = ["content_digest", "fold", "still_covered"]

READS: Final = frozenset({"READ", "API_GET"})
NO_DIGEST: Final = Digest(bytes(32))


def content_digest(tool: str, definition: Digest, args: bytes) -> Digest:
    """Name what a call would do, whichever turn proposes it. Never recorded: it could be guessed."""
    return digest("governance/content/v1", [tool, definition.hex(), args.decode()])


def fold(state: RunState, event: Event, place: Place) -> RunState:
    """Move `state` by one event of its run."""
    state = state.but(rseq=state.rseq + 1)
    match event:
        case CallDecided() | CallStarted() | CallEnded() | CallUnknown() | CallResolved():
            return _settle(_fold_call(state, event, place))
        case (
            ApprovalRequested() | VoteCast() | ApprovalGranted() | ApprovalUsed() | ApprovalClosed()
        ):
            return _settle(_fold_approval(state, event))
        case ModelRequested() | ModelResponded():
            return _fold_model(state, event)
        case RunStarted() | RunSuspended() | RunResumed() | RunEnded() | InputReceived():
            return _fold_run(state, event, place)
        case Noted():
            return state
        case _:
            assert_never(event)


def _fold_run(state: RunState, event: RunEvent, place: Place) -> RunState:
    match event:
        case RunStarted():
            return state.but(
                epoch=place.seq,
                agent=event.agent,
                principal=event.principal,
                model=event.model,
                tools=event.tools,
                limits=event.limits,
                started=place.ts,
                messages=event.messages,
                heard=_hear(state, event.messages),
            )
        case RunSuspended():
            return state.but(
                status=Status.SUSPENDED,
                because=event.because,
                error=event.error or "",
                waited=state.waited or bool(state.calls),
                asked=False,
            )
        case RunResumed():
            return state.but(
                status=Status.RUNNING, because="", error="", epoch=place.seq, asked=False
            )
        case RunEnded():
            answers = tuple(_at_the_end(call, event.status) for call in state.calls)
            state = state.but(status=event.status, calls=answers, error=event.note or "")
            return _settle(state.but(because=event.reason))
        case InputReceived():
            heard = _hear(state, (event.message,))
            return state.but(messages=(*state.messages, event.message), heard=heard)


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
            return state.but(asked=True)
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
            return state.but(
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
            return _fold_start(state, old, event, place)
        case CallEnded():
            tool = old.call.name
            if tool in state.untrusted_tools and tool not in state.untrusted:
                state = state.but(untrusted=(*state.untrusted, tool))
            failures = state.failures + (event.error is not None)
            answered = Answered(old.call, _text(event.content), ok=event.error is None)
            return _put(state, answered, failures=failures)
        case CallUnknown():
            request = old.request if isinstance(old, Running) else None
            return _put(state, Unknown(old.call, _ruling(old), request))
        case CallResolved():
            return _put(state, _resolved(old.call, event))


def _taint(state: RunState, event: CallDecided) -> RunState:
    """Remember tools whose output is not to be trusted; their first result taints the run."""
    tool = _tool(event)
    if tool.get("untrusted_output") is True:
        return state.but(untrusted_tools=state.untrusted_tools | {event.tool})
    return state


def _harmless(tool: Mapping[str, JSON]) -> bool:
    """Tell whether a call may run ahead of the people its siblings wait for: only what surely reads.

    A side effect that nobody declared is assumed, unless the verb or the tier speaks against it.
    """
    if tool.get("side_effect") is True or tool.get("profiled") is not True:
        return False
    return tool.get("verb") in READS or (tool.get("verb") == "" and tool.get("risk_tier") == "low")


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
        side_effect=not _harmless(tool),
        idempotent=tool.get("idempotent") is True,
    )


def _fold_start(state: RunState, old: CallState, event: CallStarted, place: Place) -> RunState:
    ruling = _ruling(old)
    name = old.call.name
    sums = dict(state.sums)
    arguments = cast("Mapping[str, JSON]", thaw(ruling.args))
    for key, value in arguments.items():
        if type(value) is int:
            sums[f"{name}.{key}"] = sums.get(f"{name}.{key}", 0) + value
    starts = {**state.tool_starts, name: state.tool_starts.get(name, 0) + 1}
    approved = state.approved_starts
    if event.request is not None:
        approved = {**approved, name: approved.get(name, 0) + 1}
    state = state.but(
        tool_starts=starts,
        sums=sums,
        last_starts={**state.last_starts, name: place.ts},
        approved_starts=approved,
    )
    call = replace(old.call, attempts=event.attempt)
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
        return state.but(said={**state.said, event.request: event.note or ""})
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
            state = state.but(rejections={**state.rejections, key: text})
        case _:
            pass
    return _put(state, Answered(held.call, text, ok=False, refused=True))


def _by_request(state: RunState, request: RequestId) -> Held | Allowed | None:
    for call in state.calls:
        if isinstance(call, Held | Allowed) and call.request == request:
            return call
    return None


def _put(state: RunState, call: CallState, **changes: object) -> RunState:
    uid = call.call.uid
    calls = tuple([call if c.call.uid == uid else c for c in state.calls])
    return state.but(calls=calls, **changes)


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
    return state.but(
        calls=(), messages=(*state.messages, *results), heard=_hear(state, tuple(results))
    )


def _hear(state: RunState, messages: Sequence[Message]) -> Heard:
    user, trusted, untrusted = list[str](), list[str](), list[str]()
    for message in messages:
        match message:
            case ToolMessage():
                (untrusted if message.name in state.untrusted_tools else trusted).append(
                    message.content
                )
            case UserMessage() | SystemMessage():
                user.append(message.content)
            case AIMessage():
                pass
    before = state.heard
    return Heard(
        (*before.user, *user), (*before.trusted, *trusted), (*before.untrusted, *untrusted)
    )


def _text(content: JSON) -> str:
    return content if isinstance(content, str) else payload_bytes(content).decode()
