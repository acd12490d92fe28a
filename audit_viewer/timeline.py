"""What happened in a run, in which order, and on whose word? Pure: records in, lines out.

A line is raw: its texts come from models, tools and people. Whoever draws it makes them visible first.
What was erased is said to be, with the entry that records it; of what else is not at hand nothing is guessed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from audit_viewer.wording import counted, place, quote, short, span, spelled, spelled_json
from governance.errors import TamperedError
from governance.ledger.entry import ErasedError, Kind, Record

__all__ = ["Line", "Sign", "timeline"]

DIGEST_CHARS: Final = 8
RULES_SHOWN_MAX: Final = 5


class Sign(StrEnum):
    """What sort of step a line tells of: what it looks like follows from this alone."""

    RUN = "run"
    ASK = "ask"
    SAY = "say"
    ALLOW = "allow"
    HOLD = "hold"
    DENY = "deny"
    BEGIN = "begin"
    DONE = "done"
    FAIL = "fail"
    UNKNOWN = "unknown"
    YES = "yes"
    NO = "no"
    LAPSE = "lapse"
    PAUSE = "pause"
    RESUME = "resume"
    END = "end"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Line:
    """One entry, told. `offset_us` counts from the run's first entry, `label` is one or two words."""

    seq: int
    offset_us: int
    sign: Sign
    label: str
    text: str = ""
    details: tuple[str, ...] = ()


