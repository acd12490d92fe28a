"""What holds of every policy set: order is nothing, errors and denials never widen, allows never narrow.

And the index and the fast admission say what the plain readings of the same rules, kept here, say.
"""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governance.canonical import CanonicalError, freeze, thaw
from governance.ids import Digest
from governance.policy import admit
from governance.policy.cel import CONDITION_STEPS_MAX, CelFailure
from governance.policy.decide import decide
from governance.policy.document import load_policies
from governance.policy.index import Call
from governance.policy.model import Decision, Effect, RiskProfile, Tier
from governance.policy.risk import tool_input
from governance.policy.rules import Mode, PolicySet

CONDITIONS = [
    "args.n > 2",
    "args.n == 1",
    "args.missing == 1",
    "args.n",
    "has(args.missing)",
    "args.t == 'a' || args.missing == 1",
    "args.l.exists(x, x == args.n)",
    "run.untrusted",
]
BROKEN = "args.missing == 1"
STRENGTH = {Effect.ALLOW: 0, Effect.REQUIRE_APPROVAL: 1, Effect.DENY: 2}
Rule = dict[str, object]


def approvals() -> st.SearchStrategy[Rule]:
    seats = st.lists(
        st.fixed_dictionaries({"role": st.sampled_from("abc"), "count": st.integers(1, 3)}),
        min_size=1,
        max_size=3,
        unique_by=lambda seat: str(seat["role"]),
    )
    clock = st.sampled_from(["30s", "15m", "4h", "2d"])
    return st.fixed_dictionaries({"quorum": seats, "decide_by": clock, "use_by": clock})


def rules() -> st.SearchStrategy[Rule]:
    common = {
        "match": st.sampled_from(
            [
                {},
                {"tools": ["p*"]},
                {"tools": ["other"]},
                {"tiers": ["high"]},
                {"verbs": ["read"]},
                {"scopes": ["s", "t"]},
                {"side_effect": True},
                {"agents": ["agent:a"]},
                {"environments": ["prod"], "cost_class": ["dear"]},
            ]
        )
    }
    optional = {
        "when": st.sampled_from(CONDITIONS),
        "mode": st.sampled_from(["enforce", "enforce", "shadow"]),
    }
    return st.one_of(
        st.fixed_dictionaries({**common, "effect": st.just("deny")}, optional=optional),
        st.fixed_dictionaries(
            {**common, "effect": st.just("allow")},
            optional={**optional, "allow_tier": st.sampled_from(list(map(str, Tier)))},
        ),
        st.fixed_dictionaries(
            {**common, "effect": st.just("require_approval")},
            optional={**optional, "approval": approvals()},
        ),
    )


SETS = st.lists(rules(), min_size=1, max_size=6).map(
    lambda drawn: [{"id": f"r{n}", **rule} for n, rule in enumerate(drawn)]
)
CALLS = st.tuples(
    st.fixed_dictionaries(
        {"n": st.integers(0, 4), "t": st.sampled_from("ab"), "l": st.lists(st.integers(0, 4))}
    ),
    st.sampled_from(
        [
            RiskProfile(verb="READ"),
            RiskProfile(),
            RiskProfile(risk_tier=Tier.MEDIUM),
            RiskProfile(verb="FINANCIAL", side_effect=True),
            RiskProfile(verb="read", scopes=("s",), cost_class="dear"),
        ]
    ),
    st.booleans(),
)
Call_ = tuple[dict[str, object], RiskProfile, bool]
EXAMPLES = settings(derandomize=True, max_examples=120, deadline=None)


def text(name: str, given_rules: list[Rule]) -> str:
    return json.dumps({"policy": name, "version": 1, "rules": given_rules})


def decided(given_rules: list[Rule], call: Call_, files: int = 1) -> Decision:
    args, profile, untrusted = call
    parts = [given_rules[n::files] for n in range(files)]
    policies = load_policies({f"{n}": text(f"p{n}", part) for n, part in enumerate(parts) if part})
    return decide(
        policies,
        {
            "tool": tool_input("pay", Digest(bytes(32)), profile),
            "args": args,  # type: ignore[dict-item] # JSON, as drawn
            "agent": {"id": "agent:a"},
            "env": {"name": "test"},
            "run": {"untrusted": untrusted},
        },
    )


