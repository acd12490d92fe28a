"""Do the policies do what their author says? Runs the cases written beside them, on a pinned clock.

    tools:                                    # name -> risk profile, the fields of `@tool`
      refund: {verb: FINANCIAL, side_effect: true}
    fixtures:                                 # optional: parts of an input, by name
      clerk: {principal: {roles: [clerk]}}
    cases:
      - name: a small refund passes
        with: [clerk]                         # optional, like the next eight; what the case says wins
        tool: refund                          # here, in a fixture or in the matrix
        args: {amount_cents: 900}
        args_origin: {order: user}
        principal: {roles: [clerk]}
        agent: {id: "agent:desk"}
        run: {untrusted: true}
        env: {name: production}
        now: 2026-01-01T00:00:00Z
        expect:
          effect: allow                       # the only field that must be there
          rules: [refund_desk/small]          # exactly these, in any order
          reasons: []                         # exactly these, in any order
          tier: critical
          demands: {quorum: [{role: finance, count: 1}], decide_by: 4h}   # the fields given here
          message: the text for people
          shadow: {refund_desk/trial: deny}   # what exactly these rules in shadow mode would have said
      - name: the edge
        tool: refund
        matrix: {args.amount_cents: [5000, 5001], run.untrusted: [false, true]}   # every combination
        expect:                               # or one for all, or one for each in this order
          - {when: {args.amount_cents: 5000, run.untrusted: false}, effect: allow}
          - {effect: require_approval}        # the rest

What a case leaves out of the decision input has the value of an empty run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, cast

from governance.canonical import JSON
from governance.policy.cel import did_you_mean
from governance.policy.decide import decide
from governance.policy.document import read_demands
from governance.policy.model import Decision, Effect, RiskProfile
from governance.policy.rules import PolicySet
from governance.policy.suite_matrix import Combination, combinations, expectations
from governance.policy.suite_scene import PARTS, Scene, Stage, laid_over, read_profile, read_tier
from governance.policy.yaml_source import Node, need, read_yaml

__all__ = ["Case", "CaseResult", "Suite", "SuiteReport", "read_suite", "run_cases"]

CASES_MAX: Final = 1000
"""Written in one file."""

_CASE_FIELDS: Final = ("name", "with", *PARTS, "matrix", "expect")
_EXPECT_FIELDS: Final = ("effect", "rules", "reasons", "tier", "demands", "message", "shadow")


@dataclass(frozen=True, slots=True)
class Case:
    """One input and what is expected of its decision."""

    name: str
    line: int
    inputs: Mapping[str, JSON]
    expected: Mapping[str, JSON]

    @property
    def tool(self) -> str:
        return str(cast("Mapping[str, JSON]", self.inputs["tool"])["name"])


@dataclass(frozen=True, slots=True)
class Suite:
    """The cases of a file, one for each combination of a matrix, and the tools they are about."""

    tools: Mapping[str, RiskProfile]
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case: what it expected, and what was decided, field by field."""

    name: str
    line: int
    passed: bool
    expected: Mapping[str, JSON]
    got: Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class SuiteReport:
    cases: tuple[CaseResult, ...]

    @property
    def passed(self) -> bool:
        return all(case.passed for case in self.cases)


def read_suite(text: str, *, file: str = "tests") -> Suite:
    """Read the cases. Raises PolicyError with file and line."""
    root = read_yaml(text, file)
    fields = root.fields("policy tests", ("tools", "fixtures", "cases"))
    given = need(fields, "tools", root, "policy tests").named("tools")
    stage = Stage({name: read_profile(node) for name, node in given.items()})
    fixtures: dict[str, Scene] = {}
    if "fixtures" in fields:
        for name, node in fields["fixtures"].named("fixtures").items():
            fixtures[name] = stage.read(node.fields(f"fixture `{name[:80]}`", PARTS))
    cases = need(fields, "cases", root, "policy tests")
    nodes = cases.items("cases")
    if len(nodes) > CASES_MAX:
        raise cases.wrong(f"{len(nodes)} cases exceed {CASES_MAX}", "split the file")
    read = (case for node in nodes for case in _cases(stage, fixtures, node))
    return Suite(stage.tools, tuple(read))


