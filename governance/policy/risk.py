"""How dangerous is a tool? The highest of all signals; what nobody declared counts as danger."""

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple

from governance.canonical import JSON
from governance.ids import Digest
from governance.policy.model import VERB_TIERS, RiskProfile, Tier

__all__ = [
    "Signal",
    "Source",
    "effective_tier",
    "registered_tool_input",
    "signals",
    "tool_input",
]

TOOLS_KEPT: Final = 1024


def effective_tier(profile: RiskProfile) -> Tier:
    """The highest of: declared tier, tier of the verb, and `high` for an unknown verb, an unprofiled
    tool, or a side effect about which nothing else was declared.

    So a tool that declares only `side_effect=False` is `low`.
    """
    signals = [Tier.LOW]
    if profile.risk_tier is not None:
        signals.append(profile.risk_tier)
    if profile.verb is not None:
        signals.append(VERB_TIERS.get(profile.verb.upper(), Tier.HIGH))
    bare_effect = profile.side_effect is True and profile.verb is None and profile.risk_tier is None
    if bare_effect or not profile.profiled:
        signals.append(Tier.HIGH)
    return max(signals, key=_rank)


_rank: Final = attrgetter("rank")


def tool_input(name: str, definition: Digest, profile: RiskProfile) -> dict[str, JSON]:
    """The `tool` part of a decision input. Every field is always there: `""`, `[]` or false if undeclared."""
    return {
        "name": name,
        "verb": profile.verb or "",
        "risk_tier": effective_tier(profile).value,
        "declared_tier": profile.risk_tier.value if profile.risk_tier is not None else "",
        "side_effect": profile.side_effect is True,
        "reversibility": profile.reversibility or "",
        "blast_radius": profile.blast_radius or "",
        "cost_class": profile.cost_class or "",
        "scopes": list(profile.scopes),
        "idempotent": profile.idempotent,
        "untrusted_output": profile.untrusted_output,
        "profiled": profile.profiled,
        "definition": definition.hex(),
    }


def registered_tool_input(name: str, definition: Digest, profile: RiskProfile) -> dict[str, JSON]:
    """The same for a registered tool, whose digest covers name and profile: worked out once, then copied.

    Not for a digest that somebody else says goes with a profile.
    """
    return {**_kept(name, definition, profile), "scopes": list(profile.scopes)}


@lru_cache(maxsize=TOOLS_KEPT)
def _kept(name: str, definition: Digest, profile: RiskProfile) -> dict[str, JSON]:
    return tool_input(name, definition, profile)


class Source(StrEnum):
    """What says how dangerous a tool is. Recorded in entries: never rename or reuse one."""

    DECLARED = "declared"
    VERB = "verb"
    UNKNOWN_VERB = "unknown-verb"
    UNPROFILED = "unprofiled"
    BARE_EFFECT = "side-effect-only"
    """A side effect, and neither verb nor tier is declared."""
    HARMLESS = "no-side-effect"
    INPUT = "input"
    """The input gives another tier than its signals come to."""


class Signal(NamedTuple):
    """One thing that says how dangerous a tool is; the highest is the tier of the call."""

    source: Source
    tier: Tier


def signals(tool: Mapping[str, Any]) -> tuple[Signal, ...]:
    """What the `tool` part of a decision input says about its danger, the highest first."""
    declared, verb = str(tool.get("declared_tier", "")), str(tool["verb"]).upper()
    found: list[Signal] = []
    if declared in _TIERS:
        found.append(Signal(Source.DECLARED, Tier(declared)))
    if verb in VERB_TIERS:
        found.append(Signal(Source.VERB, VERB_TIERS[verb]))
    elif verb:
        found.append(Signal(Source.UNKNOWN_VERB, Tier.HIGH))
    if tool.get("profiled") is False:
        found.append(Signal(Source.UNPROFILED, Tier.HIGH))
    elif tool["side_effect"] and not (declared or verb):
        found.append(Signal(Source.BARE_EFFECT, Tier.HIGH))
    in_force = Tier(tool["risk_tier"])
    highest = max((signal.tier.rank for signal in found), default=Tier.LOW.rank)
    if not found and in_force is Tier.LOW:
        found.append(Signal(Source.HARMLESS, Tier.LOW))
    elif highest != in_force.rank:
        found.append(Signal(Source.INPUT, in_force))
    return tuple(sorted(found, key=lambda signal: -signal.tier.rank))


_TIERS: Final = frozenset(Tier)
