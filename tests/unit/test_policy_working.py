"""The working recorded beside a decision says what its tier and its effect rest on, and never more than fits."""

import json

import pytest

from governance.policy.cel import engine_by_name
from governance.policy.decide import DECISION_STEPS_MAX, decide
from governance.policy.document import load_policies
from governance.policy.model import RiskProfile, Tier
from governance.policy.suite_scene import Stage
from governance.policy.working import CLAUSE_CHARS_MAX, CLAUSES_MAX, clauses_of, working

POLICY = """\
policy: desk
version: 1
rules:
  - {id: night, match: {tools: [refund]}, when: now.getHours() >= 22 || now.getHours() < 6, effect: deny}
  - id: small
    match: {tools: [refund]}
    when: args.cents <= 5000 && !(run.untrusted || 'guest' in principal.roles) && 1 < 2
    effect: allow
    allow_tier: critical
  - {id: large, match: {tools: [refund]}, when: args.cents > 5000, effect: require_approval}
  - {id: trial, match: {tools: [refund]}, when: args.cents > 100, effect: deny, mode: shadow}
  - {id: reads, match: {tools: ["look_*"]}, effect: allow}
"""
NOON = 12 * 3600 * 1_000_000
TOOLS = {
    "refund": RiskProfile(verb="FINANCIAL", risk_tier=Tier.HIGH, side_effect=True),
    "look_up": RiskProfile(verb="READ", side_effect=False),
}


@pytest.fixture(params=["closure", "celpy"])
def policies(request):
    return load_policies({"desk.yaml": POLICY}, engine_by_name(request.param))


def inputs(tool="refund", **parts):
    return Stage(TOOLS).inputs({"tool": tool, "now": NOON, **parts})


def of(policies, given):
    return working(policies, given, decide(policies, given))


def ruled(*conditions: str, effect="allow"):
    rules = [
        {"id": f"r{n:03}", "when": when, "effect": effect} for n, when in enumerate(conditions)
    ]
    return load_policies({"p.yaml": json.dumps({"policy": "p", "version": 1, "rules": rules})})


def test_every_rule_that_was_weighed_has_its_clauses_and_the_tier_its_sources(policies):
    assert of(policies, inputs(args={"cents": 900})) == {
        "engine": policies.engine,
        "tier": [["verb", "critical"], ["declared", "high"]],
        "clauses": {
            "desk/night": [["now.getHours() >= 22", False], ["now.getHours() < 6", False]],
            "desk/large": [["args.cents > 5000", False]],
            "desk/small": [
                ["args.cents <= 5000", True],
                ["run.untrusted", False],
                ["'guest' in principal.roles", False],
            ],
        },
    }


def test_rules_of_an_effect_that_was_not_weighed_are_not_told(policies):
    late = of(policies, inputs(args={"cents": 900}, now=NOON + 11 * 3600 * 1_000_000))
    assert list(late["clauses"]) == ["desk/night"]
    held = of(policies, inputs(args={"cents": 9000}))
    assert list(held["clauses"]) == ["desk/night", "desk/large"]


def test_a_clause_that_cannot_be_evaluated_says_how(policies):
    told = of(policies, inputs(args={}))
    assert told["clauses"]["desk/large"] == [["args.cents > 5000", "missing-key"]]


def test_a_rule_without_a_condition_has_no_clauses(policies):
    told = of(policies, inputs("look_up"))
    assert (told["tier"], told["clauses"]) == ([["verb", "low"]], {})


@pytest.mark.parametrize("bad", [{}, {"tool": 7}, inputs(args={"x": "\0"}), inputs(args=[])])
def test_where_no_rule_was_asked_there_is_none(policies, bad):
    assert of(policies, bad) is None


def test_clauses_are_what_can_come_out_either_way_as_written(policies):
    asked = {
        r.name: [text for text, _ in clauses_of(policies.evaluator, r)] for r in policies.rules
    }
    assert asked["desk/small"] == [
        *("args.cents <= 5000", "run.untrusted", "'guest' in principal.roles")
    ]
    assert asked["desk/reads"] == []
    long = "args.text == '" + "x" * 400 + "'"
    (rule,) = ruled(long).rules
    assert [text for text, _ in clauses_of(policies.evaluator, rule)] == [long]


def test_a_long_clause_is_cut():
    long = "args.text == '" + "x" * 400 + "'"
    ((text, value),) = of(ruled(long), inputs(args={"text": "y"}))["clauses"]["p/r000"]
    assert (len(text), text[-1], value) == (CLAUSE_CHARS_MAX, "…", False)
    exact = "args.text == '" + "x" * (CLAUSE_CHARS_MAX - 15) + "'"
    assert of(ruled(exact), inputs(args={"text": "y"}))["clauses"]["p/r000"] == [[exact, False]]


def test_what_fits_an_entry_stays() -> None:
    assert (CLAUSES_MAX, CLAUSE_CHARS_MAX) == (200, 200)


def test_of_more_clauses_than_fit_the_first_are_told():
    asks = [f"args.n == {n}" for n in range(CLAUSES_MAX + 1)]
    full = of(ruled(*asks[:-1]), inputs(args={"n": -1}))
    assert sum(map(len, full["clauses"].values())) == CLAUSES_MAX
    assert "more" not in full
    over = of(ruled(*asks), inputs(args={"n": -1}))
    assert over == {**full, "more": True}


def test_all_clauses_together_have_one_budget():
    costly = "args.list.all(x, x >= {})"
    conditions = [costly.format(n) for n in range(-40, 0)]
    given = inputs(args={"list": list(range(2500))})
    told = of(ruled(*conditions), given)["clauses"]
    values = [value for said in told.values() for _, value in said]
    whole = decide(ruled(conditions[0]), given).steps
    assert values.count(True) == DECISION_STEPS_MAX // whole
    assert set(values[DECISION_STEPS_MAX // whole :]) == {"budget"}
