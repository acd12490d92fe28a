"""How dangerous is a tool? The highest of all signals; what nobody declared counts as danger."""

from functools import lru_cache
from operator import attrgetter
from typing import Final

from governance.canonical import JSON
from governance.ids import Digest
from governance.policy.model import VERB_TIERS, RiskProfile, Tier

__all__ = ["effective_tier", "registered_tool_input", "tool_input"]

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
