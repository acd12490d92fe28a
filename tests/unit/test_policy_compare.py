"""Two policy sets side by side: what changes for the call counts, what only names rules otherwise does not."""

from dataclasses import replace
from itertools import product

import pytest

from governance.policy.compare import Comparison, Judged, Shift, agree, shift
from governance.policy.decide import decide
from governance.policy.document import load_policies
from governance.policy.model import Effect, RiskProfile, Tier
from governance.policy.suite_scene import Stage

TOOLS = {"get": RiskProfile(verb="READ", side_effect=False)}


def rules(effect: str, id: str = "r", extra: str = "") -> str:
    return f"{{policy: p, version: 1, rules: [{{id: {id}, effect: {effect}{extra}}}]}}"


def one(effect: str, **kw):
    return load_policies({"p": rules(effect, **kw)})


def judged(policies, n=1, **parts):
    inputs = Stage(TOOLS).inputs({"tool": "get", **parts})
    return [Judged({"case": f"c{i}"}, "get", inputs, decide(policies, inputs)) for i in range(n)]


SPELLED = {
    Effect.ALLOW: "allow",
    Effect.DENY: "deny",
    Effect.REQUIRE_APPROVAL: "approval",
}


def test_what_each_change_is_called_stays() -> None:
    """Whoever reads `--json` goes by it; the two that matter most come first."""
    assert [kind.value for kind in Shift] == [
        *("deny-to-allow", "allow-to-deny", "approval-to-allow", "allow-to-approval"),
        *("deny-to-approval", "approval-to-deny", "other-approval"),
    ]


@pytest.mark.parametrize(("before", "after"), list(product(Effect, Effect)))
def test_every_change_of_effect_has_its_name(before, after):
    comparison = Comparison(one(after))
    changes = list(comparison.changes(judged(one(before))))
    if before is after:
        assert changes == []
        return
    (change,) = changes
    assert change.shift == f"{SPELLED[before]}-to-{SPELLED[after]}"
    assert (change.before.effect, change.after.effect) == (before, after)
    assert change.where == {"case": "c0"}


def test_another_rule_that_says_the_same_is_no_change():
    assert list(Comparison(one("allow", id="other")).changes(judged(one("allow")))) == []


def test_an_approval_that_asks_somebody_else_is_one():
    asks = ", approval: {quorum: [{role: finance}]}"
    new = one("require_approval", extra=asks)
    (change,) = Comparison(new).changes(judged(one("require_approval")))
    assert change.shift is Shift.OTHER_APPROVAL
    assert change.to_json()["before"]["demands"]["quorum"] == [{"role": "approver", "count": 1}]
    assert change.to_json()["after"]["demands"]["quorum"] == [{"role": "finance", "count": 1}]


def test_inputs_stream_past_and_are_counted():
    comparison = Comparison(one("deny", extra=", when: run.untrusted"))
    fed = iter([*judged(one("allow"), 2), *judged(one("deny"), 3)])
    stream = comparison.changes(fed)
    assert next(stream).shift is Shift.ALLOW_TO_DENY
    assert comparison.decided == 1
    assert [change.shift for change in stream] == [Shift.ALLOW_TO_DENY]
    assert comparison.to_json() == {"decided": 5, "changed": 2, "shifts": {"allow-to-deny": 2}}


def test_the_widest_change_comes_first():
    assert list(Shift)[:2] == [Shift.DENY_TO_ALLOW, Shift.ALLOW_TO_DENY]
    allowed = decide(one("allow"), judged(one("allow"))[0].inputs)
    assert shift(allowed, allowed) is None


def test_decisions_agree_whatever_set_and_cost_but_not_whatever_reason():
    here, there = (
        judged(one(effect, id=id))[0].decision for effect, id in [("allow", "r"), ("allow", "s")]
    )
    assert agree(here, replace(here, steps=here.steps + 1, policy=there.policy))
    assert not agree(here, there)  # another rule
    assert not agree(here, replace(here, reasons=("rule-error",)))
    assert not agree(here, replace(here, tier=Tier.HIGH))


def test_a_change_as_data_has_these_fields():
    (change,) = Comparison(one("deny")).changes(judged(one("allow")))
    body = change.to_json()
    assert list(body) == ["shift", "case", "tool", "before", "after"]
    assert (body["shift"], body["case"], body["tool"]) == ("allow-to-deny", "c0", "get")
