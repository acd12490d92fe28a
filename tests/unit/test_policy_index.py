"""Rules are found once for each kind of call, whatever their number, and never for another kind."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from governance.ids import Digest
from governance.policy import decide as decide_module
from governance.policy import index as module
from governance.policy.decide import decide
from governance.policy.document import load_policies
from governance.policy.index import Match, read_call, read_facts
from governance.policy.model import Effect, RiskProfile, Tier
from governance.policy.risk import registered_tool_input, tool_input
from governance.policy.rules import PolicySet

DEFINITION = Digest(bytes(32))


def rules_for(tools: int, each: int = 10) -> PolicySet:
    """`each` rules about every tool: some deny, some hold, the others allow."""
    effects = ("deny", "require_approval", "allow", "allow")
    rules = [
        {
            "id": f"r{tool}-{n}",
            "match": {"tools": [f"tool_{tool}"]},
            "effect": effects[n % 4],
            "when": f"args.n {'<' if n % 4 > 1 else '>'} {1000 + n}",
        }
        for tool in range(tools)
        for n in range(each)
    ]
    return load_policies({"p": json.dumps({"policy": "p", "version": 1, "rules": rules})})


def call(tool: str = "tool_0", profile: RiskProfile | None = None, **other: Any) -> dict[str, Any]:
    return {
        "tool": tool_input(tool, DEFINITION, profile or RiskProfile(verb="READ")),
        "args": {"n": 1},
        "agent": {"id": "agent:a"},
        "env": {"name": "prod"},
        **other,
    }


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What match blocks were asked about."""
    seen: list[object] = []
    original: Callable[[Match, module.Call], bool] = Match.hits

    def counting(match: Match, about: module.Call) -> bool:
        seen.append(about)
        return original(match, about)

    monkeypatch.setattr(Match, "hits", counting)
    return seen


def test_match_blocks_are_asked_once_for_each_kind_of_call(asked: list[object]) -> None:
    policies = rules_for(20)
    for n in range(50):
        assert decide(policies, call(args={"n": n})).effect is Effect.ALLOW
    assert len(asked) == 200
    decide(policies, call("tool_1"))
    decide(policies, call(env={"name": "test"}))
    decide(policies, call(agent={"id": "agent:b"}))
    assert len(asked) == 800


def test_conditions_of_other_tools_are_not_evaluated() -> None:
    few, many = decide(rules_for(1), call()), decide(rules_for(20), call())
    assert (few.steps, few.rules) == (many.steps, many.rules)


def test_what_cannot_matter_any_more_is_not_evaluated() -> None:
    policies = rules_for(1)
    denied = decide(policies, call(args={"n": 5000}))
    everything = decide(policies, call(args={"n": 1}))
    assert denied.effect is Effect.DENY
    assert len(denied.rules) == 3  # every denial that applies is named
    assert denied.steps < everything.steps


def test_candidates_are_set_apart_by_effect_in_the_order_of_names() -> None:
    facts = read_facts(call())
    assert facts is not None
    found = rules_for(2).about(facts)
    assert found is not None
    assert found.tier is Tier.LOW
    assert [rule.name for rule in found.denials] == ["p/r0-0", "p/r0-4", "p/r0-8"]
    assert [rule.name for rule in found.holds] == ["p/r0-1", "p/r0-5", "p/r0-9"]
    assert {rule.effect for rule in found.allows} == {Effect.ALLOW}
    assert found.shadows == ()


def test_a_look_alike_of_a_known_call_is_rejected_still() -> None:
    """1 equals `true` and finds it in a dictionary, so types are looked at before anything is looked up."""
    policies = rules_for(1)
    good = call()
    good["tool"]["side_effect"] = True
    assert decide(policies, good).effect is Effect.ALLOW
    for field, odd in (
        ("side_effect", 1),
        ("side_effect", 1.0),
        ("scopes", ()),
        ("name", ["tool_0"]),
    ):
        tool = {**good["tool"], field: odd}
        assert decide(policies, {**good, "tool": tool}).reasons == ("input-rejected",)


def test_a_tier_that_is_none_is_rejected_and_not_kept() -> None:
    policies = rules_for(1)
    bad = call()
    bad["tool"]["risk_tier"] = "tiny"
    for _ in range(2):
        decision = decide(policies, bad)
        assert (decision.reasons, decision.tier) == (("input-rejected",), Tier.CRITICAL)
    assert read_call(bad) is None


def test_kinds_are_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch, asked: list[object]) -> None:
    monkeypatch.setattr(module, "KINDS_MAX", 3)
    policies = rules_for(1)
    for n in (*range(5), *range(5)):
        assert decide(policies, call(env={"name": f"e{n}"})).effect is Effect.ALLOW
    assert 50 < len(asked) <= 100  # some are asked again, and the answer is the same


def test_many_threads_meet_new_kinds_at_once() -> None:
    policies = rules_for(30, each=4)
    inputs = [call(f"tool_{n % 30}", args={"n": n}) for n in range(300)]
    alone = [decide(rules_for(30, each=4), given) for given in inputs[:30]]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda given: decide(policies, given), inputs))
    assert [d.rules for d in together[:30]] == [d.rules for d in alone]
    assert {d.effect for d in together} == {Effect.ALLOW}


def test_the_budget_of_a_decision_ends_in_the_middle_of_an_effect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policies = rules_for(1)
    whole = decide(policies, call()).steps
    monkeypatch.setattr(decide_module, "DECISION_STEPS_MAX", whole - 1)
    cut = decide(policies, call())
    assert cut.errors[-1][1] == "budget"
    assert cut.rules == decide(rules_for(1), call()).rules


def test_a_registered_tool_is_described_once_and_nobody_can_change_it() -> None:
    profile = RiskProfile(verb="FINANCIAL", side_effect=True, scopes=("pay",))
    first = registered_tool_input("pay", DEFINITION, profile)
    assert first == tool_input("pay", DEFINITION, profile)
    first["verb"] = "READ"
    scopes = first["scopes"]
    assert isinstance(scopes, list)
    scopes.append("all")
    assert registered_tool_input("pay", DEFINITION, profile) == tool_input(
        "pay", DEFINITION, profile
    )
