"""One decision: the combination table in full, and what an attacker would send."""

import math
from itertools import product

import pytest

from governance import canonical
from governance.ids import Digest
from governance.policy import decide as module
from governance.policy.decide import MESSAGE_CHARS_MAX, NAMED_MAX, decide
from governance.policy.document import load_policies
from governance.policy.model import Decision, Demands, Effect, RiskProfile, Seat, Tier
from governance.policy.risk import tool_input
from governance.policy.rules import PolicySet

READ = RiskProfile(verb="READ", side_effect=False)
TRUE, FALSE, ERROR = "args.n == 1", "args.n == 2", "args.missing == 1"
OUTCOMES = {"true": TRUE, "false": FALSE, "error": ERROR}


def policy(*rules: str) -> PolicySet:
    lines = "".join(f"  - {rule}\n" for rule in rules)
    return load_policies({"p.yaml": f"policy: p\nversion: 1\nrules:\n{lines}"})


def inputs(profile: RiskProfile = READ, /, **parts: object) -> dict[str, object]:
    return {
        "tool": tool_input("pay", Digest(bytes(32)), profile),
        "args": {"n": 1},
        "args_origin": {},
        "principal": {"id": "user:1", "roles": ["clerk"], "tenant": ""},
        "agent": {"id": "agent:desk", "path": [], "model": "m"},
        "run": {"id": "run-1", "untrusted": False},
        "env": {"name": "prod", "labels": {}},
        "now": 0,
        **parts,
    }


def decided(rules: PolicySet, profile: RiskProfile = READ, /, **parts: object) -> Decision:
    return decide(rules, inputs(profile, **parts))  # type: ignore[arg-type] # tests send what is no JSON too


@pytest.mark.parametrize(("deny", "hold", "allow"), list(product([None, *OUTCOMES], repeat=3)))
def test_the_combination_table(deny: str | None, hold: str | None, allow: str | None) -> None:
    given = {"deny": deny, "require_approval": hold, "allow": allow}
    rules = policy(
        "{id: other, match: {tools: [other]}, effect: deny}",
        *(
            f'{{id: {effect}, when: "{OUTCOMES[outcome]}", effect: {effect}}}'
            for effect, outcome in given.items()
            if outcome is not None
        ),
    )
    decision = decided(rules)
    if deny in ("true", "error"):
        expected, by, because = Effect.DENY, ("p/deny",), deny
    elif hold in ("true", "error"):
        expected, by, because = Effect.REQUIRE_APPROVAL, ("p/require_approval",), hold
    elif allow == "true":
        expected, by, because = Effect.ALLOW, ("p/allow",), "true"
    else:
        expected, by, because = Effect.DENY, (), "no-rule"
    reasons = {"error": ("rule-error",), "true": (), "no-rule": ("no-rule",)}[because]
    assert (decision.effect, decision.rules, decision.reasons) == (expected, by, reasons)
    assert (decision.demands is not None) == (expected is Effect.REQUIRE_APPROVAL)
    assert decision.policy == rules.digest
    assert canonical.entry_bytes(decision.to_json())


def test_an_error_in_an_allow_rule_is_noted() -> None:
    decision = decided(policy(f'{{id: a, when: "{ERROR}", effect: allow}}'))
    assert decision.errors == (("p/a", "missing-key"),)
    assert decision.to_json()["errors"] == [["p/a", "missing-key"]]


def test_no_policy_at_all_denies() -> None:
    decision = decided(load_policies({}))
    assert (decision.effect, decision.reasons) == (Effect.DENY, ("no-rule",))


@pytest.mark.parametrize("text", ["'yes'", "1", "null", "args.n", "[true]", "{}"])
def test_truthy_is_not_true(text: str) -> None:
    decision = decided(policy(f'{{id: a, when: "{text}", effect: allow}}'))
    assert decision.effect is Effect.DENY
    assert decision.errors == (("p/a", "not-boolean"),)


