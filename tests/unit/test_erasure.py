"""Erasing as a use case: who may, when it is refused, what it records; and the entries themselves."""

from dataclasses import replace

import pytest
from agents import Plays, call, calls, person, say, vote
from hypothesis import given, settings
from hypothesis import strategies as st

from agent import DurableAgent, tool
from governance import Governance, Principal, people
from governance.canonical import ENTRY_BYTES_MAX
from governance.erasure import REASON_CHARS_MAX, Erased, erase, survey
from governance.errors import ConflictError, InvalidInputError, RefusedError
from governance.holds import Hold, On
from governance.ids import Digest, Micros, Origin, SubjectId
from governance.lawful.cards import card_of
from governance.lawful.check import check
from governance.ledger.entry import Draft, ErasedError, Kind, Link, seal
from governance.ledger.erasure import (
    Belonging,
    Erasure,
    erasure_drafts,
    erasure_targets,
    owners_of,
)
from governance.ports import Lease

RULES = """
policy: desk
version: 1
rules:
  - {id: looks, match: {tools: [look]}, effect: allow}
  - id: pays
    match: {tools: [pay]}
    effect: require_approval
    approval: {quorum: [{role: approver, count: 1}], decide_by: 4h, use_by: 1h}
"""
ANA = SubjectId("user:ana")
BEN = SubjectId("user:ben")


@tool(verb="READ")
def look(id: str) -> str:
    """Look."""
    return f"{id} is fine"


@tool(verb="FINANCIAL", side_effect=True)
def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


@pytest.fixture
def gov():
    with Governance.in_memory(policies={"desk.yaml": RULES}) as governance:
        yield governance


@pytest.fixture
def op(gov):
    return person(gov, "olga", "operator")


def go(gov, who: SubjectId, run: str, *turns):
    agent = DurableAgent(
        Plays(*(turns or (say("hello"),))), [look, pay], governance=gov, name="desk"
    )
    return agent.run(f"I am {who}", run_id=run, principal=Principal(who, ()))


def do(gov, op, subject=ANA, reason="she asked for it"):
    return erase(gov.store, gov.clock, Erasure(subject, op.subject, reason), tuple)


def records(gov):
    return gov.store.read(lambda reader: reader.records())


@pytest.mark.parametrize(("on", "name"), [(On.SUBJECT, ANA), (On.RUN, "r1")])
def test_what_is_under_hold_stays_also_when_the_hold_comes_at_the_last_moment(gov, op, on, name):
    go(gov, ANA, "r1")
    go(gov, BEN, "r2")
    put: list[Hold] = []

    class Late:
        """A store before whose transaction begins, somebody puts a hold."""

        def write(self, work):
            def after(tx):
                put.append(Hold(on, name, op.subject, "court order", Micros(1)))
                return work(tx)

            return gov.store.write(after)

    before = len(records(gov))
    for act in (
        lambda who: erase(Late(), gov.clock, Erasure(who, op.subject, "asked"), lambda: tuple(put)),
        lambda who: survey(Late(), gov.clock, who, lambda: tuple(put)),
    ):
        put.clear()
        with pytest.raises(RefusedError, match=f"content of `{ANA}` is under hold: {on} `{name}`"):
            act(ANA)
    assert len(records(gov)) == before
    assert erase(gov.store, gov.clock, Erasure(BEN, op.subject, "asked"), lambda: put).payloads


def test_everything_of_the_subject_goes_and_what_remains_is_lawful(gov, op):
    go(gov, ANA, "r1", calls(call("look", id="a1")), say("for ana"))
    go(gov, BEN, "r2", calls(call("look", id="b1")), say("for ben"))
    assert survey(gov.store, gov.clock, ANA, tuple) == Erased(ANA, payloads=7, runs=1, person=False)
    before = len(records(gov))
    done = do(gov, op)
    assert done == Erased(ANA, 7, 1, person=False, entries=(before,), scrubbed=True)
    last = records(gov)[-1]
    assert (last.entry.kind, last.entry.actor) == (Kind.PAYLOAD_ERASED, op.subject)
    assert last.content("reason") == "she asked for it"
    for record in records(gov)[:-1]:
        named = set(record.entry.payloads)
        gone = record.entry.run == "r1"
        assert set(record.erased) == (named if gone else set())
        assert set(record.payloads) == (set() if gone else named)
    report = check(records(gov))
    assert report.ok
    assert report.counts["content-erased"] == 1
    assert do(gov, op) == Erased(ANA, 0, 0, person=False, scrubbed=True)
    assert len(records(gov)) == before + 1


def test_only_an_operator_may_and_nobody_for_themselves(gov, op):
    go(gov, ANA, "r1")
    before = len(records(gov))
    for who in (person(gov, "ann", "approver"), replace(op, subject=SubjectId("user:nobody"))):
        with pytest.raises(RefusedError, match="may not erase anybody's data"):
            do(gov, who)
    with pytest.raises(RefusedError, match="nobody erases their own data; let another operator"):
        do(gov, op, op.subject)
    people.deactivate(gov.store, op.subject)
    with pytest.raises(RefusedError, match="may not erase"):
        do(gov, op)
    assert len(records(gov)) == before


@pytest.mark.parametrize("reason", ["", "  ", "x" * (REASON_CHARS_MAX + 1)])
def test_a_reason_is_given(gov, op, reason):
    with pytest.raises(InvalidInputError, match="say in 1 to 2000 why"):
        do(gov, op, reason=reason)


