"""What may befall an approval in which state? One table; whatever is not in it is refused.

An event is judged first (a vote may support, grant or reject), and the move it amounts to is looked up.
Both clocks are computed when somebody looks: an approval whose time has run out is expired for every
reader, whether or not anything has recorded that yet.
"""

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Final

from governance.approval.model import (
    AnswerRefusedError,
    Approval,
    Deadline,
    Event,
    Expiry,
    Refusal,
    State,
    Use,
    Verdict,
    Vote,
    Withdrawal,
    person_key,
)
from governance.approval.quorum import entitled, satisfied
from governance.errors import ConflictError, GovernanceError, RefusedError
from governance.ids import Micros

__all__ = ["TRANSITIONS", "Move", "diagram", "overdue", "state_at", "step"]


class Move(StrEnum):
    """What an event amounts to."""

    SUPPORT = "support"
    GRANT = "grant"
    REJECTION = "rejection"
    EXPIRY = "expiry"
    WITHDRAWAL = "withdrawal"
    USE = "use"


TRANSITIONS: Final[Mapping[State, Mapping[Move, State]]] = {
    State.PENDING: {
        Move.SUPPORT: State.PENDING,
        Move.GRANT: State.GRANTED,
        Move.REJECTION: State.REJECTED,
        Move.EXPIRY: State.EXPIRED,
        Move.WITHDRAWAL: State.WITHDRAWN,
    },
    State.GRANTED: {
        Move.USE: State.USED,
        Move.EXPIRY: State.EXPIRED,
        Move.WITHDRAWAL: State.WITHDRAWN,
    },
    State.REJECTED: {},
    State.EXPIRED: {},
    State.WITHDRAWN: {},
    State.USED: {},
}


def state_at(approval: Approval, now: Micros) -> State:
    """Tell where `approval` stands at `now`, clocks included."""
    return approval.state if overdue(approval, now) is None else State.EXPIRED


def overdue(approval: Approval, now: Micros) -> Deadline | None:
    """Tell which clock has run out at `now`, if the approval is still subject to one.

    The deadline itself is still in time.
    """
    if approval.state is State.PENDING and now > approval.decide_by:
        return Deadline.DECIDE_BY
    use_by = approval.use_by
    if approval.state is State.GRANTED and use_by is not None and now > use_by:
        return Deadline.USE_BY
    return None


def step(approval: Approval, event: Event, now: Micros) -> Approval:
    """Apply `event` at `now`.

    Raises ConflictError when somebody or something else came first, RefusedError when the answer is no
    whoever comes first; of votes always its kind AnswerRefusedError, which carries a reason to record.
    """
    match event:
        case Vote():
            return _vote(approval, event, now)
        case Expiry():
            if overdue(approval, now) is not event.deadline:
                raise ConflictError(
                    f"approval `{approval.request}` is {state_at(approval, now)}, "
                    f"its `{event.deadline}` has not run out"
                )
            return replace(approval, state=TRANSITIONS[approval.state][Move.EXPIRY])
        case Withdrawal():
            # Whether a clock has run out does not matter to somebody who needs no answer any more.
            return replace(approval, state=_target(approval, approval.state, Move.WITHDRAWAL))
        case Use():
            state = _after(approval, Move.USE, now)
            if (event.uid, event.subject) != (approval.uid, approval.subject):
                raise RefusedError(
                    f"approval `{approval.request}` is for another call than `{event.uid}`",
                    hint="ask for an approval of what is to run now",
                )
            return replace(approval, state=state)


def diagram() -> str:
    """Draw the table as Mermaid text."""
    lines = ["stateDiagram-v2", f"    [*] --> {State.PENDING}"]
    for state, moves in TRANSITIONS.items():
        lines += [f"    {state} --> {target}: {move}" for move, target in moves.items()]
        if not moves:
            lines.append(f"    {state} --> [*]")
    return "\n".join(lines) + "\n"


def _vote(approval: Approval, vote: Vote, now: Micros) -> Approval:
    _after(approval, Move.SUPPORT, now)  # a vote of any kind needs an open request
    _check_voter(approval, vote)
    votes = (*approval.votes, vote)
    if vote.verdict is Verdict.REJECT:
        move = Move.REJECTION
    elif satisfied(approval.terms.seats, votes):
        move = Move.GRANT
    else:
        move = Move.SUPPORT
    state = _after(approval, move, now)
    granted_at = now if state is State.GRANTED else None
    return replace(approval, state=state, votes=votes, granted_at=granted_at)


def _check_voter(approval: Approval, vote: Vote) -> None:
    voter = person_key(vote.voter)
    if voter in map(person_key, approval.requesters):
        raise AnswerRefusedError(
            f"`{vote.voter}` asked for `{approval.request}` and cannot answer it",
            Refusal.REQUESTER,
            hint="let somebody else decide",
        )
    if not entitled(approval.terms.seats, vote.roles):
        roles = ", ".join(sorted({seat.role for seat in approval.terms.seats}))
        raise AnswerRefusedError(
            f"`{vote.voter}` holds no role that `{approval.request}` asks for",
            Refusal.NOT_ENTITLED,
            hint=f"let somebody with one of these roles decide: {roles}",
        )
    if voter in (person_key(earlier.voter) for earlier in approval.votes):
        raise ConflictError(
            f"`{vote.voter}` has already voted on `{approval.request}`",
            hint="let somebody else fill the open seats",
        )
    # No form of a voter's own signature is known yet. Taking the server's for it would drop a demand
    # of the policy without a word, so such a request can be rejected but not approved.
    if approval.terms.reauthenticate and vote.verdict is Verdict.APPROVE:
        raise AnswerRefusedError(
            f"approval `{approval.request}` demands the voter's own signature",
            Refusal.OWN_SIGNATURE,
            hint="reject it, or drop `reauthenticate` from the rule and let the agent ask again",
        )


def _after(approval: Approval, move: Move, now: Micros) -> State:
    return _target(approval, state_at(approval, now), move)


def _target(approval: Approval, state: State, move: Move) -> State:
    target = TRANSITIONS[state].get(move)
    if target is None:
        raise _closed(approval, state)
    return target


def _closed(approval: Approval, state: State) -> GovernanceError:
    request, who = approval.request, ", ".join(f"`{voter}`" for voter in approval.deciders)
    again = "look at the request again"
    match state:
        case State.PENDING:
            return RefusedError(f"approval `{request}` is not granted", hint="wait for the votes")
        case State.EXPIRED:
            return AnswerRefusedError(
                f"approval `{request}` has expired",
                Refusal.EXPIRED,
                hint="let the agent ask again",
            )
        case State.GRANTED | State.REJECTED:
            return ConflictError(f"approval `{request}` was already {state} by {who}", hint=again)
        case State.USED:
            text = f"approval `{request}`, granted by {who}, was already used"
            return ConflictError(text, hint="one approval starts one call; let the agent ask again")
        case State.WITHDRAWN:
            return ConflictError(f"approval `{request}` was withdrawn", hint=again)