@pytest.mark.parametrize(
    ("tier", "allow_tier", "effect", "people"),
    [
        ("low", None, Effect.ALLOW, 0),
        ("medium", None, Effect.ALLOW, 0),
        ("high", None, Effect.REQUIRE_APPROVAL, 1),
        ("high", "medium", Effect.REQUIRE_APPROVAL, 1),
        ("high", "high", Effect.ALLOW, 0),
        ("high", "critical", Effect.ALLOW, 0),
        ("critical", None, Effect.REQUIRE_APPROVAL, 2),
        ("critical", "high", Effect.REQUIRE_APPROVAL, 2),
        ("critical", "critical", Effect.ALLOW, 0),
    ],
)
def test_high_tiers_escalate(
    tier: str, allow_tier: str | None, effect: Effect, people: int
) -> None:
    extra = f", allow_tier: {allow_tier}" if allow_tier else ""
    decision = decided(
        policy(f"{{id: a, effect: allow{extra}}}"), RiskProfile(risk_tier=Tier(tier))
    )
    assert (decision.effect, decision.tier) == (effect, tier)
    if people:
        assert decision.reasons == (f"tier-{tier}",)
        assert decision.demands == Demands((Seat("approver", people),), 86_400, 3600)


def test_a_tier_that_does_not_apply_covers_nothing() -> None:
    rules = policy(
        "{id: a, effect: allow}",
        f'{{id: b, when: "{FALSE}", effect: allow, allow_tier: critical}}',
        f'{{id: c, when: "{ERROR}", effect: allow, allow_tier: critical}}',
    )
    assert decided(rules, RiskProfile()).effect is Effect.REQUIRE_APPROVAL


def test_demands_of_several_rules_add_up() -> None:
    decision = decided(
        policy(
            "{id: a, effect: require_approval, approval: {quorum: [{role: finance, count: 2}], "
            "decide_by: 4h, use_by: 30m}}",
            "{id: b, effect: require_approval, approval: {quorum: [{role: finance}, "
            "{role: security}], decide_by: 1h, use_by: 1h, reauthenticate: true}}",
            f'{{id: c, when: "{ERROR}", effect: require_approval}}',
        )
    )
    seats = (Seat("approver", 1), Seat("finance", 2), Seat("security", 1))
    assert decision.demands == Demands(seats, 3600, 1800, True)
    assert decision.rules == ("p/a", "p/b", "p/c")
    assert decision.reasons == ("rule-error",)


def asking(roles: int, *more: str) -> Decision:
    holds = [
        f"{{id: r{n:02}, effect: require_approval, approval: {{quorum: [{{role: r{n}}}]}}}}"
        for n in range(roles)
    ]
    return decided(policy(*holds, *more))


def test_more_roles_than_one_request_can_ask_deny() -> None:
    most = asking(16)
    assert (most.effect, most.reasons) == (Effect.REQUIRE_APPROVAL, ())
    assert most.demands is not None
    assert len(most.demands.quorum) == 16
    decision = asking(17)
    assert (decision.effect, decision.reasons) == (Effect.DENY, ("too-many-seats",))
    assert decision.demands is None
    assert len(decision.rules) == 17
    failing = asking(17, f'{{id: s, when: "{ERROR}", effect: require_approval}}')
    assert failing.reasons == ("rule-error", "too-many-seats")
    assert failing.errors == (("p/s", "missing-key"),)


def test_what_failed_is_told_beside_what_held() -> None:
    failing = f'{{id: z, when: "{ERROR}", effect: %s}}'
    for effect, applying in (("deny", "deny"), ("require_approval", "require_approval")):
        decision = decided(policy(f"{{id: a, effect: {applying}}}", failing % effect))
        assert decision.rules == ("p/a", "p/z")
        assert decision.errors == (("p/z", "missing-key"),)
        assert decision.reasons == ("rule-error",)
    allowed = decided(policy("{id: a, effect: allow}", failing % "allow"))
    assert (allowed.effect, allowed.rules) == (Effect.ALLOW, ("p/a",))
    assert (allowed.errors, allowed.reasons) == ((("p/z", "missing-key"),), ())
    held = decided(policy("{id: a, effect: allow}", failing % "allow"), RiskProfile())
    assert (held.effect, held.rules, held.reasons) == (
        Effect.REQUIRE_APPROVAL,
        ("p/a",),
        ("tier-high",),
    )
    assert held.errors == (("p/z", "missing-key"),)
    assert held.demands == Demands((Seat("approver", 1),), 86_400, 3600)


