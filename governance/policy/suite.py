"""Do the policies do what their author says? Runs the cases written beside them, on a pinned clock.

    tools:                                    # name -> risk profile, the fields of `@tool`
      refund: {verb: FINANCIAL, side_effect: true}
    cases:
      - name: a small refund passes
        tool: refund
        args: {amount_cents: 900}             # optional, like the four below
        principal: {roles: [clerk]}
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

What a case leaves out of the decision input has the value of an empty run. Fields that no decision
input has are errors, like everywhere.
"""

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from governance.canonical import JSON
from governance.ids import Digest
from governance.policy.cel import did_you_mean
from governance.policy.decide import decide
from governance.policy.document import read_demands
from governance.policy.model import Decision, Effect, RiskProfile, Tier
from governance.policy.risk import tool_input
from governance.policy.rules import PolicySet
from governance.policy.yaml_source import Node, need, read_yaml

__all__ = ["CaseResult", "SuiteReport", "run_suite"]

PINNED_NOW: Final = "2026-01-01T00:00:00Z"
CASES_MAX: Final = 1000

_CASE_FIELDS: Final = ("name", "tool", "args", "principal", "run", "env", "now", "expect")
_EXPECT_FIELDS: Final = ("effect", "rules", "reasons", "tier", "demands", "message")
_PROFILE_FIELDS: Final = (
    *("verb", "risk_tier", "side_effect", "reversibility", "blast_radius", "cost_class"),
    *("scopes", "idempotent", "untrusted_output"),
)
_EMPTY: Final[Mapping[str, Mapping[str, JSON]]] = {
    "principal": {"id": "user:somebody", "roles": [], "tenant": ""},
    "agent": {"id": "agent:somebody", "path": [], "model": ""},
    "run": {
        "id": "run-0",
        "step": 0,
        "calls": {},
        "sums": {},
        "failures": 0,
        "rejected": 0,
        "turn_refused": 0,
        "tokens": 0,
        "elapsed_s": 0,
        "untrusted": False,
        "untrusted_sources": [],
    },
    "env": {"name": "", "labels": {}},
}
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


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


def run_suite(policies: PolicySet, suite_text: str, *, file: str = "tests") -> SuiteReport:
    """Run every case of a suite. Raises PolicyError when the suite itself cannot be read."""
    root = read_yaml(suite_text, file)
    fields = root.fields("policy tests", ("tools", "cases"))
    tools = {
        name: _profile(node)
        for name, node in need(fields, "tools", root, "policy tests").named("tools").items()
    }
    cases = need(fields, "cases", root, "policy tests")
    nodes = cases.items("cases")
    if len(nodes) > CASES_MAX:
        raise cases.wrong(f"{len(nodes)} cases exceed {CASES_MAX}", "split the file")
    return SuiteReport(tuple(_run_case(policies, tools, node) for node in nodes))


def _run_case(policies: PolicySet, tools: Mapping[str, RiskProfile], node: Node) -> CaseResult:
    fields = node.fields("case", _CASE_FIELDS)
    name = need(fields, "name", node, "case").text("case name")
    expected = _expected(need(fields, "expect", node, f"case `{name}`"))
    decision = decide(policies, _inputs(fields, tools, need(fields, "tool", node, "case")))
    got = _seen(decision, expected)
    return CaseResult(name, node.line, got == expected, expected, got)


def _inputs(
    fields: Mapping[str, Node], tools: Mapping[str, RiskProfile], tool: Node
) -> dict[str, JSON]:
    name = tool.text("tool")
    if name not in tools:
        raise tool.wrong(f"unknown tool `{name[:80]}`", did_you_mean(name, tools))
    inputs: dict[str, JSON] = {
        "tool": tool_input(name, Digest(bytes(32)), tools[name]),
        "args": {},
        "args_origin": {},
        "now": _moment(fields["now"]) if "now" in fields else _micros(PINNED_NOW),
        **_EMPTY,
    }
    if "args" in fields:
        inputs["args"] = {key: item.plain() for key, item in fields["args"].named("args").items()}
    for part in ("principal", "run", "env"):
        if part in fields:
            given = fields[part].fields(f"`{part}`", _EMPTY[part])
            inputs[part] = {**_EMPTY[part], **{key: item.plain() for key, item in given.items()}}
    return inputs


def _profile(node: Node) -> RiskProfile:
    fields = node.fields("risk profile", _PROFILE_FIELDS)
    texts = {
        field: fields[field].text(f"`{field}`")
        for field in ("verb", "reversibility", "blast_radius", "cost_class")
        if field in fields
    }
    truths = {
        field: fields[field].truth(f"`{field}`")
        for field in ("side_effect", "idempotent", "untrusted_output")
        if field in fields
    }
    scopes = fields["scopes"].items("`scopes`") if "scopes" in fields else ()
    return RiskProfile(
        verb=texts.get("verb"),
        risk_tier=_tier(fields["risk_tier"]) if "risk_tier" in fields else None,
        side_effect=truths.get("side_effect"),
        reversibility=texts.get("reversibility"),
        blast_radius=texts.get("blast_radius"),
        cost_class=texts.get("cost_class"),
        scopes=tuple(scope.text("scope") for scope in scopes),
        idempotent=truths.get("idempotent", False),
        untrusted_output=truths.get("untrusted_output", False),
    )


def _tier(node: Node) -> Tier:
    given = node.text("tier")
    if given not in list(Tier):
        raise node.wrong(f"unknown tier `{given[:80]}`", did_you_mean(given, Tier))
    return Tier(given)


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
        expected["tier"] = _tier(fields["tier"]).value
    if "message" in fields:
        expected["message"] = fields["message"].text("message")
    if "demands" in fields:
        expected["demands"] = _demanded(fields["demands"])
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
    }
    return {field: seen[field] for field in expected}


def _moment(node: Node) -> int:
    text = node.text("`now`", _MOMENT, "write it like 2026-01-01T00:00:00Z")
    try:
        return _micros(text)
    except ValueError:
        raise node.wrong(f"`now` is no moment: `{text}`") from None


def _micros(text: str) -> int:
    moment = dt.datetime.fromisoformat(text)
    return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
