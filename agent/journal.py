"""How a run's events stand in the ledger: `draft` writes one, `read` reads it back.

The pair is the whole persistence of a run. `docs/entries.md` lists the fields.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from agent.messages import AIMessage, dump_message, load_message
from agent.state import (
    ApprovalClosed,
    ApprovalGranted,
    ApprovalRequested,
    ApprovalUsed,
    CallDecided,
    CallEnded,
    CallResolved,
    CallStarted,
    CallUnknown,
    Event,
    InputReceived,
    Limits,
    ModelRequested,
    ModelResponded,
    Noted,
    Place,
    RunEnded,
    RunResumed,
    RunStarted,
    RunState,
    RunSuspended,
    Status,
    VoteCast,
    fold,
)
from agent.state.events import CallEvent, ModelEvent, RunEvent
from governance.canonical import JSON, thaw
from governance.errors import InvalidInputError, TamperedError
from governance.ids import CallUid, Micros, RequestId, RunId, SubjectId, call_uid, parse_digest
from governance.ledger.entry import Draft, Kind, Record
from governance.policy.model import Decision, Demands, Principal

__all__ = ["draft", "place", "read", "replay"]

Bodies: TypeAlias = tuple[Kind, dict[str, JSON], dict[str, JSON]]

_ENDINGS = {
    Status.COMPLETED: Kind.RUN_COMPLETED,
    Status.FAILED: Kind.RUN_FAILED,
    Status.LIMIT_REACHED: Kind.RUN_FAILED,
    Status.CANCELLED: Kind.RUN_CANCELLED,
}
LIMIT_REACHED = "limit_reached"


def replay(run: RunId, records: Sequence[Record]) -> RunState:
    """Fold a run's records, from its first one on. Raises TamperedError when one cannot be read."""
    state = RunState(run)
    for record in records:
        state = fold(state, read(record), place(record))
    return state


def place(record: Record) -> Place:
    return Place(record.entry.seq, record.entry.ts)


# --- events -> entries ------------------------------------------------------------------------------


def draft(event: Event, run: RunId, actor: SubjectId, on_behalf_of: SubjectId | None) -> Draft:
    """Write `event` as an entry of `run`."""
    kind, body, payloads = _write(event, run)
    return Draft(kind, actor, body, payloads, run, on_behalf_of)


def _write(event: Event, run: RunId) -> Bodies:
    match event:
        case CallDecided() | CallStarted() | CallEnded() | CallUnknown() | CallResolved():
            return _write_call(event)
        case RunStarted() | RunSuspended() | RunResumed() | RunEnded() | InputReceived():
            return _write_run(event)
        case ModelRequested() | ModelResponded():
            return _write_model(event, run)
        case ApprovalRequested():
            body: dict[str, JSON] = {
                "request": event.request,
                "uid": event.uid,
                "subject": event.subject.hex(),
                "decision": event.decision,
                "demands": event.demands.to_json(),
                "decide_by": event.decide_by,
            }
            return Kind.APPROVAL_REQUESTED, body, {}
        case ApprovalUsed():
            return Kind.APPROVAL_USED, {"request": event.request, "uid": event.uid}, {}
        case ApprovalClosed(how="expired"):
            return Kind.APPROVAL_EXPIRED, {"request": event.request, "clock": event.reason}, {}
        case ApprovalClosed():
            reason = event.how if event.how == "superseded" else event.reason
            return Kind.APPROVAL_WITHDRAWN, {"request": event.request, "reason": reason}, {}
        case _:
            raise InvalidInputError(f"a driver does not write `{type(event).__name__}`")


def _write_run(event: RunEvent) -> Bodies:
    match event:
        case RunStarted():
            body: dict[str, JSON] = {
                "agent": event.agent,
                "model": event.model,
                "principal": event.principal.to_json(),
                "tools": dict(event.tools),
                "limits": {
                    "iterations": event.limits.iterations,
                    "parallel": event.limits.parallel,
                },
            }
            messages = [dump_message(m) for m in event.messages]
            return Kind.RUN_STARTED, body, {"input": {"messages": messages}}
        case RunSuspended():
            body = {
                "because": event.because,
                "open": list(event.open),
                "unknown": list(event.unknown),
            }
            return Kind.RUN_SUSPENDED, body, _optional(error=event.error)
        case RunResumed():
            return Kind.RUN_RESUMED, {"worker": event.worker, "reason": event.reason}, {}
        case RunEnded():
            body = {"iterations": event.iterations, "calls": event.calls}
            if event.reason:
                body["reason"] = event.reason
            return _ENDINGS[event.status], body, _optional(note=event.note)
        case InputReceived():
            return Kind.INPUT_RECEIVED, {"id": event.id}, {"message": dump_message(event.message)}


