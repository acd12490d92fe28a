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
from governance.policy.yaml_source import POLICY_BYTES_MAX, PolicyError

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
    "unknown field": (RULE + "    quorom: 1\n", 6, "unknown field `quorom`", "use one of", True),
    "misspelt field": (RULE + "    mesage: x\n", 6, "`mesage`", "did you mean `message`?", True),
    "unknown top field": (HEAD + "  []\nrule: 1\n", 5, "`rule`", "did you mean `rules`?", True),
    "unknown match": (RULE + "    match: {tool: [a]}\n", 6, "`tool`", "`tools`?", True),
    "unknown seat": (
        HOLD + "    approval: {quorum: [{rol: a}]}\n",
        6,
        "unknown field `rol`",
        "did you mean `role`?",
        True,
    ),
    "unknown effect": (HEAD + "  - {id: a, effect: alow}\n", 4, "`alow`", "`allow`?", True),
    "unknown tier": (RULE + "    allow_tier: hihg\n", 6, "`hihg`", "`high`?", True),
    "tier in match": (RULE + "    match: {tiers: [High]}\n", 6, "`High`", "`high`?", True),
    "unknown mode": (RULE + "    mode: shadows\n", 6, "`shadows`", "`shadow`?", True),
    "duplicate key": (RULE + "    effect: deny\n", 6, "duplicate key `effect`", "", False),
    "duplicate top key": (RULE + "version: 4\n", 6, "duplicate key `version`", "", False),
    "duplicate id": (RULE + "  - {id: one, effect: deny}\n", 6, "also on line 4", "rename", False),
    "anchor": (HEAD + "  - &a {id: a, effect: deny}\n", 4, "anchors", "write it out", False),
    "alias": (HEAD + "  - *a\n", 4, "anchors", "", False),
    "merge": (RULE + "    <<: {mode: shadow}\n", 6, "merge keys", "", False),
    "tag": (HEAD + "  - {id: !!str 1, effect: deny}\n", 4, "tag `", "", False),
    "python tag": ("!!python/object:os.system []\n", 1, "tag `", "", False),
    "id not text": (HEAD + "  - {id: 7, effect: deny}\n", 4, "rule id is not text", "quotes", True),
    "id yes": (HEAD + "  - {id: yes, effect: deny}\n", 4, "`yes` is ambiguous", "quotes", True),
    "octal": ("policy: a\nversion: 010\nrules: []\n", 2, "`010` is ambiguous", "", False),
    "key not text": (HEAD + "  - {1: a}\n", 4, "a key is not text", "", False),
    "id malformed": (HEAD + "  - {id: 'a b', effect: deny}\n", 4, "malformed", "1 to 64", True),
    "id long": (HEAD + f"  - {{id: {'a' * 65}, effect: deny}}\n", 4, "malformed", "", True),
    "no id": (HEAD + "  - {effect: deny}\n", 4, "rule has no `id`", "", True),
    "no effect": (HEAD + "  - {id: a}\n", 4, "has no `effect`", "", True),
    "no policy": ("version: 1\nrules: []\n", 1, "has no `policy`", "", True),
    "no version": ("policy: a\nrules: []\n", 1, "has no `version`", "", True),
    "version zero": ("policy: a\nversion: 0\nrules: []\n", 2, "whole number", "", True),
    "version text": ("policy: a\nversion: '1'\nrules: []\n", 2, "whole number", "", True),
    "version true": ("policy: a\nversion: true\nrules: []\n", 2, "whole number", "", True),
    "no rules": ("policy: a\nversion: 1\nrules: []\n", 3, "rules is empty", "", True),
    "rules no list": ("policy: a\nversion: 1\nrules: {}\n", 3, "rules is not a list", "", True),
    "rule no mapping": (HEAD + "  - deny\n", 4, "rule is not a mapping", "", True),
    "match null": (RULE + "    match:\n", 6, "match block is not a mapping", "", True),
    "empty tools": (RULE + "    match: {tools: []}\n", 6, "`tools` is empty", "", True),
    "empty scopes": (RULE + "    match: {scopes: []}\n", 6, "`scopes` is empty", "", True),
    "empty tool": (RULE + "    match: {tools: ['']}\n", 6, "1 to 200", "", True),
    "tools text": (RULE + "    match: {tools: pay}\n", 6, "`tools` is not a list", "[a, b]", True),
    "tool number": (RULE + "    match: {tools: [1]}\n", 6, "not text", "", True),
    "side effect": (RULE + "    match: {side_effect: 'no'}\n", 6, "neither true", "", True),
    "when not text": (RULE + "    when: true\n", 6, "condition is not text", "quotes", True),
    "approval elsewhere": (
        RULE + "    approval: {quorum: [{role: a}]}\n",
        6,
        "stands only with `effect: require_approval`",
        "",
        True,
    ),
    "allow_tier elsewhere": (HOLD + "    allow_tier: high\n", 6, "`effect: allow`", "", True),
    "empty quorum": (HOLD + "    approval: {quorum: []}\n", 6, "quorum is empty", "", True),
    "no quorum": (HOLD + "    approval: {decide_by: 4h}\n", 6, "has no `quorum`", "", True),
    "nobody": (HOLD + "    approval: {quorum: [{role: a, count: 0}]}\n", 6, "1 to 10", "", True),
    "role twice": (
        HOLD + "    approval: {quorum: [{role: a}, {role: a}]}\n",
        6,
        "a role stands twice",
        "one count",
        False,
    ),
    "many seats": (
        HOLD + f"    approval: {{quorum: [{', '.join(f'{{role: r{n}}}' for n in range(11))}]}}\n",
        6,
        "11 roles exceed 10",
        "",
        True,
    ),
    "description": (RULE + f"    description: {'x' * 2001}\n", 6, "exceeds 2000", "", True),
    "file description": (f"description: {'x' * 2001}\n" + RULE, 1, "exceeds 2000", "", True),
    "fraction": ("policy: a\nversion: 1.5\nrules: []\n", 2, "whole number", "", True),
    "not a list of rules": ("[]\n", 1, "policy file is not a mapping", "", True),
    "duration": (
        HOLD + "    approval: {quorum: [{role: a}], use_by: 1 hour}\n",
        6,
        "malformed: `1 hour`",
        "30s, 15m, 4h or 2d",
        True,
    ),
    "duration long": (
        HOLD + "    approval: {quorum: [{role: a}], use_by: 366d}\n",
        6,
        "longer than 365 days",
        "",
        False,
    ),
    "not yaml": (HEAD + "  - {id: a\n", 5, "not YAML", "", False),
    "control character": (HEAD + "  - {id: \x01}\n", 1, "not YAML", "", False),
    "nothing": ("", 1, "nothing in it", "", False),
    "comment only": ("# nothing\n", 1, "nothing in it", "", False),
    "two documents": (RULE + "---\na: b\n", 6, "more than one document", "", False),
    "text only": ("allow\n", 1, "policy file is not a mapping", "", True),
    "surrogate": (RULE + "# \ud800", 1, "lone surrogate", "", False),
    "deep": ("[" * 100, 1, "nests deeper", "", False),
    "large": (RULE + "#" * POLICY_BYTES_MAX, 1, "exceed", "", False),
    "many rules": (
        HEAD + "".join(f"  - {{id: r{n}, effect: deny}}\n" for n in range(1001)),
        3,
        "1001 rules exceed 1000",
        "split",
        True,
    ),
    "condition": (RULE + "    when: args.x > \n", 6, "not a CEL expression (column", "", False),
    "condition name": (RULE + "    when: arg.x > 1\n", 6, "unknown name `arg`", "`args`?", False),
    "condition line": (
        RULE + "    when: |\n      true\n      && foo\n",
        8,
        "unknown name `foo` (column 4",
        "",
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
    assert error.line == line
    assert message in error.message
    assert hint in error.hint
    if by_schema:
        assert not schema_takes(text)


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
