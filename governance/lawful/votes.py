"""Were the right people asked, about the right call? And did those who answered have the right to.

An approval is followed with the table of `governance.approval`. Beyond it a vote's card is laid out
again and its signature verified with a key that the log names. Whether such a key deserves trust is for
the verifier's pins to say. A principal who is also known to the queue by another subject id cannot be
told from here: people's names are not in the log.
"""

from collections.abc import Mapping
from typing import Any, Final

from governance.approval.model import person_key
from governance.errors import GovernanceError, TamperedError
from governance.ids import Digest, RequestId
from governance.lawful.approvals import fold_approval, subject_digest, subject_of, vote_message
from governance.lawful.books import Books
from governance.lawful.cards import card_of
from governance.lawful.case import Asked, Call, Case, Phase
from governance.lawful.report import Collector, Fault
from governance.ledger.entry import Entry, Kind, Record
from governance.policy.model import Demands

__all__ = ["APPROVAL_KINDS", "take_approval", "take_unfinished"]

APPROVAL_KINDS: Final = frozenset(kind for kind in Kind if kind.startswith("approval."))
_CLOSINGS: Final = frozenset(
    {Kind.APPROVAL_REJECTED, Kind.APPROVAL_EXPIRED, Kind.APPROVAL_WITHDRAWN}
)


def take_approval(case: Case, record: Record, books: Books) -> None:
    """Judge an `approval.*` record, and move its request and call by it."""
    entry, found = record.entry, books.found
    if entry.kind is Kind.APPROVAL_REQUESTED:
        _take_request(case, record, books)
        return
    if entry.kind is Kind.APPROVAL_VOTED:
        found.votes += 1
    request = str(entry.body["request"])
    asked = case.asked.get(request)
    if asked is None:
        message = f"no request `{request[:80]}` was made in this run"
        found.add(Fault.APPROVAL_UNLAWFUL, entry, message)
        return
    if entry.kind is Kind.APPROVAL_VOTED and not _judge_vote(case, asked, entry, books):
        return
    if _fold(asked, record, found):
        _move(case, asked, entry)


def take_unfinished(case: Case, found: Collector) -> None:
    """Report requests that a vote decided without an entry that says so."""
    for asked in case.asked.values():
        if asked.owed is not None:
            message = "the vote decides its request, and no entry says so"
            found.add(Fault.APPROVAL_UNLAWFUL, asked.owed, message)


def _take_request(case: Case, record: Record, books: Books) -> None:
    entry, found = record.entry, books.found
    body = entry.body
    request, call = str(body["request"]), case.calls.get(str(body["uid"]))
    try:
        approval = fold_approval([record])
        demands = Demands.from_json(body["demands"])
    except GovernanceError as exc:
        found.add(Fault.REQUEST_UNFOUNDED, entry, exc.message)
        return
    if request in case.asked:
        message = f"approval `{request}` was requested before"
        found.add(Fault.REQUEST_UNFOUNDED, entry, message)
        return
    asked = Asked(approval.uid, demands, approval, None, [record])
    case.asked[request] = asked
    misfit = _misfit(case, call, entry)
    if misfit is not None:
        fault, message = misfit
        found.add(fault, entry, message)
    elif call is not None:
        call.request = request
        asked.card = _card(case, call, record, books)


def _misfit(case: Case, call: Call | None, entry: Entry) -> tuple[Fault, str] | None:
    """Say how a request does not fit the held call that it names."""
    body = entry.body
    uid = str(body["uid"])[:160]
    held = call is not None and call.phase is Phase.HELD and call.request is None
    if call is None or not held or call.decision is None or call.first is None:
        return Fault.REQUEST_UNFOUNDED, f"call `{uid}` needs no approval now"
    if body["decision"] != call.decision.seq:
        message = f"request names decision {body['decision']}, and {call.decision.seq} governs"
        return Fault.REQUEST_UNFOUNDED, message
    behalf = case.started.entry.on_behalf_of
    if (entry.actor, entry.on_behalf_of) != (case.agent, behalf):
        return Fault.REQUEST_UNFOUNDED, "request is made in another name than the run's"
    if body["demands"] != call.decision.body.get("demands"):
        message = f"request takes other demands than decision {call.decision.seq}"
        return Fault.DEMANDS_LOWERED, message
    subject = subject_digest(subject_of(case.started.entry, call.first.entry))
    if body["subject"] != subject.hex():
        return Fault.SUBJECT_DIFFERS, f"request is for something else than call `{uid}`"
    return None


