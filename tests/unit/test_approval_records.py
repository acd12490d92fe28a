"""An approval is what its records come to; records that contradict the table are told apart by place."""

import hashlib
from collections.abc import Mapping
from typing import Any

import pytest

from governance.approval.model import State, Verdict
from governance.errors import InvalidInputError, TamperedError
from governance.ids import CallUid, Digest, Micros, Origin, RunId, SubjectId
from governance.lawful.approvals import (
    Subject,
    fold_approval,
    subject_digest,
    subject_of,
    vote_message,
)
from governance.ledger.entry import (
    RUN_START,
    Draft,
    Kind,
    Link,
    Record,
    RunLink,
    genesis,
    seal,
)

LOG, RUN, UID = Origin("acme.example/agents"), RunId("run-1"), CallUid("run-1/1.0")
AGENT, CUSTOMER = SubjectId("agent:desk"), SubjectId("user:customer")
SECOND = 1_000_000
START = 1_000 * SECOND
DEMANDS = {
    "quorum": [{"role": "finance", "count": 2}],
    "decide_by_s": 100,
    "use_by_s": 60,
    "reauthenticate": False,
}
REQUESTED: dict[str, Any] = {
    "request": "apr-1",
    "uid": UID,
    "subject": "ab" * 32,
    "decision": 0,
    "demands": DEMANDS,
    "decide_by": START + 100 * SECOND,
}

Step = tuple[Kind, str, dict[str, Any]]


def opened(**change: Any) -> Step:
    return Kind.APPROVAL_REQUESTED, AGENT, {**REQUESTED, **change}


def voted(name: str, verdict: str = "approve", **change: Any) -> Step:
    body = {
        "request": "apr-1",
        "voter": f"user:{name}",
        "roles": ["finance"],
        "verdict": verdict,
        "meaning": verdict,
        "card": "cd" * 32,
        "signatures": [{"key": "k", "signature": "s"}],
        **change,
    }
    return Kind.APPROVAL_VOTED, f"user:{name}", body


def closed(kind: Kind, **body: Any) -> Step:
    return kind, "user:bob", {"request": "apr-1", **body}


def told(*steps: Step, every_s: int = 1) -> list[Record]:
    """Chain one entry a step, `every_s` seconds apart. A vote gets the head before it, and its time."""
    records: list[Record] = []
    prev, rprev = genesis(LOG), RUN_START
    for seq, (kind, actor, body) in enumerate(steps):
        ts = START + seq * every_s * SECOND
        head = {"head": {"seq": seq - 1, "hash": prev.hex()}, "at": ts}
        filled = {**head, **body} if kind is Kind.APPROVAL_VOTED else body
        draft = Draft(kind, SubjectId(actor), filled, run=RUN, on_behalf_of=CUSTOMER)
        entry = seal(draft, LOG, Link(seq, prev, Micros(ts)), RunLink(seq, rprev), {})
        prev = rprev = entry.hash
        records.append(Record(entry))
    return records


GRANTED = closed(Kind.APPROVAL_GRANTED, votes=[1, 2], use_by=START + 62 * SECOND)
USED = closed(Kind.APPROVAL_USED, uid=UID)
TO_A_GRANT = (opened(), voted("ada"), voted("bob"), GRANTED)


@pytest.mark.parametrize(
    ("steps", "every_s", "state"),
    [
        ((opened(),), 1, State.PENDING),
        ((opened(), voted("ada")), 1, State.PENDING),
        (TO_A_GRANT, 1, State.GRANTED),
        ((*TO_A_GRANT, USED), 1, State.USED),
        ((*TO_A_GRANT, closed(Kind.APPROVAL_WITHDRAWN, reason="superseded")), 1, State.WITHDRAWN),
        (
            (opened(), voted("ada", "reject"), closed(Kind.APPROVAL_REJECTED, votes=[1])),
            1,
            State.REJECTED,
        ),
        ((opened(), closed(Kind.APPROVAL_EXPIRED, clock="decide_by")), 101, State.EXPIRED),
        ((opened(), closed(Kind.APPROVAL_WITHDRAWN, reason="run-cancelled")), 1, State.WITHDRAWN),
    ],
)
def test_honest_records_come_to_a_state(
    steps: tuple[Step, ...], every_s: int, state: State
) -> None:
    approval = fold_approval(told(*steps, every_s=every_s))
    assert approval.state is state
    assert approval.requesters == {AGENT, CUSTOMER}


def test_entries_of_other_kinds_are_passed_over() -> None:
    start = (Kind.CALL_STARTED, AGENT, {"uid": UID, "request": "apr-1"})
    assert fold_approval(told(*TO_A_GRANT, USED, start)).state is State.USED


