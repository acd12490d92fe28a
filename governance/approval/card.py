"""What is a person shown before they vote? The value, and the digest by which a vote names it.

A card holds everything that the decision to vote rests on and nothing that moves while the request is
open, so two approvers' cards agree and a vote can name what its voter saw. The votes so far do move:
they stand beside the card, outside its digest.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from governance.approval.model import Verdict
from governance.canonical import JSON, digest
from governance.ids import CallUid, Digest, Micros, RequestId, RunId, SubjectId

__all__ = [
    "RENDERER_VERSION",
    "Card",
    "CardCall",
    "CardClause",
    "CardHold",
    "CardVote",
    "EarlierCall",
]

RENDERER_VERSION: Final = 2
"""Grows whenever the same card would look different to a person."""


@dataclass(frozen=True, slots=True)
class CardCall:
    """The call that would run. `arguments` is their canonical JSON text, whole.

    `risk` is how the tool was rated when policy decided, `provenance` where the arguments came from.
    """

    uid: CallUid
    tool: str
    definition: str
    arguments: str
    risk: Mapping[str, JSON]
    provenance: Mapping[str, JSON]

    def to_json(self) -> dict[str, JSON]:
        return {
            "uid": self.uid,
            "tool": self.tool,
            "definition": self.definition,
            "arguments": self.arguments,
            "risk": dict(self.risk),
            "provenance": dict(self.provenance),
        }


@dataclass(frozen=True, slots=True)
class CardClause:
    """One part of the condition of a rule that held the call: true, false, or how it failed."""

    rule: str
    text: str
    value: bool | str

    def to_json(self) -> list[JSON]:
        return [self.rule, self.text, self.value]


@dataclass(frozen=True, slots=True)
class CardHold:
    """Why it was held: the decision's rules and reasons, what their clauses came to, and what the rules say
    to people."""

    decision: int
    policy: str
    tier: str
    rules: tuple[str, ...]
    reasons: tuple[str, ...]
    errors: tuple[tuple[str, str], ...]
    message: str | None
    clauses: tuple[CardClause, ...] = ()

    def to_json(self) -> dict[str, JSON]:
        return {
            "decision": self.decision,
            "policy": self.policy,
            "tier": self.tier,
            "rules": list(self.rules),
            "reasons": list(self.reasons),
            "errors": [list(pair) for pair in self.errors],
            "message": self.message,
            "clauses": [clause.to_json() for clause in self.clauses],
        }


@dataclass(frozen=True, slots=True)
class EarlierCall:
    """A call of the same run as it stood when the request was made. `status` is what last befell it."""

    uid: str
    tool: str
    effect: str
    status: str

    def to_json(self) -> dict[str, JSON]:
        return {"uid": self.uid, "tool": self.tool, "effect": self.effect, "status": self.status}


@dataclass(frozen=True, slots=True)
class CardVote:
    """A vote as its neighbours see it."""

    voter: SubjectId
    roles: tuple[str, ...]
    verdict: Verdict
    meaning: str
    at: Micros
    note: str | None


@dataclass(frozen=True, slots=True)
class Card:
    """Everything an approver sees. `asked` are the user's own texts; `subject` is what a yes covers.

    `votes` are those cast so far: beside the card, not on it.
    """

    request: RequestId
    run: RunId
    agent: SubjectId
    principal: SubjectId | None
    call: CardCall
    hold: CardHold
    demands: Mapping[str, JSON]
    requested_at: Micros
    decide_by: Micros
    asked: tuple[str, ...]
    earlier: tuple[EarlierCall, ...]
    subject: Digest
    votes: tuple[CardVote, ...]

    def to_json(self) -> dict[str, JSON]:
        """Write the card itself, which the page renders and the digest covers."""
        return {
            "request": self.request,
            "run": self.run,
            "agent": self.agent,
            "principal": self.principal,
            "call": self.call.to_json(),
            "hold": self.hold.to_json(),
            "demands": dict(self.demands),
            "requested_at": self.requested_at,
            "decide_by": self.decide_by,
            "asked": list(self.asked),
            "earlier": [call.to_json() for call in self.earlier],
            "subject": self.subject.hex(),
        }

    @property
    def digest(self) -> Digest:
        """The digest that a vote on this card names."""
        return digest("governance/card/v1", {"renderer": RENDERER_VERSION, "card": self.to_json()})
