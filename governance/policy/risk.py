"""How dangerous is a tool? The highest of all signals; what nobody declared counts as danger."""

from collections.abc import Iterable, Mapping
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


def effective_tier(profile: RiskProfile) -> Tier:
    """The highest of: declared tier, tier of the verb, and `high` for an unknown verb, an unprofiled
    tool, or a side effect about which nothing else was declared.

    So a tool that declares only `side_effect=False` is `low`.
    """
    found = _signals(
        profile.risk_tier,
        profile.verb,
        side_effect=profile.side_effect is True,
        profiled=profile.profiled,
    )
    return _highest(found)


def signals(tool: Mapping[str, Any]) -> tuple[Signal, ...]:
    """What the `tool` part of a decision input says about its danger, the highest first."""
    declared, in_force = str(tool.get("declared_tier", "")), Tier(tool["risk_tier"])
    found = _signals(
        Tier(declared) if declared in _TIERS else None,
        str(tool["verb"]) or None,
        side_effect=bool(tool["side_effect"]),
        profiled=tool.get("profiled") is not False,
    )
    if not found and in_force is Tier.LOW:
        found.append(Signal(Source.HARMLESS, Tier.LOW))
    elif _highest(found) is not in_force:
        found.append(Signal(Source.INPUT, in_force))
    return tuple(sorted(found, key=lambda signal: -signal.tier.rank))


def _signals(
    declared: Tier | None, verb: str | None, *, side_effect: bool, profiled: bool
) -> list[Signal]:
    found: list[Signal] = []
    if declared is not None:
        found.append(Signal(Source.DECLARED, declared))
    if verb is not None:
        known = VERB_TIERS.get(verb.upper())
        source = Source.UNKNOWN_VERB if known is None else Source.VERB
        found.append(Signal(source, known or Tier.HIGH))
    if not profiled:
        found.append(Signal(Source.UNPROFILED, Tier.HIGH))
    elif side_effect and declared is None and verb is None:
        found.append(Signal(Source.BARE_EFFECT, Tier.HIGH))
    return found


def _highest(found: Iterable[Signal]) -> Tier:
    return max((signal.tier for signal in found), key=_rank, default=Tier.LOW)


_rank: Final = attrgetter("rank")
_TIERS: Final = frozenset(Tier)


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
