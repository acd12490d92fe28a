"""A policy file is read as its author meant it, or refused with file and line."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from governance.errors import RefusedError, UnavailableError
from governance.policy import cel
from governance.policy.document import load_policies
from governance.policy.model import Demands, Effect, Seat, Tier
from governance.policy.rules import Glob, Mode, refuse_rollback
from governance.policy.yaml_source import POLICY_BYTES_MAX, PolicyError, read_yaml

POLICIES = Path(__file__).parents[2] / "policies"
SCHEMA = json.loads((POLICIES / "policy.schema.json").read_text())

HEAD = "policy: pay\nversion: 3\nrules:\n"
RULE = HEAD + "  - id: one\n    effect: allow\n"
HOLD = HEAD + "  - id: one\n    effect: require_approval\n"
FULL = (
    HEAD
    + """  - id: small
    description: Small ones pass.
    match: {tools: ["refund_*"], verbs: [financial], tiers: [high, critical], side_effect: true,
            scopes: [pay], agents: ["agent:desk"], environments: [prod], reversibility: [none],
            blast_radius: [one], cost_class: [cheap]}
    when: args.amount_cents <= 5000
    effect: allow
    allow_tier: critical
    message: "'small'"
  - id: large
    effect: require_approval
    mode: shadow
    approval: {quorum: [{role: finance, count: 2}, {role: auditor}], decide_by: 15m, use_by: 30s,
               reauthenticate: true}