class _Absent(str):
    """Our own words, where content should stand: never quoted as if somebody had said them."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class _Told:
    """A line without its place."""

    sign: Sign
    label: str
    text: str = ""
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _View:
    """What a line may look up: names of people, and which tool a call is of."""

    names: Mapping[str, str]
    tools: dict[str, str]

    def who(self, subject: str) -> str:
        return self.names.get(subject, subject)

    def call(self, body: Mapping[str, Any]) -> str:
        uid = str(body["uid"])
        return f"{self.tools.get(uid, 'call')} {place(uid)}"


def timeline(records: Sequence[Record], names: Mapping[str, str]) -> tuple[Line, ...]:
    """Tell the records of one run, in order. `names` says what the people behind subjects are called."""
    view = _View(names, {})
    lines: list[Line] = []
    for record in records:
        entry = record.entry
        told = _tell(record, view)
        offset = entry.ts - records[0].entry.ts
        lines.append(Line(entry.seq, offset, told.sign, told.label, told.text, told.details))
    return tuple(lines)


def _tell(record: Record, view: _View) -> _Told:
    """Tell one record. A body without the fields of its type is shown as that, and hides nothing else."""
    try:
        return _TELL.get(record.entry.kind, _other)(record, view)
    except (KeyError, TypeError, ValueError, AttributeError):
        return _Told(Sign.UNKNOWN, "unreadable", f"{record.entry.kind} without its fields")


# --- one teller for each kind -----------------------------------------------------------------------


def _run_started(record: Record, _view: _View) -> _Told:
    body = record.entry.body
    behalf = record.entry.on_behalf_of
    for_whom = f" for {behalf}" if behalf is not None else ""
    given = _content(record, "input")
    text = f"{body['agent']}{for_whom}, model {body['model']}"
    if not isinstance(given, dict):
        return _Told(Sign.RUN, "started", text, (given,))
    messages = given.get("messages", [])
    said = [quote(m.get("content", "")) for m in messages if m.get("role") == "user"]
    return _Told(Sign.RUN, "started", text, tuple(said))


def _input_received(record: Record, _view: _View) -> _Told:
    message = _content(record, "message")
    if not isinstance(message, dict):
        return _Told(Sign.NOTE, "received", str(message))
    return _Told(Sign.NOTE, "received", quote(str(message.get("content", ""))))


def _model_requested(record: Record, _view: _View) -> _Told:
    body = record.entry.body
    return _Told(Sign.ASK, "model", f"turn {body['turn']}, {counted(body['messages'], 'message')}")


def _model_responded(record: Record, _view: _View) -> _Told:
    message = _content(record, "message")
    count = len(record.entry.body["calls"])
    calls = f"proposes {counted(count, 'call')}" if count else ""
    if not isinstance(message, dict):
        return _Told(Sign.SAY, "answers", str(message), (calls,) if calls else ())
    said = message.get("content", "")
    text = quote(said) if said else calls
    return _Told(Sign.SAY, "answers", text, (calls,) if said and calls else ())


_DECIDED: Final = {
    "allow": (Sign.ALLOW, "allowed"),
    "require_approval": (Sign.HOLD, "held"),
    "deny": (Sign.DENY, "denied"),
}


_AGAIN: Final = {
    "allow": "still allowed",
    "require_approval": "still needs the approval",
    "deny": "no longer allowed",
}


def _call_decided(record: Record, view: _View) -> _Told:
    body = record.entry.body
    view.tools.setdefault(body["uid"], body["tool"])
    sign, label = _DECIDED[body["effect"]]
    by = ", ".join(body["rules"])
    why = [f"by {by}" if by else "no rule", *body["reasons"], f"{body['tier']} risk"]
    details = [" · ".join(why), *_clauses(record)]
    details += [f"rule {rule} failed: {kind}" for rule, kind in body.get("errors", ())]
    if "message" in record.entry.payloads:
        details.append(_words(record, "message"))
    if "refusal" in record.entry.payloads:
        details.append(_words(record, "refusal"))
    if "first" in body:
        return _Told(
            sign, "checked", f"{view.call(body)}, {_AGAIN[body['effect']]}", tuple(details)
        )
    args = spelled(_content(record, "args")) if "args" in record.entry.payloads else ""
    return _Told(sign, label, f"{view.call(body)} {args}".rstrip(), tuple(details))


def _clauses(record: Record) -> list[str]:
    """What the clauses came to: those of the rules that decided, or where none did of all that were asked."""
    if "working" not in record.entry.payloads:
        return []
    working = _content(record, "working")
    if not isinstance(working, dict):
        return [str(working)]
    asked = working["clauses"]
    rules = [rule for rule in record.entry.body["rules"] or asked if rule in asked]
    told = [" · ".join(f"{text} → {spelled_json(v)}" for text, v in asked[rule]) for rule in rules]
    if record.entry.body["rules"] and len(rules) == 1:
        return [short(told[0])]  # its name stands before
    named = [short(f"{rule}: {text}") for rule, text in zip(rules, told, strict=True)]
    return named[:RULES_SHOWN_MAX]


def _call_started(record: Record, view: _View) -> _Told:
    body = record.entry.body
    again = f", attempt {body['attempt']}" if body["attempt"] > 1 else ""
    return _Told(Sign.BEGIN, "starts", view.call(body) + again)


def _call_finished(record: Record, view: _View) -> _Told:
    body = record.entry.body
    text = f"{view.call(body)} after {span(body['duration_us'])}"
    return _Told(Sign.DONE, "finished", text, (_result(record),))


def _call_failed(record: Record, view: _View) -> _Told:
    body = record.entry.body
    text = f"{view.call(body)} after {span(body['duration_us'])}: {body['error']}"
    return _Told(Sign.FAIL, "failed", text, (_result(record),))


def _call_unknown(record: Record, view: _View) -> _Told:
    text = f"{view.call(record.entry.body)} was started, and nothing more is known"
    return _Told(Sign.UNKNOWN, "unknown", text)


_RESOLVED: Final = {"happened": "it happened", "again": "it did not", "abandoned": "gave up"}


def _call_resolved(record: Record, view: _View) -> _Told:
    body = record.entry.body
    how = _RESOLVED.get(body["how"], body["how"])
    text = f"{view.call(body)}: {view.who(record.entry.actor)} says {how}"
    return _Told(Sign.YES, "resolved", text, _noted(record))


def _approval_requested(record: Record, view: _View) -> _Told:
    body = record.entry.body
    seats = ", ".join(f"{seat['count']} of {seat['role']}" for seat in body["demands"]["quorum"])
    within = span(body["decide_by"] - record.entry.ts)
    text = f"{view.call(body)} needs {seats} within {within}"
    return _Told(Sign.HOLD, "asks", text, (str(body["request"]),))


def _approval_voted(record: Record, view: _View) -> _Told:
    body = record.entry.body
    yes = body["verdict"] == "approve"
    meaning = "" if body["meaning"] == body["verdict"] else f" ({body['meaning']})"
    text = f"{view.who(body['voter'])} {'approves' if yes else 'rejects'}{meaning}"
    signed = (
        f"as {', '.join(body['roles'])} · card {body['card'][:DIGEST_CHARS]}"
        f" · signed over entry {body['head']['seq']}"
    )
    sign, label = (Sign.YES, "yes") if yes else (Sign.NO, "no")
    return _Told(sign, label, text, (signed, *_noted(record)))


def _approval_granted(record: Record, _view: _View) -> _Told:
    body = record.entry.body
    return _Told(Sign.YES, "granted", f"to be used within {span(body['use_by'] - record.entry.ts)}")


def _approval_rejected(record: Record, _view: _View) -> _Told:
    return _Told(Sign.NO, "rejected", str(record.entry.body["request"]))


_CLOCKS: Final = {"decide_by": "nobody decided in time", "use_by": "nobody used it in time"}


def _approval_expired(record: Record, _view: _View) -> _Told:
    clock = str(record.entry.body["clock"])
    return _Told(Sign.LAPSE, "expired", _CLOCKS.get(clock, clock))


def _approval_withdrawn(record: Record, _view: _View) -> _Told:
    return _Told(Sign.LAPSE, "withdrawn", str(record.entry.body["reason"]))


def _approval_used(record: Record, view: _View) -> _Told:
    return _Told(Sign.YES, "used", f"for {view.call(record.entry.body)}, once")


def _run_suspended(record: Record, _view: _View) -> _Told:
    body = record.entry.body
    waits = len(body["open"]) + len(body["unknown"])
    text = f"{body['because']}, waits for {waits}" if waits else str(body["because"])
    error = (_words(record, "error"),) if "error" in record.entry.payloads else ()
    return _Told(Sign.PAUSE, "suspended", text, error)


def _run_resumed(record: Record, _view: _View) -> _Told:
    body = record.entry.body
    return _Told(Sign.RESUME, "resumed", f"by {body['worker']} ({body['reason']})")


_ENDED: Final = {
    Kind.RUN_COMPLETED: (Sign.END, "completed"),
    Kind.RUN_FAILED: (Sign.FAIL, "ended"),
    Kind.RUN_CANCELLED: (Sign.LAPSE, "cancelled"),
}


def _run_ended(record: Record, _view: _View) -> _Told:
    body = record.entry.body
    sign, label = _ENDED[record.entry.kind]
    why = f"{body['reason']}, " if body.get("reason") else ""
    text = f"{why}{counted(body['iterations'], 'turn')}, {counted(body['calls'], 'call')}"
    return _Told(sign, label, text, _noted(record))


def _other(record: Record, view: _View) -> _Told:
    return _Told(Sign.NOTE, "noted", f"{record.entry.kind} by {view.who(record.entry.actor)}")


_TELL: Final[Mapping[Kind, Callable[[Record, _View], _Told]]] = {
    Kind.RUN_STARTED: _run_started,
    Kind.INPUT_RECEIVED: _input_received,
    Kind.MODEL_REQUESTED: _model_requested,
    Kind.MODEL_RESPONDED: _model_responded,
    Kind.CALL_DECIDED: _call_decided,
    Kind.CALL_STARTED: _call_started,
    Kind.CALL_FINISHED: _call_finished,
    Kind.CALL_FAILED: _call_failed,
    Kind.CALL_UNKNOWN: _call_unknown,
    Kind.CALL_RESOLVED: _call_resolved,
    Kind.APPROVAL_REQUESTED: _approval_requested,
    Kind.APPROVAL_VOTED: _approval_voted,
    Kind.APPROVAL_GRANTED: _approval_granted,
    Kind.APPROVAL_REJECTED: _approval_rejected,
    Kind.APPROVAL_EXPIRED: _approval_expired,
    Kind.APPROVAL_WITHDRAWN: _approval_withdrawn,
    Kind.APPROVAL_USED: _approval_used,
    Kind.RUN_SUSPENDED: _run_suspended,
    Kind.RUN_RESUMED: _run_resumed,
    Kind.RUN_COMPLETED: _run_ended,
    Kind.RUN_FAILED: _run_ended,
    Kind.RUN_CANCELLED: _run_ended,
}


# --- texts ------------------------------------------------------------------------------------------


def _content(record: Record, name: str) -> Any:
    """Read a payload, or say in words that it was erased, is not there, or is not what was recorded."""
    try:
        return record.content(name)
    except ErasedError:
        return _Absent(f"(erased, as entry {record.erased[name]} records)")
    except TamperedError:
        gone = name not in record.payloads
        return _Absent("(not at hand)" if gone else "(NOT what was recorded)")


def _words(record: Record, name: str) -> str:
    said = _content(record, name)
    return said if isinstance(said, _Absent) else quote(str(said))


def _noted(record: Record) -> tuple[str, ...]:
    if "note" not in record.entry.payloads:
        return ()
    return (_words(record, "note"),)


def _result(record: Record) -> str:
    result = _content(record, "result")
    if not isinstance(result, dict):
        return str(result)
    content = result.get("content")
    return quote(content) if isinstance(content, str) else short(spelled_json(content))
