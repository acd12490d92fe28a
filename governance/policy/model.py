"""The values that policy is about: tiers, profiles, demands, decisions. All frozen, all comparable."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from governance.canonical import JSON
from governance.errors import InvalidInputError
from governance.ids import Digest, SubjectId, parse_digest

__all__ = [
    "VERB_TIERS",
    "WINDOWS",
    "Decision",
    "Demands",
    "Effect",
    "Principal",
    "RiskProfile",
    "Seat",
    "Tier",
]


class Tier(StrEnum):
    """How much harm a call can do. Ordered: `low < medium < high < critical`."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        return _RANKS[self]


_RANKS: Final = {tier: rank for rank, tier in enumerate(Tier)}

VERB_TIERS: Final[Mapping[str, Tier]] = {
    "READ": Tier.LOW,
    "API_GET": Tier.LOW,
    "NETWORK": Tier.MEDIUM,
    "EXTERNAL_API": Tier.MEDIUM,
    "WRITE": Tier.HIGH,
    "DB": Tier.HIGH,
    "FS": Tier.HIGH,
    "EXECUTE": Tier.HIGH,
    "SENSITIVE_DATA": Tier.HIGH,
    "DELETE": Tier.HIGH,
    "FINANCIAL": Tier.CRITICAL,
}
"""What a verb alone says. A verb that is not here rates `high`."""

WINDOWS: Final[Mapping[str, int]] = {"hour": 60 * 60, "day": 24 * 60 * 60}
"""The fields of `window`, and over how many seconds back from now each counts a principal's calls."""


class Effect(StrEnum):
    """`deny` beats `require_approval` beats `allow`; nothing matched is `deny`."""

    ALLOW = "allow"
    DENY = "deny"
    REQUIRE_APPROVAL = "require_approval"


@dataclass(frozen=True, slots=True)
class Principal:
    """On whose behalf a run acts. `roles` are the caller's word: they come from the embedding program."""

    id: SubjectId
    roles: tuple[str, ...] = ()
    tenant: str | None = None

    def to_json(self) -> dict[str, JSON]:
        return {"id": self.id, "roles": list(self.roles), "tenant": self.tenant or ""}


@dataclass(frozen=True, slots=True)
class RiskProfile:
    """What a tool's author declares about it. A field left at None was not declared.

    A tool that declares none of `verb`, `risk_tier`, `side_effect` is *unprofiled*, and rates `high`.
    """

    verb: str | None = None
    risk_tier: Tier | None = None
    side_effect: bool | None = None
    reversibility: str | None = None
    blast_radius: str | None = None
    cost_class: str | None = None
    scopes: tuple[str, ...] = ()
    idempotent: bool = False
    untrusted_output: bool = False

    @property
    def profiled(self) -> bool:
        return not (self.verb is None and self.risk_tier is None and self.side_effect is None)

    def to_json(self) -> dict[str, JSON]:
        """The profile as it stands in entries and definition digests: declared fields only."""
        return {
            name: value
            for name, value in (
                ("verb", self.verb),
                ("risk_tier", self.risk_tier.value if self.risk_tier else None),
                ("side_effect", self.side_effect),
                ("reversibility", self.reversibility),
                ("blast_radius", self.blast_radius),
                ("cost_class", self.cost_class),
                ("scopes", list(self.scopes) or None),
                ("idempotent", self.idempotent or None),
                ("untrusted_output", self.untrusted_output or None),
            )
            if value is not None
        }


@dataclass(frozen=True, slots=True, order=True)
class Seat:
    """`count` distinct people who hold `role`."""

    role: str
    count: int


@dataclass(frozen=True, slots=True)
class Demands:
    """What an approval takes: seats filled by distinct people, before `decide_by_s` seconds have gone;
    then the call must start within `use_by_s` seconds."""

    quorum: tuple[Seat, ...]
    decide_by_s: int
    use_by_s: int
    reauthenticate: bool = False

    def __post_init__(self) -> None:
        if not self.quorum:
            raise InvalidInputError("approval demands nobody", hint="name at least one role")

    def to_json(self) -> dict[str, JSON]:
        return {
            "quorum": [{"role": seat.role, "count": seat.count} for seat in self.quorum],
            "decide_by_s": self.decide_by_s,
            "use_by_s": self.use_by_s,
            "reauthenticate": self.reauthenticate,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Demands":
        """Read what `to_json` wrote. Raises InvalidInputError."""
        try:
            return cls(
                quorum=tuple(Seat(str(s["role"]), int(s["count"])) for s in value["quorum"]),
                decide_by_s=int(value["decide_by_s"]),
                use_by_s=int(value["use_by_s"]),
                reauthenticate=value["reauthenticate"] is True,
            )
        except (KeyError, TypeError, ValueError) as exc:
            raise InvalidInputError("approval demands cannot be read") from exc


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of one evaluation, and everything needed to say why.

    `rules` are the ids (`policy/rule`) that determined the effect, sorted; `reasons` are codes like
    `no-rule`, `tier-high`, `rule-error`; `errors` name each rule that could not be evaluated and how.
    `shadow` tells what rules in shadow mode would have said. `message` is for people and may quote
    arguments: it never enters an envelope.
    """

    effect: Effect
    tier: Tier
    policy: Digest
    rules: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    demands: Demands | None = None
    errors: tuple[tuple[str, str], ...] = ()
    shadow: tuple[tuple[str, str], ...] = ()
    steps: int = 0
    message: str | None = field(default=None, compare=False)

    def to_json(self) -> dict[str, JSON]:
        """The decision as it stands in the body of `call.decided`."""
        body: dict[str, JSON] = {
            "effect": self.effect.value,
            "tier": self.tier.value,
            "policy": self.policy.hex(),
            "rules": list(self.rules),
            "reasons": list(self.reasons),
            "steps": self.steps,
        }
        if self.demands is not None:
            body["demands"] = self.demands.to_json()
        if self.errors:
            body["errors"] = [[rule, kind] for rule, kind in self.errors]
        if self.shadow:
            body["shadow"] = [[rule, outcome] for rule, outcome in self.shadow]
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any], message: str | None = None) -> "Decision":
        """Read what `to_json` wrote; other fields of `body` are not looked at. Raises InvalidInputError."""
        try:
            return cls(
                effect=Effect(body["effect"]),
                tier=Tier(body["tier"]),
                policy=parse_digest(body["policy"]),
                rules=tuple(str(rule) for rule in body["rules"]),
                reasons=tuple(str(reason) for reason in body["reasons"]),
                demands=Demands.from_json(body["demands"]) if "demands" in body else None,
                errors=tuple((str(rule), str(kind)) for rule, kind in body.get("errors", ())),
                shadow=tuple((str(rule), str(out)) for rule, out in body.get("shadow", ())),
                steps=int(body["steps"]),
                message=message,
            )
        except (KeyError, TypeError, ValueError) as exc:
            raise InvalidInputError("recorded decision cannot be read") from exc
