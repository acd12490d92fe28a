"""What approvers, and people who would like to be, can do with a held call over a real store."""

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from governance.approval.card import Card
from governance.approval.model import AnswerRefusedError, Refusal, State, Use, Verdict
from governance.approval.transitions import step
from governance.errors import (
    ConflictError,
    InvalidInputError,
    RefusedError,
    TamperedError,
)
from governance.ids import (
    CallUid,
    Digest,
    Micros,
    Origin,
    RequestId,
    RunId,
    SubjectId,
    call_uid,
)
from governance.lawful.approvals import Subject, fold_approval, subject_digest, vote_message
from governance.lawful.cards import card_of
from governance.ledger.checkpoint import parse_verifier_key, verifier_key
from governance.ledger.entry import Draft, Kind, Record
from governance.ports import Person, Transaction
from governance.queue import (
    NOBODY,
    NOTE_CHARS_MAX,
    QUEUE,
    Ballot,
    card,
    cast_vote,
    expire,
    granted,
    pending,
    vote,
)
from governance.store.memory import MemoryStore

ORIGIN = Origin("acme.example/agents")
SECOND = 1_000_000
RUN, OTHER_RUN = RunId("run-1"), RunId("run-2")
AGENT, CUSTOMER = SubjectId("agent:desk"), SubjectId("user:customer")
DEFINITION = Digest(hashlib.sha256(b"refund").digest())
FINANCE = {"quorum": [{"role": "finance", "count": 1}]}
TWO_AND_ONE = {"quorum": [{"role": "finance", "count": 2}, {"role": "security", "count": 1}]}
CLOCKS = {"decide_by_s": 100, "use_by_s": 60, "reauthenticate": False}


