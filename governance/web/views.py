"""What does a page show of the queue and of one request? Reads the store, decides nothing.

The rules about who may answer are the queue's. A page asks them beforehand only to spare people a form
that would be refused; every vote is judged again when it is cast.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from governance.approval.card import Card
from governance.approval.model import Approval, Seat, State, Verdict, Vote
from governance.approval.quorum import filled
from governance.approval.transitions import state_at, step
from governance.canonical import parse_json
from governance.errors import ConflictError, GovernanceError, RefusedError
from governance.ids import Micros, RequestId, SubjectId
from governance.lawful.approvals import fold_approval
from governance.lawful.cards import card_of
from governance.ledger.entry import Kind
from governance.ports import Person, Reader, Store
from governance.queue import Pending, granted, pending
from governance.web.arguments import Leaf, bounded, exact, leaves, must_read_all
from governance.web.reveal import Mark, Segment
from governance.web.wording import and_list, plural

__all__ = [
    "LINES_MAX",
    "CardView",
    "Line",
    "Queue",
    "SeatView",
    "UnknownRequestError",
    "View",
    "find_card",
    "list_queue",
    "look",
    "told",
]

LINES_MAX: Final = 200
"""How many requests one page lists; the oldest come first, so nothing is hidden for good."""


class UnknownRequestError(RefusedError):
    """No such request. Whether it never was or is not yours, the answer is the same."""

    http_status = 404


@dataclass(frozen=True, slots=True)
class SeatView:
    """A seat of the quorum: how many people it takes, and how many have taken it."""

    role: str
    count: int
    filled: int

    @property
    def open(self) -> int:
        return self.count - self.filled


@dataclass(frozen=True, slots=True)
class Line:
    """One request in a list. `by` names those who approved."""

    item: Pending
    message: str | None
    seats: tuple[SeatView, ...]
    by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Queue:
    pending: tuple[Line, ...]
    granted: tuple[Line, ...]
    total: int


@dataclass(frozen=True, slots=True)
class View:
    """One request as `person` may answer it. `obstacles` says for each verdict why not."""

    card: Card
    approval: Approval
    state: State
    seats: tuple[SeatView, ...]
    names: Mapping[SubjectId, str]
    obstacles: Mapping[Verdict, GovernanceError]


@dataclass(frozen=True, slots=True)
class CardView:
    """The arguments of a card as laid out. `oddities` counts what is marked, in words."""

    leaves: tuple[Leaf, ...]
    exact: tuple[Segment, ...]
    size: int
    must_read: bool
    oddities: str
    risk: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, card: Card) -> "CardView":
        arguments = parse_json(card.call.arguments)
        size, spelled = len(card.call.arguments.encode()), exact(arguments)
        return cls(
            leaves=leaves(arguments, _origins(card)),
            exact=bounded([spelled])[0],
            size=size,
            must_read=must_read_all(size, spelled),
            oddities=_oddities(spelled),
            risk=_risk(card),
        )


def list_queue(store: Store, now: Micros) -> Queue:
    """Read both lists, oldest first."""
    waiting, approved = pending(store, now), granted(store, now)
    shown = (waiting[:LINES_MAX], approved[:LINES_MAX])
    lines = store.read(lambda reader: [[_line(reader, item) for item in part] for part in shown])
    return Queue(tuple(lines[0]), tuple(lines[1]), total=len(waiting))


def find_card(store: Store, request: RequestId) -> Card:
    """Read a card. Raises UnknownRequestError."""
    return store.read(lambda reader: _card(reader, request))


def look(store: Store, request: RequestId, person: Person, now: Micros) -> View:
    """Read everything the page of one request shows, all of one moment. Raises UnknownRequestError."""

    def work(reader: Reader) -> View:
        card = _card(reader, request)
        approval = fold_approval(reader.about(card.run, request))
        return View(
            card=card,
            approval=approval,
            state=state_at(approval, now),
            seats=_seats(approval),
            names={vote.voter: _name(reader, vote.voter) for vote in approval.votes},
            obstacles=_obstacles(approval, person, now),
        )

    return store.read(work)


def told(view: View, person: Person) -> str:
    """Say what became of this person's own vote, from the record; empty where there is none."""
    mine = next((vote for vote in view.card.votes if vote.voter == person.subject), None)
    if mine is None:
        return ""
    tool = view.card.call.tool
    if mine.verdict is Verdict.REJECT:
        return f"You rejected `{tool}`. The agent reads your reason and goes on without it."
    missing = [f"{seat.open} of {seat.role}" for seat in view.seats if seat.open]
    if view.state is State.PENDING and missing:
        return f"You approved `{tool}`. It still needs {and_list(missing)}."
    return f"You approved `{tool}`. The approval is complete; a worker may now run the call, once."


