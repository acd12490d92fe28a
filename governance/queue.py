"""What can a person do about calls that wait for one? Each use case is one function, one transaction.

Every moment is the log's: the clock's, or the last entry's where the clock is behind it. So a vote is
dated as its entry is, and a clock set back reopens nothing.

What is not here: how long a voter had the card before them. The server hands out a card without
recording it, so a vote faster than a person can read cannot be told from here.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from governance.approval.card import Card
from governance.approval.model import (
    MEANINGS,
    AnswerRefusedError,
    Approval,
    Expiry,
    Refusal,
    Seat,
    State,
    Verdict,
    Vote,
    read_verdict,
)
from governance.approval.quorum import filled
from governance.approval.transitions import overdue, state_at, step
from governance.canonical import JSON
from governance.errors import ConflictError, InvalidInputError, TamperedError
from governance.ids import CallUid, Digest, Micros, RequestId, RunId, SubjectId
from governance.lawful.approvals import fold_approval, vote_message
from governance.lawful.cards import card_of
from governance.ledger.entry import Draft, Kind, Record
from governance.ports import Clock, Person, Reader, Signer, Store, Transaction

__all__ = [
    "NOBODY",
    "NOTE_CHARS_MAX",
    "QUEUE",
    "Ballot",
    "Pending",
    "card",
    "cast_vote",
    "expire",
    "granted",
    "pending",
    "vote",
]

NOTE_CHARS_MAX: Final = 4_000
QUEUE: Final = SubjectId("system:queue")
"""Who records that a clock has run out."""
NOBODY: Final = SubjectId("user:unknown")
"""Who is recorded for an answer by a subject the queue does not know: their text is not ours to keep."""


@dataclass(frozen=True, slots=True)
class Ballot:
    """One person's answer to one request, naming by digest the card they were shown."""

    request: RequestId
    voter: SubjectId
    verdict: Verdict
    meaning: str
    note: str | None
    card: Digest

    def __post_init__(self) -> None:
        meanings = MEANINGS[read_verdict(self.verdict)]
        if self.meaning not in meanings:
            raise InvalidInputError(
                f"`{self.verdict}` cannot mean `{self.meaning[:80]}`",
                hint=f"use one of: {', '.join(sorted(meanings))}",
            )
        if self.note is not None and len(self.note) > NOTE_CHARS_MAX:
            raise InvalidInputError(
                f"note of `{len(self.note)}` characters exceeds {NOTE_CHARS_MAX}",
                hint="say it shorter",
            )


@dataclass(frozen=True, slots=True)
class Pending:
    """One line of the queue. `seats` pairs each seat with how many people fill it so far."""

    request: RequestId
    run: RunId
    uid: CallUid
    tool: str
    agent: SubjectId
    principal: SubjectId | None
    tier: str
    rules: tuple[str, ...]
    seats: tuple[tuple[Seat, int], ...]
    requested_at: Micros
    decide_by: Micros
    use_by: Micros | None


def pending(store: Store, now: Micros) -> tuple[Pending, ...]:
    """List the requests that can be answered at `now`, oldest first."""
    return store.read(lambda reader: _list(reader, State.PENDING, now))


def granted(store: Store, now: Micros) -> tuple[Pending, ...]:
    """List the requests that were granted, can still be used at `now`, and were not, oldest first."""
    return store.read(lambda reader: _list(reader, State.GRANTED, now))


def card(store: Store, request: RequestId) -> Card:
    """Lay out what an approver sees. Raises AnswerRefusedError for an unknown request."""

    def work(reader: Reader) -> Card:
        return card_of(reader.run_records(_run_of(reader, request)), request)

    return store.read(work)


