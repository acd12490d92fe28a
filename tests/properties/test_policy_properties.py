"""What holds of every policy set: order is nothing, errors and denials never widen, allows never narrow."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from governance.ids import Digest
from governance.policy.decide import decide
from governance.policy.document import load_policies
from governance.policy.model import Decision, Effect, RiskProfile, Tier
from governance.policy.risk import tool_input

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
            [{}, {"tools": ["p*"]}, {"tools": ["other"]}, {"tiers": ["high"]}, {"verbs": ["read"]}]
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
        ]
    ),
    st.booleans(),
)
Call = tuple[dict[str, object], RiskProfile, bool]
EXAMPLES = settings(derandomize=True, max_examples=120, deadline=None)


def text(name: str, given_rules: list[Rule]) -> str:
    return json.dumps({"policy": name, "version": 1, "rules": given_rules})


def decided(given_rules: list[Rule], call: Call, files: int = 1) -> Decision:
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
    drawn: list[Rule], call: Call, random: object, files: int
) -> None:
    shuffled = list(drawn)
    random.shuffle(shuffled)  # type: ignore[attr-defined] # a Random
    assert outcome(decided(shuffled, call, files)) == outcome(decided(drawn, call))


@EXAMPLES
@given(SETS, CALLS, rules())
def test_adding_a_deny_never_widens(drawn: list[Rule], call: Call, extra: Rule) -> None:
    deny = {k: v for k, v in extra.items() if k in ("match", "when")}
    before = decided(drawn, call)
    after = decided([*drawn, {"id": "extra", **deny, "effect": "deny"}], call)
    assert STRENGTH[after.effect] >= STRENGTH[before.effect]


@EXAMPLES
@given(SETS, CALLS)
def test_removing_an_allow_never_widens(drawn: list[Rule], call: Call) -> None:
    before = decided(drawn, call)
    for gone in [rule for rule in drawn if rule["effect"] == "allow"]:
        rest = [rule for rule in drawn if rule is not gone]
        after = decided(rest, call)
        assert STRENGTH[after.effect] >= STRENGTH[before.effect]


@EXAMPLES
@given(SETS, CALLS, st.data())
def test_an_error_never_widens(drawn: list[Rule], call: Call, data: st.DataObject) -> None:
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
def test_a_shadow_set_decides_like_none(drawn: list[Rule], call: Call) -> None:
    decision = decided([{**rule, "mode": "shadow"} for rule in drawn], call)
    assert (decision.effect, decision.reasons) == (Effect.DENY, ("no-rule",))


@EXAMPLES
@given(SETS, CALLS)
def test_the_same_input_gives_the_same_decision(drawn: list[Rule], call: Call) -> None:
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
