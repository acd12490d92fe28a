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

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from governance.canonical import JSON
from governance.policy.admit import admissible
from governance.policy.cel import CONDITION_STEPS_MAX, Activation, CelFailure
from governance.policy.index import read_call, read_facts
from governance.policy.model import Decision, Demands, Effect, Seat, Tier
from governance.policy.rules import Candidates, PolicySet, Rule, default_demands

__all__ = ["DECISION_STEPS_MAX", "MESSAGE_CHARS_MAX", "NAMED_MAX", "decide", "read_call"]

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
    facts = read_facts(inputs)
    candidates = None if facts is None else policies.about(facts)
    if candidates is None or not admissible(inputs.get("args")):
        tier = Tier.CRITICAL if candidates is None else candidates.tier
        return Decision(Effect.DENY, tier, policies.digest, reasons=("input-rejected",))
    weighing = _Weighing(policies, inputs)
    finding = _combine(weighing, candidates)
    steps = DECISION_STEPS_MAX - weighing.left
    decision = Decision(
        effect=finding.effect,
        tier=candidates.tier,
        policy=policies.digest,
        rules=tuple([rule.name for rule in finding.rules]),
        reasons=finding.reasons,
        demands=finding.demands,
        errors=finding.errors,
        steps=steps,
        message=_message(weighing, finding.rules),
        shadow=_shadow(weighing, candidates.shadows),
    )
    return _fit(decision)


class _Finding(NamedTuple):
    """What the enforced rules come to."""

    effect: Effect
    rules: Sequence[Rule]
    reasons: tuple[str, ...] = ()
    demands: Demands | None = None
    errors: tuple[tuple[str, str], ...] = ()


class _Weighed(NamedTuple):
    """The rules of one effect that bind, and those that could not be evaluated."""

    applies: Sequence[Rule] = ()
    failed: Sequence[Rule] = ()
    errors: tuple[tuple[str, str], ...] = ()

    @property
    def binding(self) -> Sequence[Rule]:
        """For `deny` and `require_approval`, where a rule that cannot be evaluated binds too."""
        if not self.failed:
            return self.applies
        return sorted([*self.applies, *self.failed], key=lambda rule: rule.name)

    @property
    def reasons(self) -> tuple[str, ...]:
        return ("rule-error",) if self.failed else ()


_NONE: Final = _Weighed()


class _Weighing:
    """The evaluations of one decision: one budget, and inputs that are bound at most once."""

    __slots__ = ("_activation", "_engine", "_inputs", "left")

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

    def values(self, rules: Sequence[Rule]) -> list[bool | CelFailure]:
        """What the conditions of `rules` come to, one after the other. Most of a decision is spent here."""
        values: list[bool | CelFailure] = []
        activation, left = self._activation, self.left
        for rule in rules:
            if rule.when is None:
                values.append(True)
                continue
            if activation is None:
                activation = self.activation
            budget = left if left < CONDITION_STEPS_MAX else CONDITION_STEPS_MAX  # noqa: FURB136 - `min` is a call
            outcome = rule.when.evaluate(activation, budget)
            left -= outcome.steps
            values.append(outcome.value)
        self.left = left
        return values

    def weigh(self, rules: Sequence[Rule]) -> _Weighed:
        """Weigh rules of one effect."""
        if not rules:
            return _NONE
        values = self.values(rules)
        if values.count(False) == len(values):  # as it nearly always is of what denies and holds
            return _NONE
        applies: list[Rule] = []
        failed: list[Rule] = []
        errors: list[tuple[str, str]] = []
        for rule, value in zip(rules, values, strict=True):
            if value is True:
                applies.append(rule)
            elif value is not False:
                failed.append(rule)
                errors.append((rule.name, value.kind.value))
        return _Weighed(applies, failed, tuple(errors))


def _combine(weighing: _Weighing, candidates: Candidates) -> _Finding:
    """The table above. Rules of an effect that cannot matter any more are not weighed, so neither what
    they say nor how they fail is part of the decision."""
    denials = weighing.weigh(candidates.denials)
    if denials.binding:
        return _Finding(Effect.DENY, denials.binding, denials.reasons, errors=denials.errors)
    holds = weighing.weigh(candidates.holds)
    if holds.binding:
        return _held(holds)
    allows = weighing.weigh(candidates.allows)
    if not allows.applies:
        return _Finding(Effect.DENY, (), ("no-rule",), errors=allows.errors)
    tier = candidates.tier
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
    programs = [rule.message for rule in rules if rule.message is not None]
    if not programs:
        return None
    texts: list[str] = []
    for program in programs[:MESSAGES_MAX]:
        text = program.evaluate_text(weighing.activation, CONDITION_STEPS_MAX).value
        if isinstance(text, str) and text:
            texts.append(text)
    joined = "; ".join(texts)
    if len(joined) > MESSAGE_CHARS_MAX:
        joined = joined[: MESSAGE_CHARS_MAX - 1] + "…"
    return joined or None


def _shadow(weighing: _Weighing, rules: Sequence[Rule]) -> tuple[tuple[str, str], ...]:
    """What the shadow rules would have said, on a budget of their own."""
    if not rules:
        return ()
    weighing.left = DECISION_STEPS_MAX
    outcomes: list[tuple[str, str]] = []
    for rule, value in zip(rules, weighing.values(rules), strict=True):
        if isinstance(value, CelFailure):
            outcomes.append((rule.name, value.kind.value))
        else:
            outcomes.append((rule.name, rule.effect.value if value else "no-match"))
    return tuple(outcomes)


def _fit(decision: Decision) -> Decision:
    if max(len(decision.rules), len(decision.errors), len(decision.shadow)) <= NAMED_MAX:
        return decision
    return replace(
        decision,
        rules=decision.rules[:NAMED_MAX],
        errors=decision.errors[:NAMED_MAX],
        shadow=decision.shadow[:NAMED_MAX],
        reasons=(*decision.reasons, "more-rules"),
    )