def _write_model(event: ModelEvent, run: RunId) -> Bodies:
    match event:
        case ModelRequested():
            return Kind.MODEL_REQUESTED, {"turn": event.turn, "messages": event.messages}, {}
        case ModelResponded():
            message = event.message
            calls = [call_uid(run, event.turn, n) for n in range(len(message.tool_calls))]
            body: dict[str, JSON] = {
                "turn": event.turn,
                "stop": message.stop,
                "tokens": {"input": message.usage.input, "output": message.usage.output},
                "calls": calls,
            }
            return Kind.MODEL_RESPONDED, body, {"message": dump_message(message)}


def _write_call(event: CallEvent) -> Bodies:
    match event:
        case CallDecided():
            return _write_decided(event)
        case CallStarted():
            body: dict[str, JSON] = {
                "uid": event.uid,
                "attempt": event.attempt,
                "key": event.key,
                "decision": event.decision,
            }
            if event.request is not None:
                body["request"] = event.request
            return Kind.CALL_STARTED, body, {}
        case CallEnded():
            body = {"uid": event.uid, "attempt": event.attempt, "duration_us": event.duration_us}
            result: dict[str, JSON] = {"content": event.content}
            if event.metadata:
                result["metadata"] = dict(event.metadata)
            if event.error is None:
                return Kind.CALL_FINISHED, body, {"result": result}
            return Kind.CALL_FAILED, {**body, "error": event.error}, {"result": result}
        case CallUnknown():
            return Kind.CALL_UNKNOWN, {"uid": event.uid, "attempt": event.attempt}, {}
        case CallResolved():
            body = {"uid": event.uid, "attempt": event.attempt, "how": event.how}
            payloads = _optional(note=event.note)
            if event.how == "happened":
                payloads["result"] = {"content": event.content}
            return Kind.CALL_RESOLVED, body, payloads


def _write_decided(event: CallDecided) -> Bodies:
    body: dict[str, JSON] = {"uid": event.uid, "tool": event.tool, **event.decision.to_json()}
    if event.definition is not None:
        body["definition"] = event.definition.hex()
    if event.first is not None:
        body["first"] = event.first
    payloads = _optional(
        input=event.input,
        working=event.working,
        refusal=event.refusal,
        message=event.decision.message,
    )
    if event.args is not None and event.first is None:
        payloads["args"] = thaw(event.args)
    return Kind.CALL_DECIDED, body, payloads


def _optional(**payloads: JSON) -> dict[str, JSON]:
    return {name: value for name, value in payloads.items() if value is not None}


# --- entries -> events ------------------------------------------------------------------------------


def read(record: Record) -> Event:
    """Read one record of a run. Raises TamperedError when its fields are not what its type says."""
    entry = record.entry
    try:
        return _READERS.get(entry.kind, _read_noted)(record, entry.body)
    except (KeyError, TypeError, ValueError, InvalidInputError) as exc:
        raise TamperedError(
            f"entry {entry.seq} (`{entry.kind}`) cannot be read as part of a run",
            seq=entry.seq,
            hint="export a bundle and run `governance verify` on it",
        ) from exc


def _read_noted(_record: Record, _body: Mapping[str, Any]) -> Event:
    return Noted()


def _read_started(record: Record, body: Mapping[str, Any]) -> Event:
    who = body["principal"]
    return RunStarted(
        agent=SubjectId(body["agent"]),
        principal=Principal(SubjectId(who["id"]), tuple(who["roles"]), who["tenant"] or None),
        model=body["model"],
        tools=dict(body["tools"]),
        limits=Limits(body["limits"]["iterations"], body["limits"]["parallel"]),
        messages=tuple(load_message(m) for m in record.content("input")["messages"]),
    )


def _read_suspended(record: Record, body: Mapping[str, Any]) -> Event:
    return RunSuspended(
        because=body["because"],
        open=tuple(RequestId(r) for r in body["open"]),
        unknown=tuple(CallUid(u) for u in body["unknown"]),
        error=_maybe(record, "error"),
    )


def _read_resumed(_record: Record, body: Mapping[str, Any]) -> Event:
    return RunResumed(worker=body["worker"], reason=body["reason"])


def _read_ended(record: Record, body: Mapping[str, Any]) -> Event:
    status = next(s for s, kind in _ENDINGS.items() if kind is record.entry.kind)
    if body.get("reason") == LIMIT_REACHED:
        status = Status.LIMIT_REACHED
    return RunEnded(
        status=status,
        iterations=body["iterations"],
        calls=body["calls"],
        reason=body.get("reason", ""),
        note=_maybe(record, "note"),
    )


def _read_input(record: Record, body: Mapping[str, Any]) -> Event:
    return InputReceived(body["id"], load_message(record.content("message")))


def _read_requested(_record: Record, body: Mapping[str, Any]) -> Event:
    return ModelRequested(turn=body["turn"], messages=body["messages"])


