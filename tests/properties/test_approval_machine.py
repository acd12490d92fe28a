"""Any sequence of events, at any times: an approval keeps its promises.

The model remembers in the plainest terms what was accepted; the machine under test is `step`.
"""

from itertools import permutations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from governance.approval.model import (
    SECOND,
    Approval,
    Deadline,
    Event,
    Expiry,
    Seat,
    State,
    Terms,
    Use,
    Verdict,
    Vote,
    Withdrawal,
)
from governance.approval.transitions import state_at, step
from governance.errors import ConflictError, RefusedError
from governance.ids import CallUid, Digest, Micros, RequestId, RunId, SubjectId

PEOPLE = [SubjectId(f"user:{name}") for name in ("ada", "bob", "eve", "kim", "customer")]
REQUESTER = PEOPLE[-1]
UID, SUBJECT = CallUid("run-1/1.0"), Digest(b"s" * 32)
ROLES = st.frozensets(st.sampled_from(["finance", "security", "audit"]), max_size=3)
SEATS = st.lists(
    st.builds(Seat, st.sampled_from(["finance", "security"]), st.integers(1, 2)),
    min_size=1,
    max_size=2,
)


class ApprovalMachine(RuleBasedStateMachine):
    @initialize(seats=SEATS)
    def open(self, seats: list[Seat]) -> None:
        self.now = 1_000 * SECOND
        self.approved: dict[str, frozenset[str]] = {}
        self.finals: list[State] = []
        self.uses = 0
        self.approval = Approval(
            request=RequestId("apr-1"),
            run=RunId("run-1"),
            uid=UID,
            subject=SUBJECT,
            requesters=frozenset({REQUESTER}),
            terms=Terms(tuple(seats), use_by_s=40),
            requested_at=Micros(self.now),
            decide_by=Micros(self.now + 60 * SECOND),
        )

    def attempt(self, event: Event) -> bool:
        before = self.approval
        try:
            self.approval = step(before, event, Micros(self.now))
        except (ConflictError, RefusedError):
            assert self.approval == before
            return False
        assert state_at(before, Micros(self.now)) in {State.PENDING, State.GRANTED} or isinstance(
            event, Expiry | Withdrawal
        )
        return True

    @rule(seconds=st.integers(0, 25))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds * SECOND

    @rule(voter=st.sampled_from(PEOPLE), roles=ROLES, shout=st.booleans())
    def approve(self, voter: SubjectId, roles: frozenset[str], shout: bool) -> None:
        spelled = SubjectId(voter.upper()) if shout else voter
        if self.attempt(Vote(spelled, roles, Verdict.APPROVE)):
            assert voter != REQUESTER
            assert voter not in self.approved
            assert self.now <= self.approval.decide_by
            self.approved[voter] = roles
            assert (self.approval.state is State.GRANTED) is self.enough()

    @rule(voter=st.sampled_from(PEOPLE), roles=ROLES)
    def reject(self, voter: SubjectId, roles: frozenset[str]) -> None:
        if self.attempt(Vote(voter, roles, Verdict.REJECT)):
            assert voter != REQUESTER
            assert self.approval.state is State.REJECTED

    @rule(deadline=st.sampled_from(list(Deadline)))
    def sweep(self, deadline: Deadline) -> None:
        was = state_at(self.approval, Micros(self.now))
        if self.attempt(Expiry(deadline)):
            assert was is State.EXPIRED  # recording it changed nothing for a reader

    @rule()
    def withdraw(self) -> None:
        if self.attempt(Withdrawal("run-cancelled")):
            assert self.approval.state is State.WITHDRAWN

    @rule(right=st.booleans())
    def use(self, right: bool) -> None:
        if self.attempt(Use(UID, SUBJECT if right else Digest(b"x" * 32))):
            assert right
            assert self.enough()
            self.uses += 1

    def enough(self) -> bool:
        chairs = [seat.role for seat in self.approval.terms.seats for _ in range(seat.count)]
        return any(
            all(role in held for role, held in zip(chairs, order, strict=True))
            for order in permutations(self.approved.values(), len(chairs))
        )

    @invariant()
    def at_most_one_use_and_a_final_state_stays(self) -> None:
        if not hasattr(self, "approval"):
            return
        assert self.uses <= 1
        self.finals.append(self.approval.state)
        ended = [s for s in self.finals if s not in {State.PENDING, State.GRANTED}]
        assert len(set(ended)) <= 1
        assert not ended or self.approval.state is ended[0]


TestApprovalMachine = ApprovalMachine.TestCase
TestApprovalMachine.settings = settings(
    derandomize=True, max_examples=60, stateful_step_count=25, deadline=None
)