@pytest.mark.parametrize(
    ("match", "hits"),
    [
        ("{}", True),
        ("{tools: [other, 'p*']}", True),
        ("{tools: [PAY]}", False),
        ("{verbs: [financial]}", True),
        ("{verbs: [READ]}", False),
        ("{tiers: [critical]}", True),
        ("{tiers: [low, medium, high]}", False),
        ("{side_effect: true}", True),
        ("{side_effect: false}", False),
        ("{reversibility: [none]}", True),
        ("{reversibility: [full]}", False),
        ("{blast_radius: [one]}", True),
        ("{blast_radius: [all]}", False),
        ("{cost_class: [cheap]}", True),
        ("{cost_class: [dear]}", False),
        ("{scopes: [x, pay:write]}", True),
        ("{scopes: [x]}", False),
        ("{agents: ['agent:desk']}", True),
        ("{agents: [desk]}", False),
        ("{environments: [prod]}", True),
        ("{environments: [test]}", False),
        ("{tools: [pay], verbs: [FINANCIAL], environments: [test]}", False),
    ],
)
def test_every_fact_can_be_matched(match: str, hits: bool) -> None:
    profile = RiskProfile(
        verb="Financial",
        side_effect=True,
        reversibility="none",
        blast_radius="one",
        cost_class="cheap",
        scopes=("pay:read", "pay:write"),
    )
    rules = policy(
        "{id: all, effect: allow, allow_tier: critical}", f"{{id: d, match: {match}, effect: deny}}"
    )
    assert (decided(rules, profile).effect is Effect.DENY) is hits


def deep(levels: int) -> dict[str, object]:
    value: dict[str, object] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def cyclic() -> dict[str, object]:
    value: dict[str, object] = {}
    value["me"] = value
    return value


ADMITTED = {
    "empty": {},
    "32 levels": deep(32),
    "int64": {"a": 2**63 - 1, "b": -(2**63)},
    "10,000 nodes": {"a": [0] * 9998},
    "1 MiB": {"a": "x" * (2**20 - 1)},
    "floats": {"a": 1e308, "b": -0.0},
    "unicode": {"é": "\u202e𝔘"},
}
REJECTED = {
    "no object": [],
    "nothing": None,
    "text": "{}",
    "33 levels": deep(33),
    "10,000 levels": deep(10_000),
    "cycle": cyclic(),
    "10,001 nodes": {"a": [0] * 9999},
    "over 1 MiB": {"a": "x" * 2**20},
    "over 1 MiB of keys": {"x" * 2**19: 1, "y" * 2**19: "zz"},
    "over 1 MiB in UTF-8": {"a": "é" * 2**19 + "x"},
    "above int64": {"a": 2**63},
    "below int64": {"a": -(2**63) - 1},
    "NaN": {"a": [math.nan]},
    "infinity": {"a": math.inf},
    "NUL": {"a": "ok\0/../etc/passwd"},
    "NUL in a key": {"a\0": 1},
    "lone surrogate": {"a": "\ud800"},
    "bytes": {"a": b"x"},
    "tuple": {"a": (1,)},
    "key no text": {"a": {1: 2}},
    "text of another type": {"a": type("Text", (str,), {})("x")},
}


@pytest.mark.parametrize("args", ADMITTED.values(), ids=ADMITTED)
def test_arguments_up_to_the_limits_are_decided(args: object) -> None:
    assert decided(policy("{id: a, effect: allow}"), args=args).effect is Effect.ALLOW


@pytest.mark.parametrize("args", REJECTED.values(), ids=REJECTED)
def test_other_arguments_are_rejected_and_the_refusal_can_be_recorded(args: object) -> None:
    decision = decided(policy("{id: a, effect: allow}"), args=args)
    assert (decision.effect, decision.reasons) == (Effect.DENY, ("input-rejected",))
    assert canonical.entry_bytes(decision.to_json())