class Key:
    """An Ed25519 key as `Signer` wants it."""

    def __init__(self) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
        self.origin = ORIGIN
        self.verifier_key = verifier_key(ORIGIN, self._key.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


@dataclass
class World:
    key: Key = field(default_factory=Key)
    now: int = 1_000 * SECOND
    before_asking: Callable[[Transaction], object] = lambda _tx: None

    def __post_init__(self) -> None:
        salts = (bytes([n % 256]) * 32 for n in range(1, 10_000))
        self.store = MemoryStore(ORIGIN, self.key, self.clock, lambda _size: next(salts))
        for name, roles in (
            ("ada", {"finance"}),
            ("bob", {"finance"}),
            ("eve", {"security", "finance"}),
            ("kim", {"audit"}),
            ("customer", {"finance"}),
        ):
            self.put(name, roles)

    def clock(self) -> Micros:
        return Micros(self.now)

    def put(self, name: str, roles: set[str], *, active: bool = True) -> None:
        person = Person(SubjectId(f"user:{name}"), name.title(), frozenset(roles), active)
        self.store.write(lambda tx: tx.people.put(person))

    def hold(self, request: str = "apr-1", run: RunId = RUN, **change: Any) -> RequestId:
        """Start `run` and hold its second call, after an earlier one that ran."""
        self.store.write(lambda tx: hold(tx, RequestId(request), run, self, change))
        return RequestId(request)

    def card(self, request: RequestId) -> Card:
        return card(self.store, request)

    def ballot(self, request: RequestId, name: str, **change: Any) -> Ballot:
        verdict = change.get("verdict", Verdict.APPROVE)
        return Ballot(
            request=request,
            voter=SubjectId(f"user:{name}"),
            verdict=verdict,
            meaning=change.get("meaning", verdict.value),
            note=change.get("note"),
            card=change.get("card") or self.card(request).digest,
        )

    def vote(self, request: RequestId, name: str, **change: Any) -> Any:
        return vote(self.store, self.clock, self.key, self.ballot(request, name, **change))

    def entries(self, *kinds: Kind) -> list[Record]:
        records = self.store.read(lambda reader: reader.records())
        return [record for record in records if record.entry.kind in kinds]


def hold(
    tx: Transaction, request: RequestId, run: RunId, world: World, change: dict[str, Any]
) -> None:
    at, principal = world.clock(), SubjectId(change.get("principal", CUSTOMER))

    def append(kind: Kind, body: dict[str, Any], **payloads: Any) -> Record:
        return tx.append(Draft(kind, AGENT, body, payloads, run, principal), at)

    messages = [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": change.get("asked", "refund my lamp")},
    ]
    append(
        Kind.RUN_STARTED,
        {
            "agent": AGENT,
            "model": "m",
            "principal": {"id": principal, "roles": [], "tenant": ""},
            "tools": {},
            "limits": {"iterations": 10, "parallel": 4},
        },
        input={"messages": messages},
    )
    decided: dict[str, Any] = {
        "definition": DEFINITION.hex(),
        "tier": change.get("tier", "critical"),
        "policy": "ab" * 32,
        "rules": change.get("rules", ["payments/refunds-large"]),
        "reasons": change.get("reasons", ["tier-critical"]),
        "steps": 3,
    }
    looked = {**decided, "uid": call_uid(run, 1, 0), "tool": "lookup", "effect": "allow"}
    seen = append(Kind.CALL_DECIDED, looked, args={"order": 7})
    start = {"uid": call_uid(run, 1, 0), "attempt": 1, "key": "k", "decision": seen.entry.seq}
    append(Kind.CALL_STARTED, start)
    if change.get("finished", True):
        end = {"uid": call_uid(run, 1, 0), "attempt": 1, "duration_us": 5}
        append(Kind.CALL_FINISHED, end, result={"content": "a lamp"})
    uid = call_uid(run, 2, 0)
    demands = {**change.get("demands", FINANCE), **CLOCKS}
    tool = change.get("tool", "refund")
    held = append(
        Kind.CALL_DECIDED,
        {**decided, "uid": uid, "tool": tool, "effect": "require_approval", "demands": demands},
        args=change.get("args", {"amount_cents": 9_900, "order": 7}),
        input={
            "tool": {"name": tool, "verb": change.get("verb", "FINANCIAL")},
            "args_origin": change.get("origin", {"order": "user"}),
            "run": {"untrusted": False, "untrusted_sources": [], "rejected": 0},
        },
        message=change.get("message", "refund of 9900 cents"),
        working={
            "clauses": {
                "payments/refunds-large": change.get(
                    "clauses", [["args.amount_cents > 5000", True]]
                )
            }
        },
    )
    world.before_asking(tx)
    subject = Subject(run, uid, tool, DEFINITION, held.entry.payloads["args"], principal, AGENT)
    body = {
        "request": request,
        "uid": uid,
        "subject": change.get("subject") or subject_digest(subject).hex(),
        "decision": change.get("decision", held.entry.seq),
        "demands": demands,
        "decide_by": at + 100 * SECOND,
    }
    append(Kind.APPROVAL_REQUESTED, body)


@pytest.fixture
def world() -> World:
    return World()


def about(world: World, request: RequestId, run: RunId = RUN) -> Any:
    return fold_approval(world.store.read(lambda reader: reader.about(run, request)))


# --- an answer names its request ------------------------------------------------------------------


def test_an_answer_reaches_the_request_it_names_and_no_other(world: World) -> None:
    first, second = world.hold("apr-1"), world.hold("apr-2", OTHER_RUN)
    world.vote(second, "ada")
    assert about(world, first).state is State.PENDING
    assert about(world, second, OTHER_RUN).state is State.GRANTED


def test_an_answer_to_no_known_request_is_refused_and_recorded(world: World) -> None:
    request = world.hold()
    ballot = replace(world.ballot(request, "ada"), request=RequestId("apr-9"))
    with pytest.raises(AnswerRefusedError, match="no approval request is called `apr-9`"):
        vote(world.store, world.clock, world.key, ballot)
    assert about(world, request).votes == ()
    (refused,) = world.entries(Kind.ACCESS_REFUSED)
    assert refused.entry.body == {"what": "vote", "request": "apr-9", "reason": "unknown-request"}


def test_a_card_of_one_request_answers_no_other(world: World) -> None:
    first, second = world.hold("apr-1"), world.hold("apr-2", OTHER_RUN)
    with pytest.raises(ConflictError, match="look again"):
        world.vote(second, "ada", card=world.card(first).digest)
    assert not world.entries(Kind.APPROVAL_VOTED)


# --- what a vote leaves behind --------------------------------------------------------------------


def test_a_vote_is_signed_over_the_card_and_the_log_before_it(world: World) -> None:
    request = world.hold()
    before = world.store.read(lambda reader: reader.head())
    world.vote(request, "ada", meaning="responsibility", note="checked the order")
    (cast,) = world.entries(Kind.APPROVAL_VOTED)
    body = cast.entry.body
    assert cast.entry.actor == body["voter"] == "user:ada"
    assert (cast.entry.run, cast.entry.on_behalf_of) == (RUN, None)
    assert body["head"] == {"seq": before.size - 1, "hash": before.last.hex()}
    assert body["card"] == world.card(request).digest.hex()
    assert (body["roles"], body["meaning"]) == (["finance"], "responsibility")
    assert cast.content("note") == "checked the order"
    (signature,) = body["signatures"]
    assert signature["key"] == world.key.verifier_key
    public = Ed25519PublicKey.from_public_bytes(parse_verifier_key(signature["key"]).public)
    public.verify(bytes.fromhex(signature["signature"]), vote_message(body))
    for name in ("request", "voter", "verdict", "meaning", "card", "head", "at", "roles"):
        with pytest.raises(InvalidSignature):
            public.verify(
                bytes.fromhex(signature["signature"]), vote_message({**body, name: "other"})
            )


def test_a_quorum_of_three_distinct_people_is_one_grant(world: World) -> None:
    request = world.hold(demands=TWO_AND_ONE)
    assert world.vote(request, "eve").state is State.PENDING
    assert world.vote(request, "ada").state is State.PENDING
    world.now += 30 * SECOND
    done = world.vote(request, "bob")
    assert done.state is State.GRANTED
    (grant,) = world.entries(Kind.APPROVAL_GRANTED)
    votes = [record.entry.seq for record in world.entries(Kind.APPROVAL_VOTED)]
    assert grant.entry.body == {
        "request": request,
        "votes": votes,
        "use_by": world.now + 60 * SECOND,
    }


def test_a_rejection_is_recorded_with_the_reason_the_model_will_read(world: World) -> None:
    request = world.hold(demands=TWO_AND_ONE)
    world.vote(request, "ada")
    world.vote(request, "bob", verdict=Verdict.REJECT, note="wrong customer")
    (rejected,) = world.entries(Kind.APPROVAL_REJECTED)
    last = world.entries(Kind.APPROVAL_VOTED)[-1]
    assert rejected.entry.body["votes"][-1] == last.entry.seq
    assert last.content("note") == "wrong customer"
    with pytest.raises(ConflictError, match="already rejected by `user:bob`"):
        world.vote(request, "eve")


def test_racing_last_votes_make_exactly_one_grant() -> None:
    world = World()
    request = world.hold(demands=TWO_AND_ONE)
    for name in ("zoe", "max", "lea"):
        world.put(name, {"finance", "security"})
    world.vote(request, "zoe")
    world.vote(request, "max")
    names = ["ada", "bob", "eve", "lea"]
    ballots = [world.ballot(request, name) for name in names]
    barrier, outcomes = threading.Barrier(len(names)), list[str]()

    def race(ballot: Ballot) -> None:
        barrier.wait()
        try:
            outcomes.append(vote(world.store, world.clock, world.key, ballot).state)
        except ConflictError as exc:
            outcomes.append("late" if "already granted by" in exc.message else str(exc))

    threads = [threading.Thread(target=race, args=(ballot,)) for ballot in ballots]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["granted", "late", "late", "late"]
    assert len(world.entries(Kind.APPROVAL_GRANTED)) == 1
    assert len(world.entries(Kind.APPROVAL_VOTED)) == 3


# --- who may not answer ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("customer", Refusal.REQUESTER),
        ("kim", Refusal.NOT_ENTITLED),
        ("stranger", Refusal.UNKNOWN_PERSON),
        ("gone", Refusal.INACTIVE),
    ],
)
@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_refused_answer_counts_for_nothing_and_is_recorded(
    world: World, name: str, reason: Refusal, verdict: Verdict
) -> None:
    world.put("gone", {"finance"}, active=False)
    request = world.hold()
    with pytest.raises(AnswerRefusedError) as caught:
        world.vote(request, name, verdict=verdict)
    assert caught.value.reason is reason
    assert about(world, request).state is State.PENDING
    assert not world.entries(Kind.APPROVAL_VOTED)
    (refused,) = world.entries(Kind.ACCESS_REFUSED)
    assert refused.entry.body == {"what": "vote", "request": request, "reason": reason.value}
    assert refused.entry.actor == (NOBODY if name == "stranger" else f"user:{name}")
    assert refused.entry.run is None