def vote(store: Store, clock: Clock, signer: Signer, ballot: Ballot) -> Approval:
    """Cast `ballot`, and record the outcome if it decides the request.

    Raises ConflictError when the request was decided before, the person has voted or the card is not the
    one they saw; AnswerRefusedError, after recording the attempt, when the person may not answer.
    """
    now = clock()

    def work(tx: Transaction) -> Approval:
        # Rights are read in this transaction: a role removed a moment ago is gone.
        return cast_vote(tx, signer, ballot, _voter(tx, ballot.voter), now)

    try:
        return store.write(work)
    except AnswerRefusedError as exc:
        reason = exc.reason
        # A transaction of its own: the refused one kept nothing. If this fails the caller hears of that
        # instead; either way no vote was counted.
        store.write(lambda tx: _record_refusal(tx, ballot, reason, now))
        raise


def cast_vote(
    tx: Transaction, signer: Signer, ballot: Ballot, person: Person, at: Micros
) -> Approval:
    """Cast `ballot` for `person` inside a transaction of the caller's, who vouches for their rights.

    Raises as `vote` does, having appended nothing; recording a refusal is the caller's too.
    """
    if person.subject != ballot.voter:
        raise InvalidInputError(f"`{person.subject}` cannot cast the vote of `{ballot.voter}`")
    moment = _moment(tx, at)
    # (1) What is asked, as of this transaction.
    records = tx.run_records(_run_of(tx, ballot.request))
    approval = fold_approval(_of_request(records, ballot.request))
    # (2) The card they saw is the card there is.
    shown = card_of(records, ballot.request)
    if shown.digest != ballot.card:
        raise ConflictError(
            f"the card of `{ballot.request}` is not the one the vote names", hint="look again"
        )
    # (3) May they, and what does it come to? Nothing has been written so far.
    approval = _with_requesters(approval, shown, person)
    new = step(approval, Vote(person.subject, person.roles, ballot.verdict), moment)
    # (4) The vote and the outcome it brings about are one commit.
    _append_vote(tx, signer, ballot, new, moment)
    _append_verdict(tx, new, moment)
    return new


def expire(store: Store, clock: Clock) -> int:
    """Record what has run out, and count it. Nothing depends on this having run."""
    now = clock()
    if not store.read(lambda reader: _overdue(reader, _moment(reader, now))):
        return 0  # the usual answer of a sweep costs no commit

    def work(tx: Transaction) -> int:
        moment = _moment(tx, now)
        found = _overdue(tx, moment)
        for approval, event in found:
            step(approval, event, moment)
            body: dict[str, JSON] = {"request": approval.request, "clock": event.deadline.value}
            tx.append(Draft(Kind.APPROVAL_EXPIRED, QUEUE, body, run=approval.run), moment)
        return len(found)

    return store.write(work)


def _list(reader: Reader, state: State, now: Micros) -> tuple[Pending, ...]:
    approvals = (
        fold_approval(reader.about(run, request)) for run, request in reader.open_requests()
    )
    return tuple(_line(reader, a) for a in approvals if state_at(a, now) is state)


def _line(reader: Reader, approval: Approval) -> Pending:
    records = reader.about(approval.run, approval.uid)
    asked = next(r.entry for r in records if r.entry.body.get("request") == approval.request)
    decided = next((r.entry for r in records if r.entry.seq == asked.body["decision"]), None)
    if decided is None or decided.kind is not Kind.CALL_DECIDED:
        raise TamperedError(
            f"approval `{approval.request}` names no decision about `{approval.uid}`",
            seq=asked.seq,
            hint="export a bundle and run `governance verify` on it",
        )
    return Pending(
        request=approval.request,
        run=approval.run,
        uid=approval.uid,
        tool=decided.body["tool"],
        agent=asked.actor,
        principal=asked.on_behalf_of,
        tier=decided.body["tier"],
        rules=tuple(decided.body["rules"]),
        seats=tuple(
            zip(approval.terms.seats, filled(approval.terms.seats, approval.votes), strict=True)
        ),
        requested_at=approval.requested_at,
        decide_by=approval.decide_by,
        use_by=approval.use_by,
    )


