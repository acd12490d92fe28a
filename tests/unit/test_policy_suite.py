"""The shipped policies do what their tests say, and a suite that fails says what it saw."""

from pathlib import Path

import pytest

from governance.policy.document import load_policies
from governance.policy.lint import ToolShape, check
from governance.policy.rules import PolicySet
from governance.policy.suite import read_suite, run_suite
from governance.policy.yaml_source import PolicyError

POLICIES = Path(__file__).parents[2] / "policies"
SHIPPED = sorted(path for path in POLICIES.rglob("*.yaml") if not path.name.endswith(".test.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=[path.stem for path in SHIPPED])
def test_shipped_policies_do_what_their_tests_say(path: Path) -> None:
    text = path.read_text()
    policies = load_policies({path.name: text})
    tests = path.with_suffix(".test.yaml")
    report = run_suite(policies, tests.read_text(), file=tests.name)
    assert [case for case in report.cases if not case.passed] == []
    assert report.passed
    named = {rule for case in report.cases for rule in case.expected.get("rules", [])}  # type: ignore[union-attr] # a list
    assert named == {rule.name for rule in policies.rules}
    assert text.startswith("# ")
    assert "does not stop" in " ".join(text.split("policy:")[0].replace("#", "").split())


@pytest.mark.parametrize("path", SHIPPED, ids=[path.stem for path in SHIPPED])
def test_nothing_is_wrong_with_shipped_policies(path: Path) -> None:
    tools = read_suite(path.with_suffix(".test.yaml").read_text()).tools
    shapes = {name: ToolShape(profile, {}) for name, profile in tools.items()}
    assert check(load_policies({path.name: path.read_text()}), shapes) == ()


def test_the_baseline_asks_the_engine_only_about_changes() -> None:
    policies = load_policies({"b": (POLICIES / "baseline.yaml").read_text()})
    asking = [rule for rule in policies.rules if rule.when is not None or rule.message is not None]
    assert [rule.name for rule in asking] == ["baseline/own-records"]
    reads = {"READ", "API_GET", "NETWORK"}
    verbs = dict(asking[0].match.among)["verb"]
    assert reads.isdisjoint(verbs)


POLICY = """
policy: p
version: 1
rules:
  - {id: night, when: now.getHours() >= 22, effect: deny}
  - {id: tainted, when: run.untrusted, effect: require_approval, message: "'held'"}
  - {id: staff, when: "'staff' in principal.roles && env.name == 'prod'", effect: allow}
"""
SUITE = """
tools:
  get: {verb: READ}
cases:
  - {name: day, tool: get, principal: {roles: [staff]}, env: {name: prod}, expect: {effect: allow}}
"""


@pytest.fixture
def policies() -> PolicySet:
    return load_policies({"p.yaml": POLICY})


def case(given: str) -> str:
    staff = "principal: {roles: [staff]}, env: {name: prod}"
    return SUITE + f"  - {{name: mine, tool: get, {staff}, {given}}}\n"


@pytest.mark.parametrize(
    "given",
    [
        "now: 2026-01-01T22:00:00Z, expect: {effect: deny, rules: [p/night]}",
        "now: 2026-01-01T22:00:00Z, expect: {effect: deny, tier: low, reasons: []}",
        "run: {untrusted: true}, expect: {effect: require_approval, message: held}",
        "run: {untrusted: true}, expect: {effect: require_approval, demands: {quorum: [{role: approver}]}}",
    ],
)
def test_a_case_sets_the_scene(policies: PolicySet, given: str) -> None:
    assert run_suite(policies, case(given)).passed


@pytest.mark.parametrize(
    ("expect", "field", "got"),
    [
        ("{effect: deny}", "effect", "allow"),
        ("{effect: allow, rules: []}", "rules", ["p/staff"]),
        ("{effect: allow, rules: [p/staff, p/more]}", "rules", ["p/staff"]),
        ("{effect: allow, reasons: [no-rule]}", "reasons", []),
        ("{effect: allow, tier: high}", "tier", "low"),
        ("{effect: allow, message: hello}", "message", None),
        ("{effect: allow, demands: {quorum: [{role: a}]}}", "demands", {}),
    ],
)
def test_a_failing_case_says_what_it_saw(
    policies: PolicySet, expect: str, field: str, got: object
) -> None:
    report = run_suite(policies, case(f"expect: {expect}"))
    assert not report.passed
    first, mine = report.cases
    assert first.passed
    assert (mine.name, mine.passed, mine.got[field], mine.line) == ("mine", False, got, 6)
    assert mine.got[field] != mine.expected[field]


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        (case("expect: {effect: alow}"), 6, "unknown effect `alow`", "`allow`?"),
        (case("expect: {rules: []}"), 6, "has no `effect`", ""),
        (case("expect: {effect: allow, tier: hihg}"), 6, "unknown tier `hihg`", "`high`?"),
        (case("expect: {effect: allow, reason: []}"), 6, "`reason`", "`reasons`?"),
        (case("run: {untrustd: true}, expect: {effect: deny}"), 6, "`untrustd`", "`untrusted`?"),
        (case("now: tomorrow, expect: {effect: deny}"), 6, "malformed: `tomorrow`", "2026-01-01T"),
        (case("now: 2026-13-01T00:00:00Z, expect: {effect: deny}"), 6, "no moment", ""),
        (case("args: [], expect: {effect: deny}"), 6, "args is not a mapping", ""),
        (SUITE.replace("tool: get", "tool: gte"), 5, "unknown tool `gte`", "`get`?"),
        (SUITE.replace("verb", "verbs"), 3, "unknown field `verbs`", "`verb`?"),
        (SUITE.replace("verb: READ", "risk_tier: top"), 3, "unknown tier `top`", ""),
        (SUITE.replace("verb: READ", "side_effect: 1"), 3, "neither true nor false", ""),
        ("tools: {}\ncases: []\n", 2, "cases is empty", ""),
        ("tools: {}\ncases:\n" + "  - {name: x}\n" * 1001, 2, "1001 cases exceed 1000", "split"),
        ("cases: []\n", 1, "has no `tools`", ""),
    ],
)
def test_a_suite_that_cannot_be_read_says_where(
    policies: PolicySet, text: str, line: int, message: str, hint: str
) -> None:
    with pytest.raises(PolicyError) as caught:
        run_suite(policies, text, file="p.test.yaml")
    assert caught.value.message.startswith(f"p.test.yaml:{line}: ")
    assert message in caught.value.message
    assert hint in caught.value.hint