def test_a_role_taken_away_since_the_card_was_shown_is_gone(world: World) -> None:
    request = world.hold()
    ballot = world.ballot(request, "ada")
    world.put("ada", {"audit"})
    with pytest.raises(AnswerRefusedError) as caught:
        vote(world.store, world.clock, world.key, ballot)
    assert caught.value.reason is Refusal.NOT_ENTITLED


@pytest.mark.parametrize("principal", ["user:Ada", "ada", "login:ADA"])
def test_a_principal_written_by_a_persons_name_is_that_person(world: World, principal: str) -> None:
    request = world.hold(principal=principal)
    with pytest.raises(AnswerRefusedError) as caught:
        world.vote(request, "ada")
    assert caught.value.reason is Refusal.REQUESTER
    assert world.vote(request, "bob").state is State.GRANTED


def test_nobody_casts_the_vote_of_somebody_else(world: World) -> None:
    ballot = world.ballot(world.hold(), "ada")
    bob = Person(SubjectId("user:bob"), "Bob", frozenset({"finance"}), active=True)
    with pytest.raises(InvalidInputError, match="`user:bob` cannot cast the vote of `user:ada`"):
        world.store.write(lambda tx: cast_vote(tx, world.key, ballot, bob, world.clock()))


def test_one_person_votes_once(world: World) -> None:
    request = world.hold(demands=TWO_AND_ONE)
    world.vote(request, "eve")
    with pytest.raises(ConflictError, match="already voted"):
        world.vote(request, "eve")
    assert len(world.entries(Kind.APPROVAL_VOTED)) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"meaning": "maybe"}, "`approve` cannot mean `maybe`"),
        ({"meaning": "reject"}, "`approve` cannot mean `reject`"),
        ({"verdict": Verdict.REJECT, "meaning": "approve"}, "`reject` cannot mean `approve`"),
        ({"verdict": Verdict.REJECT, "meaning": "responsibility"}, "cannot mean"),
        ({"note": "x" * (NOTE_CHARS_MAX + 1)}, "exceeds 4000"),
    ],
)
def test_a_ballot_that_contradicts_itself_is_no_ballot(
    world: World, change: dict[str, Any], words: str
) -> None:
    request = world.hold()
    with pytest.raises(InvalidInputError, match=words):
        world.ballot(request, "ada", **change)
    assert world.ballot(request, "ada", note="x" * NOTE_CHARS_MAX).note


