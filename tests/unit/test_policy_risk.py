"""A tool is as dangerous as the worst thing known about it, or unknown."""

import pytest

from governance.ids import Digest
from governance.policy.model import VERB_TIERS, RiskProfile, Tier
from governance.policy.risk import Source, effective_tier, tool_input


@pytest.mark.parametrize(
    ("profile", "tier"),
    [
        (RiskProfile(), Tier.HIGH),
        (RiskProfile(scopes=("a",), idempotent=True), Tier.HIGH),
        (RiskProfile(side_effect=False), Tier.LOW),
        (RiskProfile(side_effect=True), Tier.HIGH),
        (RiskProfile(side_effect=True, risk_tier=Tier.LOW), Tier.LOW),
        (RiskProfile(side_effect=True, verb="READ"), Tier.LOW),
        (RiskProfile(verb="READ", risk_tier=Tier.MEDIUM), Tier.MEDIUM),
        (RiskProfile(verb="read"), Tier.LOW),
        (RiskProfile(verb="Financial", risk_tier=Tier.LOW, side_effect=True), Tier.CRITICAL),
        (RiskProfile(verb="WRITE", risk_tier=Tier.CRITICAL), Tier.CRITICAL),
        (RiskProfile(verb="TELEPORT", risk_tier=Tier.LOW, side_effect=False), Tier.HIGH),
        (RiskProfile(verb="", risk_tier=Tier.LOW), Tier.HIGH),
        (RiskProfile(verb="READ "), Tier.HIGH),
    ],
)
def test_the_highest_signal_wins(profile: RiskProfile, tier: Tier) -> None:
    assert effective_tier(profile) is tier


@pytest.mark.parametrize(("verb", "tier"), VERB_TIERS.items())
def test_a_declared_tier_never_lowers_a_verb(verb: str, tier: Tier) -> None:
    for declared in Tier:
        got = effective_tier(RiskProfile(verb=verb, risk_tier=declared))
        assert got.rank == max(tier.rank, declared.rank)


def test_the_tool_input_has_every_field() -> None:
    bare = tool_input("t", Digest(bytes(32)), RiskProfile())
    full = tool_input(
        "t",
        Digest(bytes(32)),
        RiskProfile("WRITE", Tier.LOW, True, "none", "one", "cheap", ("s",), True, True),
    )
    assert bare == {
        "name": "t",
        "verb": "",
        "risk_tier": "high",
        "declared_tier": "",
        "side_effect": False,
        "reversibility": "",
        "blast_radius": "",
        "cost_class": "",
        "scopes": [],
        "idempotent": False,
        "untrusted_output": False,
        "profiled": False,
        "definition": "00" * 32,
    }
    assert full == {
        "name": "t",
        "verb": "WRITE",
        "risk_tier": "high",
        "declared_tier": "low",
        "side_effect": True,
        "reversibility": "none",
        "blast_radius": "one",
        "cost_class": "cheap",
        "scopes": ["s"],
        "idempotent": True,
        "untrusted_output": True,
        "profiled": True,
        "definition": "00" * 32,
    }


VERBS = {
    "low": "READ API_GET",
    "medium": "NETWORK EXTERNAL_API",
    "high": "WRITE DB FS EXECUTE SENSITIVE_DATA DELETE",
    "critical": "FINANCIAL",
}


def test_what_each_verb_says_stays() -> None:
    """Recorded decisions rest on it."""
    assert {verb: tier for tier, verbs in VERBS.items() for verb in verbs.split()} == VERB_TIERS
    assert [tier.value for tier in Tier] == list(VERBS)
    assert [tier.rank for tier in Tier] == [0, 1, 2, 3]


def test_what_each_source_of_danger_is_called_stays() -> None:
    """It stands in entries."""
    assert [source.value for source in Source] == [
        *("declared", "verb", "unknown-verb", "unprofiled", "side-effect-only"),
        *("no-side-effect", "input"),
    ]