@pytest.mark.parametrize("part", ["tool", "agent", "env", "args"])
@pytest.mark.parametrize("odd", [None, 7, "x", [], {}, {"name": 1}, {"id": 1}])
def test_an_input_that_is_not_one_is_rejected(part: str, odd: object) -> None:
    if part == "args" and isinstance(odd, dict):
        pytest.skip("objects are arguments")
    decision = decided(policy("{id: a, effect: allow}"), **{part: odd})
    assert (decision.effect, decision.reasons) == (Effect.DENY, ("input-rejected",))


@pytest.mark.parametrize(
    "field", ["name", "verb", "risk_tier", "side_effect", "scopes", "cost_class"]
)
@pytest.mark.parametrize("odd", [None, 1, "odd", [1], [["a"]], {"a": 1}])
def test_every_field_of_a_tool_is_typed(field: str, odd: object) -> None:
    if odd == "odd" and field in ("name", "verb", "cost_class"):
        pytest.skip("any text will do")
    tool = {**tool_input("pay", Digest(bytes(32)), READ), field: odd}
    decision = decided(policy("{id: a, effect: allow}"), tool=tool)
    assert decision.effect is Effect.DENY


def test_an_empty_input_is_rejected() -> None:
    assert decide(policy("{id: a, effect: allow}"), {}).reasons == ("input-rejected",)


@pytest.mark.parametrize("effect", list(Effect))
@pytest.mark.parametrize(
    ("outcome", "recorded"), [("true", None), ("false", "no-match"), ("error", "missing-key")]
)
def test_shadow_rules_are_recorded_and_change_nothing(
    effect: Effect, outcome: str, recorded: str | None
) -> None:
    base = "{id: a, effect: allow}"
    shadow = f'{{id: s, mode: shadow, when: "{OUTCOMES[outcome]}", effect: {effect}}}'
    plain, shadowed = decided(policy(base)), decided(policy(base, shadow))
    assert shadowed.effect is plain.effect
    assert shadowed.rules == plain.rules
    assert shadowed.steps == plain.steps
    assert shadowed.shadow == (("p/s", recorded or effect.value),)
    assert "shadow" in shadowed.to_json()
    assert "shadow" not in plain.to_json()
    assert decided(policy(shadow)).effect is Effect.DENY


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("'n is ' + string(args.n)", "n is 1"),
        ("args.n", None),
        ("args.missing", None),
        ("''", None),
        ("args.long", "x" * (MESSAGE_CHARS_MAX - 1) + "…"),
    ],
)
def test_messages_are_for_people_and_may_fail(message: str, shown: str | None) -> None:
    rules = policy(f'{{id: a, effect: deny, message: "{message}"}}')
    decision = decided(rules, args={"n": 1, "long": "x" * 5000})
    assert decision.effect is Effect.DENY
    assert decision.message == shown
    assert "message" not in decision.to_json()


def test_messages_of_several_rules_are_joined_and_others_unheard() -> None:
    rules = policy(
        "{id: b, effect: deny, message: \"'two'\"}",
        "{id: a, effect: deny, message: \"'one'\"}",
        "{id: c, effect: allow, message: \"'three'\"}",
    )
    assert decided(rules).message == "one; two"


def test_five_messages_are_heard_and_cost_nothing() -> None:
    said = [f"{{id: r{n}, effect: deny, message: \"'m{n}'\"}}" for n in range(6)]
    decision = decided(policy(*said))
    assert decision.message == "m0; m1; m2; m3; m4"
    assert decision.steps == 0
    whole = policy('{id: a, effect: deny, message: "args.long"}')
    assert decided(whole, args={"long": "x" * 500}).message == "x" * 500
    assert decided(whole, args={"long": "x" * 501}).message == "x" * 499 + "…"


