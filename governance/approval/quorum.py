"""Do these votes fill these seats? Distinct people, each in at most one seat they hold the role for.

Two of finance and one of security is three people, even where one of them holds both roles; which of
the two seats that person takes is found by bipartite matching (augmenting paths), so nobody's order of
voting can leave a quorum unmet that another order would meet.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from governance.approval.model import Approval, Seat, Verdict, Vote, person_key
from governance.ids import SubjectId

__all__ = ["entitled", "filled", "satisfied", "stands"]


def entitled(seats: Iterable[Seat], roles: frozenset[str]) -> bool:
    """Tell whether somebody with `roles` could take any of `seats`."""
    return any(seat.role in roles for seat in seats)


def satisfied(seats: Sequence[Seat], votes: Iterable[Vote]) -> bool:
    """Tell whether the approving `votes` fill every seat. No seats are never filled."""
    wanted = tuple(seat.count for seat in seats)
    return bool(wanted) and filled(seats, votes) == wanted


def stands(approval: Approval, roles: Mapping[SubjectId, frozenset[str]]) -> bool:
    """Tell whether the votes would still meet the terms under the `roles` people hold now.

    Rights are checked when a vote is cast and again when it is used. A person absent from `roles`
    holds none; leave out the inactive.
    """
    now = (replace(vote, roles=roles.get(vote.voter, frozenset())) for vote in approval.votes)
    return satisfied(approval.terms.seats, now)


def filled(seats: Sequence[Seat], votes: Iterable[Vote]) -> tuple[int, ...]:
    """Count how many people each seat has when as many as possible are seated."""
    people: dict[str, frozenset[str]] = {}
    for vote in votes:
        if vote.verdict is Verdict.APPROVE:
            people.setdefault(person_key(vote.voter), vote.roles)
    taken: list[list[str]] = [[] for _ in seats]
    for person in people:
        _seat(person, people, seats, taken, set())
    return tuple(len(occupants) for occupants in taken)


def _seat(
    person: str,
    people: Mapping[str, frozenset[str]],
    seats: Sequence[Seat],
    taken: list[list[str]],
    tried: set[int],
) -> bool:
    """Seat `person`, moving others along where that makes room (an augmenting path)."""
    for index, seat in enumerate(seats):
        if index in tried or seat.role not in people[person]:
            continue
        tried.add(index)
        occupants = taken[index]
        if len(occupants) < seat.count:
            occupants.append(person)
            return True
        for place, occupant in enumerate(occupants):
            if _seat(occupant, people, seats, taken, tried):
                occupants[place] = person
                return True
    return False
