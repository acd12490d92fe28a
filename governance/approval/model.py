"""What is an approval made of: its states, its terms, the events that can befall it, and its value.

People are compared by `person_key`, never by the spelling they came with: a refused spelling is
cheap, a second seat for one person is not.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from governance.errors import InvalidInputError, RefusedError
from governance.ids import CallUid, Digest, Micros, RequestId, RunId, SubjectId

__all__ = [
    "MEANINGS",
    "SECOND",
    "AnswerRefusedError",
    "Approval",
    "Deadline",
    "Event",
    "Expiry",
    "Refusal",
    "Seat",
    "State",
    "Terms",
    "Use",
    "Verdict",
    "Vote",
    "Withdrawal",
    "person_key",
    "read_verdict",
]

SECOND: Final = 1_000_000
"""Microseconds."""


class State(StrEnum):
    """Where an approval stands. The last four are final."""

    PENDING = "pending"
    GRANTED = "granted"
    REJECTED = "rejected"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    USED = "used"


class Verdict(StrEnum):
    """The two things a vote can say. Nothing else counts as either."""

    APPROVE = "approve"
    REJECT = "reject"


MEANINGS: Final[Mapping[Verdict, frozenset[str]]] = {
    Verdict.APPROVE: frozenset({"approve", "review", "responsibility"}),
    Verdict.REJECT: frozenset({"reject", "review"}),
}
"""What a person may declare a vote to mean (21 CFR 11.50), for each verdict it does not contradict."""


class Deadline(StrEnum):
    """The two clocks: a pending request has one to be decided by, a granted one to be used by."""

    DECIDE_BY = "decide_by"
    USE_BY = "use_by"


class Refusal(StrEnum):
    """Why an answer was not taken, as a code that is safe to record."""

    UNKNOWN_REQUEST = "unknown-request"
    UNKNOWN_PERSON = "unknown-person"
    INACTIVE = "inactive"
    REQUESTER = "requester"
    NOT_ENTITLED = "not-entitled"
    EXPIRED = "expired"
    OWN_SIGNATURE = "own-signature"


class AnswerRefusedError(RefusedError):
    """An answer by somebody who may not give it, or too late. `reason` is recorded."""

    def __init__(self, message: str, reason: Refusal, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


@dataclass(frozen=True, slots=True, order=True)
class Seat:
    """`count` distinct people who hold `role`."""

    role: str
    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InvalidInputError(
                f"seat for `{self.role[:80]}` asks for `{self.count}` people",
                hint="ask for one or more",
            )


@dataclass(frozen=True, slots=True)
class Terms:
    """What this approval takes: who, and how long it may wait to be used once it is granted."""

    seats: tuple[Seat, ...]
    use_by_s: int
    reauthenticate: bool = False

    def __post_init__(self) -> None:
        if not self.seats:
            raise InvalidInputError("approval has no seats", hint="name at least one role")


@dataclass(frozen=True, slots=True)
class Vote:
    """One person's answer, with the roles they held when they gave it."""

    voter: SubjectId
    roles: frozenset[str]
    verdict: Verdict

    def __post_init__(self) -> None:
        read_verdict(self.verdict)


@dataclass(frozen=True, slots=True)
class Expiry:
    """Somebody noticed that a clock had run out. The approval was expired before that."""

    deadline: Deadline


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """Whoever asked needs no answer any more; `reason` is a code."""

    reason: str


@dataclass(frozen=True, slots=True)
class Use:
    """The call starts. `subject` is the digest of what is about to run, taken at that moment."""

    uid: CallUid
    subject: Digest


Event: TypeAlias = Vote | Expiry | Withdrawal | Use


@dataclass(frozen=True, slots=True)
class Approval:
    """One approval request and everything that has befallen it.

    `requesters` (the principal, the agent) never vote. `state` is what events made of it; whether a
    clock has run out since is `transitions.state_at`'s to say.
    """

    request: RequestId
    run: RunId
    uid: CallUid
    subject: Digest
    requesters: frozenset[SubjectId]
    terms: Terms
    requested_at: Micros
    decide_by: Micros
    state: State = State.PENDING
    votes: tuple[Vote, ...] = field(default=())
    granted_at: Micros | None = None

    @property
    def use_by(self) -> Micros | None:
        """The last moment at which the call may start; None while nobody has granted it."""
        if self.granted_at is None:
            return None
        return Micros(self.granted_at + self.terms.use_by_s * SECOND)

    @property
    def deciders(self) -> tuple[SubjectId, ...]:
        """Who brought the outcome about: the one who rejected it, else all who approved."""
        against = tuple(v.voter for v in self.votes if v.verdict is Verdict.REJECT)
        return against or tuple(v.voter for v in self.votes)


def read_verdict(value: object) -> Verdict:
    """Take a verdict, and nothing that merely looks like one: not its text, not `True`, not 1."""
    if type(value) is not Verdict:
        raise InvalidInputError(
            f"`{str(value)[:80]}` is no verdict", hint="use Verdict.APPROVE or Verdict.REJECT"
        )
    return value


def person_key(subject: SubjectId) -> str:
    """Two subject ids with the same key are one voter."""
    return subject.casefold()