def test_as_many_rules_as_are_named() -> None:
    hundred = [f"{{id: r{n}, effect: deny}}" for n in range(100)]
    assert decided(policy(*hundred)).reasons == ()
    assert decided(policy(*hundred, "{id: x, effect: deny}")).reasons == ("more-rules",)
    shadows = [rule.replace("}", ", mode: shadow}") for rule in hundred]
    assert "more-rules" not in decided(policy(*shadows)).reasons
    assert "more-rules" in decided(policy(*shadows, "{id: x, effect: deny, mode: shadow}")).reasons


def test_shadow_rules_have_a_budget_of_their_own() -> None:
    bombs = [f'{{id: b{n}, when: "{BOMB}", effect: allow}}' for n in range(30)]
    shadow = f'{{id: s, when: "{TRUE}", effect: deny, mode: shadow}}'
    decision = decided(policy(*bombs, shadow), args={"l": list(range(1000)), "n": 1})
    assert decision.steps == module.DECISION_STEPS_MAX
    assert decision.shadow == (("p/s", "deny"),)


def test_a_decision_with_very_many_rules_fits_an_entry() -> None:
    long = "r" * 55
    rules = policy(
        *(f'{{id: {long}{n}, effect: deny, when: "{ERROR}"}}' for n in range(300)),
        *(f"{{id: s{long}{n}, effect: deny, mode: shadow}}" for n in range(300)),
    )
    decision = decided(rules)
    assert decision.effect is Effect.DENY
    assert len(decision.rules) == len(decision.errors) == len(decision.shadow) == NAMED_MAX
    assert decision.reasons == ("rule-error", "more-rules")
    assert canonical.entry_bytes(decision.to_json())


BOMB = "args.l.exists(x, args.l.exists(y, x + y == -1))"


@pytest.mark.parametrize(
    ("effect", "expected"),
    [
        ("deny", Effect.DENY),
        ("require_approval", Effect.REQUIRE_APPROVAL),
        ("allow", Effect.DENY),
    ],
)
def test_a_bomb_never_widens(effect: str, expected: Effect) -> None:
    rules = policy(f'{{id: bomb, when: "{BOMB}", effect: {effect}}}')
    decision = decided(rules, args={"l": list(range(1000))})
    assert decision.effect is expected
    assert decision.errors == (("p/bomb", "budget"),)


def test_many_bombs_share_the_budget_of_a_decision() -> None:
    bombs = [f'{{id: b{n}, when: "{BOMB}", effect: allow}}' for n in range(30)]
    rules = policy(*bombs, f'{{id: z, when: "{TRUE}", effect: allow}}')
    decision = decided(rules, args={"l": list(range(1000)), "n": 1})
    assert decision.effect is Effect.DENY
    assert decision.steps == module.DECISION_STEPS_MAX
    assert len(decision.errors) == 31


def test_one_bomb_does_not_spoil_its_neighbours() -> None:
    rules = policy(
        f'{{id: a, when: "{BOMB}", effect: allow}}', f'{{id: b, when: "{TRUE}", effect: allow}}'
    )
    decision = decided(rules, args={"l": list(range(1000)), "n": 1})
    assert (decision.effect, decision.rules) == (Effect.ALLOW, ("p/b",))


def test_inputs_are_bound_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[object] = []
    three = policy(*(f'{{id: r{n}, when: "{TRUE}", effect: allow}}' for n in range(3)))
    original = type(three.evaluator).bind

    def counting(engine: object, given: object) -> object:
        bound.append(given)
        return original(engine, given)  # type: ignore[arg-type] # the engine's own types

    monkeypatch.setattr(type(three.evaluator), "bind", counting)
    assert decided(three).effect is Effect.ALLOW
    assert len(bound) == 1


def test_every_input_can_be_asked_about() -> None:
    condition = (
        "tool.profiled && tool.definition.size() == 64 && args.n == 1 && args_origin == {} && "
        "'clerk' in principal.roles && agent.id == 'agent:desk' && !run.untrusted && "
        "env.name == 'prod' && now == timestamp('1970-01-01T00:00:00Z')"
    )
    assert decided(policy(f'{{id: a, effect: allow, when: "{condition}"}}')).effect is Effect.ALLOW
