"""May this call happen? One decision from a policy set and one input; total, and it fails closed.

| what the matching rules say | effect | reasons |
|---|---|---|
| any `deny` applies, or cannot be evaluated | deny | (`rule-error`) |
| else any `require_approval` applies, or cannot be evaluated | require_approval | (`rule-error`) |
| else no `allow` applies; one that cannot be evaluated does not | deny | `no-rule` |
| else the tier is `high` or above, and no applying `allow` carries it | require_approval | `tier-…` |
| else | allow | |

Before any of it: an input that cannot be read, or arguments that are not admissible, deny with
`input-rejected`. Demands of several approval rules add up: per role the highest count, the shorter
clocks; where more roles come together than one request can ask, `too-many-seats` denies.

Rules are weighed in the order of their names, each on its own budget of steps, so one rule's outcome
depends on nothing but itself and the input. Only a decision that uses up `DECISION_STEPS_MAX` in all
leaves its last rules without any, and those fail; failing never widens.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from governance.canonical import JSON
from governance.policy.admit import admissible
from governance.policy.cel import CONDITION_STEPS_MAX, Activation, CelFailure, Program
from governance.policy.model import Decision, Demands, Effect, Seat, Tier
from governance.policy.rules import Call, Mode, PolicySet, Rule, default_demands

__all__ = ["DECISION_STEPS_MAX", "MESSAGE_CHARS_MAX", "NAMED_MAX", "decide"]

DECISION_STEPS_MAX: Final = 100_000
"""Steps of all conditions of one decision."""
MESSAGE_CHARS_MAX: Final = 500
MESSAGES_MAX: Final = 5
SEATS_MAX: Final = 16
NAMED_MAX: Final = 100
"""Rules named in one list of a decision, so that it fits an entry; `more-rules` tells of the rest."""

_PEOPLE_FOR: Final[Mapping[Tier, int]] = {Tier.HIGH: 1, Tier.CRITICAL: 2}


def decide(policies: PolicySet, inputs: Mapping[str, JSON]) -> Decision:
    """Decide one call. Never raises; the same arguments give the same decision anywhere, any time."""
    call = _read_call(inputs)
    if call is None or not admissible(inputs.get("args")):
        tier = call.tier if call is not None else Tier.CRITICAL
        return Decision(Effect.DENY, tier, policies.digest, reasons=("input-rejected",))
    candidates = policies.candidates(call)
    weighing = _Weighing(policies, inputs)
    finding = _combine(weighing, call.tier, [r for r in candidates if r.mode is Mode.ENFORCE])
    steps = DECISION_STEPS_MAX - weighing.left
    decision = Decision(
        effect=finding.effect,
        tier=call.tier,
        policy=policies.digest,
        rules=tuple(rule.name for rule in finding.rules),
        reasons=finding.reasons,
        demands=finding.demands,
        errors=finding.errors,
        steps=steps,
        message=_message(weighing, finding.rules),
        shadow=_shadow(weighing, [r for r in candidates if r.mode is Mode.SHADOW]),
    )
    return _fit(decision)


@dataclass(frozen=True, slots=True)
class _Finding:
    """What the enforced rules come to."""

    effect: Effect
    rules: Sequence[Rule]
    reasons: tuple[str, ...] = ()
    demands: Demands | None = None
    errors: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class _Weighed:
    """The rules of one effect that bind, and those that could not be evaluated."""

    applies: list[Rule] = field(default_factory=list[Rule])
    failed: list[Rule] = field(default_factory=list[Rule])
    errors: tuple[tuple[str, str], ...] = ()

    @property
    def binding(self) -> list[Rule]:
        """For `deny` and `require_approval`, where a rule that cannot be evaluated binds too."""
        return sorted([*self.applies, *self.failed], key=lambda rule: rule.name)

    @property
    def reasons(self) -> tuple[str, ...]:
        return ("rule-error",) if self.failed else ()


class _Weighing:
    """The evaluations of one decision: one budget, and inputs that are bound at most once."""

    def __init__(self, policies: PolicySet, inputs: Mapping[str, JSON]) -> None:
        self._engine = policies.evaluator
        self._inputs = inputs
        self._activation: Activation | None = None
        self.left = DECISION_STEPS_MAX

    @property
    def activation(self) -> Activation:
        if self._activation is None:
            self._activation = self._engine.bind(self._inputs)
        return self._activation

    def outcome(self, condition: Program | None) -> bool | CelFailure:
        if condition is None:
            return True
        outcome = condition.evaluate(self.activation, min(CONDITION_STEPS_MAX, self.left))
        self.left -= outcome.steps
        return outcome.value

    def weigh(self, rules: Iterable[Rule], effect: Effect) -> _Weighed:
        weighed = _Weighed()
        for rule in rules:
            if rule.effect is not effect:
                continue
            outcome = self.outcome(rule.when)
            if isinstance(outcome, CelFailure):
                weighed.failed.append(rule)
                weighed.errors += ((rule.name, outcome.kind.value),)
            elif outcome:
                weighed.applies.append(rule)
        return weighed


def _combine(weighing: _Weighing, tier: Tier, rules: Sequence[Rule]) -> _Finding:
    """The table above. Rules of an effect that cannot matter any more are not weighed."""
    denials = weighing.weigh(rules, Effect.DENY)
    if denials.binding:
        return _Finding(Effect.DENY, denials.binding, denials.reasons, errors=denials.errors)
    holds = weighing.weigh(rules, Effect.REQUIRE_APPROVAL)
    if holds.binding:
        return _held(holds)
    allows = weighing.weigh(rules, Effect.ALLOW)
    if not allows.applies:
        return _Finding(Effect.DENY, (), ("no-rule",), errors=allows.errors)
    people = _PEOPLE_FOR.get(tier, 0)
    if people and not any(_covers(rule, tier) for rule in allows.applies):
        demands = default_demands(people)
        reason = (f"tier-{tier}",)
        return _Finding(
            Effect.REQUIRE_APPROVAL, allows.applies, reason, demands, errors=allows.errors
        )
    return _Finding(Effect.ALLOW, allows.applies, errors=allows.errors)


def _covers(rule: Rule, tier: Tier) -> bool:
    return rule.allow_tier is not None and rule.allow_tier.rank >= tier.rank


def _held(holds: _Weighed) -> _Finding:
    demands = _united([rule.demands or default_demands() for rule in holds.binding])
    if len(demands.quorum) > SEATS_MAX:
        return _Finding(
            Effect.DENY, holds.binding, (*holds.reasons, "too-many-seats"), errors=holds.errors
        )
    return _Finding(
        Effect.REQUIRE_APPROVAL, holds.binding, holds.reasons, demands, errors=holds.errors
    )


def _united(demands: Sequence[Demands]) -> Demands:
    counts: dict[str, int] = {}
    for seat in (seat for demand in demands for seat in demand.quorum):
        counts[seat.role] = max(seat.count, counts.get(seat.role, 0))
    return Demands(
        quorum=tuple(Seat(role, count) for role, count in sorted(counts.items())),
        decide_by_s=min(demand.decide_by_s for demand in demands),
        use_by_s=min(demand.use_by_s for demand in demands),
        reauthenticate=any(demand.reauthenticate for demand in demands),
    )


def _message(weighing: _Weighing, rules: Sequence[Rule]) -> str | None:
    """What the determining rules say to people. A message that fails is left out, and costs no steps."""
    texts: list[str] = []
    for program in [rule.message for rule in rules if rule.message is not None][:MESSAGES_MAX]:
        text = program.evaluate_text(weighing.activation, CONDITION_STEPS_MAX).value
        if isinstance(text, str) and text:
            texts.append(text)
    joined = "; ".join(texts)
    if len(joined) > MESSAGE_CHARS_MAX:
        joined = joined[: MESSAGE_CHARS_MAX - 1] + "…"
    return joined or None


def _shadow(weighing: _Weighing, rules: Sequence[Rule]) -> tuple[tuple[str, str], ...]:
    """What the shadow rules would have said, on a budget of their own."""
    weighing.left = DECISION_STEPS_MAX
    outcomes: list[tuple[str, str]] = []
    for rule in rules:
        outcome = weighing.outcome(rule.when)
        if isinstance(outcome, CelFailure):
            outcomes.append((rule.name, outcome.kind.value))
        else:
            outcomes.append((rule.name, rule.effect.value if outcome else "no-match"))
    return tuple(outcomes)


def _fit(decision: Decision) -> Decision:
    lists = (decision.rules, decision.errors, decision.shadow)
    if all(len(names) <= NAMED_MAX for names in lists):
        return decision
    return replace(
        decision,
        rules=decision.rules[:NAMED_MAX],
        errors=decision.errors[:NAMED_MAX],
        shadow=decision.shadow[:NAMED_MAX],
        reasons=(*decision.reasons, "more-rules"),
    )


def _read_call(inputs: Mapping[str, JSON]) -> Call | None:
    """Take what match blocks look at. None when the input is not what it should be."""
    try:
        tool: Any = inputs["tool"]
        agent: Any = inputs["agent"]
        env: Any = inputs["env"]
        call = Call(
            tool=tool["name"],
            verb=tool["verb"].upper(),
            tier=Tier(tool["risk_tier"]),
            side_effect=tool["side_effect"],
            reversibility=tool["reversibility"],
            blast_radius=tool["blast_radius"],
            cost_class=tool["cost_class"],
            scopes=_scopes(tool["scopes"]),
            agent=agent["id"],
            environment=env["name"],
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return call if _is_typed(call) else None


def _scopes(value: object) -> frozenset[str]:
    if type(value) is not list:
        raise TypeError
    return frozenset(cast("list[str]", value))


def _is_typed(call: Call) -> bool:
    texts = (
        *(call.tool, call.verb, call.reversibility, call.blast_radius, call.cost_class),
        *(call.agent, call.environment, *call.scopes),
    )
    return type(cast("object", call.side_effect)) is bool and all(
        type(cast("object", text)) is str for text in texts
    )
