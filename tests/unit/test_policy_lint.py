"""A rule that can never do what its author meant is told before it decides anything, with its place."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agents import Plays, say

from agent import DurableAgent, tool
from agent.demo import RefundDesk
from agent.logbook import tool_facts
from agent.tools import ToolRegistry
from governance.assemble import Governance
from governance.errors import InvalidInputError
from governance.ids import Digest
from governance.policy import lint as module
from governance.policy.cel import Activation, Outcome, engine_by_name
from governance.policy.declarations import (
    Kind,
    Member,
    ToolShape,
    Type,
    declared_inputs,
    schema_type,
)
from governance.policy.document import load_policies, read_policies
from governance.policy.lint import Code, Lint, Severity, Toolbox, check, refuse_unfit
from governance.policy.model import RiskProfile
from governance.policy.yaml_source import PolicyError, place_in

POLICIES = Path(__file__).parents[2] / "policies"


def takes(**properties: Any) -> dict[str, Any]:
    """A closed schema; a property whose schema says `optional` is not required."""
    optional = [name for name, schema in properties.items() if schema.pop("optional", False)]
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


TOOLS = {
    "refund": ToolShape(
        RiskProfile(verb="FINANCIAL", side_effect=True, scopes=("pay",)),
        takes(
            order={"type": "string"},
            amount_cents={"type": "integer"},
            rate={"type": "number"},
            currency={"enum": ["EUR", "USD"]},
            note={
                "anyOf": [{"type": "string"}, {"type": "null"}],
                "default": None,
                "optional": True,
            },
            urgent={"type": "boolean"},
            tags={"type": "array", "items": {"type": "string"}},
            lines={"type": "array", "items": {"$ref": "#/$defs/Line"}},
            reason={"type": "string", "optional": True},
        )
        | {"$defs": {"Line": {"type": "object", "properties": {"sku": {"type": "string"}}}}},
    ),
    "look_up": ToolShape(RiskProfile(verb="READ"), takes(order={"type": "string"})),
}


def told(
    when: str, effect: str = "deny", match: str = "{tools: [refund]}", **more: Any
) -> list[str]:
    """What is told of one rule: severity and words."""
    quoted = when.replace("\\", "\\\\").replace('"', '\\"')
    text = f'policy: p\nversion: 1\nrules:\n- {{id: r, match: {match}, effect: {effect}, when: "{quoted}"}}\n'
    lints = check(read_policies({"p": text}), more.pop("tools", TOOLS), **more)
    assert all((lint.rule, lint.file, lint.line) == ("p/r", "p", 4) for lint in lints)
    return [f"{lint.severity}: {lint.message}; {lint.hint}" for lint in lints]


NEVER = {
    # a field that is nowhere
    "args.amout_cents > 5": "no tool that the rule is about has `args.amout_cents`; did you mean `amount_cents`?",
    "args['amout_cents'] > 5": "no tool that the rule is about has `args.amout_cents`; did you mean `amount_cents`?",
    "has(args.reson) && args.reson == 'x'": "no tool that the rule is about has `args.reson`; did you mean `reason`?",
    "'reson' in args": "no tool that the rule is about has `args.reson`; did you mean `reason`?",
    "tool.verbb == 'READ'": "unknown field `tool.verbb`; did you mean `verb`?",
    "run.call['refund'] > 3": "unknown field `run.call`; did you mean `calls`?",
    "principal.role == 'x'": "unknown field `principal.role`; did you mean `roles`?",
    "agent.name == 'x'": "unknown field `agent.name`; use one of id, model, path",
    "env.nam == 'prod'": "unknown field `env.nam`; did you mean `name`?",
    "has(run.untrustd)": "unknown field `run.untrustd`; did you mean `untrusted`?",
    "!('oder' in args_origin)": "no tool that the rule is about has `args.oder`; did you mean `order`?",
    "args.amount_cents.net > 5": "`args.amount_cents` (int) has no fields; ",
    # kinds that never compare
    'args.amount_cents > "5"': "`>` compares `args.amount_cents` (int) with the text `5`; write `5` without quotes",
    'args.amount_cents == "5"': "`==` compares `args.amount_cents` (int) with the text `5`; write `5` without quotes",
    '"5" != args.amount_cents': "`!=` compares the text `5` with `args.amount_cents` (int); write `5` without quotes",
    "args.order == 1001": "`==` compares `args.order` (text) with int; write `'1001'` if a text is meant",
    "args.urgent == 1": "`==` compares `args.urgent` (bool) with int; ",
    "args.urgent == 'true'": "`==` compares `args.urgent` (bool) with the text `true`; write `true` without quotes",
    "args.amount_cents == true": "`==` compares `args.amount_cents` (int) with bool; ",
    "args.order == null": "`==` compares `args.order` (text) with null; ask `has(…)` whether it is there",
    "args.tags < ['x']": "`<` compares `args.tags` (list) with list; ",
    "now > 5": "`>` compares `now` (timestamp) with int; ",
    "run.untrusted > 'x'": "`>` compares `run.untrusted` (bool) with the text `x`; ",
    "run.calls['refund'] == 'x'": "`==` compares `run.calls.refund` (int) with the text `x`; ",
    "args.order in ['1001', 1002]": "`args.order` (text) is never int; write `'1002'` if a text is meant",
    "args.amount_cents in args.tags": "`args.amount_cents` (int) is in no list of text; ",
    "args.tags.exists(t, t == 5)": "`==` compares text with int; write `'5'` if a text is meant",
    "[1, 2].exists(n, n == 'a')": "`==` compares int with the text `a`; ",
    "args.lines.all(l, l.sku > 5)": "`>` compares text with int; write `'5'` if a text is meant",
    # words that a value never is
    "tool.risk_tier == 'High'": "`tool.risk_tier` is never `High`; did you mean `high`?",
    "'High' == tool.risk_tier": "`tool.risk_tier` is never `High`; did you mean `high`?",
    "tool.declared_tier in ['', 'severe']": "`tool.declared_tier` is never `severe`; use one of critical, high, low, medium",
    "tool.verb == 'financial'": "`tool.verb` is never `financial` with the tools at hand; did you mean `FINANCIAL`?",
    "args.currency != 'eur'": "`args.currency` is never `eur`; did you mean `EUR`?",
    "args.currency in ['EUR', 'GBP']": "`args.currency` is never `GBP`; use one of EUR, USD",
    "has(args_origin.order) && args_origin.order != 'User'": "`args_origin.order` is never `User`; did you mean `user`?",
    # no condition at all
    "args.amount_cents": "condition is int, not bool; ",
    "args.urgent ? 'x' : 'y'": "condition is text, not bool; ",
    "!args.order": "`args.order` (text) is used as a condition; compare it with something",
    "args.urgent && args.order": "`args.order` (text) is used as a condition; compare it with something",
    "args.tags.exists(t, t)": "text is used as a condition; compare it with something",
    # what no operator or function takes
    "args.order + 1 == 'x'": "`+` takes no text and int; write `'1'` if a text is meant",
    "-args.order == 1": "`-` takes no text; ",
    "args.amount_cents.contains('x')": "`contains` takes no int; it takes text",
    "size(args.amount_cents) > 3": "`size` takes no int; it takes text or bytes or list or map",
    "args.order.startsWith(5)": "`startsWith` is given int; write `'5'` if a text is meant",
    "args.order.endsWith(args.tags)": "`endsWith` is given `args.tags` (list); it takes text there",
    "args.order.matches(args.urgent)": "`matches` is given `args.urgent` (bool); it takes text there",
    "args.order.replace('a', 1) == ''": "`replace` is given int; write `'1'` if a text is meant",
    "args.order.substring('1') == ''": "`substring` is given the text `1`; write `1` without quotes",
    "args.order.split(',', args.tags).size() > 1": "`split` is given `args.tags` (list); it takes int there",
    "args.tags.join(1) == ''": "`join` is given int; write `'1'` if a text is meant",
    "args.order.join() == ''": "`join` takes no text; it takes list",
    "args.tags.exists(t, t.contains(1.5))": "`contains` is given double; write `'1.5'` if a text is meant",
    "now.getHours(2) == 1": "`getHours` is given int; write `'2'` if a text is meant",
    "timestamp(args.urgent) > now": "`timestamp` takes no bool; it takes int or text or timestamp",
    "duration(args.amount_cents) > duration('1h')": "`duration` takes no int; it takes text or duration",
    "string(args.tags) == ''": "`string` takes no list; it takes bool or int or uint or double or text or bytes or timestamp or duration",
    "int(args.tags) > 5": "`int` takes no list; it takes bool or int or uint or double or text or timestamp",
    "uint(args.tags) > 5u": "`uint` takes no list; it takes int or uint or double or text",
    "double(args.tags) > 5.0": "`double` takes no list; it takes int or uint or double or text",
    "bool(args.amount_cents)": "`bool` takes no int; it takes bool or text",
    "args.tags['a'] == 'b'": "`args.tags` (list) has no element the text `a`; ",
    "args.tags['0'] == 'b'": "`args.tags` (list) has no element the text `0`; write `0` without quotes",
    "run.calls[args.amount_cents] == 1": "`run.calls` (map) has no key `args.amount_cents` (int); ",
    "args[0] == 'b'": "`args` (map) has no key int; write `'0'` if a text is meant",
    "'clerk' in principal.tenant": "`principal.tenant` (text) holds nothing; write `.contains(…)`",
    "args.order['a'] == 'b'": "`args.order` (text) has no elements; ",
    "args.order.exists(x, x == 'b')": "`args.order` (text) has no elements; ",
    "args.tags in run.calls": "`args.tags` (list) is no key; ",
}  # fmt: skip


@pytest.mark.parametrize("when", NEVER)
def test_what_can_never_come_out_as_meant_is_an_error(when: str) -> None:
    assert f"error: {NEVER[when]}" in told(when)


DOUBTFUL = {
    "args.urgent == true": "`== true` of what is a bool already; leave it out",
    "args.urgent != true": "`!= true` of what is a bool already; write `!(…)`",
    "run.untrusted == false": "`== false` of what is a bool already; write `!(…)`",
    "true": "condition always holds; leave `when` out",
    "false": "condition never holds; remove the rule",
    "tool.risk_tier >= 'high'": "`>=` compares tiers as texts: `critical` comes before `high`; write `in ['high', 'critical']`",
    "tool.verb == 'DELETE'": "`tool.verb` is never `DELETE` with the tools at hand; use one of FINANCIAL",
    "tool.name == 'refnud'": "`tool.name` is never `refnud` with the tools at hand; did you mean `refund`?",
    "'admin' in tool.scopes": "`tool.scopes` is never `admin` with the tools at hand; use one of pay",
    "has(args.path) && args.path == 'x'": "no tool that the rule is about has `args.path`; use one of amount_cents, currency, lines, note, order, rate, reason, tags, urgent",
    "'refnud' in run.calls": "`run.calls` never has `refnud` with the tools at hand; did you mean `refund`?",
    "'refund.amount' in run.sums": "`run.sums` never has `refund.amount` with the tools at hand; did you mean `refund.amount_cents`?",
    "args.reason.contains('x')": "`args.reason` may be missing, and then the rule denies; ask `has(args.reason)` first",
    "run.calls.refund > 3": "`run.calls.refund` may be missing, and then the rule denies; ask `has(run.calls.refund)` first",
    "run.sums['refund.amount_cents'] > 3": "`run.sums['refund.amount_cents']` may be missing, and then the rule denies; ask `'refund.amount_cents' in run.sums` first",
    "run.untrusted || args.reason == 'x'": "`args.reason` may be missing, and then the rule denies; ask `has(args.reason)` first",
    "args.order.matches('10+')": "`matches` finds its pattern anywhere; begin it with `^` and end it with `$`",
    "matches(args.order, '^10')": "`matches` finds its pattern anywhere; begin it with `^` and end it with `$`",
    "args.order.matches(args.currency)": "the pattern of `matches` comes from the arguments; write it in the rule",
    "int(args.order) > 5": "`int()` of a text from the arguments fails on most of what may stand there; let the tool's schema give it its type",
    "timestamp(args.order) > now": "`timestamp()` of a text from the arguments fails on most of what may stand there; let the tool's schema give it its type",
    "duration(args.tags[0]) > duration('1h')": "`duration()` of a text from the arguments fails on most of what may stand there; let the tool's schema give it its type",
    "args.lines[0].skuu == 'x'": None,
}  # fmt: skip


@pytest.mark.parametrize("when", DOUBTFUL)
def test_what_comes_out_and_likely_not_as_meant_is_a_warning(when: str) -> None:
    words = DOUBTFUL[when]
    assert told(when) == ([] if words is None else [f"warning: {words}"])


@pytest.mark.parametrize(
    "when",
    [
        "args.amount_cents > 5000 && args.rate < 2 && args.rate > 0.5 && args.amount_cents < 7.5",
        "args.currency == 'EUR' && args.urgent && !run.untrusted",
        "has(args.reason) && args.reason == 'x'",
        "args.reason == 'x' && has(args.reason)",
        "!has(args.reason) || args.reason == 'x'",
        "!(has(args.reason) && args.reason == 'x')",
        "has(args.reason) ? args.reason == 'x' : args.urgent",
        "'reason' in args && args['reason'] == 'x'",
        "!('reason' in args) || args.reason == 'x' || run.untrusted",
        "(has(args.reason) && args.urgent) && args.reason == 'x'",
        "args.reason == 'x' && has(args.reason) && run.untrusted",
        "run.untrusted && args.reason == 'x' && has(args.reason)",
        "has(args.reason) && args.urgent ? args.reason == 'x' : args.urgent",
        "!has(args.reason) || !args.urgent ? args.urgent : args.reason == 'x'",
        "(has(args.reason) && args.urgent || has(args.reason)) && args.reason == 'x'",
        "!(!has(args.reason) || args.urgent) && args.reason == 'x'",
        "!has(args.reason) ? args.urgent : args.reason == 'x'",
        "args.note == null || args.note == 'x'",
        "args.note != null && args.note.startsWith('x')",
        "'refund' in run.calls && run.calls['refund'] > 3",
        "!('order' in args_origin) || args_origin.order != 'user'",
        "has(args_origin.order) && args_origin['order'] in ['untrusted', 'unknown']",
        "!('lines[0].sku' in args_origin)",
        "'clerk' in principal.roles && !(principal.tenant in ['a', 'b'])",
        "args.tags.exists(t, t.startsWith('x') && t.size() > 3)",
        "args.lines.all(l, has(l.sku) && l.sku.matches('^[a-z]+$'))",
        "args.exists(name, name in ['path', 'file'] && args[name].contains('ledger'))",
        "now - timestamp('2020-01-01T00:00:00Z') > duration('1h') && now.getHours('UTC') < 18",
        "args.order.matches('(?i)^10+$')",
        r"args.order.matches('\\A10+\\z')",
        "tool.scopes.exists(s, s == 'pay') && tool.verb in ['FINANCIAL']",
        "has(env.labels.team) && env.labels.team == 'x'",
        "size(args.order) > 3 && args.order.lowerAscii() + 'x' != 'ax'",
        "args.tags.map(t, size(t)).exists(n, n > 3) && args.tags.filter(t, t != '').size() == 2",
        "int(args.rate) > 5 && string(args.amount_cents) != '5'",
        "dyn(args.order) == 5 || type(args.order) == string",
        "{'a': 1}['a'] == 1 && [1, 'x'][0] == 1 && {1: 'a'}[args.amount_cents] == 'a'",
        "args.tags[args.amount_cents] == 'a' && args.tags[1u] == 'a' && args.tags[args.rate] == 'a'",
        "args.order.substring(1, args.amount_cents).indexOf('x', 2) == 3 && args.tags.join() == ''",
        "string(now) > string(args.urgent) && timestamp(args.amount_cents) < now && bool('true')",
        "(args.urgent ? args.order : 5) == 5 && args.order.startsWith(dyn(5))",
    ],
)  # fmt: skip
def test_what_is_right_is_not_talked_about(when: str) -> None:
    assert told(when) == []


@pytest.mark.parametrize(
    "when",
    [
        "(has(args.reason) || args.urgent) && args.reason == 'x'",
        "!(has(args.reason) && args.urgent) ? args.reason == 'x' : args.urgent",
        "!has(args.reason) && args.reason == 'x'",
        "has(args.reason) || args.reason == 'x'",
        "has(args.reason) ? args.urgent : args.reason == 'x'",
        "(has(args.note) && args.urgent || has(args.reason)) && args.reason == 'x'",
    ],
)
def test_what_makes_nothing_sure_is_no_guard(when: str) -> None:
    missing = "`args.reason` may be missing, and then the rule denies; ask `has(args.reason)` first"
    assert told(when) == [f"warning: {missing}"]


def test_a_missing_field_matters_as_the_effect_has_it() -> None:
    asked = "`args.reason` may be missing, and then the rule asks for approval; ask `has(args.reason)` first"
    assert told("args.reason == 'x'", "require_approval") == [f"warning: {asked}"]
    assert told("args.reason == 'x'", "allow") == []  # it allows nothing then
    assert told("args.reason == 'x' || run.untrusted", "allow") == [
        "warning: `args.reason` may be missing, and `||` lets the rule allow all the same; ask `has(args.reason)` first, or give it a rule of its own"
    ]


def test_arguments_are_those_of_the_tools_that_a_rule_is_about() -> None:
    missing = "`args.amount_cents` may be missing, and then the rule denies; ask `has(args.amount_cents)` first"
    assert told("args.amount_cents > 5", match="{}") == [f"warning: {missing}"]
    assert told("tool.name == 'refund' && args.amount_cents > 5", match="{}") == []
    assert told("tool.name in ['refund'] && args.amount_cents > 5", match="{}") == []
    for names_none in ("tool.name in ['refund', args.order]", "args.order in ['refund']"):
        assert told(f"{names_none} && args.amount_cents > 5", match="{}") == [f"warning: {missing}"]
    assert told("args.amount_cents > 5", match="{scopes: [pay]}") == []
    assert told("args.amount_cents > 5", match="{agents: ['agent:x'], tiers: [critical]}") == []
    absent = "no tool that the rule is about has `args.amount_cents`; use one of order"
    assert told("args.amount_cents > 5", match="{verbs: [READ]}") == [f"error: {absent}"]


def test_a_long_word_is_cut_in_a_message() -> None:
    (line,) = told(f"args.amount_cents == '{'x' * 81}'")
    assert f"with the text `{'x' * 80}…`; " in line
    (line,) = told(f"args.amount_cents == '{'x' * 80}'")
    assert f"with the text `{'x' * 80}`; " in line


def test_a_schema_that_admits_no_value_is_named_so() -> None:
    tools = {"t": ToolShape(RiskProfile(), takes(a={"type": []}))}
    assert told("args.a == 1", match="{}", tools=tools) == [
        "error: `==` compares `args.a` (nothing) with int; "
    ]


CALLS = {
    "bool": "contains startsWith endsWith matches",
    "text": "lowerAscii upperAscii trim replace substring charAt",
    "int": "indexOf lastIndexOf size",
    "list": "split",
}
GIVEN = dict.fromkeys(("lowerAscii", "upperAscii", "trim", "size"), "") | {
    "replace": "'a', 'b'",
    "substring": "1",
    "charAt": "1",
    "matches": "'^a$'",
}


@pytest.mark.parametrize(
    ("method", "kind"), [(name, kind) for kind, names in CALLS.items() for name in names.split()]
)
def test_what_a_call_comes_to_is_known(method: str, kind: str) -> None:
    given = GIVEN.get(method, "'a'")
    (line,) = told(f"args.order.{method}({given}) == null")
    assert line.startswith(f"error: `==` compares {kind} with null")


@pytest.mark.parametrize("method", [name for names in CALLS.values() for name in names.split()])
def test_what_takes_a_text_takes_no_number(method: str) -> None:
    kinds = "text or bytes or list or map" if method == "size" else "text"
    given = GIVEN.get(method, "'a'")
    lines = told(f"args.amount_cents.{method}({given}) == null")
    assert f"error: `{method}` takes no int; it takes {kinds}" in lines


@pytest.mark.parametrize(
    "part", ["FullYear", "Month", "Date", "DayOfMonth", "DayOfWeek", "DayOfYear"]
)
def test_parts_of_dates_are_of_moments_alone(part: str) -> None:
    assert told(f"now.get{part}() > 1") == []
    for other, kind in (("args.order", "text"), ("(now - now)", "duration")):
        (line,) = told(f"{other}.get{part}() == 1")
        assert line == f"error: `get{part}` takes no {kind}; it takes timestamp"


@pytest.mark.parametrize("part", ["Hours", "Minutes", "Seconds", "Milliseconds"])
def test_parts_of_times_are_whole_numbers_and_texts_have_none(part: str) -> None:
    assert told(f"now.get{part}() > 1 && (now - now).get{part}() > 1") == []
    (line,) = told(f"args.order.get{part}() == 1")
    assert line == f"error: `get{part}` takes no text; it takes timestamp or duration"
    (line,) = told(f"now.get{part}() == 'x'")
    assert line.startswith("error: `==` compares int with the text `x`")


def test_one_of_two_types_is_enough() -> None:
    both = {**TOOLS, "refunds": ToolShape(RiskProfile(), takes(amount_cents={"type": "string"}))}
    match = "{tools: ['refund*']}"
    assert told("args.amount_cents == '5'", match=match, tools=both) == []
    assert told("args.amount_cents == null", match=match, tools=both) == [
        "error: `==` compares `args.amount_cents` (int or text) with null; ask `has(…)` whether it is there"
    ]


@pytest.mark.parametrize(
    ("match", "words"),
    [
        ("{tools: [refnud]}", "there is no tool `refnud`; did you mean `refund`?"),
        ("{tools: [Refund]}", "there is no tool `Refund`; did you mean `refund`?"),
        ("{tools: ['pay_*']}", "there is no tool `pay_*`; "),
        ("{tools: [refund, xyz]}", "there is no tool `xyz`; "),
        ("{verbs: [DELETE]}", "rule `p/r` is about none of the tools; look at its match block"),
        ("{tools: [refund], tiers: [low]}", "rule `p/r` is about none of the tools; look at its match block"),
    ],
)  # fmt: skip
def test_a_rule_about_no_tool_is_told(match: str, words: str) -> None:
    assert told("run.untrusted", match=match) == [f"warning: {words}"]
    assert told("run.untrusted", match=match, absent=Severity.ERROR) == [f"error: {words}"]
    assert told("run.untrusted", match=match, tools=None) == []


def test_without_tools_nothing_is_said_of_arguments() -> None:
    assert told("args.anything > 5 && args_origin.it != 'user'", "allow", tools=None) == []
    assert told("args.x.y.z == tool.name && args.exists(k, k == 'a')", "allow", tools=None) == []
    assert told("tool.verb == 'delete'", tools=None) == []
    assert told("args.x + true == 1", tools=None) == [
        "error: `+` takes no anything and bool; write `'true'` if a text is meant"
    ]
    assert told("args_origin.it != 'User'", "allow", tools=None) == [
        "error: `args_origin.it` is never `User`; did you mean `user`?"
    ]


COUNTS = {"type": "object", "additionalProperties": {"type": "integer"}}


def test_what_two_tools_say_of_a_field_is_joined_part_by_part() -> None:
    one = takes(
        counts=COUNTS, tags={"type": "array", "items": {"type": "string"}}, kind={"const": "a"}
    )
    two = takes(
        counts=COUNTS,
        tags={"type": "array", "items": {"type": "integer"}},
        kind={"enum": ["b", "c"]},
    )
    tools = {"a": ToolShape(RiskProfile(), one), "b": ToolShape(RiskProfile(), two)}

    def of_both(when: str) -> list[str]:
        return told(when, "allow", "{}", tools=tools)

    assert of_both("args.counts.x == 'y'") == [
        "error: `==` compares `args.counts.x` (int) with the text `y`; "
    ]
    assert of_both("args.counts.x == 1 && args.tags[0] == 'y' && args.tags[0] == 1") == []
    assert of_both("args.tags[0] == true") == [
        "error: `==` compares int or text with bool; write `'true'` if a text is meant"
    ]
    assert of_both("args.kind in ['a', 'b', 'c']") == []
    assert of_both("[args.kind].exists(k, k == 'd')") == [
        "error: the value is never `d`; use one of a, b, c"
    ]
    assert of_both("args.kind == 'd'") == ["error: `args.kind` is never `d`; use one of a, b, c"]
    mixed = {
        **tools,
        "c": ToolShape(RiskProfile(), takes(counts={"type": "string"}, kind={"type": "string"})),
    }
    assert told("args.counts == 'y' && args.kind == 'd'", "allow", "{}", tools=mixed) == []


@pytest.mark.parametrize(
    "inner",
    [
        {"type": "object", "additionalProperties": {"$ref": "#"}},
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"type": "array", "items": {"$ref": "#"}},
        {"anyOf": [{"$ref": "#"}, {"type": "string"}]},
        {"oneOf": [{"type": "string"}, {"$ref": "#"}]},
    ],
)
def test_a_schema_that_refers_to_itself_is_followed_so_far(inner: dict[str, Any]) -> None:
    assert schema_type(inner).kinds


def test_patterns_of_names_leave_a_schema_open() -> None:
    closed = takes(a={"type": "integer"})
    for more in ({"patternProperties": {"^x": {"type": "string"}}}, {"additionalProperties": True}):
        assert schema_type({**closed, **more}).member("x_1") is not None
    typed = {**closed, "additionalProperties": {"type": "string"}}
    assert schema_type(typed).member("b") == Member(schema_type({"type": "string"}), always=False)
    assert schema_type({**typed, "patternProperties": {"^x": {}}}).open
    assert schema_type(closed).member("b") is None


def test_an_open_schema_may_hold_other_fields() -> None:
    shape = {
        "type": "object",
        "properties": {"address": {"type": "object", "properties": {"street": {}}}},
    }
    tools = {"send": ToolShape(RiskProfile(), {**shape, "required": ["address"]})}
    match = "{tools: [send]}"
    assert told("args.whatever == 5", "allow", match, tools=tools) == []
    assert told("args.adress.street == 5", "allow", match, tools=tools) == [
        "warning: `args` declares no `adress`; did you mean `address`?"
    ]


# --- rules among others -----------------------------------------------------------------------------


def unheard(*rules: str, tools: Any = None) -> list[str]:
    text = "policy: p\nversion: 1\nrules:\n" + "".join(f"- {rule}\n" for rule in rules)
    return [lint.message for lint in check(read_policies({"p": text}), tools)]


DENY_ALL = "{id: d, effect: deny}"
DENY_REFUNDS = "{id: d, effect: deny, match: {tools: ['refund*'], verbs: [FINANCIAL, DELETE]}}"


@pytest.mark.parametrize(
    ("stronger", "weaker", "known"),
    [
        (DENY_ALL, "{id: r, effect: allow}", False),
        (DENY_ALL, "{id: r, effect: require_approval, when: run.untrusted}", False),
        (DENY_REFUNDS, "{id: r, effect: allow, match: {tools: [refund_all], verbs: [DELETE]}}", False),
        (DENY_REFUNDS, "{id: r, effect: allow, match: {tools: ['refund_*'], verbs: [DELETE]}}", False),
        (DENY_REFUNDS, "{id: r, effect: allow, match: {tools: [refund]}}", True),
        ("{id: d, effect: require_approval}", "{id: r, effect: allow, allow_tier: high}", False),
        ("{id: d, effect: deny, match: {scopes: [a, b]}}", "{id: r, effect: allow, match: {scopes: [a]}}", False),
        ("{id: d, effect: deny, match: {environments: [prod]}}", "{id: r, effect: allow, match: {environments: [prod]}}", True),
    ],
)  # fmt: skip
def test_a_rule_that_a_stronger_one_always_beats_is_told(
    stronger: str, weaker: str, known: bool
) -> None:
    expected = ["rule `p/r` is never heard: `p/d` is about the same calls"]
    assert unheard(stronger, weaker, tools=TOOLS if known else None) == expected


@pytest.mark.parametrize(
    ("stronger", "weaker"),
    [
        ("{id: d, effect: deny, when: run.untrusted}", "{id: r, effect: allow}"),
        ("{id: d, effect: deny, mode: shadow}", "{id: r, effect: allow}"),
        (DENY_ALL, "{id: r, effect: allow, mode: shadow}"),
        (DENY_ALL, "{id: r, effect: deny, when: run.untrusted}"),
        (DENY_REFUNDS, "{id: r, effect: allow, match: {tools: [refund]}}"),
        (DENY_REFUNDS, "{id: r, effect: allow, match: {tools: ['re*'], verbs: [DELETE]}}"),
        (DENY_REFUNDS, "{id: r, effect: allow, match: {verbs: [DELETE]}}"),
        ("{id: d, effect: deny, match: {tools: [pay]}}", "{id: r, effect: allow, match: {tools: ['pay*']}}"),
        (DENY_REFUNDS, "{id: r, effect: allow, match: {tools: [refund, pay], verbs: [DELETE]}}"),
        ("{id: d, effect: deny, match: {environments: [prod]}}", "{id: r, effect: allow}"),
        ("{id: d, effect: deny, match: {scopes: [a]}}", "{id: r, effect: allow, match: {scopes: [a, b]}}"),
        ("{id: d, effect: allow}", "{id: r, effect: allow}"),
    ],
)  # fmt: skip
def test_a_rule_that_is_heard_at_times_is_not(stronger: str, weaker: str) -> None:
    assert unheard(stronger, weaker) == []


def test_with_tools_at_hand_only_their_calls_count() -> None:
    deny = "{id: d, effect: deny, match: {environments: [prod]}}"
    allow = "{id: r, effect: allow, match: {tools: [refund]}}"
    assert unheard(deny, allow, tools=TOOLS) == []
    assert unheard(DENY_ALL, "{id: r, effect: allow, match: {tools: [other]}}", tools=TOOLS) == [
        "there is no tool `other`"
    ]


# --- places -----------------------------------------------------------------------------------------

FOLDED = """policy: p
version: 1
rules:
  - id: r
    effect: deny
    when: >-
      run.untrusted
      && args.order == 'its' &&

      args.amout_cents > 5
  - id: s
    effect: deny
    message: |
      'a' +
      run.nope
  - {id: t, effect: deny, when: 'args.order == ''x'' && tool.nam == "y"'}
  - {id: u, effect: deny, when: "args.order == \\"x\\\\\\\\\\" &&
      env.nam == 'y'"}
  - {id: v, effect: deny, when: "args.order == '\\x41' && env.nam == 'y'"}
"""


def test_every_lint_names_file_line_and_column() -> None:
    lints = check(read_policies({"p.yaml": FOLDED}), TOOLS)
    fields = [lint for lint in lints if lint.code is Code.UNKNOWN_FIELD]
    lines = FOLDED.splitlines()
    places = {lint.rule: lines[lint.line - 1][lint.column - 1 :] for lint in fields}
    assert places["p/r"].startswith("amout_cents")
    assert places["p/s"].startswith("nope")
    assert places["p/t"].startswith("nam ==")
    assert places["p/u"].startswith("nam ==")
    assert places["p/v"].startswith(
        '"args.order'
    )  # an escape that is not followed: where it begins


def test_places_are_walked_over_quotes_and_folds() -> None:
    raw = "a: 'it''s\n  so'\n"
    assert place_in(raw, 1, 4, "it's ") == (2, 3)
    assert place_in(raw, 1, 4, "") == (1, 5)
    assert place_in(raw, 1, 4, "something else") == (1, 4)


def test_lints_are_told_once_in_the_order_of_the_text_and_as_data() -> None:
    policies = read_policies({"p.yaml": FOLDED})
    lints = check(policies, TOOLS)
    assert [(x.line, x.column) for x in lints] == sorted((x.line, x.column) for x in lints)
    assert len(set(lints)) == len(lints)
    one = Lint("p", 4, 7, Severity.ERROR, Code.TYPE, "p/r", "what", "do that")
    assert str(one) == "p:4:7: error: what; do that"
    assert (
        str(Lint("p", 4, 7, Severity.WARNING, Code.TYPE, "p/r", "what")) == "p:4:7: warning: what"
    )
    assert one.to_json()["code"] == "type"


def test_a_message_that_fails_is_no_reason_to_refuse_a_rule() -> None:
    text = "policy: p\nversion: 1\nrules:\n- {id: r, effect: deny, message: \"'pay ' + args.amount_cents\"}\n"
    (lint,) = check(read_policies({"p": text}), {"refund": TOOLS["refund"]})
    assert (lint.severity, lint.message) == (Severity.WARNING, "`+` takes no text and int")
    text = text.replace("'pay ' + args.amount_cents", "args.amount_cents")
    (lint,) = check(read_policies({"p": text}), {"refund": TOOLS["refund"]})
    assert (lint.severity, lint.message) == (Severity.WARNING, "message is int, not text")
    assert lint.code is Code.TYPE


class Lenient:
    """An engine that takes what our parser does not."""

    name = version = "lenient"

    def compile(self, source: str) -> "Lenient":
        return self

    references: frozenset[str] = frozenset()

    def bind(self, inputs: object) -> Activation:
        return Activation(inputs)

    def evaluate(self, activation: Activation, budget: int) -> Outcome[bool]:
        return Outcome(value=False, steps=1)


def test_a_condition_that_cannot_be_checked_is_told_and_not_refused() -> None:
    text = "policy: p\nversion: 1\nrules:\n- {id: r, effect: deny, when: what is this}\n"
    policies = load_policies({"p": text}, Lenient(), tools=TOOLS)  # type: ignore[arg-type] # a stand-in
    (lint,) = check(policies, TOOLS)
    assert (lint.severity, lint.code) == (Severity.WARNING, Code.UNCHECKED)
    assert lint.message == "not a CEL expression"
    assert (lint.line, lint.column) == (4, text.splitlines()[3].index("what") + 1)


def test_a_rule_that_stands_in_no_file_is_told_of_at_the_first_character() -> None:
    """Such rules are made by code that builds a set of its own."""
    policies = read_policies({"p": MISSPELT.replace("r,", "r, match: {tools: [refnud]},")})
    bare = [replace(rule, id=None, when=None) for rule in policies.rules]
    (lint,) = check(replace(policies, rules=tuple(bare)), TOOLS)
    assert (lint.code, lint.file, lint.line, lint.column) == (Code.NO_TOOL, "", 1, 1)


# --- comments ---------------------------------------------------------------------------------------

COMMENTED = """policy: p
version: 1
rules:
  - id: r
    effect: allow
    when: >-
      run.step < 5   // a few
      && run.failures == 0
"""


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (COMMENTED, (7, 22)),
        (COMMENTED.replace(">-", ">"), (7, 22)),
        (COMMENTED.replace(">-\n      ", ""), (6, 26)),
        (COMMENTED.replace("a few", "a few\n\n"), None),
        (COMMENTED.replace(">-\n      run", '"run').replace("== 0", '== 0"'), (6, 27)),
        (COMMENTED.replace("run.step < 5 ", "env.name != '//' "), (7, 26)),
        (COMMENTED.replace("a few", "a few\n      // of them"), (7, 22)),
        (COMMENTED.replace("|-", "|").replace(">-", "|"), None),
        (COMMENTED.replace("// a few", ""), None),
        (COMMENTED.replace("// a few", "&& env.name != '//'"), None),
        (
            COMMENTED.replace("// a few\n      && run.failures == 0", "// a few\n      // steps"),
            None,
        ),
        (
            COMMENTED.replace("run.step < 5   // a few\n      &&", "run.step < 5 &&\n     ")
            + "      // end\n",
            None,
        ),
    ],
)
def test_a_comment_that_swallows_the_next_line_is_an_error(
    text: str, place: tuple[int, int] | None
) -> None:
    found = [lint for lint in check(read_policies({"p": text})) if lint.code == Code.SWALLOWED]
    assert [(lint.line, lint.column) for lint in found] == ([place] if place else [])
    if place is None:
        load_policies({"p": text})
        return
    assert found[0].severity is Severity.ERROR
    assert found[0].message == "the comment goes on over the next lines: YAML makes them one line"
    with pytest.raises(PolicyError, match="the comment goes on over the next lines") as caught:
        load_policies({"p": text})
    assert caught.value.line == place[0]
    assert "write `|`" in caught.value.hint


def test_a_message_loses_no_rule_over_its_comment() -> None:
    text = COMMENTED.replace("when:", "message:").replace("run.step < 5", "'a' + 'b'")
    (lint,) = check(load_policies({"p": text}))
    assert (lint.code, lint.severity) == (Code.SWALLOWED, Severity.WARNING)


# --- loading and running ----------------------------------------------------------------------------

MISSPELT = "policy: p\nversion: 1\nrules:\n- {id: r, effect: deny, when: args.amout_cents > 5}\n"


@pytest.mark.parametrize("engine", ["closure", "celpy"])
@pytest.mark.parametrize(
    ("when", "problem"),
    [
        ("run.call > 5", "unknown field `run.call`"),
        ("has(tool.verbb)", "unknown field `tool.verbb`"),
        ("true || env.label.x == 'y'", "unknown field `env.label`"),
    ],
)
def test_names_are_looked_at_by_every_load(engine: str, when: str, problem: str) -> None:
    text = MISSPELT.replace("args.amout_cents > 5", f'"{when}"')
    with pytest.raises(PolicyError) as caught:
        load_policies({"p": text}, engine_by_name(engine))
    assert caught.value.message.startswith(f"p:4: {problem} (rule `p/r`, column ")
    assert caught.value.hint.startswith("did you mean")
    assert read_policies({"p": text}).versions == {"p": 1}  # as it may have been in force


def test_a_load_with_tools_refuses_errors_and_bears_warnings() -> None:
    assert load_policies({"p": MISSPELT}).versions == {"p": 1}
    with pytest.raises(
        PolicyError, match=r"p:4: no tool that the rule is about has `args.amout_cents`"
    ):
        load_policies({"p": MISSPELT}, tools=TOOLS)
    doubtful = MISSPELT.replace("args.amout_cents", "args.amount_cents")
    policies = load_policies({"p": doubtful}, tools=TOOLS)
    assert [lint.severity for lint in check(policies, TOOLS)] == [Severity.WARNING]


@tool(verb="FINANCIAL", side_effect=True)
def pay(amount_cents: int, note: str = "") -> str:
    """Pay."""
    return "paid"


def test_no_run_starts_under_a_policy_that_its_tools_make_nonsense_of() -> None:
    with Governance.in_memory(policies={"p.yaml": MISSPELT}) as governance:
        agent = DurableAgent(Plays(say()), [pay], governance=governance)
        before = governance.store.read(lambda reader: reader.head().size)
        with pytest.raises(InvalidInputError) as caught:
            agent.run("pay", run_id="run-1")
        assert isinstance(caught.value, PolicyError)
        assert (caught.value.file, caught.value.line) == ("p.yaml", 4)
        assert "did you mean `amount_cents`?" in caught.value.hint
        assert governance.store.read(lambda reader: reader.head().size) == before


def test_warnings_stop_no_run() -> None:
    text = MISSPELT.replace("args.amout_cents > 5", "has(args.path) && args.path == 'x'")
    with Governance.in_memory(policies={"p.yaml": text}) as governance:
        result = DurableAgent(Plays(say()), [pay], governance=governance).run("pay")
        assert result.status == "completed"


def test_a_pair_of_set_and_tools_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    original = module.check
    monkeypatch.setattr(module, "check", lambda *given: seen.append(given) or original(*given))
    policies = read_policies({"p": MISSPELT.replace("amout", "amount")})
    one = Toolbox(frozenset({Digest(b"1" * 32)}), TOOLS)
    for _ in range(3):
        refuse_unfit(policies, one)
        refuse_unfit(policies, Toolbox(frozenset({Digest(b"1" * 32)}), {}))
    assert len(seen) == 1
    refuse_unfit(policies, Toolbox(frozenset({Digest(b"2" * 32)}), TOOLS))
    assert len(seen) == 2


@pytest.mark.parametrize(
    "file", [p for p in sorted(POLICIES.rglob("*.yaml")) if not p.name.endswith(".test.yaml")], ids=lambda p: p.stem
)  # fmt: skip
def test_the_shipped_policies_hold_no_error(file: Path, tmp_path: Path) -> None:
    desk = RefundDesk(tmp_path / "effects")
    facts = [
        tool_facts(t) for t in ToolRegistry([desk.look_up_order, desk.refund, desk.delete_customer])
    ]
    shapes = {fact.name: ToolShape(fact.profile, fact.schema["parameters"]) for fact in facts}  # type: ignore[arg-type] # JSON
    policies = read_policies({file.name: file.read_text()})
    assert check(policies) == ()
    assert [lint for lint in check(policies, shapes) if lint.severity is Severity.ERROR] == []


# --- types ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "integer"}, {Kind.INT}),
        ({"type": "number"}, {Kind.INT, Kind.DOUBLE}),
        ({"type": ["string", "null"]}, {Kind.TEXT, Kind.NULL}),
        ({"const": "x"}, {Kind.TEXT}),
        ({"const": None}, {Kind.NULL}),
        ({"const": True}, {Kind.BOOL}),
        ({"enum": [1.5]}, {Kind.INT, Kind.DOUBLE}),
        ({"type": []}, set()),
        ({"enum": ["x", 1, None, True]}, {Kind.TEXT, Kind.INT, Kind.DOUBLE, Kind.NULL, Kind.BOOL}),
        ({"enum": [[], {}]}, {Kind.LIST, Kind.MAP}),
        ({"oneOf": [{"type": "boolean"}, {"type": "array"}]}, {Kind.BOOL, Kind.LIST}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {Kind.TEXT, Kind.NULL}),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "string"}}}, {Kind.TEXT}),
    ],
)
def test_a_schema_says_what_a_value_may_be(schema: dict[str, Any], expected: set[Kind]) -> None:
    assert schema_type(schema).kinds == expected


@pytest.mark.parametrize(
    "schema",
    [
        {},
        True,
        {"allOf": [{"type": "string"}]},
        {"type": "odd"},
        {"type": [["string"]]},
        {"$ref": "#/$defs/none"},
        {"$ref": "https://elsewhere/schema"},
        {"$ref": "#/$defs/me", "$defs": {"me": {"$ref": "#/$defs/me"}}},
        {"enum": []},
        {"anyOf": []},
    ],
)
def test_what_a_schema_leaves_open_may_be_anything(schema: object) -> None:
    assert schema_type(schema).kinds == set(Kind)


PUBLISHED = """
unknown-field type never-equal not-boolean no-tool unreachable may-be-missing error-allows unanchored
from-arguments order-of-tiers redundant swallowed unchecked
"""


def test_the_code_of_each_check_stays() -> None:
    """Whoever reads `--json` goes by it."""
    assert {code.value for code in Code} == set(PUBLISHED.split())
    assert {code.name.lower().replace("_", "-") for code in Code} == set(PUBLISHED.split())


CODES = {
    "args.amout_cents > 5": Code.UNKNOWN_FIELD,
    "tool.verbb == 'READ'": Code.UNKNOWN_FIELD,
    "args.amount_cents.net > 5": Code.TYPE,
    "args.order == 1001": Code.TYPE,
    "args.order in [1002]": Code.TYPE,
    "args.amount_cents in args.tags": Code.TYPE,
    "args.order + 1 == 'x'": Code.TYPE,
    "-args.order == 1": Code.TYPE,
    "size(args.amount_cents) > 3": Code.TYPE,
    "'clerk' in principal.tenant": Code.TYPE,
    "args.order['a'] == 'b'": Code.TYPE,
    "args.order.exists(x, x == 'b')": Code.TYPE,
    "args.tags in run.calls": Code.TYPE,
    "args.amount_cents": Code.NOT_BOOLEAN,
    "!args.order": Code.NOT_BOOLEAN,
    "tool.risk_tier == 'High'": Code.NEVER_EQUAL,
    "args.currency in ['GBP']": Code.NEVER_EQUAL,
    "'refnud' in run.calls": Code.NO_TOOL,
    "args.reason.contains('x')": Code.MAY_BE_MISSING,
    "args.order.matches('10+')": Code.UNANCHORED,
    "args.order.matches(args.currency)": Code.FROM_ARGUMENTS,
    "int(args.order) > 5": Code.FROM_ARGUMENTS,
    "tool.risk_tier >= 'high'": Code.ORDER_OF_TIERS,
    "args.urgent == true": Code.REDUNDANT,
    "true": Code.REDUNDANT,
    "false": Code.REDUNDANT,
}


def codes(when: str, effect: str = "deny", match: str = "{tools: [refund]}") -> list[Code]:
    text = f'policy: p\nversion: 1\nrules:\n- {{id: r, match: {match}, effect: {effect}, when: "{when}"}}\n'
    return [lint.code for lint in check(read_policies({"p": text}), TOOLS)]


@pytest.mark.parametrize(("when", "code"), CODES.items())
def test_each_check_speaks_under_its_code(when: str, code: Code) -> None:
    assert codes(when)[-1] is code


def test_so_do_those_of_whole_rules() -> None:
    assert codes("args.reason == 'x' || run.untrusted", "allow") == [Code.ERROR_ALLOWS]
    assert codes("run.untrusted", match="{tools: [pay]}") == [Code.NO_TOOL]
    assert codes("run.untrusted", match="{verbs: [DELETE]}") == [Code.NO_TOOL]
    text = "policy: p\nversion: 1\nrules:\n- {id: d, effect: deny}\n- {id: a, effect: allow}\n"
    (lint,) = check(read_policies({"p": text}))
    assert (lint.code, lint.hint) == (
        Code.UNREACHABLE,
        "`p/d` denies them all; give it a condition, or remove this rule",
    )
    (lint,) = check(read_policies({"p": text.replace("deny", "require_approval")}))
    assert lint.hint == "`p/d` holds them all; give it a condition, or remove this rule"


DECLARED = {
    "text": "tool.name tool.verb tool.risk_tier tool.declared_tier tool.reversibility tool.blast_radius "
    "tool.cost_class tool.definition principal.id principal.tenant agent.id agent.model run.id env.name",
    "bool": "tool.side_effect tool.idempotent tool.untrusted_output tool.profiled run.untrusted",
    "int": "run.step run.failures run.rejected run.turn_refused run.tokens run.elapsed_s",
    "list of text": "tool.scopes principal.roles agent.path run.untrusted_sources",
    "map of text": "args_origin env.labels",
    "map of int": "run.calls run.sums run.last run.approved window.hour window.day",
    "map": "args",
    "timestamp": "now",
}


def spelled(type_: Type) -> str:
    (kind,) = type_.kinds
    inner = type_.items or type_.rest
    return kind if inner is None else f"{kind} of {spelled(inner)}"


@pytest.mark.parametrize("tools", [None, TOOLS])
def test_each_input_is_declared_with_its_type(tools: Any) -> None:
    inputs = {
        k: v for k, v in declared_inputs(tools, tools).items() if k != "args" or tools is None
    }
    found = {
        f"{name}.{field}" if field else name: spelled(member)
        for name, type_ in inputs.items()
        for field, member in ({f: m.type for f, m in type_.members.items()} or {"": type_}).items()
    }
    wanted = {name: kind for kind, names in DECLARED.items() for name in names.split()}
    assert found == {name: kind for name, kind in wanted.items() if name in found}
    assert wanted.keys() - found.keys() <= {"args"}
    assert all(m.always for t in inputs.values() for m in t.members.values())


def test_a_lint_as_data_has_these_fields() -> None:
    lint = Lint("p", 4, 7, Severity.ERROR, Code.TYPE, "p/r", "what", "do that")
    assert lint.to_json() == {
        "file": "p",
        "line": 4,
        "column": 7,
        "severity": "error",
        "code": "type",
        "rule": "p/r",
        "message": "what",
        "hint": "do that",
    }


def test_every_input_is_declared() -> None:
    from governance.policy.cel import INPUTS

    assert declared_inputs(None, None).keys() == INPUTS