def _card(case: Case, call: Call, record: Record, books: Books) -> Digest | None:
    """Lay the card out again, from what had been recorded when the request was made."""
    held = next(r for r in reversed(case.history) if r.entry is call.decision)
    needed = [(case.started, "input"), (held, "input")]
    if call.first is not None:
        needed.append((call.first, "args"))
    if "message" in held.entry.payloads:
        needed.append((held, "message"))
    if books.absences.lack(record.entry, *needed):
        books.found.skipped += 1
        return None
    request = RequestId(str(record.entry.body["request"]))
    return card_of([*case.history, record], request).digest


def _judge_vote(case: Case, asked: Asked, entry: Entry, books: Books) -> bool:
    """Judge what the table does not; False for a vote that cannot count at all."""
    body, found = entry.body, books.found
    principal = case.started.entry.on_behalf_of
    named = {person_key(who) for who in (case.agent, principal) if who is not None}
    if person_key(entry.actor) in named:
        message = f"`{entry.actor}` acts in this run, and cannot approve in it"
        found.add(Fault.VOTE_UNLAWFUL, entry, message)
        return False
    if asked.card is not None and body["card"] != asked.card.hex():
        message = "vote names another card than the one its request lays out"
        found.add(Fault.CARD_DIFFERS, entry, message)
    if not _signed(body, books):
        message = f"no key of this log signed the vote of `{entry.actor}`"
        found.add(Fault.SIGNATURE_WRONG, entry, message)
    return True


def _signed(body: Mapping[str, Any], books: Books) -> bool:
    """Tell whether a key of the log signed, and none of its keys wrongly. Others' signatures pass."""
    text = vote_message(body).decode()
    verified = [
        books.keys[one["key"]].verifies(text, _raw(one["signature"]))
        for one in body["signatures"]
        if one["key"] in books.keys
    ]
    return bool(verified) and all(verified)


def _raw(signature: str) -> bytes:
    try:
        return bytes.fromhex(signature)
    except ValueError:
        return b""


def _fold(asked: Asked, record: Record, found: Collector) -> bool:
    """Follow the table of transitions; what contradicts it is reported and does not count."""
    records = [*asked.records, record]
    try:
        asked.approval = fold_approval(records)
        asked.owed = None
    except TamperedError as exc:
        # Without a cause it says only that the outcome of this vote is still to come.
        if exc.__cause__ is not None:
            voted = record.entry.kind is Kind.APPROVAL_VOTED
            fault = Fault.VOTE_UNLAWFUL if voted else Fault.APPROVAL_UNLAWFUL
            found.add(fault, record.entry, exc.message)
            asked.owed = None  # said here; saying it again of the vote would add nothing
            return False
        asked.owed = record.entry
    asked.records = records
    return True


def _move(case: Case, asked: Asked, entry: Entry) -> None:
    """Move the call that an outcome is about, if it still waits for it."""
    call = case.calls.get(asked.uid)
    waits = call is not None and call.phase in {Phase.HELD, Phase.ALLOWED}
    if call is None or not waits or call.request != entry.body["request"]:
        return
    if entry.kind is Kind.APPROVAL_GRANTED:
        call.phase = Phase.ALLOWED
    elif entry.body.get("reason") == "superseded":
        call.phase, call.request = Phase.HELD, None
    elif entry.kind in _CLOSINGS:
        if entry.kind is Kind.APPROVAL_REJECTED:
            case.reject(call)
        call.refuse()
