"""What would other rules have decided? Old and new decisions side by side, as they stream past.

A change is one in what happens to the call: another effect, or an approval that asks for something else.
That another rule says the same is none.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from governance.canonical import JSON
from governance.policy.decide import decide
from governance.policy.model import Decision, Effect
from governance.policy.rules import PolicySet

__all__ = ["Change", "Comparison", "Judged", "Shift", "agree", "shift"]


class Shift(StrEnum):
    """What a change does to the call, the two that matter most first."""

    DENY_TO_ALLOW = "deny-to-allow"
    ALLOW_TO_DENY = "allow-to-deny"
    APPROVAL_TO_ALLOW = "approval-to-allow"
    ALLOW_TO_APPROVAL = "allow-to-approval"
    DENY_TO_APPROVAL = "deny-to-approval"
    APPROVAL_TO_DENY = "approval-to-deny"
    OTHER_APPROVAL = "other-approval"


_NAMES: Mapping[Effect, str] = {
    Effect.ALLOW: "allow",
    Effect.DENY: "deny",
    Effect.REQUIRE_APPROVAL: "approval",
}


@dataclass(frozen=True, slots=True)
class Judged:
    """An input and what was decided about it. `where` names it: a case, or seq, run and call."""

    where: Mapping[str, JSON]
    tool: str
    inputs: Mapping[str, JSON]
    decision: Decision


@dataclass(frozen=True, slots=True)
class Change:
    """A call that fares otherwise under the new rules."""

    shift: Shift
    where: Mapping[str, JSON]
    tool: str
    before: Decision
    after: Decision

    def to_json(self) -> dict[str, JSON]:
        return {
            "shift": self.shift.value,
            **self.where,
            "tool": self.tool,
            "before": _brief(self.before),
            "after": _brief(self.after),
        }


def shift(before: Decision, after: Decision) -> Shift | None:
    """Name what changes from one decision to another, if anything does."""
    if before.effect is not after.effect:
        return Shift(f"{_NAMES[before.effect]}-to-{_NAMES[after.effect]}")
    return Shift.OTHER_APPROVAL if before.demands != after.demands else None


def agree(one: Decision, other: Decision) -> bool:
    """Tell whether two decisions say the same for the same reasons, whichever set and engine made them."""
    return replace(one, policy=other.policy, steps=other.steps) == other


@dataclass(slots=True)
class Comparison:
    """Decides inputs under `policies` and counts: `decided` in all, `shifts` by kind."""

    policies: PolicySet
    decided: int = 0
    shifts: Counter[Shift] = field(default_factory=Counter[Shift])

    def changes(self, judged: Iterable[Judged]) -> Iterator[Change]:
        """Yield what changes, in the order in which it comes. The counts grow meanwhile."""
        for one in judged:
            after = decide(self.policies, one.inputs)
            self.decided += 1
            shifted = shift(one.decision, after)
            if shifted is not None:
                self.shifts[shifted] += 1
                yield Change(shifted, one.where, one.tool, one.decision, after)

    def to_json(self) -> dict[str, JSON]:
        return {
            "decided": self.decided,
            "changed": self.shifts.total(),
            "shifts": {kind.value: self.shifts[kind] for kind in Shift if self.shifts[kind]},
        }


def _brief(decision: Decision) -> dict[str, JSON]:
    body: dict[str, JSON] = {
        "effect": decision.effect.value,
        "rules": list(decision.rules),
        "reasons": list(decision.reasons),
    }
    if decision.demands is not None:
        body["demands"] = decision.demands.to_json()
    return body
