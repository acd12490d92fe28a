"""The shipped policies do what their tests say, and a suite that fails says what it saw."""

from pathlib import Path

import pytest

from governance.policy.document import load_policies
from governance.policy.lint import ToolShape, check
from governance.policy.model import RiskProfile, Tier
from governance.policy.rules import PolicySet
from governance.policy.suite import read_suite, run_cases
from governance.policy.yaml_source import PolicyError

POLICIES = Path(__file__).parents[2] / "policies"
SHIPPED = sorted(path for path in POLICIES.rglob("*.yaml") if not path.name.endswith(".test.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=[path.stem for path in SHIPPED])
def test_shipped_policies_do_what_their_tests_say(path: Path) -> None:
    text = path.read_text()
    policies = load_policies({path.name: text})
    tests = path.with_suffix(".test.yaml")
    report = run_cases(policies, read_suite(tests.read_text(), file=tests.name))
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
    assert run_cases(policies, read_suite(case(given))).passed


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
    report = run_cases(policies, read_suite(case(f"expect: {expect}")))
    assert not report.passed
    first, mine = report.cases
    assert first.passed
    assert (mine.name, mine.passed, mine.got[field], mine.line) == ("mine", False, got, 6)
    assert mine.got[field] != mine.expected[field]


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        (case("expect: {effect: alow}"), 6, "unknown effect `alow`", "did you mean `allow`?"),
        (case("expect: {rules: []}"), 6, "expectation has no `effect`", ""),
        (
            case("expect: {effect: allow, tier: hihg}"),
            6,
            "unknown tier `hihg`",
            "did you mean `high`?",
        ),
        (
            case("expect: {effect: allow, reason: []}"),
            6,
            "unknown field `reason` in expectation",
            "did you mean `reasons`?",
        ),
        (
            case("run: {untrustd: true}, expect: {effect: deny}"),
            6,
            "unknown field `untrustd` in `run`",
            "did you mean `untrusted`?",
        ),
        (
            case("now: tomorrow, expect: {effect: deny}"),
            6,
            "`now` is malformed: `tomorrow`",
            "write it like 2026-01-01T00:00:00Z",
        ),
        (
            case("now: 2026-13-01T00:00:00Z, expect: {effect: deny}"),
            6,
            "`now` is no moment: `2026-13-01T00:00:00Z`",
            "write it like 2026-01-01T00:00:00Z",
        ),
        (
            case("args: [], expect: {effect: deny}"),
            6,
            "args is not a mapping",
            "write `name: value` lines",
        ),
        (SUITE.replace("tool: get", "tool: gte"), 5, "unknown tool `gte`", "did you mean `get`?"),
        (
            SUITE.replace("verb", "verbs"),
            3,
            "unknown field `verbs` in risk profile",
            "did you mean `verb`?",
        ),
        (
            SUITE.replace("verb: READ", "risk_tier: top"),
            3,
            "unknown tier `top`",
            "use one of critical, high, low, medium",
        ),
        (
            SUITE.replace("verb: READ", "side_effect: 1"),
            3,
            "`side_effect` is neither true nor false",
            "",
        ),
        ("tools: {}\ncases: []\n", 2, "cases is empty", "leave it out or name something"),
        (
            "tools: {}\ncases:\n" + "  - {name: x}\n" * 1001,
            2,
            "1001 cases exceed 1000",
            "split the file",
        ),
        ("cases: []\n", 1, "policy tests has no `tools`", ""),
    ],
)
def test_a_suite_that_cannot_be_read_says_where(
    policies: PolicySet, text: str, line: int, message: str, hint: str
) -> None:
    with pytest.raises(PolicyError) as caught:
        run_cases(policies, read_suite(text, file="p.test.yaml"))
    assert caught.value.message == f"p.test.yaml:{line}: {message}"
    assert caught.value.hint == hint


EVERY_FIELD = """
tools:
  pay: {verb: FINANCIAL, risk_tier: high, side_effect: true, reversibility: none, blast_radius: one,
        cost_class: dear, scopes: [pay, read], idempotent: true, untrusted_output: true}
  get: {}
cases:
  - {name: a, tool: pay, expect: {effect: deny}}
"""


def test_every_field_of_a_profile_is_read() -> None:
    tools = read_suite(EVERY_FIELD).tools
    assert tools["pay"] == RiskProfile(
        verb="FINANCIAL",
        risk_tier=Tier.HIGH,
        side_effect=True,
        reversibility="none",
        blast_radius="one",
        cost_class="dear",
        scopes=("pay", "read"),
        idempotent=True,
        untrusted_output=True,
    )
    assert tools["get"] == RiskProfile()


def test_what_a_case_leaves_out_is_that_of_an_empty_run() -> None:
    (case_,) = read_suite(EVERY_FIELD).cases
    parts = {name: part for name, part in case_.inputs.items() if name != "tool"}
    assert parts == {
        "args": {},
        "args_origin": {},
        "principal": {"id": "user:somebody", "roles": [], "tenant": ""},
        "agent": {"id": "agent:somebody", "path": [], "model": ""},
        "run": {
            "id": "run-0",
            "step": 0,
            "calls": {},
            "sums": {},
            "last": {},
            "approved": {},
            "failures": 0,
            "rejected": 0,
            "turn_refused": 0,
            "tokens": 0,
            "elapsed_s": 0,
            "untrusted": False,
            "untrusted_sources": [],
        },
        "window": {"hour": {}, "day": {}},
        "env": {"name": "", "labels": {}},
        "now": 1_767_225_600_000_000,
    }


