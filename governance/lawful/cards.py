"""What did a person see of a request before they voted? The card, laid out from the records of its run."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from governance.approval.card import (
    Card,
    CardCall,
    CardClause,
    CardHold,
    CardVote,
    EarlierCall,
)
from governance.approval.model import Verdict
from governance.canonical import JSON
from governance.errors import InvalidInputError
from governance.ids import CallUid, RequestId
from governance.lawful.approvals import (
    CONTRADICTIONS,
    Subject,
    count_of,
    fold_approval,
    roles_of,
    subject_digest,
    subject_of,
    tampered,
    text_of,
)
from governance.ledger.entry import Entry, ErasedError, Kind, Record

__all__ = ["card_of"]


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
    except (AttributeError, *CONTRADICTIONS) as exc:
        raise tampered(asked, "does not fit the decision it names", exc) from exc


def _card(records: Sequence[Record], asked: Entry) -> Card:
    body, started = asked.body, records[0].entry
    before = [r for r in records if r.entry.seq < asked.seq]
    decided = {r.entry.seq: r for r in before if r.entry.kind is Kind.CALL_DECIDED}
    held = decided[count_of(body, "decision")]
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
        policy=text_of(body, "policy"),
        tier=text_of(body, "tier"),
        rules=tuple(body["rules"]),
        reasons=tuple(body["reasons"]),
        errors=tuple((rule, kind) for rule, kind in body.get("errors", ())),
        message=held.content("message") if "message" in held.entry.payloads else None,
        clauses=_clauses(held),
    )


def _clauses(held: Record) -> tuple[CardClause, ...]:
    """What the clauses of the rules that held the call came to when policy decided."""
    if "working" not in held.entry.payloads:
        return ()
    asked = held.content("working")["clauses"]
    return tuple(
        CardClause(rule, text, value)
        for rule in held.entry.body["rules"]
        for text, value in asked.get(rule, ())
    )


def _card_vote(record: Record) -> CardVote:
    entry = record.entry
    return CardVote(
        voter=entry.actor,
        roles=tuple(sorted(roles_of(entry.body))),
        verdict=Verdict(text_of(entry.body, "verdict")),
        meaning=text_of(entry.body, "meaning"),
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
            tool, effect = text_of(body, "tool"), text_of(body, "effect")
            calls[about] = EarlierCall(about, tool, effect, entry.kind.value)
        elif about in calls:
            calls[about] = replace(calls[about], status=entry.kind.value)
    return tuple(call for call in calls.values() if call.uid != uid)


def _opens(entry: Entry, request: RequestId) -> bool:
    return entry.kind is Kind.APPROVAL_REQUESTED and entry.body.get("request") == request