def _read_responded(record: Record, body: Mapping[str, Any]) -> Event:
    message = load_message(record.content("message"))
    if not isinstance(message, AIMessage):
        raise InvalidInputError("the model's message is not the model's")
    return ModelResponded(turn=body["turn"], message=message)


def _read_decided(record: Record, body: Mapping[str, Any]) -> Event:
    commitments = record.entry.payloads
    return CallDecided(
        uid=CallUid(body["uid"]),
        tool=body["tool"],
        decision=Decision.from_json(body, _maybe(record, "message")),
        definition=parse_digest(body["definition"]) if "definition" in body else None,
        args=record.frozen("args") if "args" in commitments else None,
        input=_maybe(record, "input"),
        working=_maybe(record, "working"),
        refusal=_maybe(record, "refusal"),
        first=body.get("first"),
        commitment=commitments.get("args"),
    )


def _read_approval_requested(_record: Record, body: Mapping[str, Any]) -> Event:
    return ApprovalRequested(
        request=RequestId(body["request"]),
        uid=CallUid(body["uid"]),
        subject=parse_digest(body["subject"]),
        decision=body["decision"],
        demands=Demands.from_json(body["demands"]),
        decide_by=Micros(body["decide_by"]),
    )


def _read_voted(record: Record, body: Mapping[str, Any]) -> Event:
    return VoteCast(RequestId(body["request"]), body["verdict"], _maybe(record, "note"))


def _read_granted(_record: Record, body: Mapping[str, Any]) -> Event:
    return ApprovalGranted(RequestId(body["request"]), tuple(body["votes"]), Micros(body["use_by"]))


def _read_used(_record: Record, body: Mapping[str, Any]) -> Event:
    return ApprovalUsed(RequestId(body["request"]), CallUid(body["uid"]))


def _read_rejected(_record: Record, body: Mapping[str, Any]) -> Event:
    return ApprovalClosed(RequestId(body["request"]), "rejected")


def _read_expired(_record: Record, body: Mapping[str, Any]) -> Event:
    return ApprovalClosed(RequestId(body["request"]), "expired", body["clock"])


def _read_withdrawn(_record: Record, body: Mapping[str, Any]) -> Event:
    how = "superseded" if body["reason"] == "superseded" else "withdrawn"
    return ApprovalClosed(RequestId(body["request"]), how, body["reason"])


def _read_call_started(_record: Record, body: Mapping[str, Any]) -> Event:
    request = body.get("request")
    return CallStarted(
        uid=CallUid(body["uid"]),
        attempt=body["attempt"],
        key=body["key"],
        decision=body["decision"],
        request=RequestId(request) if request is not None else None,
    )


def _read_call_ended(record: Record, body: Mapping[str, Any]) -> Event:
    result = record.content("result")
    return CallEnded(
        uid=CallUid(body["uid"]),
        attempt=body["attempt"],
        duration_us=body["duration_us"],
        content=result["content"],
        metadata=result.get("metadata", {}),
        error=body.get("error"),
    )


def _read_unknown(_record: Record, body: Mapping[str, Any]) -> Event:
    return CallUnknown(CallUid(body["uid"]), body["attempt"])


def _read_resolved(record: Record, body: Mapping[str, Any]) -> Event:
    result = _maybe(record, "result")
    return CallResolved(
        uid=CallUid(body["uid"]),
        attempt=body["attempt"],
        how=body["how"],
        content=None if result is None else result["content"],
        note=_maybe(record, "note"),
    )


def _maybe(record: Record, name: str) -> Any:
    return record.content(name) if name in record.entry.payloads else None


_READERS = {
    Kind.RUN_STARTED: _read_started,
    Kind.RUN_SUSPENDED: _read_suspended,
    Kind.RUN_RESUMED: _read_resumed,
    Kind.RUN_COMPLETED: _read_ended,
    Kind.RUN_FAILED: _read_ended,
    Kind.RUN_CANCELLED: _read_ended,
    Kind.INPUT_RECEIVED: _read_input,
    Kind.MODEL_REQUESTED: _read_requested,
    Kind.MODEL_RESPONDED: _read_responded,
    Kind.CALL_DECIDED: _read_decided,
    Kind.CALL_STARTED: _read_call_started,
    Kind.CALL_FINISHED: _read_call_ended,
    Kind.CALL_FAILED: _read_call_ended,
    Kind.CALL_UNKNOWN: _read_unknown,
    Kind.CALL_RESOLVED: _read_resolved,
    Kind.APPROVAL_REQUESTED: _read_approval_requested,
    Kind.APPROVAL_VOTED: _read_voted,
    Kind.APPROVAL_GRANTED: _read_granted,
    Kind.APPROVAL_USED: _read_used,
    Kind.APPROVAL_REJECTED: _read_rejected,
    Kind.APPROVAL_EXPIRED: _read_expired,
    Kind.APPROVAL_WITHDRAWN: _read_withdrawn,
}