@pytest.mark.parametrize("truthy", [True, 1, "approve"])
def test_only_a_verdict_answers(world: World, truthy: object) -> None:
    ballot = world.ballot(world.hold(), "ada")
    with pytest.raises(InvalidInputError, match="is no verdict"):
        replace(ballot, verdict=truthy)


# --- clocks ---------------------------------------------------------------------------------------


def test_a_request_past_its_time_is_expired_though_nothing_swept(world: World) -> None:
    request = world.hold()
    ballot = world.ballot(request, "ada")
    world.now += 100 * SECOND
    assert len(pending(world.store, world.clock())) == 1
    world.now += 1
    assert pending(world.store, world.clock()) == ()
    with pytest.raises(AnswerRefusedError, match="has expired"):
        vote(world.store, world.clock, world.key, ballot)
    (refused,) = world.entries(Kind.ACCESS_REFUSED)
    assert refused.entry.body["reason"] == "expired"


def test_a_clock_set_back_reopens_nothing(world: World) -> None:
    request = world.hold()
    ballot = world.ballot(request, "ada")
    world.now += 200 * SECOND
    world.hold("apr-2", OTHER_RUN)
    world.now -= 150 * SECOND
    with pytest.raises(AnswerRefusedError, match="has expired"):
        vote(world.store, world.clock, world.key, ballot)


def test_votes_are_dated_by_the_log_where_the_clock_is_behind(world: World) -> None:
    request = world.hold()
    opened = world.now
    world.now -= 10 * SECOND
    assert world.vote(request, "ada").state is State.GRANTED
    assert about(world, request).granted_at == opened