def outcome(decision: Decision) -> tuple[object, ...]:
    """All of a decision but for the names of its policies."""
    short = sorted(name.split("/")[1] for name in decision.rules)
    errors = sorted((name.split("/")[1], kind) for name, kind in decision.errors)
    return decision.effect, decision.tier, short, errors, decision.reasons, decision.demands


@EXAMPLES
@given(SETS, CALLS, st.randoms(use_true_random=False), st.integers(1, 3))
def test_the_order_of_rules_and_files_never_matters(
    drawn: list[Rule], call: Call_, random: object, files: int
) -> None:
    shuffled = list(drawn)
    random.shuffle(shuffled)  # type: ignore[attr-defined] # a Random
    assert outcome(decided(shuffled, call, files)) == outcome(decided(drawn, call))


@EXAMPLES
@given(SETS, CALLS, rules())
def test_adding_a_deny_never_widens(drawn: list[Rule], call: Call_, extra: Rule) -> None:
    deny = {k: v for k, v in extra.items() if k in ("match", "when")}
    before = decided(drawn, call)
    after = decided([*drawn, {"id": "extra", **deny, "effect": "deny"}], call)
    assert STRENGTH[after.effect] >= STRENGTH[before.effect]


@EXAMPLES
@given(SETS, CALLS)
def test_removing_an_allow_never_widens(drawn: list[Rule], call: Call_) -> None:
    before = decided(drawn, call)
    for gone in [rule for rule in drawn if rule["effect"] == "allow"]:
        rest = [rule for rule in drawn if rule is not gone]
        after = decided(rest, call)
        assert STRENGTH[after.effect] >= STRENGTH[before.effect]


@EXAMPLES
@given(SETS, CALLS, st.data())
def test_an_error_never_widens(drawn: list[Rule], call: Call_, data: st.DataObject) -> None:
    """A broken rule binds as its effect says, but for `allow`; so nothing is allowed that was not."""
    before = decided(drawn, call)
    place = data.draw(st.integers(0, len(drawn) - 1))
    broken = {**drawn[place], "when": BROKEN}
    after = decided([*drawn[:place], broken, *drawn[place + 1 :]], call)
    assert after.effect is not Effect.ALLOW or before.effect is Effect.ALLOW
    failed = any(kind == "missing-key" and f"/r{place}" in name for name, kind in after.errors)
    if not failed:
        return  # it does not match this call, or a denial came first
    if broken["effect"] == "deny":
        assert after.effect is Effect.DENY
    if broken["effect"] == "require_approval":
        assert after.effect is Effect.REQUIRE_APPROVAL
    if broken["effect"] == "allow":
        assert STRENGTH[after.effect] >= STRENGTH[before.effect]


@EXAMPLES
@given(SETS, CALLS)
def test_a_shadow_set_decides_like_none(drawn: list[Rule], call: Call_) -> None:
    decision = decided([{**rule, "mode": "shadow"} for rule in drawn], call)
    assert (decision.effect, decision.reasons) == (Effect.DENY, ("no-rule",))


@EXAMPLES
@given(SETS, CALLS)
def test_the_same_input_gives_the_same_decision(drawn: list[Rule], call: Call_) -> None:
    assert decided(drawn, call) == decided(drawn, call)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


@EXAMPLES
@given(st.dictionaries(st.sampled_from(["tool", "args", "agent", "env", "run", "now"]), JUNK))
def test_junk_is_refused_and_never_raises(junk: dict[str, object]) -> None:
    policies = load_policies({"p": text("p", [{"id": "a", "effect": "allow"}])})
    assert decide(policies, junk).effect is Effect.DENY  # type: ignore[arg-type] # junk


# --- the index against a plain scan -----------------------------------------------------------------


