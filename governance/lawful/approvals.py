"""What do the records say of one approval? Its state, its subject, the card its voters saw.

Everything here is derived from records and from nothing else, so that the queue, the gate and an
auditor without a server reach the same answer. The shapes are those of docs/entries.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from governance.approval.card import Card, CardCall, CardHold, CardVote, EarlierCall
from governance.approval.model import (
    MEANINGS,
    SECOND,
    Approval,
    Deadline,
    Expiry,
    Seat,
    State,
    Terms,
    Use,
    Verdict,
    Vote,
    Withdrawal,
)
from governance.approval.transitions import step
from governance.canonical import JSON, digest, payload_bytes
from governance.errors import (
    ConflictError,
    GovernanceError,
    InvalidInputError,
    RefusedError,
    TamperedError,
)
from governance.ids import (
    CallUid,
    Digest,
    Micros,
    RequestId,
    RunId,
    SubjectId,
    parse_digest,
    parse_request_id,
    parse_subject_id,
)
from governance.ledger.entry import Entry, ErasedError, Kind, Record
from governance.policy.model import Demands

__all__ = [
    "Subject",
    "card_of",
    "fold_approval",
    "subject_digest",
    "subject_of",
    "vote_message",
]

_VOTE_LABEL: Final = b"governance/vote/v1"
_LOOK: Final = "export a bundle and run `governance verify` on it"


@dataclass(frozen=True, slots=True)
class Subject:
    """The exact call that an approval is for.

    `args` is the salted commitment of the frozen arguments; `principal` is None where the run acts for
    nobody but its agent.
    """

    run: RunId
    uid: CallUid
    tool: str
    definition: Digest
    args: Digest
    principal: SubjectId | None
    agent: SubjectId


def subject_digest(subject: Subject) -> Digest:
    """Digest what a yes covers."""
    return digest(
        "governance/subject/v1",
        {
            "run": subject.run,
            "uid": subject.uid,
            "tool": subject.tool,
            "definition": subject.definition.hex(),
            "args": subject.args.hex(),
            "principal": subject.principal,
            "agent": subject.agent,
        },
    )


def subject_of(started: Entry, decided: Entry) -> Subject:
    """Read the subject of a call from its `run.started` and its first `call.decided`.

    Raises TamperedError when either lacks what a held call always has.
    """
    try:
        return Subject(
            run=RunId(decided.run or ""),
            uid=CallUid(_text(decided.body, "uid")),
            tool=_text(decided.body, "tool"),
            definition=parse_digest(_text(decided.body, "definition")),
            args=decided.payloads["args"],
            principal=started.on_behalf_of,
            agent=parse_subject_id(_text(started.body, "agent")),
        )
    except (KeyError, InvalidInputError) as exc:
        raise _tampered(decided, "lacks what an approval is for", exc) from exc


def vote_message(body: Mapping[str, Any]) -> bytes:
    """Write what a vote's signatures cover: its body without them, under a label of its own."""
    unsigned = {name: value for name, value in body.items() if name != "signatures"}
    return _VOTE_LABEL + b"\0" + payload_bytes(unsigned)


def fold_approval(records: Sequence[Record]) -> Approval:
    """Replay the `approval.*` records of one request, in order; records of other kinds are passed over.

    Raises TamperedError at the first record that the table of transitions does not allow, and when the
    last vote ended the request but nothing says so.
    """
    told = [record.entry for record in records if record.entry.kind in _STEPS]
    if not told:
        raise InvalidInputError("no records of an approval to read")
    entry = told[0]
    try:
        folding = _Folding(_requested(entry))
        for entry in told[1:]:
            folding = _next(folding, entry)
    except _CONTRADICTIONS as exc:
        raise _tampered(entry, "contradicts what came before it", exc) from exc
    if folding.owed is not None:
        raise _tampered(entry, f"is not followed by `{folding.owed}`")
    return folding.approval


def card_of(records: Sequence[Record], request: RequestId) -> Card:
    """Lay out what a person sees of `request`, from all records of its run.

    Only what was recorded before the request is shown, so that the card stays the same while it is
    open. Raises TamperedError when records contradict each other or payloads are missing, ErasedError
    when what it shows was erased.
    """
    try:
        asked = next(r.entry for r in records if _opens(r.entry, request))
    except StopIteration:
        raise InvalidInputError(f"run holds no approval request `{request}`") from None
    try:
        return _card(records, asked)
    except ErasedError:
        raise  # nothing contradicts anything: what there was to see is gone
    except (AttributeError, *_CONTRADICTIONS) as exc:
        raise _tampered(asked, "does not fit the decision it names", exc) from exc


@dataclass(frozen=True, slots=True)
class _Folding:
    """A fold under way: `owed` is the verdict entry that must come next, `votes` are their positions."""

    approval: Approval
    votes: tuple[int, ...] = ()
    owed: Kind | None = None