def test_sweeping_records_each_overdue_request_once(world: World) -> None:
    world.hold("apr-1")
    used_up = world.hold("apr-2", OTHER_RUN)
    world.vote(used_up, "ada")
    assert expire(world.store, world.clock) == 0
    world.now += 61 * SECOND
    assert expire(world.store, world.clock) == 1
    world.now += 100 * SECOND
    assert expire(world.store, world.clock) == 1
    assert expire(world.store, world.clock) == 0
    swept = [
        (r.entry.body["request"], r.entry.body["clock"], r.entry.actor)
        for r in world.entries(Kind.APPROVAL_EXPIRED)
    ]
    assert swept == [("apr-2", "use_by", QUEUE), ("apr-1", "decide_by", QUEUE)]
    assert about(world, RequestId("apr-1")).state is State.EXPIRED


# --- lists ----------------------------------------------------------------------------------------


def test_the_queue_lists_what_can_be_answered_oldest_first(world: World) -> None:
    first = world.hold("apr-b", demands=TWO_AND_ONE)
    world.now += SECOND
    second = world.hold("apr-a", OTHER_RUN)
    world.vote(first, "eve")
    line, other = pending(world.store, world.clock())
    assert (line.request, other.request) == (first, second)
    assert (line.tool, line.agent, line.principal) == ("refund", AGENT, CUSTOMER)
    assert (line.tier, line.rules) == ("critical", ("payments/refunds-large",))
    assert [(seat.role, seat.count, taken) for seat, taken in line.seats] == [
        ("finance", 2, 1),
        ("security", 1, 0),
    ]
    assert line.uid == call_uid(RUN, 2, 0)
    assert line.decide_by == line.requested_at + 100 * SECOND


def test_approved_but_not_yet_used_is_visible_until_it_is_used(world: World) -> None:
    request = world.hold()
    world.vote(request, "ada")
    assert pending(world.store, world.clock()) == ()
    (waiting,) = granted(world.store, world.clock())
    assert (waiting.request, waiting.use_by) == (request, world.now + 60 * SECOND)
    assert granted(world.store, Micros(world.now + 60 * SECOND + 1)) == ()
    body = {"request": request, "uid": call_uid(RUN, 2, 0)}
    world.store.write(
        lambda tx: tx.append(Draft(Kind.APPROVAL_USED, AGENT, body, run=RUN), world.clock())
    )
    assert granted(world.store, world.clock()) == ()


def test_one_yes_starts_one_call(world: World) -> None:
    request = world.hold()
    yes = world.vote(request, "ada")
    uid, now = call_uid(RUN, 2, 0), world.clock()
    used = step(yes, Use(uid, yes.subject), now)
    with pytest.raises(ConflictError, match="was already used"):
        step(used, Use(uid, yes.subject), now)
    with pytest.raises(RefusedError, match="another call"):
        step(yes, Use(call_uid(RUN, 3, 0), yes.subject), now)
    other = about(world, world.hold("apr-2", OTHER_RUN), OTHER_RUN)
    assert other.subject != yes.subject  # the same tool and arguments in another run
    with pytest.raises(RefusedError, match="another call"):
        step(yes, Use(uid, other.subject), now)


# --- cards ----------------------------------------------------------------------------------------


def test_a_card_shows_the_whole_call_why_it_was_held_and_the_run_so_far(world: World) -> None:
    shown = world.card(world.hold(args={"note": "\u202egnp.exe\u200b", "list": list(range(900))}))
    text = ",".join(map(str, range(900)))
    assert shown.call.arguments == f'{{"list":[{text}],"note":"\u202egnp.exe\u200b"}}'
    assert shown.call.definition == DEFINITION.hex()
    assert shown.call.risk["verb"] == "FINANCIAL"
    assert shown.call.provenance["args_origin"] == {"order": "user"}
    assert shown.hold.rules == ("payments/refunds-large",)
    assert shown.hold.message == "refund of 9900 cents"
    assert shown.asked == ("refund my lamp",)
    assert [(c.tool, c.effect, c.status) for c in shown.earlier] == [
        ("lookup", "allow", "call.finished")
    ]
    assert (shown.agent, shown.principal) == (AGENT, CUSTOMER)
    assert shown.demands == {**FINANCE, **CLOCKS}


