"""Seats are filled by distinct people, whatever the order of votes: examples, and brute force."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governance.approval.model import Approval, Seat, State, Terms, Verdict, Vote
from governance.approval.quorum import entitled, filled, satisfied, stands
from governance.ids import CallUid, Digest, Micros, RequestId, RunId, SubjectId

TWO_AND_ONE = (Seat("finance", 2), Seat("security", 1))
FIN, SEC, BOTH = frozenset({"finance"}), frozenset({"security"}), frozenset({"finance", "security"})


def votes(*roles: frozenset[str]) -> tuple[Vote, ...]:
    return tuple(
        Vote(SubjectId(f"user:{index}"), held, Verdict.APPROVE) for index, held in enumerate(roles)
    )


@pytest.mark.parametrize(
    ("held", "enough"),
    [
        ((FIN, FIN, SEC), True),
        ((FIN, BOTH, FIN), True),  # who holds both takes the seat that is left
        ((BOTH, FIN, FIN), True),  # and moves over when they came first
        ((BOTH, BOTH, BOTH), True),
        ((BOTH, FIN), False),  # one person with both roles counts once
        ((FIN, FIN, FIN, FIN), False),
        ((SEC, SEC, SEC), False),
        ((), False),
    ],
)
def test_two_of_finance_and_one_of_security(held: tuple[frozenset[str], ...], enough: bool) -> None:
    for order in permutations(held):
        assert satisfied(TWO_AND_ONE, votes(*order)) is enough


def test_no_seats_are_never_filled() -> None:
    assert not satisfied((), votes(FIN))


def test_a_vote_against_fills_nothing_and_a_second_one_neither() -> None:
    against = Vote(SubjectId("user:0"), FIN, Verdict.REJECT)
    assert not satisfied((Seat("finance", 1),), (against,))
    twice = (*votes(FIN), Vote(SubjectId("USER:0"), FIN, Verdict.APPROVE))
    assert not satisfied((Seat("finance", 2),), twice)


def test_how_many_fill_each_seat() -> None:
    assert filled(TWO_AND_ONE, votes(FIN)) == (1, 0)
    assert filled(TWO_AND_ONE, votes(BOTH, FIN, FIN)) == (2, 1)
    assert filled(TWO_AND_ONE, votes(FIN, FIN, FIN)) == (2, 0)


def test_entitled_is_holding_any_role_that_is_asked_for() -> None:
    assert entitled(TWO_AND_ONE, SEC)
    assert not entitled(TWO_AND_ONE, frozenset({"audit"}))
    assert not entitled((), FIN)


def test_rights_lost_since_the_vote_do_not_stand() -> None:
    cast = votes(FIN, FIN, SEC)
    approval = Approval(
        request=RequestId("apr-1"),
        run=RunId("run-1"),
        uid=CallUid("run-1/1.0"),
        subject=Digest(bytes(32)),
        requesters=frozenset(),
        terms=Terms(TWO_AND_ONE, use_by_s=60),
        requested_at=Micros(0),
        decide_by=Micros(1),
        state=State.GRANTED,
        votes=cast,
        granted_at=Micros(0),
    )
    now = {vote.voter: vote.roles for vote in cast}
    assert stands(approval, now)
    assert not stands(approval, now | {cast[0].voter: SEC})
    assert not stands(approval, {voter: now[voter] for voter in list(now)[1:]})


def brute_force(seats: tuple[Seat, ...], people: list[frozenset[str]]) -> bool:
    chairs = [seat.role for seat in seats for _ in range(seat.count)]
    return bool(chairs) and any(
        all(role in held for role, held in zip(chairs, order, strict=True))
        for order in permutations(people, len(chairs))
    )


ROLES = st.frozensets(st.sampled_from("abc"), max_size=3)
SEATS = st.lists(st.builds(Seat, st.sampled_from("abc"), st.integers(1, 2)), max_size=3)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(seats=SEATS, people=st.lists(ROLES, max_size=6), data=st.data())
def test_matching_agrees_with_trying_every_seating(
    seats: list[Seat], people: list[frozenset[str]], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(people))
    assert satisfied(seats, votes(*order)) is brute_force(tuple(seats), people)
