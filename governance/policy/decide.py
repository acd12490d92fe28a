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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from governance.canonical import JSON
from governance.ids import Digest
from governance.policy.admit import admissible
from governance.policy.cel import (
    CONDITION_STEPS_MAX,
    Activation,
    CelFailure,
    Outcome,
    Program,
)
from governance.policy.index import read_facts
from governance.policy.model import Decision, Demands, Effect, Seat, Tier
from governance.policy.rules import (
    Candidates,
    Conclusion,
    PolicySet,
    Rule,
    default_demands,
    evaluation,
)

__all__ = [
    "DECISION_STEPS_MAX",
    "MESSAGE_CHARS_MAX",
    "NAMED_MAX",
    "decide",
    "decide_admitted",
    "reject",
]

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
    if admissible(inputs.get("args")):
        return decide_admitted(policies, inputs)
    return reject(policies, inputs)


def reject(policies: PolicySet, inputs: Mapping[str, JSON]) -> Decision:
    """The decision about what no rule is asked about: an input that cannot be read, or arguments that
    may not be decided about."""
    facts = read_facts(inputs)
    candidates = None if facts is None else policies.about(facts)
    tier = Tier.CRITICAL if candidates is None else candidates.tier
    return Decision(Effect.DENY, tier, policies.digest, reasons=("input-rejected",))


def decide_admitted(policies: PolicySet, inputs: Mapping[str, JSON]) -> Decision:
    """Decide about arguments that `admit` has let in before.

    Rules of an effect that cannot matter any more are not weighed, so neither what they say nor how
    they fail is part of the decision.
    """
    facts = read_facts(inputs)
    candidates = None if facts is None else policies.about(facts)
    if candidates is None:
        return reject(policies, inputs)
    activation = policies.evaluator.bind(inputs)
    left, budget = DECISION_STEPS_MAX, CONDITION_STEPS_MAX
    weighed: list[Outcome[bool]] = []
    for stage in candidates.stages:
        binds = False
        for evaluate in stage:  # most of a decision is spent here
            outcome = evaluate(activation, budget)
            value, steps = outcome
            weighed.append(outcome)
            if value is not False:
                binds = True
            left -= steps
            if left < budget:  # noqa: PLR1730 - `min` is a call
                budget = left
        if binds:
            break
    outcomes = tuple(weighed)
    known = candidates.concluded.get(outcomes)
    if known is None:
        known = _conclude(policies.digest, candidates, outcomes)
        candidates.keep(outcomes, known)
    if known.programs or candidates.shadows:
        return _told(known, candidates.shadows, activation)
    return known.decision


class _Weighed(NamedTuple):
    """The rules of one effect that apply, those that could not be evaluated, and both together, in order.

    A rule that cannot be evaluated binds all the same, unless it is one that allows.
    """

    applies: Sequence[Rule]
    errors: tuple[tuple[str, str], ...]
    binding: Sequence[Rule]

    @property
    def reasons(self) -> tuple[str, ...]:
        return ("rule-error",) if self.errors else ()


def _weighed(rules: Iterable[Rule], outcomes: Iterator[Outcome[bool]]) -> _Weighed:
    """Read what the next outcomes say of `rules`."""
    applies: list[Rule] = []
    errors: list[tuple[str, str]] = []
    binding: list[Rule] = []
    for rule, (value, _) in zip(rules, outcomes, strict=False):
        if value is False:
            continue
        binding.append(rule)
        if isinstance(value, CelFailure):
            errors.append((rule.name, value.kind.value))
        else:
            applies.append(rule)
    return _Weighed(applies, tuple(errors), binding)


class _Finding(NamedTuple):
    """What the enforced rules come to."""

    effect: Effect
    rules: Sequence[Rule]
    reasons: tuple[str, ...] = ()
    demands: Demands | None = None
    errors: tuple[tuple[str, str], ...] = ()


def _conclude(
    policy: Digest, candidates: Candidates, outcomes: Sequence[Outcome[bool]]
) -> Conclusion:
    """The decision, without what is said about it."""
    finding = _combine(candidates, iter(outcomes))
    decision = Decision(
        effect=finding.effect,
        tier=candidates.tier,
        policy=policy,
        rules=tuple([rule.name for rule in finding.rules]),
        reasons=finding.reasons,
        demands=finding.demands,
        errors=finding.errors,
        steps=sum(steps for _, steps in outcomes),
    )
    programs = [rule.message for rule in finding.rules if rule.message is not None]
    return Conclusion(_fit(decision), tuple(programs[:MESSAGES_MAX]))


def _combine(candidates: Candidates, outcomes: Iterator[Outcome[bool]]) -> _Finding:
    """The table above."""
    denials = _weighed(candidates.denials, outcomes)
    if denials.binding:
        return _Finding(Effect.DENY, denials.binding, denials.reasons, errors=denials.errors)
    holds = _weighed(candidates.holds, outcomes)
    if holds.binding:
        return _held(holds)
    allows = _weighed(candidates.allows, outcomes)
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


def _told(known: Conclusion, shadows: Sequence[Rule], activation: Activation) -> Decision:
    """The decision with its message, and with what the rules in shadow mode would have said."""
    decision = replace(
        known.decision,
        message=_message(known.programs, activation),
        shadow=_shadow(shadows, activation),
    )
    return _fit(decision)


def _message(programs: Iterable[Program], activation: Activation) -> str | None:
    """What the determining rules say to people. A message that fails is left out, and costs no steps."""
    texts: list[str] = []
    for program in programs:
        text = program.evaluate_text(activation, CONDITION_STEPS_MAX).value
        if isinstance(text, str) and text:
            texts.append(text)
    joined = "; ".join(texts)
    if len(joined) > MESSAGE_CHARS_MAX:
        joined = joined[: MESSAGE_CHARS_MAX - 1] + "…"
    return joined or None


def _shadow(rules: Iterable[Rule], activation: Activation) -> tuple[tuple[str, str], ...]:
    """What each of `rules` comes to, on a budget of their own."""
    left = DECISION_STEPS_MAX
    said: list[tuple[str, str]] = []
    for rule in rules:
        value, steps = evaluation(rule)(activation, min(left, CONDITION_STEPS_MAX))
        left -= steps
        if isinstance(value, CelFailure):
            said.append((rule.name, value.kind.value))
        else:
            said.append((rule.name, rule.effect.value if value else "no-match"))
    return tuple(said)


def _fit(decision: Decision) -> Decision:
    """Cut what would not fit an entry. What was cut once fits."""
    if max(len(decision.rules), len(decision.errors), len(decision.shadow)) <= NAMED_MAX:
        return decision
    return replace(
        decision,
        rules=decision.rules[:NAMED_MAX],
        errors=decision.errors[:NAMED_MAX],
        shadow=decision.shadow[:NAMED_MAX],
        reasons=tuple(dict.fromkeys((*decision.reasons, "more-rules"))),
    )