def plain_call(inputs: dict[str, Any]) -> Call | None:
    """The facts of a call, read one by one."""
    try:
        tool = inputs["tool"]
        if type(tool["scopes"]) is not list:
            return None
        call = Call(
            tool=tool["name"],
            verb=tool["verb"].upper(),
            tier=Tier(tool["risk_tier"]),
            side_effect=tool["side_effect"],
            reversibility=tool["reversibility"],
            blast_radius=tool["blast_radius"],
            cost_class=tool["cost_class"],
            scopes=frozenset(tool["scopes"]),
            agent=inputs["agent"]["id"],
            environment=inputs["env"]["name"],
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    texts = (call.tool, tool["verb"], call.reversibility, call.blast_radius, call.cost_class)
    typed = all(type(text) is str for text in (*texts, call.agent, call.environment, *call.scopes))
    return call if typed and type(call.side_effect) is bool else None


def plain_decision(policies: PolicySet, inputs: dict[str, Any]) -> tuple[object, ...]:
    """The combination table, rule after rule, with nothing looked up."""
    call = plain_call(inputs)
    if call is None or not plain_admissible(inputs.get("args")):
        return Effect.DENY, call.tier if call else Tier.CRITICAL, (), ("input-rejected",), (), (), 0
    about = [rule for rule in policies.rules if rule.match.hits(call)]
    bound = policies.evaluator.bind(inputs)
    spent = 0

    def values(mode: Mode, effect: Effect | None) -> dict[str, bool | str]:
        nonlocal spent
        found: dict[str, bool | str] = {}
        for rule in about:
            if rule.mode is not mode or effect not in (None, rule.effect):
                continue
            found[rule.name] = True
            if rule.when is not None:
                outcome = rule.when.evaluate(bound, CONDITION_STEPS_MAX)
                spent += outcome.steps
                failed = isinstance(outcome.value, CelFailure)
                found[rule.name] = outcome.value.kind.value if failed else outcome.value  # type: ignore[union-attr] # failed
        return found

    effect, rules, reasons, errors = Effect.DENY, (), ("no-rule",), ()
    for wanted in (Effect.DENY, Effect.REQUIRE_APPROVAL, Effect.ALLOW):
        found = values(Mode.ENFORCE, wanted)
        failed = {name: kind for name, kind in found.items() if isinstance(kind, str)}
        binding = [n for n, v in found.items() if v is True or (wanted is not Effect.ALLOW and v)]
        errors = tuple(failed.items())
        if binding:
            effect, rules = wanted, tuple(binding)
            reasons = ("rule-error",) if failed and wanted is not Effect.ALLOW else ()
            break
    carried = [r.allow_tier for r in about if r.name in rules and r.allow_tier is not None]
    grave = call.tier.rank >= Tier.HIGH.rank
    if effect is Effect.ALLOW and grave and not any(t.rank >= call.tier.rank for t in carried):
        effect, reasons = Effect.REQUIRE_APPROVAL, (f"tier-{call.tier}",)
    steps = spent
    shadows = values(Mode.SHADOW, None)
    said = {rule.name: rule.effect.value for rule in about}
    shadow = tuple(
        (name, value if isinstance(value, str) else said[name] if value else "no-match")
        for name, value in shadows.items()
    )
    return effect, call.tier, rules, reasons, errors, shadow, steps


def seen(decision: Decision) -> tuple[object, ...]:
    return (
        *(decision.effect, decision.tier, decision.rules, decision.reasons),
        *(decision.errors, decision.shadow, decision.steps),
    )


ODD = st.sampled_from([None, 0, 1, True, 1.0, "", "low", "READ", [], ["s"], [1], {}, ()])
CHANGES = st.dictionaries(
    st.sampled_from(["name", "verb", "risk_tier", "side_effect", "scopes", "cost_class"]),
    ODD,
    max_size=2,
)


@EXAMPLES
@given(
    SETS,
    st.lists(
        st.tuples(CALLS, CHANGES, st.sampled_from(["prod", "test", 7])), min_size=1, max_size=6
    ),
)
def test_the_index_decides_like_a_plain_scan(
    drawn: list[Rule], asked: list[tuple[Call_, dict[str, object], object]]
) -> None:
    """Many calls of one set, also odd ones beside those they resemble: what is kept of one is never
    taken for another."""
    policies = load_policies({"p": text("p", drawn)})
    for (args, profile, untrusted), changes, env in [*asked, *asked]:
        inputs: dict[str, Any] = {
            "tool": {**tool_input("pay", Digest(bytes(32)), profile), **changes},
            "args": args,
            "agent": {"id": "agent:a"},
            "env": {"name": env},
            "run": {"untrusted": untrusted},
        }
        assert seen(decide(policies, inputs)) == plain_decision(policies, inputs)


# --- admission against a plain walk -----------------------------------------------------------------


def plain_admissible(arguments: object) -> bool:
    left = {"nodes": admit.ARGUMENTS_NODES_MAX, "bytes": admit.ARGUMENTS_TEXT_BYTES_MAX}

    def text_fits(value: object) -> bool:
        if type(value) is not str or "\0" in value:
            return False
        try:
            left["bytes"] -= len(value.encode())
        except UnicodeEncodeError:
            return False
        return left["bytes"] >= 0

    def fits(value: object, depth: int) -> bool:
        left["nodes"] -= 1
        if left["nodes"] < 0:
            return False
        if type(value) in (int, float):
            return value - value == 0 and (type(value) is float or -(2**63) <= value < 2**63)  # type: ignore[operator] # a number
        if type(value) is dict:
            inside = depth <= admit.ARGUMENTS_DEPTH_MAX
            return inside and all(text_fits(k) and fits(v, depth + 1) for k, v in value.items())
        if type(value) is list:
            return depth <= admit.ARGUMENTS_DEPTH_MAX and all(fits(v, depth + 1) for v in value)
        return value is None or type(value) is bool or text_fits(value)

    return type(arguments) is dict and fits(arguments, 1)


ALMOST_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) - 1, 2**63)
    | st.floats()
    | st.sampled_from(["", "a", "é", "\0", "\ud800", b"x"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b\0", "\ud800", "é", "c"]), inner, max_size=4)
        | st.tuples(inner)
    ),
    max_leaves=12,
)