_STEPS: Final = frozenset(
    {
        Kind.APPROVAL_REQUESTED,
        Kind.APPROVAL_VOTED,
        Kind.APPROVAL_GRANTED,
        Kind.APPROVAL_REJECTED,
        Kind.APPROVAL_EXPIRED,
        Kind.APPROVAL_WITHDRAWN,
        Kind.APPROVAL_USED,
    }
)
_VERDICTS: Final[Mapping[State, Kind]] = {
    State.GRANTED: Kind.APPROVAL_GRANTED,
    State.REJECTED: Kind.APPROVAL_REJECTED,
}
_CONTRADICTIONS: Final = (
    ConflictError,
    RefusedError,
    InvalidInputError,
    KeyError,
    TypeError,
    ValueError,
)


def _requested(entry: Entry) -> Approval:
    if entry.kind is not Kind.APPROVAL_REQUESTED or entry.run is None:
        raise InvalidInputError(f"`{entry.kind}` opens no request")
    body = entry.body
    demands = Demands.from_json(body["demands"])
    decide_by = _count(body, "decide_by")
    # The writer's clock may be behind the log's, so the deadline may be earlier than demanded, never later.
    if decide_by > entry.ts + demands.decide_by_s * SECOND:
        raise InvalidInputError(f"`decide_by` {decide_by} is later than the demands allow")
    behalf = (entry.on_behalf_of,) if entry.on_behalf_of is not None else ()
    return Approval(
        request=parse_request_id(_text(body, "request")),
        run=entry.run,
        uid=CallUid(_text(body, "uid")),
        subject=parse_digest(_text(body, "subject")),
        requesters=frozenset({entry.actor, *behalf}),
        terms=Terms(
            seats=tuple(Seat(seat.role, seat.count) for seat in demands.quorum),
            use_by_s=demands.use_by_s,
            reauthenticate=demands.reauthenticate,
        ),
        requested_at=entry.ts,
        decide_by=Micros(decide_by),
    )


def _next(folding: _Folding, entry: Entry) -> _Folding:
    approval, body = folding.approval, entry.body
    if (body["request"], entry.run) != (approval.request, approval.run):
        raise InvalidInputError(f"`{str(body['request'])[:80]}` is another request")
    if folding.owed is not None or entry.kind in _VERDICTS.values():
        return _verdict(folding, entry)
    match entry.kind:
        case Kind.APPROVAL_VOTED:
            voted = step(approval, _vote(entry), entry.ts)
            return _Folding(voted, (*folding.votes, entry.seq), _VERDICTS.get(voted.state))
        case Kind.APPROVAL_EXPIRED:
            event: Expiry | Withdrawal | Use = Expiry(Deadline(_text(body, "clock")))
        case Kind.APPROVAL_WITHDRAWN:
            event = Withdrawal(_text(body, "reason"))
        case Kind.APPROVAL_USED:
            # What ran is the gate's to compare; a record of use names the call alone.
            event = Use(CallUid(_text(body, "uid")), approval.subject)
        case _:
            raise InvalidInputError(f"a second `{entry.kind}`")
    return replace(folding, approval=step(approval, event, entry.ts))


def _verdict(folding: _Folding, entry: Entry) -> _Folding:
    """Compare a recorded outcome with the one that the votes come to."""
    if entry.kind is not folding.owed:
        raise InvalidInputError(f"the votes come to `{folding.owed}`")
    if entry.body["votes"] != list(folding.votes):
        raise InvalidInputError(f"the votes stand at `{list(folding.votes)}`")
    use_by = folding.approval.use_by
    if entry.kind is Kind.APPROVAL_GRANTED and _count(entry.body, "use_by") != use_by:
        raise InvalidInputError(f"`use_by` should be {use_by}")
    return replace(folding, owed=None)


def _vote(entry: Entry) -> Vote:
    body = entry.body
    verdict = Verdict(_text(body, "verdict"))
    if body["voter"] != entry.actor:
        raise InvalidInputError(f"`{entry.actor}` recorded a vote of somebody else's")
    if _text(body, "meaning") not in MEANINGS[verdict]:
        raise InvalidInputError(f"`{verdict}` cannot mean `{body['meaning'][:80]}`")
    # A vote is cast, timed and recorded in one transaction, so its time is the entry's own and the head
    # it was signed over is the entry right before it.
    if _count(body, "at") != entry.ts:
        raise InvalidInputError(f"vote is dated `{body['at']}`, its entry `{entry.ts}`")
    if body["head"] != {"seq": entry.seq - 1, "hash": entry.prev.hex()}:
        raise InvalidInputError("vote was signed over another head")
    if not body["signatures"]:
        raise InvalidInputError("vote has no signature")
    parse_digest(_text(body, "card"))
    return Vote(entry.actor, _roles(body), verdict)