def run_cases(policies: PolicySet, suite: Suite) -> SuiteReport:
    """Run every case of a suite that was read."""
    return SuiteReport(tuple(_run(policies, case) for case in suite.cases))


def _run(policies: PolicySet, case: Case) -> CaseResult:
    got = _seen(decide(policies, case.inputs), case.expected)
    return CaseResult(case.name, case.line, got == case.expected, case.expected, got)


def _cases(stage: Stage, fixtures: Mapping[str, Scene], node: Node) -> Iterator[Case]:
    fields = node.fields("case", _CASE_FIELDS)
    name = need(fields, "name", node, "case").text("case name")
    expect = need(fields, "expect", node, f"case `{name}`")
    used = [_fixture(fixtures, item) for item in _with(fields)]
    scene = laid_over([*used, stage.read(fields)])
    if "matrix" not in fields:
        if isinstance(expect.value, tuple):
            raise expect.wrong("a list of expectations stands only with `matrix`")
        yield Case(name, node.line, _inputs(stage, scene, node), _expected(expect))
        return
    of = combinations(fields["matrix"])
    for combination, wanted in zip(of, expectations(expect, of), strict=True):
        inputs = _inputs(stage, _set(stage, scene, combination, fields["matrix"]), node)
        yield Case(f"{name} [{combination}]", node.line, inputs, _expected(wanted))


def _with(fields: Mapping[str, Node]) -> tuple[Node, ...]:
    return fields["with"].items("`with`") if "with" in fields else ()


def _fixture(fixtures: Mapping[str, Scene], node: Node) -> Scene:
    name = node.text("fixture")
    if name not in fixtures:
        raise node.wrong(f"unknown fixture `{name[:80]}`", did_you_mean(name, fixtures))
    return fixtures[name]


def _set(stage: Stage, scene: Scene, combination: Combination, matrix: Node) -> Scene:
    for name, value in combination.values.items():
        scene = stage.put(scene, stage.place(name, matrix), value)
    return scene


def _inputs(stage: Stage, scene: Scene, node: Node) -> Mapping[str, JSON]:
    if "tool" not in scene:
        raise node.wrong("case has no `tool`", "name it here, in a fixture or in the matrix")
    return stage.inputs(scene)


def _expected(node: Node) -> dict[str, JSON]:
    fields = node.fields("expectation", _EXPECT_FIELDS)
    effect = need(fields, "effect", node, "expectation")
    if effect.value not in list(Effect):
        word = effect.text("effect")
        raise effect.wrong(f"unknown effect `{word[:80]}`", did_you_mean(word, Effect))
    expected: dict[str, JSON] = {"effect": effect.text("effect")}
    for field in ("rules", "reasons"):
        if field in fields:
            expected[field] = _names(fields[field])
    if "tier" in fields:
        expected["tier"] = read_tier(fields["tier"]).value
    if "message" in fields:
        expected["message"] = fields["message"].text("message")
    if "demands" in fields:
        expected["demands"] = _demanded(fields["demands"])
    if "shadow" in fields:
        said = fields["shadow"].named("`shadow`")
        expected["shadow"] = {rule: item.text("outcome") for rule, item in said.items()}
    return expected


def _names(node: Node) -> list[str]:
    """Read a list that may be empty: here nothing is something to expect."""
    return [] if node.value == () else sorted(item.text("name") for item in node.items("names"))


def _demanded(node: Node) -> dict[str, JSON]:
    """The demands as a decision records them, but only the fields that the case gives."""
    whole = read_demands(node).to_json()
    given = node.fields("demands", ("quorum", "decide_by", "use_by", "reauthenticate"))
    recorded = {"decide_by": "decide_by_s", "use_by": "use_by_s"}
    return {recorded.get(field, field): whole[recorded.get(field, field)] for field in given}


def _seen(decision: Decision, expected: Mapping[str, JSON]) -> dict[str, JSON]:
    body = decision.to_json()
    demands = cast("Mapping[str, JSON]", body.get("demands", {}))
    asked = cast("Mapping[str, JSON]", expected.get("demands", {}))
    seen: dict[str, JSON] = {
        **body,
        "reasons": sorted(decision.reasons),
        "message": decision.message,
        "demands": {field: demands.get(field) for field in asked} if demands else {},
        "shadow": dict(decision.shadow),
    }
    return {field: seen[field] for field in expected}
