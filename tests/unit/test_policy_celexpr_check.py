"""The type checker of the C++ runtime adds warnings to ours: each once, none against ours, and no set loads otherwise."""

import json

import pytest

from governance.policy.cel import CONDITION_STEPS_MAX, CelFailure
from governance.policy.celexpr_check import call_flaws
from governance.policy.document import read_policies
from governance.policy.lint import Code, Lint, Severity, ToolShape, check
from governance.policy.model import RiskProfile

PARAMETERS = {
    "type": "object",
    "properties": {
        "to": {"type": "string"},
        "n": {"type": "integer"},
        "h": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "lines": {"type": "array", "items": {"type": "object"}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "order": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
        "flag": {"type": "boolean"},
        "any": {},
        "content-type": {"type": "string"},
    },
    "required": ["to", "n", "h", "tags", "lines", "counts", "order", "flag", "any"],
    "additionalProperties": False,
}
ARGS = {
    "to": "a",
    "n": 1,
    "h": 0.5,
    "tags": ["a"],
    "lines": [{}],
    "counts": {"a": 1},
    "order": {"id": "a"},
    "flag": True,
    "any": None,
}
TOOLS = {"t": ToolShape(RiskProfile(), PARAMETERS)}  # type: ignore[dict-item] # JSON


def policy(condition: str, message: str = "") -> dict[str, str]:
    rule = {"id": "r", "effect": "allow", "when": condition}
    if message:
        rule["message"] = message
    return {
        "p.yaml": json.dumps({"policy": "p", "version": 1, "rules": [rule]}, ensure_ascii=False)
    }


def said(condition: str, *, tools: dict[str, ToolShape] | None = TOOLS) -> list[Lint]:
    """What the second reader adds."""
    policies = read_policies(policy(condition))
    alone = check(policies, tools)
    both = check(policies, tools, second=call_flaws)
    assert set(alone) <= set(both)
    return [lint for lint in both if lint not in alone]


ADDS = {
    "args.lines.join(',') == ''": "`join` takes no such values: list, text",
    "args.counts.exists(k, v, v.startsWith(k))": "`startsWith` takes no such values: int, text",
    "args.flag && args.counts.\n  exists(k, v, k.endsWith (v))": "`endsWith` takes no such values: text, int",
    "(args.tags + args.tags)[ 'a'] == 'b'": "`[ ]` of a list takes no text",
    "{'a': 1}[args.n] == 1": "`[ ]` of a map takes no int",
    "[now].exists(i, t, t.startsWith('a'))": "`startsWith` takes no such values: timestamp, text",
    "[now - now].exists(i, d, d.startsWith('a'))": "`startsWith` takes no such values: duration, text",
}


@pytest.mark.parametrize(("condition", "message"), ADDS.items())
def test_it_finds_what_ours_does_not(condition: str, message: str) -> None:
    (found,) = said(condition)
    assert found.message == message
    assert found.severity is Severity.WARNING
    assert found.code is Code.TYPE
    assert found.hint == "so says the type checker of `celexpr`"
    assert (found.file, found.rule) == ("p.yaml", "p/r")


@pytest.mark.parametrize("condition", ADDS)
def test_what_it_finds_never_comes_out(condition: str) -> None:
    policies = read_policies(policy(condition))
    (rule,) = policies.rules
    assert rule.when is not None
    inputs = {"args": ARGS, "principal": {"roles": ["a"]}, "now": 1}
    outcome = rule.when.evaluate(policies.evaluator.bind(inputs), CONDITION_STEPS_MAX)  # type: ignore[arg-type] # JSON
    assert isinstance(outcome.value, CelFailure)


def test_it_points_at_the_place_in_the_file() -> None:
    text = """policy: p
version: 1
rules:
  - id: r
    effect: deny
    when: |
      args.flag // ünïcödé 😀
      && args.to.startsWith ('x')
      && args.counts.all(k, v, v.startsWith (k))
"""
    (found,) = check(read_policies({"p.yaml": text}), TOOLS, second=call_flaws)
    assert (found.line, found.column) == (9, 34)


CONTENT = [
    "args.n == 1.0 && args.n in [1.0, 2.0] && args.h > args.n && args.h == 1",
    "(args.flag ? args.to : args.n) == 1",
    "[1, 'a'].exists(x, x == 1) && {'a': 1, 'b': 'x'}['a'] == 1",
    "args.any.startsWith('a') && args.any[0] == args.any['k']",
    "args.tags.transformList(i, t, t + string(i)).join('-').split('-').size() > 1",
    "args.counts.all(k, v, v > 0 && k != '') && args.counts['a'] == 1",
    "args.lines.all(l, has(l.x) && l.x.startsWith('a') && l['y'] > 1)",
    "duration('1h') + now > timestamp('2020-01-01T00:00:00Z') && int(now) > 0",
    "args.order.id == 'a' && args['order']['id'].size() == 1 && type(args.n) == int",
    "run.calls.exists(t, t.startsWith('x')) && env.labels['a'] == 'b'",
    "'é😀'.charAt(0) == args.to.trim().lowerAscii() && args.to.indexOf('a', 1) > -1",
    "args.flag " + "&& (args.flag " * 40 + ")" * 40,
    "args.counts.transformMap(k, v, v + 1) == {'a': 2}",
]


@pytest.mark.parametrize("condition", CONTENT)
def test_it_does_not_contradict_ours(condition: str) -> None:
    assert said(condition) == []
    assert [f for f in said(condition, tools=None) if f.code is Code.TYPE] == []


@pytest.mark.parametrize(
    "condition",
    [
        "size(args.n) == 1",
        "args.n.startsWith('a')",
        "args.to[0] == 'a'",
        "args.to + 1 == 'a'",
        "args.to < 5",
        "args.to.startsWith(5)",
        "timestamp(args.flag) > now",
        "args.tags['a'] == 'b'",
        "args.counts[ args.n] == 1",
    ],
)
def test_what_ours_refuses_is_said_once(condition: str) -> None:
    lints = check(read_policies(policy(condition)), TOOLS, second=call_flaws)
    assert [lint.severity for lint in lints] == [Severity.ERROR]


def test_one_error_does_not_hush_another_place() -> None:
    lints = check(
        read_policies(policy("args.m == 1 || args.lines.join(',') == ''")), TOOLS, second=call_flaws
    )
    assert [lint.severity for lint in lints] == [Severity.ERROR, Severity.WARNING]


def test_a_message_is_read_too() -> None:
    policies = read_policies(policy("true", "args.lines.join(',')"))
    assert "`join` takes no such values: list, text" in [
        lint.message for lint in check(policies, TOOLS, second=call_flaws)
    ]