"""
)


def refusal(text: str) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        load_policies({"pay.yaml": text})
    assert caught.value.message.startswith(f"pay.yaml:{caught.value.line}: ")
    return caught.value


def schema_takes(text: str) -> bool:
    return jsonschema.Draft202012Validator(SCHEMA).is_valid(yaml.safe_load(text))


def test_every_field_is_read() -> None:
    policies = load_policies({"pay.yaml": FULL})
    large, small = policies.rules
    assert (small.name, small.effect, small.allow_tier) == (
        "pay/small",
        Effect.ALLOW,
        Tier.CRITICAL,
    )
    assert small.match.tools == (Glob("refund_*"),)
    assert small.match.scopes == {"pay"}
    assert dict(small.match.among) == {
        "verb": {"FINANCIAL"},
        "tier": {"high", "critical"},
        "side_effect": {True},
        "reversibility": {"none"},
        "blast_radius": {"one"},
        "cost_class": {"cheap"},
        "agent": {"agent:desk"},
        "environment": {"prod"},
    }
    assert small.when is not None
    assert small.when.references == {"args.amount_cents"}
    assert small.message is not None
    assert small.description == "Small ones pass."
    assert large.mode is Mode.SHADOW
    assert large.demands == Demands((Seat("auditor", 1), Seat("finance", 2)), 900, 30, True)
    assert policies.versions == {"pay": 3}
    assert policies.files == {"pay.yaml": FULL}
    assert policies.engine.startswith("closure ")
    assert schema_takes(FULL)


def test_an_approval_without_demands_asks_one_approver() -> None:
    (rule,) = load_policies({"pay.yaml": HOLD}).rules
    assert rule.demands == Demands((Seat("approver", 1),), 86_400, 3600)


@pytest.mark.parametrize(
    ("spelled", "seconds"), [("30s", 30), ("15m", 900), ("4h", 14_400), ("2d", 172_800)]
)
def test_durations(spelled: str, seconds: int) -> None:
    text = HOLD + f"    approval: {{quorum: [{{role: a}}], decide_by: {spelled}}}\n"
    (rule,) = load_policies({"pay.yaml": text}).rules
    assert rule.demands is not None
    assert rule.demands.decide_by_s == seconds


# (text, line, part of the message, part of the hint, does the published schema refuse it too)
REFUSED = {
    "unknown field": (
        RULE + "    quorom: 1\n",
        6,
        "unknown field `quorom` in rule",
        "use one of allow_tier, approval, description, effect, id, match, message, mode, when",
        True,
    ),
    "misspelt field": (
        RULE + "    mesage: x\n",
        6,
        "unknown field `mesage` in rule",
        "did you mean `message`?",
        True,
    ),
    "unknown top field": (
        HEAD + "  []\nrule: 1\n",
        5,
        "unknown field `rule` in policy file",
        "did you mean `rules`?",
        True,
    ),
    "unknown match": (
        RULE + "    match: {tool: [a]}\n",
        6,
        "unknown field `tool` in match block",
        "did you mean `tools`?",
        True,
    ),
    "unknown seat": (
        HOLD + "    approval: {quorum: [{rol: a}]}\n",
        6,
        "unknown field `rol` in seat",
        "did you mean `role`?",
        True,
    ),
    "unknown effect": (
        HEAD + "  - {id: a, effect: alow}\n",
        4,
        "unknown effect `alow`",
        "did you mean `allow`?",
        True,
    ),
    "unknown tier": (
        RULE + "    allow_tier: hihg\n",
        6,
        "unknown tier `hihg`",
        "did you mean `high`?",
        True,
    ),
    "tier in match": (
        RULE + "    match: {tiers: [High]}\n",
        6,
        "unknown tier `High`",
        "did you mean `high`?",
        True,
    ),
    "unknown mode": (
        RULE + "    mode: shadows\n",
        6,
        "unknown mode `shadows`",
        "did you mean `shadow`?",
        True,
    ),
    "duplicate key": (RULE + "    effect: deny\n", 6, "duplicate key `effect`", "", False),
    "duplicate top key": (RULE + "version: 4\n", 6, "duplicate key `version`", "", False),
    "duplicate id": (
        RULE + "  - {id: one, effect: deny}\n",
        6,
        "rule `one` is also on line 4",
        "rename one",
        False,
    ),
    "anchor": (
        HEAD + "  - &a {id: a, effect: deny}\n",
        4,
        "anchors and aliases are not allowed",
        "write it out",
        False,
    ),
    "alias": (HEAD + "  - *a\n", 4, "anchors and aliases are not allowed", "write it out", False),
    "merge": (
        RULE + "    <<: {mode: shadow}\n",
        6,
        "merge keys are not allowed",
        "write it out",
        False,
    ),
    "tag": (
        HEAD + "  - {id: !!str 1, effect: deny}\n",
        4,
        "tag `tag:yaml.org,2002:str` is not allowed",
        "",
        False,
    ),
    "python tag": (
        "!!python/object:os.system []\n",
        1,
        "tag `tag:yaml.org,2002:python/object:os.system` is not allowed",
        "",
        False,
    ),
    "id not text": (
        HEAD + "  - {id: 7, effect: deny}\n",
        4,
        "rule id is not text",
        "put it in quotes",
        True,
    ),
    "id yes": (
        HEAD + "  - {id: yes, effect: deny}\n",
        4,
        "`yes` is ambiguous",
        "put it in quotes, or write true or false",
        True,
    ),
    "octal": (
        "policy: a\nversion: 010\nrules: []\n",
        2,
        "`010` is ambiguous",
        "put it in quotes, or write true or false",
        False,
    ),
    "key not text": (HEAD + "  - {1: a}\n", 4, "a key is not text", "put it in quotes", False),
    "id malformed": (
        HEAD + "  - {id: 'a b', effect: deny}\n",
        4,
        "rule id is malformed: `a b`",
        "use 1 to 64 letters, digits, `_`, `.` or `-`",
        True,
    ),
    "id long": (
        HEAD + f"  - {{id: {'a' * 65}, effect: deny}}\n",
        4,
        "rule id is malformed: `aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa`",
        "use 1 to 64 letters, digits, `_`, `.` or `-`",
        True,
    ),
    "no id": (HEAD + "  - {effect: deny}\n", 4, "rule has no `id`", "", True),
    "no effect": (HEAD + "  - {id: a}\n", 4, "rule `pay/a` has no `effect`", "", True),
    "no policy": ("version: 1\nrules: []\n", 1, "policy file has no `policy`", "", True),
    "no version": ("policy: a\nrules: []\n", 1, "policy file has no `version`", "", True),
    "version zero": (
        "policy: a\nversion: 0\nrules: []\n",
        2,
        "version is not a whole number from 1 to 2147483647",
        "",
        True,
    ),
    "version text": (
        "policy: a\nversion: '1'\nrules: []\n",
        2,
        "version is not a whole number from 1 to 2147483647",
        "",
        True,
    ),
    "version true": (
        "policy: a\nversion: true\nrules: []\n",
        2,
        "version is not a whole number from 1 to 2147483647",
        "",
        True,
    ),
    "no rules": (
        "policy: a\nversion: 1\nrules: []\n",
        3,
        "rules is empty",
        "leave it out or name something",
        True,
    ),
    "rules no list": (
        "policy: a\nversion: 1\nrules: {}\n",
        3,
        "rules is not a list",
        "write `[a, b]`",
        True,
    ),
    "rule no mapping": (
        HEAD + "  - deny\n",
        4,
        "rule is not a mapping",
        "write `name: value` lines",
        True,
    ),
    "match null": (
        RULE + "    match:\n",
        6,
        "match block is not a mapping",
        "write `name: value` lines",
        True,
    ),
    "empty tools": (
        RULE + "    match: {tools: []}\n",
        6,
        "`tools` is empty",
        "leave it out or name something",
        True,
    ),
    "empty scopes": (
        RULE + "    match: {scopes: []}\n",
        6,
        "`scopes` is empty",
        "leave it out or name something",
        True,
    ),
    "empty tool": (
        RULE + "    match: {tools: ['']}\n",
        6,
        "a value to match has not 1 to 200 characters",
        "",
        True,
    ),
    "tools text": (
        RULE + "    match: {tools: pay}\n",
        6,
        "`tools` is not a list",
        "write `[a, b]`",
        True,
    ),
    "tool number": (
        RULE + "    match: {tools: [1]}\n",
        6,
        "a value to match is not text",
        "put it in quotes",
        True,
    ),
    "side effect": (
        RULE + "    match: {side_effect: 'no'}\n",
        6,
        "`side_effect` is neither true nor false",
        "",
        True,
    ),
    "when not text": (
        RULE + "    when: true\n",
        6,
        "condition is not text",
        "put it in quotes",
        True,
    ),
    "approval elsewhere": (
        RULE + "    approval: {quorum: [{role: a}]}\n",
        6,
        "`approval` stands only with `effect: require_approval`",
        "",
        True,
    ),
    "allow_tier elsewhere": (
        HOLD + "    allow_tier: high\n",
        6,
        "`allow_tier` stands only with `effect: allow`",
        "",
        True,
    ),
    "empty quorum": (
        HOLD + "    approval: {quorum: []}\n",
        6,
        "quorum is empty",
        "leave it out or name something",
        True,
    ),
    "no quorum": (
        HOLD + "    approval: {decide_by: 4h}\n",
        6,
        "approval has no `quorum`",
        "",
        True,
    ),
    "nobody": (
        HOLD + "    approval: {quorum: [{role: a, count: 0}]}\n",
        6,
        "count is not a whole number from 1 to 10",
        "",
        True,
    ),
    "role twice": (
        HOLD + "    approval: {quorum: [{role: a}, {role: a}]}\n",
        6,
        "a role stands twice in the quorum",
        "give it one count",
        False,
    ),
    "many seats": (
        HOLD + f"    approval: {{quorum: [{', '.join(f'{{role: r{n}}}' for n in range(11))}]}}\n",
        6,
        "11 roles exceed 10",
        "",
        True,
    ),
    "description": (
        RULE + f"    description: {'x' * 2001}\n",
        6,
        "description of 2001 characters exceeds 2000",
        "",
        True,
    ),
    "file description": (
        f"description: {'x' * 2001}\n" + RULE,
        1,
        "description of 2001 characters exceeds 2000",
        "",
        True,
    ),
    "fraction": (
        "policy: a\nversion: 1.5\nrules: []\n",
        2,
        "version is not a whole number from 1 to 2147483647",
        "",
        True,
    ),
    "not a list of rules": (
        "[]\n",
        1,
        "policy file is not a mapping",
        "write `name: value` lines",
        True,
    ),
    "duration": (
        HOLD + "    approval: {quorum: [{role: a}], use_by: 1 hour}\n",
        6,
        "duration is malformed: `1 hour`",
        "write it like 30s, 15m, 4h or 2d",
        True,
    ),
    "duration long": (
        HOLD + "    approval: {quorum: [{role: a}], use_by: 366d}\n",
        6,
        "duration is longer than 365 days",
        "",
        False,
    ),
    "not yaml": (HEAD + "  - {id: a\n", 5, "not YAML: did not find expected ',' or '}'", "", False),
    "control character": (
        HEAD + "  - {id: \x01}\n",
        1,
        "not YAML: forbidden characters",
        "",
        False,
    ),
    "nothing": ("", 1, "nothing in it", "", False),
    "comment only": ("# nothing\n", 1, "nothing in it", "", False),
    "two documents": (RULE + "---\na: b\n", 6, "more than one document", "", False),
    "text only": ("allow\n", 1, "policy file is not a mapping", "write `name: value` lines", True),
    "surrogate": (RULE + "# \ud800", 1, "text holds a lone surrogate", "", False),
    "deep": ("[" * 100, 1, "nests deeper than 64 levels", "", False),
    "large": (RULE + "#" * POLICY_BYTES_MAX, 1, "262204 bytes exceed 262144", "", False),
    "many rules": (
        HEAD + "".join(f"  - {{id: r{n}, effect: deny}}\n" for n in range(1001)),
        3,
        "1001 rules exceed 1000",
        "split the policy",
        True,
    ),
    "condition": (
        RULE + "    when: args.x > \n",
        6,
        "not a CEL expression (column 8 of the condition)",
        "",
        False,
    ),
    "condition name": (
        RULE + "    when: arg.x > 1\n",
        6,
        "unknown name `arg` (column 1 of the condition)",
        "did you mean `args`?",
        False,
    ),
    "condition line": (
        RULE + "    when: |\n      true\n      && foo\n",
        8,
        "unknown name `foo` (column 4 of the condition)",
        "use one of agent, args, args_origin, env, now, principal, run, tool, window",
        False,
    ),
    "message": (
        RULE + "    message: hello world\n",
        6,
        "not a CEL expression (column 7 of the message)",
        "",
        False,
    ),
}


@pytest.mark.parametrize(
    ("text", "line", "message", "hint", "by_schema"), REFUSED.values(), ids=REFUSED
)
def test_refusals_name_file_line_and_remedy(
    text: str, line: int, message: str, hint: str, by_schema: bool
) -> None:
    error = refusal(text)
    assert error.message == f"pay.yaml:{line}: {message}"
    assert error.hint == hint
    if by_schema:
        assert not schema_takes(text)


NAMED = {
    "1": "1: policy file is not a mapping",
    "{policy: 1}": "1: policy name is not text",
    "{policy: a b}": "1: policy name is malformed: `a b`",
    "{version: 1}": "1: policy file has no `policy`",
    "{policy: a}": "1: policy file has no `version`",
    "{policy: a, version: x}": "1: version is not a whole number from 1 to 2147483647",
    "{policy: a, version: 1, description: 1}": "1: description is not text",
    "{policy: a, version: 1}": "1: policy file has no `rules`",
    "{policy: a, version: 1, rules: 1}": "1: rules is not a list",
    "{policy: a, version: 1, rules: [1]}": "1: rule is not a mapping",
    HEAD + "- {id: a, effect: 1}": "4: effect is not text",
    RULE + "    description: 1": "6: description is not text",
    RULE + "    allow_tier: 1": "6: tier is not text",
    RULE + "    mode: 1": "6: mode is not text",
    RULE + "    message: 1": "6: message is not text",
    RULE + "    match: 1": "6: match block is not a mapping",
    RULE + "    match: {x: 1}": "6: unknown field `x` in match block",
    RULE + "    match: {tools: [1]}": "6: a value to match is not text",
    RULE + "    match: {verbs: 1}": "6: `verbs` is not a list",
    RULE + "    match: {verbs: [1]}": "6: a value to match is not text",
    RULE + "    match: {tiers: 1}": "6: `tiers` is not a list",
    RULE + "    match: {tiers: [1]}": "6: tier is not text",
    RULE + "    match: {agents: []}": "6: `agents` is empty",
    RULE + "    match: {environments: 1}": "6: `environments` is not a list",
    RULE + "    match: {scopes: 1}": "6: `scopes` is not a list",
    RULE + "    match: {side_effect: 1}": "6: `side_effect` is neither true nor false",
    HOLD + "    approval: 1": "6: approval is not a mapping",
    HOLD + "    approval: {x: 1}": "6: unknown field `x` in approval",
    HOLD + "    approval: {quorum: 1}": "6: quorum is not a list",
    HOLD + "    approval: {quorum: [1]}": "6: seat is not a mapping",
    HOLD + "    approval: {quorum: [{count: 1}]}": "6: seat has no `role`",
    HOLD + "    approval: {quorum: [{role: 1}]}": "6: role is not text",
    HOLD + "    approval: {quorum: [{role: a b}]}": "6: role is malformed: `a b`",
    HOLD
    + "    approval: {quorum: [{role: a, count: x}]}": "6: count is not a whole number from 1 to 10",
    HOLD + "    approval: {quorum: [{role: a}], decide_by: 1}": "6: duration is not text",
    HOLD + "    approval: {quorum: [{role: a}], use_by: 0s}": "6: duration is malformed: `0s`",
    HOLD
    + "    approval: {quorum: [{role: a}], reauthenticate: 1}": "6: `reauthenticate` is neither true nor false",
}


@pytest.mark.parametrize(("text", "words"), NAMED.items())
def test_each_part_of_a_policy_is_called_by_its_name(text: str, words: str) -> None:
    assert refusal(text + "\n").message == f"pay.yaml:{words}"


def test_the_hints_for_names_and_roles() -> None:
    assert (
        refusal("{policy: a b}").hint
        == refusal(HEAD + "- {id: a b}\n").hint
        == ("use 1 to 64 letters, digits, `_`, `.` or `-`")
    )
    seat = HOLD + "    approval: {quorum: [{role: a b}]}\n"
    assert refusal(seat).hint == "name a role, like `finance`"


LONG = "x" * 100
CUT = "x" * 80


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (RULE + f"    {LONG}: 1\n", f"unknown field `{CUT}` in rule"),
        (HEAD + f"  - {{id: {LONG}, effect: deny}}\n", f"rule id is malformed: `{CUT}`"),
        (HEAD + f"  - {{id: a, effect: {LONG}}}\n", f"unknown effect `{CUT}`"),
        (HEAD + f"  - {{id: !{LONG} a, effect: deny}}\n", f"tag `!{CUT[:-1]}` is not allowed"),
        (HEAD + f"  - {{{LONG}: 1, {LONG}: 2}}\n", f"duplicate key `{CUT}`"),
        (HEAD + f"  - {{id: 0{'7' * 100}}}\n", f"`0{'7' * 79}` is ambiguous"),
    ],
)
def test_a_long_word_is_cut_in_a_message(text: str, message: str) -> None:
    assert refusal(text).message.partition(": ")[2] == message


LONGEST = "x" * 63 + "y"
AT_THE_LIMIT = {
    "letters": "policy: Zz.9_-\nversion: 1\nrules:\n- {id: A-z_.0, effect: deny}\n",
    "name": f"policy: {LONGEST}\nversion: 1\nrules:\n- {{id: {LONGEST}, effect: deny}}\n",
    "version": RULE.replace("version: 3", f"version: {2**31 - 1}"),
    "description": RULE + f"    description: {'x' * 2000}\n",
    "duration": HOLD + "    approval: {quorum: [{role: a}], decide_by: 365d, use_by: 1s}\n",
    "people": HOLD + "    approval: {quorum: [{role: a, count: 10}, {role: b, count: 1}]}\n",
    "roles": HOLD
    + f"    approval: {{quorum: [{', '.join(f'{{role: r{n}}}' for n in range(10))}]}}\n",
    "rules": HEAD + "".join(f"  - {{id: r{n}, effect: deny}}\n" for n in range(1000)),
    "value": RULE + f"    match: {{tools: [{'x' * 200}], agents: [a]}}\n",
    "bytes": RULE + "#" * (POLICY_BYTES_MAX - len(RULE)),
}
BEYOND = {
    "name": AT_THE_LIMIT["name"].replace("y", "yx"),
    "version": RULE.replace("version: 3", f"version: {2**31}"),
    "description": AT_THE_LIMIT["description"].replace("xx", "xxx", 1),
    "duration": AT_THE_LIMIT["duration"].replace("365d", "31536001s"),
    "people": AT_THE_LIMIT["people"].replace("10", "11"),
    "value": AT_THE_LIMIT["value"].replace("[xx", "[xxx"),
    "bytes": AT_THE_LIMIT["bytes"] + "#",
}


@pytest.mark.parametrize("text", AT_THE_LIMIT.values(), ids=AT_THE_LIMIT)
def test_the_last_that_a_limit_lets_pass(text: str) -> None:
    assert load_policies({"pay.yaml": text}).rules


@pytest.mark.parametrize("text", BEYOND.values(), ids=BEYOND)
def test_the_first_that_it_does_not(text: str) -> None:
    refusal(text)


def test_what_is_plain_in_the_file_has_the_value_that_it_spells() -> None:
    text = "[true, false, null, ~, '', 0, -7, 1.5, -0.25e2, 'null', abc, 1a]"
    assert read_yaml(text, "p").plain() == [
        *(True, False, None, None, "", 0, -7, 1.5, -25.0, "null", "abc", "1a")
    ]
    assert read_yaml("a:\nb: null\n", "p").plain() == {"a": None, "b": None}


def test_lists_nest_up_to_the_limit() -> None:
    nested = "[" * 64 + "]" * 64
    assert "policy file is not a mapping" in refusal(nested).message
    assert "nests deeper than 64 levels" in refusal(f"[{nested}]").message
    nested = "{a: " * 64 + "1" + "}" * 64
    assert "unknown field `a`" in refusal(nested).message
    assert "nests deeper than 64 levels" in refusal(f"{{a: {nested}}}").message


class Pinned:
    """An engine whose name and version stay, and that compiles nothing."""

    name = "closure"
    version = "1"


def test_the_digest_of_a_set_stays() -> None:
    """Decisions of years ago name it: a change of how it is made is a new FORMAT_VERSION."""
    policies = load_policies({"a": RULE, "b": RULE.replace("pay", "other")}, Pinned())  # type: ignore[arg-type] # no condition
    assert policies.digest.hex() == (
        "88212fe329493d79f0493bd25317c65a37e84c974f8f74d04723ce9ee71edd5f"
    )
    assert policies.engine == "closure 1"


def test_where_a_rule_is_written_is_kept() -> None:
    small = load_policies({"pay.yaml": FULL}).rules[1]
    assert small.id is not None
    assert (small.id.text, small.id.file, small.id.line, small.id.column) == (
        "small",
        "pay.yaml",
        4,
        9,
    )
    assert small.when_text is not None
    assert (small.when_text.text, small.when_text.line, small.when_text.column) == (
        "args.amount_cents <= 5000",
        9,
        11,
    )
    assert small.message_text is not None
    assert (small.message_text.line, small.message_text.column) == (12, 14)
    block = load_policies({"p": RULE + "    when: |\n      true\n"}).rules[0].when_text
    assert block is not None
    assert (block.line, block.column) == (7, 1)


@pytest.mark.parametrize("name", ["baseline", "examples/refund_desk", "examples/banking"])
def test_the_published_schema_takes_the_shipped_policies(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert schema_takes((POLICIES / f"{name}.yaml").read_text())


def test_policy_names_are_unique_in_a_set() -> None:
    with pytest.raises(PolicyError, match=r"^b\.yaml:1: policy `pay` is also in `a\.yaml`"):
        load_policies({"b.yaml": RULE, "a.yaml": RULE})


def test_the_digest_covers_texts_and_engine_and_nothing_else() -> None:
    other = RULE.replace("pay", "other")

    class OtherEngine:
        name = "other"
        version = "1"

    base = load_policies({"a": RULE, "b": other}).digest
    assert load_policies({"b": RULE, "a": other}).digest == base
    assert load_policies({"a": RULE}).digest != base
    assert load_policies({"a": RULE + " ", "b": other}).digest != base
    assert load_policies({"a": RULE, "b": other}, OtherEngine()).digest != base  # type: ignore[arg-type] # compiles nothing


def test_a_set_cannot_be_changed() -> None:
    files = {"a": RULE}
    policies = load_policies(files)
    files["b"] = RULE
    assert list(policies.files) == ["a"]
    with pytest.raises(TypeError):
        policies.versions["pay"] = 9  # type: ignore[index] # the point of the test
    with pytest.raises(AttributeError):
        policies.rules = ()  # type: ignore[misc] # the point of the test


def test_no_files_is_a_legal_set() -> None:
    assert load_policies({}).rules == ()


def test_a_lower_version_is_refused() -> None:
    old = load_policies({"a": RULE}).versions
    for new in ({"pay": 3}, {"pay": 4}, {"other": 1}, {}):
        refuse_rollback(old, new)
    with pytest.raises(RefusedError, match="policy `pay` is in force in version 3, and 2 was"):
        refuse_rollback(old, {"pay": 2, "other": 1})


def test_an_absent_engine_fails_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_name: str) -> str:
        raise cel.importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(cel.importlib.metadata, "version", absent)
    with pytest.raises(UnavailableError, match="`closure` is not installed"):
        load_policies({})


@pytest.mark.parametrize(
    ("pattern", "name", "hits"),
    [
        ("pay", "pay", True),
        ("pay", "Pay", False),
        ("pay", "pays", False),
        ("pay*", "pay", True),
        ("pay*", "repay", False),
        ("*pay", "repay", True),
        ("*", "", True),
        ("pay*out", "payout", True),
        ("a*b*c", "abc", True),
        ("a*b*c", "aXbYc", True),
        ("a*b*c", "acb", False),
        ("ab*ba", "aba", False),
        ("a?c", "abc", False),
        ("[ab]", "a", False),
        ("*a*a*a*a*a*a*b", "a" * 5000, False),
    ],
)
def test_globs(pattern: str, name: str, hits: bool) -> None:
    assert Glob(pattern).matches(name) is hits