CONTRADICTIONS: Mapping[str, tuple[tuple[Step, ...], int]] = {
    "begins with a vote": ((voted("ada"),), 0),
    "asked twice": ((opened(), opened()), 1),
    "later deadline than demanded": ((opened(decide_by=START + 101 * SECOND),), 0),
    "no demands": ((opened(demands={}),), 0),
    "nobody demanded": ((opened(demands={**DEMANDS, "quorum": []}),), 0),
    "malformed subject": ((opened(subject="AB" * 32),), 0),
    "deadline is no number": ((opened(decide_by=True),), 0),
    "another request": ((opened(), voted("ada", request="apr-2")), 1),
    "voter is not the actor": ((opened(), voted("ada", voter="user:bob")), 1),
    "unknown verdict": ((opened(), voted("ada", "yes")), 1),
    "truthy verdict": ((opened(), voted("ada", verdict=True)), 1),
    "meaning contradicts": ((opened(), voted("ada", meaning="reject")), 1),
    "role not asked for": ((opened(), voted("ada", roles=["audit"])), 1),
    "the customer votes": ((opened(), voted("customer")), 1),
    "votes twice": ((opened(), voted("ada"), voted("ada")), 2),
    "votes twice, other spelling": ((opened(), voted("ada"), voted("ADA")), 2),
    "backdated": ((opened(), voted("ada", at=START)), 1),
    "another head": ((opened(), voted("ada", head={"seq": 0, "hash": "00" * 32})), 1),
    "no signature": ((opened(), voted("ada", signatures=[])), 1),
    "no card": ((opened(), voted("ada", card="")), 1),
    "granted by nobody": ((opened(), GRANTED), 1),
    "granted by half": ((opened(), voted("ada"), GRANTED), 2),
    "granted twice": ((*TO_A_GRANT, GRANTED), 4),
    "granted where rejected": (
        (opened(), voted("ada", "reject"), closed(Kind.APPROVAL_GRANTED, votes=[1], use_by=1)),
        2,
    ),
    "longer use": (
        (*TO_A_GRANT[:3], closed(Kind.APPROVAL_GRANTED, votes=[1, 2], use_by=START + 63 * SECOND)),
        3,
    ),
    "other votes": (
        (*TO_A_GRANT[:3], closed(Kind.APPROVAL_GRANTED, votes=[1], use_by=START + 62 * SECOND)),
        3,
    ),
    "outcome left out": (TO_A_GRANT[:3], 2),
    "outcome passed over": ((*TO_A_GRANT[:3], USED), 3),
    "used unanswered": ((opened(), USED), 1),
    "used twice": ((*TO_A_GRANT, USED, USED), 5),
    "used for another call": ((*TO_A_GRANT, closed(Kind.APPROVAL_USED, uid="run-1/1.1")), 4),
    "vote after the outcome": ((*TO_A_GRANT, voted("eve")), 4),
    "expired too early": ((opened(), closed(Kind.APPROVAL_EXPIRED, clock="decide_by")), 1),
    "unknown clock": ((opened(), closed(Kind.APPROVAL_EXPIRED, clock="noon")), 1),
    "nothing after withdrawal": (
        (opened(), closed(Kind.APPROVAL_WITHDRAWN, reason="x"), voted("ada")),
        2,
    ),
    "field missing": ((opened(), closed(Kind.APPROVAL_WITHDRAWN)), 1),
}


@pytest.mark.parametrize(("steps", "seq"), CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
def test_records_that_contradict_the_table_name_their_place(
    steps: tuple[Step, ...], seq: int
) -> None:
    with pytest.raises(TamperedError) as caught:
        fold_approval(told(*steps))
    assert caught.value.seq == seq
    assert f"entry `{seq}`" in caught.value.message


@pytest.mark.parametrize(
    ("steps", "every_s"),
    [((opened(), voted("ada")), 101), ((*TO_A_GRANT[:3], USED), 101)],
)
def test_records_dated_past_a_deadline_are_no_answer(steps: tuple[Step, ...], every_s: int) -> None:
    with pytest.raises(TamperedError, match="has expired"):
        fold_approval(told(*steps, every_s=every_s))


def test_a_use_after_its_own_clock_is_a_contradiction() -> None:
    late = (
        opened(decide_by=START + 100 * SECOND),
        voted("ada"),
        voted("bob"),
        closed(Kind.APPROVAL_GRANTED, votes=[1, 2], use_by=START + 2 * 40 * SECOND + 60 * SECOND),
        (Kind.CALL_FINISHED, AGENT, {"uid": UID}),
        USED,
    )
    with pytest.raises(TamperedError, match="has expired") as caught:
        fold_approval(told(*late, every_s=40))
    assert caught.value.seq == 5


def test_nothing_recorded_is_no_approval() -> None:
    with pytest.raises(InvalidInputError, match="no records"):
        fold_approval([])


def test_the_subject_digest_is_the_documented_one() -> None:
    subject = Subject(RUN, UID, "refund", Digest(b"d" * 32), Digest(b"a" * 32), CUSTOMER, AGENT)
    text = (
        '{"agent":"agent:desk","args":"' + "61" * 32 + '","definition":"' + "64" * 32 + '",'
        '"principal":"user:customer","run":"run-1","tool":"refund","uid":"run-1/1.0"}'
    )
    want = hashlib.sha256(b"governance/subject/v1\0" + text.encode()).digest()
    assert subject_digest(subject) == want


def test_a_subject_is_read_from_the_run_and_its_first_decision() -> None:
    who = {"id": CUSTOMER, "roles": [], "tenant": ""}
    started, decided = (
        record.entry
        for record in told(
            (Kind.RUN_STARTED, AGENT, {"agent": AGENT, "principal": who}),
            (Kind.CALL_DECIDED, AGENT, {"uid": UID, "tool": "refund", "definition": "64" * 32}),
        )
    )
    with pytest.raises(TamperedError, match="lacks what an approval is for"):
        subject_of(started, decided)  # no arguments were recorded
    with pytest.raises(TamperedError):
        subject_of(decided, started)


def test_what_a_vote_signs_is_all_of_it_but_the_signatures() -> None:
    body = {"request": "apr-1", "verdict": Verdict.APPROVE.value, "at": 5}
    want = b'governance/vote/v1\0{"at":5,"request":"apr-1","verdict":"approve"}'
    assert vote_message({**body, "signatures": [{"key": "k", "signature": "s"}]}) == want