def _card(reader: Reader, request: RequestId) -> Card:
    run = reader.find_request(request)
    if run is None:
        raise UnknownRequestError(
            f"no approval request is called `{request}`", hint="look for it in the queue"
        )
    return card_of(reader.run_records(run), request)


def _line(reader: Reader, item: Pending) -> Line:
    decided = [
        record
        for record in reader.about(item.run, item.uid)
        if record.entry.kind is Kind.CALL_DECIDED and "message" in record.entry.payloads
    ]
    approval = fold_approval(reader.about(item.run, item.request))
    return Line(
        item=item,
        message=str(decided[-1].content("message")) if decided else None,
        seats=tuple(SeatView(seat.role, seat.count, taken) for seat, taken in item.seats),
        by=tuple(_name(reader, voter) for voter in approval.deciders),
    )


def _seats(approval: Approval) -> tuple[SeatView, ...]:
    seats: Sequence[Seat] = approval.terms.seats
    taken = filled(seats, approval.votes)
    return tuple(SeatView(s.role, s.count, n) for s, n in zip(seats, taken, strict=True))


def _obstacles(approval: Approval, person: Person, now: Micros) -> dict[Verdict, GovernanceError]:
    found: dict[Verdict, GovernanceError] = {}
    for verdict in Verdict:
        try:
            step(approval, Vote(person.subject, person.roles, verdict), now)
        except (ConflictError, RefusedError) as exc:
            found[verdict] = exc
    return found


def _name(reader: Reader, subject: SubjectId) -> str:
    person = reader.people.by_subject(subject)
    return person.name if person is not None else subject


def _origins(card: Card) -> Mapping[str, str]:
    given: Any = card.call.provenance.get("args_origin")
    return {str(k): str(v) for k, v in given.items()} if isinstance(given, Mapping) else {}


_RISK_WORDS: Final = {
    "verb": "verb",
    "declared_tier": "declared tier",
    "side_effect": "side effect",
    "reversibility": "reversibility",
    "blast_radius": "blast radius",
    "cost_class": "cost",
    "scopes": "scopes",
    "idempotent": "idempotent",
    "untrusted_output": "output untrusted",
    "profiled": "profiled",
}


def _risk(card: Card) -> tuple[tuple[str, str], ...]:
    facts = [
        (words, _say(card.call.risk[name]))
        for name, words in _RISK_WORDS.items()
        if card.call.risk.get(name) not in (None, "", [])
    ]
    provenance = card.call.provenance
    if provenance.get("untrusted"):
        sources = _say(provenance.get("untrusted_sources")) or "unnamed"
        facts.append(("run read untrusted content", sources))
    if provenance.get("rejected"):
        facts.append(("same call rejected before", f"{_say(provenance['rejected'])} times"))
    return tuple(facts)


def _say(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(map(str, value))
        case None:
            return ""
        case _:
            return str(value)


_ODDITY_WORDS: Final = {
    Mark.CONTROL: ("control character", "control characters"),
    Mark.BIDI: ("change of direction", "changes of direction"),
    Mark.INVISIBLE: ("invisible place", "invisible places"),
    Mark.TAG: ("hidden text", "hidden texts"),
    Mark.SPACE: ("odd space", "odd spaces"),
    Mark.LOOKALIKE: ("look-alike", "look-alikes"),
    Mark.STACKED: ("stacked mark", "stacked marks"),
    Mark.UNKNOWN: ("unassigned character", "unassigned characters"),
}


def _oddities(parts: Sequence[Segment]) -> str:
    counts = Counter(part.mark for part in parts if part.mark is not None and part.deceptive)
    return and_list([plural(counts[m], *words) for m, words in _ODDITY_WORDS.items() if counts[m]])