LONG = "x" * 100
CUT = "x" * 80
WRONG = {
    "[]\n": "1: policy tests is not a mapping",
    "tools: []\ncases: []\n": "1: tools is not a mapping",
    "tools: {t: 1}\n": "1: risk profile is not a mapping",
    "tools: {t: {verb: 1}}\n": "1: `verb` is not text",
    "tools: {t: {cost_class: 1}}\n": "1: `cost_class` is not text",
    "tools: {t: {idempotent: 1}}\n": "1: `idempotent` is neither true nor false",
    "tools: {t: {scopes: a}}\n": "1: `scopes` is not a list",
    "tools: {t: {scopes: [1]}}\n": "1: scope is not text",
    "tools: {t: {risk_tier: 1}}\n": "1: tier is not text",
    "tools: {}\nfixtures: []\n": "2: fixtures is not a mapping",
    "tools: {}\nfixtures: {f: 1}\n": "2: fixture `f` is not a mapping",
    f"tools: {{}}\nfixtures: {{{LONG}: 1}}\n": f"2: fixture `{CUT}` is not a mapping",
    "tools: {}\n": "1: policy tests has no `cases`",
    "tools: {}\ncases: {}\n": "2: cases is not a list",
    "tools: {}\ncases: [1]\n": "2: case is not a mapping",
    "tools: {}\ncases: [{}]\n": "2: case has no `name`",
    "tools: {}\ncases: [{name: 1}]\n": "2: case name is not text",
    "tools: {}\ncases: [{name: x}]\n": "2: case `x` has no `expect`",
    "tools: {}\ncases: [{name: x, expect: 1, with: 1}]\n": "2: `with` is not a list",
    "tools: {}\ncases: [{name: x, expect: 1, with: [1]}]\n": "2: fixture is not text",
    f"tools: {{}}\ncases: [{{name: x, expect: 1, with: [{LONG}]}}]\n": f"2: unknown fixture `{CUT}`",
    "tools: {}\ncases: [{name: x, expect: 1, tool: 1}]\n": "2: tool is not text",
    f"tools: {{}}\ncases: [{{name: x, expect: 1, tool: {LONG}}}]\n": f"2: unknown tool `{CUT}`",
    "tools: {}\ncases: [{name: x, expect: 1, run: 1}]\n": "2: `run` is not a mapping",
    "tools: {}\ncases: [{name: x, expect: 1, run: {x: 1}}]\n": "2: unknown field `x` in `run`",
    "tools: {}\ncases: [{name: x, expect: 1, now: 1}]\n": "2: `now` is not text",
    f"tools: {{}}\ncases: [{{name: x, expect: 1, now: {LONG}}}]\n": f"2: `now` is malformed: `{CUT}`",
}
EXPECTED = {
    "1": "expectation is not a mapping",
    "{}": "expectation has no `effect`",
    "{effect: 1}": "effect is not text",
    f"{{effect: {LONG}}}": f"unknown effect `{CUT}`",
    "{effect: deny, x: 1}": "unknown field `x` in expectation",
    "{effect: deny, rules: 1}": "names is not a list",
    "{effect: deny, rules: [1]}": "name is not text",
    "{effect: deny, reasons: 1}": "names is not a list",
    "{effect: deny, tier: 1}": "tier is not text",
    f"{{effect: deny, tier: {LONG}}}": f"unknown tier `{CUT}`",
    "{effect: deny, message: 1}": "message is not text",
    "{effect: deny, demands: 1}": "approval is not a mapping",
    "{effect: deny, demands: {quorum: [{role: a}], x: 1}}": "unknown field `x` in approval",
    "{effect: deny, shadow: 1}": "`shadow` is not a mapping",
    "{effect: deny, shadow: {a: 1}}": "outcome is not text",
}


@pytest.mark.parametrize(
    ("text", "words"),
    [*WRONG.items(), *((case(f"expect: {given}"), f"6: {EXPECTED[given]}") for given in EXPECTED)],
)
def test_each_part_of_a_suite_is_called_by_its_name(text: str, words: str) -> None:
    with pytest.raises(PolicyError) as caught:
        read_suite(text)
    assert caught.value.message == f"tests:{words}"


@pytest.mark.parametrize(
    ("demands", "passes"),
    [
        ("{quorum: [{role: finance, count: 2}]}", True),
        ("{quorum: [{role: finance, count: 1}]}", False),
        ("{quorum: [{role: finance, count: 2}], decide_by: 15m, use_by: 30s}", True),
        ("{quorum: [{role: finance, count: 2}], decide_by: 16m}", False),
        ("{quorum: [{role: finance, count: 2}], use_by: 31s}", False),
        ("{quorum: [{role: finance, count: 2}], reauthenticate: true}", True),
        ("{quorum: [{role: finance, count: 2}], reauthenticate: false}", False),
    ],
)
def test_demands_are_compared_in_the_fields_that_are_given(demands: str, passes: bool) -> None:
    asks = (
        "{quorum: [{role: finance, count: 2}], decide_by: 15m, use_by: 30s, reauthenticate: true}"
    )
    policies = load_policies(
        {
            "p": f"policy: p\nversion: 1\nrules:\n- {{id: r, effect: require_approval, approval: {asks}}}\n"
        }
    )
    text = SUITE.replace("{effect: allow}", f"{{effect: require_approval, demands: {demands}}}")
    assert run_cases(policies, read_suite(text)).passed is passes
