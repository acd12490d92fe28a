"""Coverage counts rules bound and not, and clauses seen both ways; and the shipped tests reach all of it."""

from pathlib import Path

import pytest

from governance.policy.coverage import cover
from governance.policy.document import load_policies
from governance.policy.suite import read_suite

POLICIES = Path(__file__).parents[2] / "policies"
SHIPPED = sorted(path for path in POLICIES.rglob("*.yaml") if not path.name.endswith(".test.yaml"))

POLICY = """\
policy: p
version: 1
rules:
  - {id: open, match: {tools: [get]}, effect: allow}
  - id: pay
    match: {tools: [pay]}
    when: args.cents > 5 && (run.untrusted || 1 == 2)
    effect: require_approval
  - {id: trial, match: {tools: [pay]}, when: args.cents > 90, effect: deny, mode: shadow}
"""
TESTS = "tools: {get: {verb: READ}, pay: {verb: FINANCIAL}}\ncases:\n"


def covered(*cases: str, policy=POLICY):
    lines = [f"  - {{name: c, expect: {{effect: deny}}, {case}}}\n" for case in cases]
    suite = read_suite(TESTS + "".join(lines))
    return cover(load_policies({"p.yaml": policy}), [case.inputs for case in suite.cases])


def missing(*cases: str, policy=POLICY):
    return {rule.rule.name: list(rule.missing) for rule in covered(*cases, policy=policy).rules}


GET = "tool: get"
HELD = "tool: pay, args: {cents: 6}, run: {untrusted: true}"
LITTLE = "tool: pay, args: {cents: 5}"
MUCH = "tool: pay, args: {cents: 91}"


@pytest.mark.parametrize("path", SHIPPED, ids=[path.stem for path in SHIPPED])
def test_the_tests_of_shipped_policies_see_everything(path):
    suite = read_suite(path.with_suffix(".test.yaml").read_text())
    got = cover(load_policies({path.name: path.read_text()}), [case.inputs for case in suite.cases])
    assert got.to_json()["missing"] == []
    assert got.percent == 100


def test_what_no_case_has_seen_is_named():
    got = covered(GET)
    assert missing(GET) == {
        "p/open": [],
        "p/pay": [
            "it never bound",
            "it always bound",
            "never true: args.cents > 5",
            "never false: args.cents > 5",
            "never true: run.untrusted",
            "never false: run.untrusted",
        ],
        "p/trial": [
            "it never bound",
            "it always bound",
            "never true: args.cents > 90",
            "never false: args.cents > 90",
        ],
    }
    assert (got.seen, got.goals, got.percent) == (1, 11, 9)
    assert got.to_json() == {
        "percent": 9,
        "seen": 1,
        "goals": 11,
        "missing": [
            {"rule": rule, "file": "p.yaml", "line": line, "missing": missing(GET)[rule]}
            for rule, line in (("p/pay", 5), ("p/trial", 9))
        ],
    }


def test_everything_seen_is_a_hundred():
    assert covered(GET, HELD, LITTLE, MUCH).percent == 100


def test_one_thing_unseen_is_less_than_a_hundred():
    assert missing(GET, HELD, LITTLE)["p/trial"] == [
        "it never bound",
        "never true: args.cents > 90",
    ]
    assert missing(HELD, LITTLE, MUCH)["p/open"] == ["it never bound"]


def test_a_failure_is_neither_true_nor_false():
    assert "never true: args.cents > 5" in missing("tool: pay, args: {cents: '6'}")["p/pay"]
    assert "never false: args.cents > 5" in missing("tool: pay, args: {cents: '6'}")["p/pay"]


def test_a_rule_that_is_always_outweighed_never_bound():
    outweighed = POLICY + "  - {id: never, match: {tools: [get]}, effect: deny}\n"
    assert missing(GET, policy=outweighed)["p/open"] == ["it never bound"]
    assert missing(GET, policy=outweighed)["p/never"] == []


def test_a_rejected_input_covers_nothing():
    assert covered('tool: get, args: {x: "\\0"}').seen == 0