@settings(derandomize=True, max_examples=400, deadline=None)
@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), ALMOST_JSON, max_size=4) | ALMOST_JSON)
def test_admission_agrees_with_a_plain_walk(arguments: object) -> None:
    assert admit.admissible(arguments) == plain_admissible(arguments)


@settings(derandomize=True, max_examples=400, deadline=None)
@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), ALMOST_JSON, max_size=4))
def test_what_the_bytes_say_of_arguments_is_what_a_walk_says(arguments: dict[str, object]) -> None:
    try:
        frozen = freeze(arguments)
    except CanonicalError:
        return
    assert admit.admits(frozen) == plain_admissible(thaw(frozen))


@pytest.mark.parametrize(
    ("frozen", "admitted"),
    [
        (b'{"n":9223372036854775807}', True),
        (b'{"n":9223372036854775808}', False),
        (b'{"n":-9223372036854775808}', True),
        (b'{"n":"9223372036854775808"}', True),
        (b'{"t":"\\u0000"}', False),
        (b'{"t":"\\\\u0000"}', True),
        (b'{"a":' + b"[" * 31 + b"]" * 31 + b"}", True),
        (b'{"a":' + b"[" * 32 + b"]" * 32 + b"}", False),
        (b'{"a":[' + b"[]," * 40 + b"[]]}", True),
        (b'{"a":[' + b"1," * 9_997 + b"1]}", True),
        (b'{"a":[' + b"1," * 9_998 + b"1]}", False),
        (b"[]", False),
    ],
)
def test_limits_are_read_off_the_bytes(frozen: bytes, admitted: bool) -> None:
    assert admit.admits(frozen) is admitted
    assert admit.admissible(thaw(frozen)) is admitted