def test_approvers_see_the_same_card_while_things_move(world: World) -> None:
    request = world.hold(demands=TWO_AND_ONE)
    first = world.card(request)
    world.vote(request, "ada", note="fine")
    world.now += SECOND
    uid = call_uid(RUN, 1, 0)
    move = {"uid": uid, "attempt": 2, "key": "k", "decision": 1}
    world.store.write(
        lambda tx: tx.append(Draft(Kind.CALL_STARTED, AGENT, move, run=RUN), world.clock())
    )
    later = world.card(request)
    assert later.digest == first.digest
    assert later.to_json() == first.to_json()
    assert [(v.voter, v.verdict, v.note) for v in later.votes] == [
        ("user:ada", Verdict.APPROVE, "fine")
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"args": {"amount_cents": 9_901, "order": 7}},
        {"tool": "refund_all"},
        {"verb": "READ"},
        {"origin": {"order": "untrusted"}},
        {"message": None},
        {"message": "refund of 99 cents"},
        {"asked": "refund my chair"},
        {"rules": ["payments/other"]},
        {"clauses": [["args.amount_cents > 5000", "missing-key"]]},
        {"clauses": []},
        {"reasons": []},
        {"tier": "high"},
        {"demands": TWO_AND_ONE},
        {"finished": False},
        {"principal": "user:other"},
    ],
    ids=str,
)
def test_whatever_is_shown_is_in_the_digest(change: dict[str, Any]) -> None:
    plain, other = World(), World()
    plain_card = plain.card(plain.hold())
    changed = other.card(other.hold(**change))
    assert changed.digest != plain_card.digest
    again = World()
    assert again.card(again.hold()).digest == plain_card.digest


def test_every_leaf_of_the_card_moves_its_digest(world: World) -> None:
    shown = world.card(world.hold())
    changes: dict[str, Any] = {
        "request": RequestId("apr-2"),
        "run": OTHER_RUN,
        "agent": SubjectId("agent:x"),
        "principal": SubjectId("user:x"),
        "call": replace(shown.call, uid=CallUid("run-1/9.9")),
        "hold": replace(shown.hold, decision=99),
        "demands": {},
        "requested_at": Micros(1),
        "decide_by": Micros(1),
        "asked": (),
        "earlier": (),
        "subject": Digest(bytes(32)),
    }
    assert set(changes) == set(shown.to_json())
    digests = {replace(shown, **{name: value}).digest for name, value in changes.items()}
    assert len(digests | {shown.digest}) == len(changes) + 1
    assert replace(shown, votes=()).digest == shown.digest
    inner = [
        replace(shown, **{part: replace(getattr(shown, part), **{name: "other"})})
        for part in ("call", "hold")
        for name in getattr(shown, part).to_json()
        if name not in {"risk", "provenance", "rules", "reasons", "errors", "clauses"}
    ]
    assert len({c.digest for c in inner} | {shown.digest}) == len(inner) + 1


def test_a_request_for_another_call_than_its_decision_has_no_card(world: World) -> None:
    request = world.hold(subject="cd" * 32)
    with pytest.raises(TamperedError, match="another call"):
        world.card(request)


def test_a_request_that_names_no_decision_is_not_listed_but_reported(world: World) -> None:
    world.hold(decision=0)
    with pytest.raises(TamperedError, match="names no decision"):
        pending(world.store, world.clock())
    with pytest.raises(TamperedError, match="does not fit the decision"):
        world.card(RequestId("apr-1"))


def test_earlier_approvals_of_the_run_are_on_the_card(world: World) -> None:
    def first(tx: Transaction) -> None:
        tx.append(Draft(Kind.APPROVAL_REQUESTED, AGENT, body, {}, RUN, CUSTOMER), world.clock())
        tx.append(Draft(Kind.APPROVAL_WITHDRAWN, AGENT, gone, {}, RUN), world.clock())

    looked_up = call_uid(RUN, 1, 0)
    body = {"request": "apr-0", "uid": looked_up}
    gone = {"request": "apr-0", "reason": "superseded"}
    world.before_asking = first
    shown = world.card(world.hold())
    assert [(c.uid, c.status) for c in shown.earlier] == [(looked_up, "approval.withdrawn")]


def test_a_card_of_an_unknown_request_is_refused(world: World) -> None:
    with pytest.raises(AnswerRefusedError, match="no approval request"):
        world.card(RequestId("apr-9"))
    with pytest.raises(InvalidInputError, match="holds no approval request"):
        card_of([], RequestId("apr-9"))
