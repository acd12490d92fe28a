"""What a model is told about a call that did not run, or of which nobody knows."""

from typing import Final

from agent.state.events import Status
from governance.policy.model import Decision

__all__ = ["at_the_end", "denial", "refusal"]

REASONS: Final = {
    "no-approver": "it needs approval and there is nobody to ask here",
    "quorum-not-at-hand": "it needs more people than there are to ask here",
    "approver-not-entitled": "it needs approval by somebody else than can be asked here",
    "decide_by": "it needed approval, and nobody answered in time",
    "use_by": "its approval ran out before it could start",
}
REFUSALS: Final = {
    "rejected": "a person rejected it",
    "expired": "its approval ran out",
    "withdrawn": "the request for approval was withdrawn",
}


def denial(decision: Decision) -> str:
    """What the model is told about a no that came from the rules."""
    by = ", ".join(f"`{rule}`" for rule in decision.rules)
    why = f"rule {by}" if by else ", ".join(decision.reasons)
    said = f": {decision.message}" if decision.message else ""
    return f"not run: denied by policy ({why}){said}"


def refusal(how: str, reason: str, said: str | None) -> str:
    """Tell about an approval that closed as `how`, for `reason`; `said` is the note of who rejected it."""
    if reason in REASONS:
        return f"not run: {REASONS[reason]}"
    why = said if how == "rejected" else reason
    return f"not run: {REFUSALS.get(how, how)}" + (f": {why}" if why else "")


def at_the_end(status: Status | None) -> str:
    """Tell about a call whose run ended first; without `status` it had started."""
    if status is None:
        return "outcome unknown: the run ended first"
    return f"not run: the run was {status}"