def _append_vote(
    tx: Transaction, signer: Signer, ballot: Ballot, approval: Approval, moment: Micros
) -> None:
    """Record the last vote of `approval`, signed over the head of the log before it."""
    cast, head = approval.votes[-1], tx.head()
    body: dict[str, JSON] = {
        "request": approval.request,
        "voter": cast.voter,
        "roles": sorted(cast.roles),
        "verdict": cast.verdict.value,
        "meaning": ballot.meaning,
        "at": moment,
        "card": ballot.card.hex(),
        "head": {"seq": head.size - 1, "hash": head.last.hex()},
    }
    signature = signer.sign(vote_message(body)).hex()
    body["signatures"] = [{"key": signer.verifier_key, "signature": signature}]
    note: dict[str, JSON] = {} if ballot.note is None else {"note": ballot.note}
    tx.append(Draft(Kind.APPROVAL_VOTED, cast.voter, body, note, approval.run), moment)


def _append_verdict(tx: Transaction, approval: Approval, moment: Micros) -> None:
    votes = [
        record.entry.seq
        for record in tx.about(approval.run, approval.request)
        if record.entry.kind is Kind.APPROVAL_VOTED
    ]
    body: dict[str, JSON] = {"request": approval.request, "votes": list(votes)}
    if approval.state is State.GRANTED:
        kind = Kind.APPROVAL_GRANTED
        body["use_by"] = approval.use_by
    elif approval.state is State.REJECTED:
        kind = Kind.APPROVAL_REJECTED
    else:
        return
    tx.append(Draft(kind, approval.votes[-1].voter, body, run=approval.run), moment)


def _record_refusal(tx: Transaction, ballot: Ballot, reason: Refusal, at: Micros) -> Record:
    # Not part of the run's own chain: somebody without rights must not be able to lengthen it.
    known = tx.people.by_subject(ballot.voter)
    body: dict[str, JSON] = {"what": "vote", "request": ballot.request, "reason": reason.value}
    actor = known.subject if known is not None else NOBODY
    return tx.append(Draft(Kind.ACCESS_REFUSED, actor, body), at)


def _voter(reader: Reader, subject: SubjectId) -> Person:
    person = reader.people.by_subject(subject)
    if person is None:
        raise AnswerRefusedError(
            f"nobody is known as `{subject[:80]}`",
            Refusal.UNKNOWN_PERSON,
            hint="add the person first",
        )
    if not person.active:
        raise AnswerRefusedError(
            f"`{subject}` is no longer active",
            Refusal.INACTIVE,
            hint="let somebody else decide",
        )
    return person


def _with_requesters(approval: Approval, shown: Card, person: Person) -> Approval:
    """Count among the requesters all that the run names, and a principal written by a person's name."""
    named = {shown.agent} if shown.principal is None else {shown.agent, shown.principal}
    name = unicodedata.normalize("NFKC", person.name).casefold()
    if any(subject.rpartition(":")[2].casefold() == name for subject in named):
        named.add(person.subject)
    return replace(approval, requesters=approval.requesters | named)


def _overdue(reader: Reader, moment: Micros) -> Sequence[tuple[Approval, Expiry]]:
    found: list[tuple[Approval, Expiry]] = []
    for run, request in reader.open_requests():
        approval = fold_approval(reader.about(run, request))
        deadline = overdue(approval, moment)
        if deadline is not None:
            found.append((approval, Expiry(deadline)))
    return found


def _of_request(records: Sequence[Record], request: RequestId) -> Sequence[Record]:
    return [record for record in records if record.entry.body.get("request") == request]


def _run_of(reader: Reader, request: RequestId) -> RunId:
    run = reader.find_request(request)
    if run is None:
        raise AnswerRefusedError(
            f"no approval request is called `{request[:80]}`",
            Refusal.UNKNOWN_REQUEST,
            hint="list the open ones",
        )
    return run


def _moment(reader: Reader, now: Micros) -> Micros:
    """Read the log's time: `now`, or the last entry's where the clock is behind it."""
    return max(now, reader.head().ts)