def test_while_a_run_is_open_its_content_stays_the_voter_s_too(gov, op):
    (held,) = go(gov, ANA, "r1", calls(call("pay", to="bob")), say()).pending_approvals
    ann = person(gov, "ann")
    vote(gov, ann, held.request, note="a note of ann's")
    before = records(gov)
    for subject in (ANA, ann.subject):
        with pytest.raises(ConflictError, match=r"run `r1` with content of .* has not ended"):
            do(gov, op, subject)
        with pytest.raises(ConflictError, match="governance runs cancel"):
            survey(gov.store, gov.clock, subject, tuple)
    assert list(records(gov)) == list(before)


def test_while_a_driver_may_still_write_nothing_is_erased(gov, op):
    """A cancelled run whose call is under way still gets its outcome."""
    go(gov, ANA, "r1")
    soon = Micros(gov.clock() + 60_000_000)
    gov.store.write(lambda tx: tx.leases.put(Lease("r1", "driver-1", soon)))
    with pytest.raises(ConflictError, match="a call of run `r1` may still be under way"):
        do(gov, op)
    gov.store.write(lambda tx: tx.leases.put(Lease("r1", "driver-1", Micros(1))))
    assert do(gov, op).payloads > 0


def test_a_voter_s_note_and_name_go_and_the_run_reads_on(gov, op):
    (held,) = go(gov, ANA, "r1", calls(call("pay", to="bob")), say()).pending_approvals
    ann = person(gov, "ann")
    vote(gov, ann, held.request, note="a note of ann's")
    DurableAgent(Plays(say()), [look, pay], governance=gov, name="desk").resume("r1")
    done = do(gov, op, ann.subject)
    assert (done.payloads, done.person) == (1, True)
    run = gov.store.read(lambda reader: reader.run_records("r1"))
    (shown,) = card_of(run, held.request).votes
    assert (shown.voter, shown.note) == (ann.subject, "(erased)")
    assert gov.store.read(lambda reader: reader.people.by_subject(ann.subject)) is None
    assert check(records(gov)).ok
    do(gov, op)
    run = gov.store.read(lambda reader: reader.run_records("r1"))
    with pytest.raises(ErasedError, match="was erased"):
        card_of(run, held.request)
    assert check(records(gov)).ok


def test_somebody_in_the_directory_alone_is_erased_on_record(gov, op):
    ann = person(gov, "ann")
    done = do(gov, op, ann.subject, "left")
    assert (done.payloads, done.person, len(done.entries)) == (0, True, 1)
    assert records(gov)[-1].entry.body == {"subject": ann.subject, "targets": []}


def test_the_operator_s_own_words_can_be_erased_by_another(gov, op):
    go(gov, ANA, "r1")
    do(gov, op)
    other = person(gov, "otto", "operator")
    done = do(gov, other, op.subject, "left")
    assert done.payloads == 1
    first = next(r for r in records(gov) if r.entry.kind is Kind.PAYLOAD_ERASED)
    assert (dict(first.payloads), dict(first.erased)) == ({}, {"reason": done.entries[0]})
    assert check(records(gov)).ok


# --- the entries ------------------------------------------------------------------------------------

belongings = st.lists(
    st.builds(
        Belonging,
        seq=st.integers(0, 2**40),
        names=st.lists(
            st.text("abcdefghij_", min_size=1, max_size=300), min_size=1, max_size=16
        ).map(tuple),
    ),
    max_size=60,
)


@settings(derandomize=True, max_examples=50, deadline=None)
@given(belongings)
def test_every_erasure_fits_its_entries_and_reads_back(found):
    drafts = list(erasure_drafts(Erasure(SubjectId("u" * 128), SubjectId("o" * 128), "r"), found))
    told = []
    for draft in drafts:
        link = Link(2**50, Digest(bytes(32)), Micros(2**50))
        entry = seal(draft, Origin("l" * 128), link, None, {"reason": Digest(bytes(32))})
        assert len(entry.raw) <= ENTRY_BYTES_MAX
        told += erasure_targets(entry.seq, entry.body)
    assert told == [(one.seq, name) for one in found for name in one.names]


def test_a_large_erasure_takes_several_entries():
    found = [Belonging(10**9 + seq, ("args", "input", "message")) for seq in range(20_000)]
    drafts = list(erasure_drafts(Erasure(ANA, BEN, "r"), found))
    assert 10 < len(drafts) < 20
    assert all(draft.payloads == {"reason": "r"} for draft in drafts)


@pytest.mark.parametrize(
    ("actor", "behalf", "principal", "agent", "owners"),
    [
        ("agent:a", "user:p", "user:p", "agent:a", ("user:p",)),
        ("agent:a", None, "agent:a", "agent:a", ("agent:a",)),
        ("user:v", None, "user:p", "agent:a", ("user:p", "user:v")),
        ("approver:x", None, "user:p", "agent:a", ("approver:x", "user:p")),
        ("user:p", None, "user:p", "agent:a", ("user:p",)),
        ("system:queue", None, "user:p", "agent:a", ("user:p",)),
        ("system:gate", None, None, None, ()),
        ("user:op", None, None, None, ("user:op",)),
    ],
)
def test_whose_content_it_is(actor, behalf, principal, agent, owners):
    draft = Draft(Kind.PAYLOAD_ERASED, SubjectId(actor), {}, {}, None, behalf)
    entry = seal(draft, Origin("log"), Link(0, Digest(bytes(32)), Micros(0)), None, {})
    assert owners_of(entry, principal, agent) == owners
