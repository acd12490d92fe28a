"""What do the records say of one approval? Its state and its subject.

Everything here is derived from records and from nothing else, so that the queue, the gate and an
auditor without a server reach the same answer. The shapes are those of docs/entries.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

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
from governance.canonical import digest, payload_bytes
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
    RunId,
    SubjectId,
    parse_digest,
    parse_request_id,
    parse_subject_id,
)
from governance.ledger.entry import Entry, Kind, Record
from governance.policy.model import Demands

__all__ = [
    "CONTRADICTIONS",
    "Subject",
    "count_of",
    "fold_approval",
    "roles_of",
    "subject_digest",
    "subject_of",
    "tampered",
    "text_of",
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
            uid=CallUid(text_of(decided.body, "uid")),
            tool=text_of(decided.body, "tool"),
            definition=parse_digest(text_of(decided.body, "definition")),
            args=decided.payloads["args"],
            principal=started.on_behalf_of,
            agent=parse_subject_id(text_of(started.body, "agent")),
        )
    except (KeyError, InvalidInputError) as exc:
        raise tampered(decided, "lacks what an approval is for", exc) from exc


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
    except CONTRADICTIONS as exc:
        raise tampered(entry, "contradicts what came before it", exc) from exc
    if folding.owed is not None:
        raise tampered(entry, f"is not followed by `{folding.owed}`")
    return folding.approval


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
CONTRADICTIONS: Final = (
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
    decide_by = count_of(body, "decide_by")
    # The writer's clock may be behind the log's, so the deadline may be earlier than demanded, never later.
    if decide_by > entry.ts + demands.decide_by_s * SECOND:
        raise InvalidInputError(f"`decide_by` {decide_by} is later than the demands allow")
    behalf = (entry.on_behalf_of,) if entry.on_behalf_of is not None else ()
    return Approval(
        request=parse_request_id(text_of(body, "request")),
        run=entry.run,
        uid=CallUid(text_of(body, "uid")),
        subject=parse_digest(text_of(body, "subject")),
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
            event: Expiry | Withdrawal | Use = Expiry(Deadline(text_of(body, "clock")))
        case Kind.APPROVAL_WITHDRAWN:
            event = Withdrawal(text_of(body, "reason"))
        case Kind.APPROVAL_USED:
            # What ran is the gate's to compare; a record of use names the call alone.
            event = Use(CallUid(text_of(body, "uid")), approval.subject)
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
    if entry.kind is Kind.APPROVAL_GRANTED and count_of(entry.body, "use_by") != use_by:
        raise InvalidInputError(f"`use_by` should be {use_by}")
    return replace(folding, owed=None)


def _vote(entry: Entry) -> Vote:
    body = entry.body
    verdict = Verdict(text_of(body, "verdict"))
    if body["voter"] != entry.actor:
        raise InvalidInputError(f"`{entry.actor}` recorded a vote of somebody else's")
    if text_of(body, "meaning") not in MEANINGS[verdict]:
        raise InvalidInputError(f"`{verdict}` cannot mean `{body['meaning'][:80]}`")
    # A vote is cast, timed and recorded in one transaction, so its time is the entry's own and the head
    # it was signed over is the entry right before it.
    if count_of(body, "at") != entry.ts:
        raise InvalidInputError(f"vote is dated `{body['at']}`, its entry `{entry.ts}`")
    if body["head"] != {"seq": entry.seq - 1, "hash": entry.prev.hex()}:
        raise InvalidInputError("vote was signed over another head")
    if not body["signatures"]:
        raise InvalidInputError("vote has no signature")
    parse_digest(text_of(body, "card"))
    return Vote(entry.actor, roles_of(body), verdict)


def roles_of(body: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(str(role) for role in body["roles"])


def text_of(body: Mapping[str, Any], name: str) -> str:
    value = body[name]
    if type(value) is not str:
        raise InvalidInputError(f"field `{name}` is not text")
    return value


def count_of(body: Mapping[str, Any], name: str) -> int:
    value = body[name]
    if type(value) is not int or value < 0:
        raise InvalidInputError(f"field `{name}` is not a count")
    return value


def tampered(entry: Entry, what: str, cause: Exception | None = None) -> TamperedError:
    why = cause.message if isinstance(cause, GovernanceError) else repr(cause)
    message = f"entry `{entry.seq}` (`{entry.kind}`) {what}" + (f": {why}" if cause else "")
    return TamperedError(message, seq=entry.seq, hint=_LOOK)
