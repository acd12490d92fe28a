"""An explanation shows each candidate rule, each clause of it, and why the tier is what it is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governance.policy.cel import engine_by_name
from governance.policy.clauses import Form, Part, split
from governance.policy.decide import decide
from governance.policy.document import load_policies
from governance.policy.explain import Clause, dissect, explain, explain_with
from governance.policy.model import RiskProfile, Tier
from governance.policy.suite_scene import Stage

POLICY = """\
policy: desk
version: 1
rules:
  - id: night
    description: Nothing at night.
    match: {tools: [refund]}
    when: now.getHours() >= 22 || now.getHours() < 6
    effect: deny
  - id: small
    match: {tools: [refund]}
    when: |
      args.cents <= 5000   // what anybody may
      && !(run.untrusted || 'guest' in principal.roles)
    effect: allow
    allow_tier: critical
  - id: large
    match: {tools: [refund]}
    when: args.cents > 5000
    effect: require_approval
  - id: trial
    match: {tools: [refund]}
    when: args.cents > 100
    effect: deny
    mode: shadow
  - {id: reads, match: {tools: ["look_*"]}, effect: allow}
"""
NOON = 12 * 3600 * 1_000_000
TOOLS = {
    "refund": RiskProfile(verb="FINANCIAL", side_effect=True),
    "look_up": RiskProfile(verb="READ", side_effect=False),
}


@pytest.fixture(params=["closure", "celpy"])
def policies(request):
    return load_policies({"desk.yaml": POLICY}, engine_by_name(request.param))


def inputs(tool="refund", tools=TOOLS, **parts):
    return Stage(tools).inputs({"tool": tool, "now": NOON, **parts})


def values(clause: Clause) -> dict:
    found = {clause.text: clause.value}
    for part in clause.parts:
        found |= values(part)
    return found


def test_every_candidate_is_shown_denials_first_and_what_it_came_to(policies):
    explained = explain(policies, inputs(args={"cents": 900}))
    assert [(w.rule.name, w.value, w.binds, w.determines) for w in explained.rules] == [
        ("desk/night", False, False, False),
        ("desk/trial", True, True, False),
        ("desk/large", False, False, False),
        ("desk/small", True, True, True),
    ]
    assert explained.passed_over == ("desk/reads",)
    assert explained.decision == decide(policies, inputs(args={"cents": 900}))


def test_each_clause_has_its_value_and_a_comment_is_no_part_of_it(policies):
    (small,) = [
        w
        for w in explain(policies, inputs(args={"cents": 900}, run={"untrusted": True})).rules
        if w.rule.name == "desk/small"
    ]
    assert values(small.condition) == {
        "args.cents <= 5000 && !(run.untrusted || 'guest' in principal.roles)": False,
        "args.cents <= 5000": True,
        "!(run.untrusted || 'guest' in principal.roles)": False,
        "run.untrusted || 'guest' in principal.roles": True,
        "run.untrusted": True,
        "'guest' in principal.roles": False,
    }
    assert (small.rule.id.file, small.rule.id.line) == ("desk.yaml", 9)


def test_a_failure_is_shown_where_it_is_and_binds_what_does_not_allow(policies):
    explained = explain(policies, inputs(args={}))
    found = {w.rule.name: w for w in explained.rules}
    assert found["desk/large"].value == found["desk/large"].condition.value == "missing-key"
    assert found["desk/large"].binds
    assert found["desk/large"].determines
    assert not found["desk/small"].binds
    assert explained.to_json()["rules"][2]["when"] == {
        "text": "args.cents > 5000",
        "value": "missing-key",
    }


def test_rules_that_could_not_matter_any_more_are_weighed_all_the_same(policies):
    explained = explain(policies, inputs(args={"cents": 900}, now=NOON + 10 * 3600 * 1_000_000))
    found = {w.rule.name: (w.binds, w.determines) for w in explained.rules}
    assert explained.decision.rules == ("desk/night",)
    assert found["desk/small"] == (True, False)


def test_a_rule_without_condition_has_none(policies):
    (reads,) = explain(policies, inputs("look_up")).rules
    assert (reads.value, reads.condition, reads.determines) == (True, None, True)


@pytest.mark.parametrize(
    ("profile", "told"),
    [
        (RiskProfile(verb="financial"), [("verb FINANCIAL", "critical")]),
        (
            RiskProfile(verb="READ", risk_tier=Tier.HIGH),
            [("declared as high", "high"), ("verb READ", "low")],
        ),
        (RiskProfile(verb="TELEPORT"), [("verb TELEPORT, which is none we know", "high")]),
        (RiskProfile(), [("nothing is declared about the tool", "high")]),
        (
            RiskProfile(side_effect=True),
            [("a side effect, and nothing else is declared", "high")],
        ),
        (RiskProfile(side_effect=False), [("declared to have no side effect", "low")]),
        (RiskProfile(verb="READ", side_effect=False), [("verb READ", "low")]),
        (RiskProfile(risk_tier=Tier.LOW, side_effect=True), [("declared as low", "low")]),
    ],
)
def test_the_tier_is_told_with_what_says_so_the_highest_first(policies, profile, told):
    explained = explain(policies, inputs("t", {"t": profile}))
    assert [(s.what, s.tier) for s in explained.signals] == told
    assert explained.decision.tier == explained.signals[0].tier


def test_a_tier_that_no_declaration_explains_is_told_as_given(policies):
    given = inputs("look_up")
    given["tool"]["risk_tier"] = "critical"
    first = explain(policies, given).signals[0]
    assert (first.what, first.tier) == ("as the input says", "critical")


def test_a_record_without_declared_tier_is_explained_too(policies):
    given = inputs("t", {"t": RiskProfile(side_effect=True)})
    del given["tool"]["declared_tier"]
    del given["tool"]["profiled"]
    assert [s.what for s in explain(policies, given).signals] == [
        "a side effect, and nothing else is declared"
    ]


@pytest.mark.parametrize("bad", [{}, {"tool": 7}, inputs(args={"x": "\0"}), inputs(args=[])])
def test_an_input_that_is_rejected_has_no_candidates(policies, bad):
    explained = explain(policies, bad)
    assert explained.decision.reasons == ("input-rejected",)
    assert explained.rules == ()


def test_an_explanation_as_data_has_these_fields():
    policies = load_policies({"desk.yaml": POLICY})
    explained = explain(policies, inputs(args={"cents": 900}, run={"untrusted": True}))
    body = explained.to_json()
    assert body["decision"] == {**explained.decision.to_json(), "message": None}
    assert body["signals"] == [{"what": "verb FINANCIAL", "source": "verb", "tier": "critical"}]
    assert body["passed_over"] == ["desk/reads"]
    night, trial, _, small = body["rules"]
    assert night == {
        "rule": "desk/night",
        "file": "desk.yaml",
        "line": 4,
        "description": "Nothing at night.",
        "effect": "deny",
        "mode": "enforce",
        "value": False,
        "binds": False,
        "determines": False,
        "steps": 9,
        "when": {
            "text": "now.getHours() >= 22 || now.getHours() < 6",
            "value": False,
            "form": "||",
            "parts": [
                {"text": "now.getHours() >= 22", "value": False},
                {"text": "now.getHours() < 6", "value": False},
            ],
        },
    }
    assert (trial["mode"], trial["binds"], trial["steps"]) == ("shadow", True, 4)
    assert [part.get("form") for part in small["when"]["parts"]] == [None, "!"]


def test_the_message_is_told_with_the_decision():
    text = (
        "{policy: p, version: 1, rules: [{id: r, effect: deny, message: \"'no, ' + tool.name\"}]}"
    )
    explained = explain(load_policies({"p": text}), inputs())
    assert explained.to_json()["decision"]["message"] == "no, refund"
    assert explained.to_json()["rules"][0] == {
        **explained.to_json()["rules"][0],
        "when": None,
        "steps": 0,
        "description": "",
        "determines": True,
    }


# --- splitting ---------------------------------------------------------------------------------------


def drawn(part: Part) -> object:
    if part.form is Form.CLAUSE:
        return part.text
    return (part.form.value, *map(drawn, part.parts))


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("run.untrusted", "run.untrusted"),
        ("((run.untrusted))", "run.untrusted"),
        ("a && b || c", ("||", ("&&", "a", "b"), "c")),
        ("a && (b || c)", ("&&", "a", ("||", "b", "c"))),
        ("(a) && !(b)", ("&&", "a", "!(b)")),
        ("!(a || b)", ("!", ("||", "a", "b"))),
        ("!!(a || b)", "!!(a || b)"),
        ("(a) == (b)", "(a) == (b)"),
        ("a ? b && c : !d", ("?:", "a", ("&&", "b", "c"), "!d")),
        ("a || b ? c : d", ("?:", ("||", "a", "b"), "c", "d")),
        ("a ? b : c ? d : e", ("?:", "a", "b", ("?:", "c", "d", "e"))),
        ("a ? b : (c ? d : e)", ("?:", "a", "b", ("?:", "c", "d", "e"))),
        ("a.exists(x, x && b) || c", ("||", "a.exists(x, x && b)", "c")),
        ("{'k': a || b}['k']", "{'k': a || b}['k']"),
        ("[a && b][0] && c", ("&&", "[a && b][0]", "c")),
        ("a == 'x || y' && b", ("&&", "a == 'x || y'", "b")),
        ('a == "it\'s (" || b', ("||", 'a == "it\'s ("', "b")),
        (r"a == 'it\'s ||' || b", ("||", r"a == 'it\'s ||'", "b")),
        ("a // && c\n && b", ("&&", "a", "b")),
        ("a   ==\n  b", "a == b"),
        ("a != b || !c", ("||", "a != b", "!c")),
    ],
)
def test_a_condition_is_split_where_its_own_text_is(source, parts):
    assert drawn(split(source)) == parts


ATOMS = st.sampled_from(
    ["run.untrusted", "args.cents > 5", "'a || (b' == tool.name", "tool.side_effect"]
)
CONDITIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: f"({two[0]}) && ({two[1]})"),
        st.tuples(inner, inner).map(lambda two: f"{two[0]} || {two[1]}"),
        inner.map(lambda one: f"!({one})"),
        st.tuples(inner, inner, inner).map(lambda t: f"(({t[0]}) ? ({t[1]}) : ({t[2]}))"),
    ),
    max_leaves=6,
)


def recomputed(clause: Clause) -> bool:
    parts = [recomputed(part) for part in clause.parts]
    match clause.form:
        case Form.CLAUSE:
            return clause.value
        case Form.ANY:
            return any(parts)
        case Form.ALL:
            return all(parts)
        case Form.NOT:
            return not parts[0]
        case Form.CHOICE:
            return parts[1] if parts[0] else parts[2]


@settings(max_examples=60, derandomize=True, deadline=None)
@given(CONDITIONS, st.booleans(), st.sampled_from([3, 9]))
def test_the_parts_come_to_what_the_whole_comes_to(condition, untrusted, cents):
    text = f'policy: p\nversion: 1\nrules:\n  - {{id: r, effect: deny, when: "{condition}"}}\n'
    dissected = dissect(load_policies({"p": text}))
    given_ = inputs(args={"cents": cents}, run={"untrusted": untrusted})
    (weighed,) = explain_with(dissected, given_).rules
    assert recomputed(weighed.condition) == weighed.value