def _card(records: Sequence[Record], asked: Entry) -> Card:
    body, started = asked.body, records[0].entry
    before = [r for r in records if r.entry.seq < asked.seq]
    decided = {r.entry.seq: r for r in before if r.entry.kind is Kind.CALL_DECIDED}
    held = decided[_count(body, "decision")]
    first = decided[held.entry.body.get("first", held.entry.seq)]
    subject = subject_of(started, first.entry)
    agreed = (subject.uid, subject_digest(subject).hex()) == (body["uid"], body["subject"])
    if not agreed or held.entry.body["uid"] != subject.uid:
        raise InvalidInputError(f"it is for another call than `{subject.uid}`")
    own = [r for r in records if r.entry.body.get("request") == body["request"]]
    approval = fold_approval(own)
    return Card(
        request=approval.request,
        run=subject.run,
        agent=subject.agent,
        principal=subject.principal,
        call=_card_call(subject, first, held),
        hold=_card_hold(held),
        demands=body["demands"],
        requested_at=asked.ts,
        decide_by=approval.decide_by,
        asked=_user_texts(records[0]),
        earlier=_earlier(before, subject.uid),
        subject=approval.subject,
        votes=tuple(_card_vote(r) for r in own if r.entry.kind is Kind.APPROVAL_VOTED),
    )


def _card_call(subject: Subject, first: Record, held: Record) -> CardCall:
    first.content("args")  # compares the commitment; the text itself is shown as stored
    given: dict[str, Any] = held.content("input")
    run: dict[str, Any] = given.get("run", {})
    provenance: dict[str, JSON] = {
        "args_origin": given.get("args_origin", {}),
        "untrusted": run.get("untrusted", False),
        "untrusted_sources": run.get("untrusted_sources", []),
        "rejected": run.get("rejected", 0),
    }
    return CardCall(
        uid=subject.uid,
        tool=subject.tool,
        definition=subject.definition.hex(),
        arguments=first.payloads["args"].content.decode(),
        risk=given["tool"],
        provenance=provenance,
    )


def _card_hold(held: Record) -> CardHold:
    body = held.entry.body
    return CardHold(
        decision=held.entry.seq,
        policy=_text(body, "policy"),
        tier=_text(body, "tier"),
        rules=tuple(body["rules"]),
        reasons=tuple(body["reasons"]),
        errors=tuple((rule, kind) for rule, kind in body.get("errors", ())),
        message=held.content("message") if "message" in held.entry.payloads else None,
    )


def _card_vote(record: Record) -> CardVote:
    entry = record.entry
    return CardVote(
        voter=entry.actor,
        roles=tuple(sorted(_roles(entry.body))),
        verdict=Verdict(_text(entry.body, "verdict")),
        meaning=_text(entry.body, "meaning"),
        at=entry.ts,
        note=_note(record),
    )


def _note(record: Record) -> str | None:
    if "note" in record.erased:
        return "(erased)"
    return record.content("note") if "note" in record.entry.payloads else None


def _user_texts(started: Record) -> tuple[str, ...]:
    messages = started.content("input")["messages"]
    return tuple(str(m["content"]) for m in messages if m["role"] == "user")


def _earlier(before: Sequence[Record], uid: CallUid) -> tuple[EarlierCall, ...]:
    """Tell what has become of the run's other calls, in the order they were first decided."""
    calls: dict[str, EarlierCall] = {}
    asked: dict[str, str] = {}
    for entry in (record.entry for record in before):
        body = entry.body
        about = str(body.get("uid") or asked.get(str(body.get("request"))))
        if entry.kind is Kind.APPROVAL_REQUESTED:
            asked[body["request"]] = about
        if entry.kind is Kind.CALL_DECIDED:
            tool, effect = _text(body, "tool"), _text(body, "effect")
            calls[about] = EarlierCall(about, tool, effect, entry.kind.value)
        elif about in calls:
            calls[about] = replace(calls[about], status=entry.kind.value)
    return tuple(call for call in calls.values() if call.uid != uid)


def _opens(entry: Entry, request: RequestId) -> bool:
    return entry.kind is Kind.APPROVAL_REQUESTED and entry.body.get("request") == request


def _roles(body: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(str(role) for role in body["roles"])


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body[name]
    if type(value) is not str:
        raise InvalidInputError(f"field `{name}` is not text")
    return value


def _count(body: Mapping[str, Any], name: str) -> int:
    value = body[name]
    if type(value) is not int or value < 0:
        raise InvalidInputError(f"field `{name}` is not a count")
    return value


def _tampered(entry: Entry, what: str, cause: Exception | None = None) -> TamperedError:
    why = cause.message if isinstance(cause, GovernanceError) else repr(cause)
    message = f"entry `{entry.seq}` (`{entry.kind}`) {what}" + (f": {why}" if cause else "")
    return TamperedError(message, seq=entry.seq, hint=_LOOK)
