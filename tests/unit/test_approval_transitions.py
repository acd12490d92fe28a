"""The full product of states and events against the table; who may vote; both clocks."""

from dataclasses import replace
from itertools import product

import pytest

from governance.approval.model import (
    SECOND,
    AnswerRefusedError,
    Approval,
    Deadline,
    Event,
    Expiry,
    Refusal,
    Seat,
    State,
    Terms,
    Use,
    Verdict,
    Vote,
    Withdrawal,
)
from governance.approval.transitions import TRANSITIONS, Move, diagram, overdue, state_at, step
from governance.errors import ConflictError, GovernanceError, InvalidInputError, RefusedError
from governance.ids import CallUid, Digest, Micros, RequestId, RunId, SubjectId

ADA, BOB, EVE = SubjectId("user:ada"), SubjectId("user:bob"), SubjectId("user:eve")
PRINCIPAL, AGENT = SubjectId("user:customer"), SubjectId("agent:desk")
UID, SUBJECT = CallUid("run-1/1.0"), Digest(b"s" * 32)
START = Micros(1_000 * SECOND)
DECIDE_BY = Micros(START + 100 * SECOND)
GRANTED_AT = Micros(START + 50 * SECOND)
USE_BY = Micros(GRANTED_AT + 60 * SECOND)
NOW = Micros(START + 51 * SECOND)
"""Inside both clocks."""

FINANCE, SECURITY = frozenset({"finance"}), frozenset({"security"})


def opened(*seats: Seat, reauthenticate: bool = False) -> Approval:
    return Approval(
        request=RequestId("apr-1"),
        run=RunId("run-1"),
        uid=UID,
        subject=SUBJECT,
        requesters=frozenset({PRINCIPAL, AGENT}),
        terms=Terms(seats or (Seat("finance", 2),), use_by_s=60, reauthenticate=reauthenticate),
        requested_at=START,
        decide_by=DECIDE_BY,
    )


def in_state(state: State) -> Approval:
    one = replace(opened(), votes=(yes(EVE),))
    if state in {State.GRANTED, State.USED}:
        return replace(one, state=state, votes=(yes(EVE), yes(BOB)), granted_at=GRANTED_AT)
    if state is State.REJECTED:
        return replace(one, state=state, votes=(yes(EVE), no(BOB)))
    return replace(one, state=state)


def yes(voter: SubjectId, roles: frozenset[str] = FINANCE) -> Vote:
    return Vote(voter, roles, Verdict.APPROVE)


def no(voter: SubjectId, roles: frozenset[str] = FINANCE) -> Vote:
    return Vote(voter, roles, Verdict.REJECT)


EVENTS: dict[Move, tuple[Event, Micros]] = {
    Move.SUPPORT: (yes(ADA), NOW),
    Move.GRANT: (yes(ADA), NOW),
    Move.REJECTION: (no(ADA), NOW),
    Move.EXPIRY: (Expiry(Deadline.DECIDE_BY), Micros(DECIDE_BY + 1)),
    Move.WITHDRAWAL: (Withdrawal("run-cancelled"), NOW),
    Move.USE: (Use(UID, SUBJECT), NOW),
}


@pytest.mark.parametrize(("state", "move"), list(product(State, Move)))
def test_every_pair_is_in_the_table_or_refused(state: State, move: Move) -> None:
    before = in_state(state)
    event, now = EVENTS[move]
    if move is Move.SUPPORT:  # a third seat keeps the quorum open
        before = replace(before, terms=replace(before.terms, seats=(Seat("finance", 3),)))
    if move is Move.EXPIRY and state is State.GRANTED:
        event, now = Expiry(Deadline.USE_BY), Micros(USE_BY + 1)
    want = TRANSITIONS[state].get(move)
    if want is None:
        with pytest.raises((ConflictError, RefusedError)) as caught:
            step(before, event, now)
        assert caught.value.message
        assert before == in_state(state) or move is Move.SUPPORT
    else:
        assert step(before, event, now).state is want


def test_final_states_let_nothing_happen() -> None:
    final = {state for state, moves in TRANSITIONS.items() if not moves}
    assert final == {State.REJECTED, State.EXPIRED, State.WITHDRAWN, State.USED}
    assert set(TRANSITIONS) == set(State)


def test_the_diagram_draws_every_arrow_of_the_table_and_no_other() -> None:
    lines = diagram().splitlines()
    arrows = {f"    {s} --> {t}: {m}" for s, moves in TRANSITIONS.items() for m, t in moves.items()}
    assert lines[0] == "stateDiagram-v2"
    assert {line for line in lines if ":" in line} == arrows
    assert "    used --> [*]" in lines
    assert "    granted --> [*]" not in lines


def test_one_rejection_by_somebody_entitled_ends_it() -> None:
    once = step(opened(Seat("finance", 5)), yes(ADA), NOW)
    ended = step(once, no(BOB), NOW)
    assert ended.state is State.REJECTED
    assert ended.deciders == (BOB,)


def test_the_last_missing_vote_grants_and_starts_the_second_clock() -> None:
    once = step(opened(), yes(ADA), NOW)
    assert (once.state, once.use_by) == (State.PENDING, None)
    both = step(once, yes(BOB), NOW)
    assert both.state is State.GRANTED
    assert both.use_by == NOW + 60 * SECOND


@pytest.mark.parametrize("voter", [PRINCIPAL, AGENT, SubjectId("USER:Customer")])
@pytest.mark.parametrize("verdict", list(Verdict))
def test_whoever_asked_has_no_vote_in_any_spelling(voter: SubjectId, verdict: Verdict) -> None:
    with pytest.raises(AnswerRefusedError, match="asked for `apr-1`") as caught:
        step(opened(), Vote(voter, FINANCE, verdict), NOW)
    assert caught.value.reason is Refusal.REQUESTER


