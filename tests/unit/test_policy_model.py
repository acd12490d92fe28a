"""What is recorded of a decision reads back as it was, and what cannot be read is refused in words."""

import pytest

from governance.errors import InvalidInputError, RefusedError
from governance.ids import Digest, SubjectId
from governance.policy.model import Decision, Demands, Effect, Principal, RiskProfile, Seat, Tier
from governance.policy.rules import default_demands, refuse_rollback

DEMANDS = Demands((Seat("finance", 2), Seat("security", 1)), 3600, 60, reauthenticate=True)
WHOLE = Decision(
    effect=Effect.REQUIRE_APPROVAL,
    tier=Tier.HIGH,
    policy=Digest(bytes(range(32))),
    rules=("p/a", "p/b"),
    reasons=("rule-error", "more-rules"),
    demands=DEMANDS,
    errors=(("p/b", "missing-key"),),
    shadow=(("p/c", "deny"), ("p/d", "no-match")),
    steps=17,
    message="for people",
)
BODY = {
    "effect": "require_approval",
    "tier": "high",
    "policy": bytes(range(32)).hex(),
    "rules": ["p/a", "p/b"],
    "reasons": ["rule-error", "more-rules"],
    "steps": 17,
    "demands": {
        "quorum": [{"role": "finance", "count": 2}, {"role": "security", "count": 1}],
        "decide_by_s": 3600,
        "use_by_s": 60,
        "reauthenticate": True,
    },
    "errors": [["p/b", "missing-key"]],
    "shadow": [["p/c", "deny"], ["p/d", "no-match"]],
}
LEAST = {
    "effect": "deny",
    "tier": "low",
    "policy": "00" * 32,
    "rules": [],
    "reasons": [],
    "steps": 0,
}


def test_a_decision_is_recorded_in_these_fields_and_reads_back() -> None:
    assert WHOLE.to_json() == BODY
    read = Decision.from_json({**BODY, "uid": "not ours"}, "for people")
    assert read == WHOLE
    assert read.message == "for people"  # no part of equality
    assert Decision.from_json(BODY).message is None
    assert Decision.from_json(LEAST) == Decision(Effect.DENY, Tier.LOW, Digest(bytes(32)))
    assert Decision(Effect.DENY, Tier.LOW, Digest(bytes(32))).to_json() == LEAST


@pytest.mark.parametrize(
    "change",
    [
        *({name: None} for name in LEAST),
        {"effect": "alow"},
        {"tier": "tiny"},
        {"policy": "00"},
        {"steps": "many"},
        {"errors": [["p/b"]]},
        {"shadow": ["p"]},
        {"demands": {}},
        {"demands": {**BODY["demands"], "quorum": []}},
        {"demands": {**BODY["demands"], "quorum": [{"role": "a"}]}},
        {"demands": {**BODY["demands"], "use_by_s": None}},
    ],
)  # fmt: skip
def test_a_record_that_says_no_decision_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError):
        Decision.from_json({**BODY, **change})


@pytest.mark.parametrize("field", LEAST)
def test_so_is_one_that_lacks_a_field(field: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Decision.from_json({name: value for name, value in BODY.items() if name != field})
    assert caught.value.message == "recorded decision cannot be read"


@pytest.mark.parametrize("field", ["quorum", "decide_by_s", "use_by_s", "reauthenticate"])
def test_demands_need_every_field(field: str) -> None:
    body = DEMANDS.to_json()
    assert Demands.from_json(body) == DEMANDS
    with pytest.raises(InvalidInputError) as caught:
        Demands.from_json({name: value for name, value in body.items() if name != field})
    assert caught.value.message == "approval demands cannot be read"


def test_only_true_asks_to_authenticate_again() -> None:
    for odd in (1, "true", "no", None, False):
        assert (
            Demands.from_json({**DEMANDS.to_json(), "reauthenticate": odd}).reauthenticate is False
        )


def test_an_approval_by_nobody_is_none() -> None:
    with pytest.raises(InvalidInputError) as caught:
        Demands((), 1, 1)
    assert (caught.value.message, caught.value.hint) == (
        "approval demands nobody",
        "name at least one role",
    )
    assert default_demands(2) == Demands((Seat("approver", 2),), 86_400, 3600)
    assert default_demands() == Demands((Seat("approver", 1),), 86_400, 3600)
    assert Demands((Seat("approver", 1),), 1, 1).reauthenticate is False


def test_a_profile_is_recorded_as_far_as_it_was_declared() -> None:
    assert RiskProfile().to_json() == {}
    assert RiskProfile(side_effect=False).to_json() == {"side_effect": False}
    whole = RiskProfile("WRITE", Tier.LOW, True, "none", "one", "cheap", ("s",), True, True)
    assert whole.to_json() == {
        "verb": "WRITE",
        "risk_tier": "low",
        "side_effect": True,
        "reversibility": "none",
        "blast_radius": "one",
        "cost_class": "cheap",
        "scopes": ["s"],
        "idempotent": True,
        "untrusted_output": True,
    }


@pytest.mark.parametrize(
    ("profile", "profiled"),
    [
        (RiskProfile(), False),
        (RiskProfile(scopes=("a",), idempotent=True, cost_class="x"), False),
        (RiskProfile(verb="READ"), True),
        (RiskProfile(risk_tier=Tier.LOW), True),
        (RiskProfile(side_effect=False), True),
    ],
)
def test_verb_tier_or_side_effect_make_a_profile(profile: RiskProfile, profiled: bool) -> None:
    assert profile.profiled is profiled


def test_a_principal_is_recorded_with_every_field() -> None:
    somebody = Principal(SubjectId("user:1"), ("clerk",), "acme")
    assert somebody.to_json() == {"id": "user:1", "roles": ["clerk"], "tenant": "acme"}
    assert Principal(SubjectId("user:1")).to_json() == {"id": "user:1", "roles": [], "tenant": ""}


def test_a_rollback_is_refused_with_what_to_do() -> None:
    with pytest.raises(RefusedError) as caught:
        refuse_rollback({"b": 3, "a": 2}, {"b": 2, "a": 1})
    assert caught.value.message == "policy `a` is in force in version 2, and 1 was offered"
    assert caught.value.hint == "give it a version above 2"