@pytest.mark.parametrize("verdict", list(Verdict))
@pytest.mark.parametrize("roles", [frozenset(), SECURITY, frozenset({"Finance"})])
def test_a_role_that_no_seat_asks_for_has_no_vote(verdict: Verdict, roles: frozenset[str]) -> None:
    with pytest.raises(AnswerRefusedError, match="one of these roles decide: finance") as caught:
        step(opened(), Vote(ADA, roles, verdict), NOW)
    assert caught.value.reason is Refusal.NOT_ENTITLED


@pytest.mark.parametrize("again", [ADA, SubjectId("user:Ada"), SubjectId("USER:ADA")])
@pytest.mark.parametrize("verdict", list(Verdict))
def test_one_person_fills_one_seat_in_any_spelling(again: SubjectId, verdict: Verdict) -> None:
    once = step(opened(), yes(ADA), NOW)
    with pytest.raises(ConflictError, match="already voted"):
        step(once, Vote(again, FINANCE, verdict), NOW)


def test_a_vote_after_the_outcome_is_told_who_decided() -> None:
    granted = step(step(opened(), yes(ADA), NOW), yes(BOB), NOW)
    with pytest.raises(ConflictError, match="already granted by `user:ada`, `user:bob`"):
        step(granted, no(EVE), NOW)
    rejected = step(opened(), no(BOB), NOW)
    with pytest.raises(ConflictError, match="already rejected by `user:bob`"):
        step(rejected, yes(EVE), NOW)


def test_the_deadline_itself_is_in_time_and_the_next_microsecond_is_not() -> None:
    assert step(opened(), yes(ADA), DECIDE_BY).state is State.PENDING
    with pytest.raises(AnswerRefusedError, match="has expired") as caught:
        step(opened(), yes(ADA), Micros(DECIDE_BY + 1))
    assert caught.value.reason is Refusal.EXPIRED


def test_a_grant_is_used_by_its_own_clock_and_only_once() -> None:
    granted = in_state(State.GRANTED)
    used = step(granted, Use(UID, SUBJECT), USE_BY)
    assert used.state is State.USED
    with pytest.raises(RefusedError, match="has expired"):
        step(granted, Use(UID, SUBJECT), Micros(USE_BY + 1))
    with pytest.raises(ConflictError, match="was already used"):
        step(used, Use(UID, SUBJECT), USE_BY)


@pytest.mark.parametrize("other", [Use(CallUid("run-1/1.1"), SUBJECT), Use(UID, Digest(b"t" * 32))])
def test_a_grant_starts_no_other_call(other: Use) -> None:
    with pytest.raises(RefusedError, match="another call"):
        step(in_state(State.GRANTED), other, NOW)


def test_a_call_cannot_start_on_an_unanswered_request() -> None:
    with pytest.raises(RefusedError, match="is not granted"):
        step(opened(), Use(UID, SUBJECT), NOW)


def test_clocks_are_read_whether_or_not_anything_swept() -> None:
    assert state_at(opened(), DECIDE_BY) is State.PENDING
    assert state_at(opened(), Micros(DECIDE_BY + 1)) is State.EXPIRED
    granted = in_state(State.GRANTED)
    assert (
        state_at(granted, Micros(DECIDE_BY + 1)) is State.GRANTED
    )  # the first clock has done its part
    assert state_at(granted, Micros(USE_BY + 1)) is State.EXPIRED
    assert overdue(granted, Micros(USE_BY + 1)) is Deadline.USE_BY
    rejected = in_state(State.REJECTED)
    assert state_at(rejected, Micros(USE_BY + 1)) is State.REJECTED


@pytest.mark.parametrize("deadline", list(Deadline))
def test_nothing_expires_before_its_time_or_by_the_other_clock(deadline: Deadline) -> None:
    with pytest.raises(ConflictError, match="has not run out"):
        step(opened(), Expiry(deadline), DECIDE_BY)
    with pytest.raises(ConflictError, match="has not run out"):
        step(opened(), Expiry(Deadline.USE_BY), Micros(DECIDE_BY + 1))


def test_a_demand_for_the_voters_own_signature_is_not_dropped() -> None:
    strict = opened(reauthenticate=True)
    with pytest.raises(AnswerRefusedError, match="own signature") as caught:
        step(strict, yes(ADA), NOW)
    assert caught.value.reason is Refusal.OWN_SIGNATURE
    assert step(strict, no(ADA), NOW).state is State.REJECTED


@pytest.mark.parametrize("truthy", [True, 1, "approve", "no", object()])
def test_only_a_verdict_is_a_verdict(truthy: object) -> None:
    with pytest.raises(InvalidInputError, match="is no verdict"):
        Vote(ADA, FINANCE, truthy)  # type: ignore[arg-type]  # what an untyped caller may pass


def test_terms_and_seats_that_ask_for_nobody_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="no seats"):
        Terms((), use_by_s=60)
    for count in (0, -1):
        with pytest.raises(GovernanceError, match="seat for `finance`"):
            Seat("finance", count)


def test_what_has_run_out_can_still_be_taken_back_until_that_is_recorded() -> None:
    late = Micros(DECIDE_BY + 1)
    assert step(opened(), Withdrawal("run-cancelled"), late).state is State.WITHDRAWN
    expired = step(opened(), Expiry(Deadline.DECIDE_BY), late)
    with pytest.raises(RefusedError, match="has expired"):
        step(expired, Withdrawal("run-cancelled"), late)
