"""Why was it decided so? Every candidate rule with the value of each clause, and where the tier comes from.

An explanation is made by deciding again and asking more: rules that could not matter any more are weighed
too, and each part of a condition is evaluated by itself, on a budget of its own. So a clause may show a
failure that its condition absorbed, and the steps of the parts are not those of the decision.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from governance.canonical import JSON
from governance.policy.cel import (
    CONDITION_STEPS_MAX,
    Activation,
    CelFailure,
    Engine,
    FailureKind,
    Program,
)
from governance.policy.clauses import Form, Part, split
from governance.policy.decide import decide
from governance.policy.index import read_call
from governance.policy.model import Decision, Effect, Tier
from governance.policy.risk import Source, signals
from governance.policy.rules import PolicySet, Rule

__all__ = [
    "Clause",
    "Dissected",
    "Explanation",
    "SpokenSignal",
    "Value",
    "Weighed",
    "dissect",
    "explain",
    "explain_with",
    "where",
]

Value: TypeAlias = bool | FailureKind
"""What a condition or a part of it came to; a failure is a value here, since it has a consequence."""


@dataclass(frozen=True, slots=True)
class Clause:
    """One part of a condition and what it came to."""

    text: str
    value: Value
    form: Form = Form.CLAUSE
    parts: "tuple[Clause, ...]" = ()

    def to_json(self) -> dict[str, JSON]:
        body: dict[str, JSON] = {"text": self.text, "value": _plain(self.value)}
        if self.parts:
            body |= {"form": self.form.value, "parts": [part.to_json() for part in self.parts]}
        return body


@dataclass(frozen=True, slots=True)
class Weighed:
    """A rule whose match block is about the call. It `determines` when the decision names it.

    `binds`: its condition holds, or cannot be evaluated and the rule is not one that allows.
    """

    rule: Rule
    value: Value
    binds: bool
    determines: bool
    steps: int
    condition: Clause | None

    def to_json(self) -> dict[str, JSON]:
        return {
            "rule": self.rule.name,
            **where(self.rule),
            "description": self.rule.description,
            "effect": self.rule.effect.value,
            "mode": self.rule.mode.value,
            "value": _plain(self.value),
            "binds": self.binds,
            "determines": self.determines,
            "steps": self.steps,
            "when": None if self.condition is None else self.condition.to_json(),
        }


@dataclass(frozen=True, slots=True)
class SpokenSignal:
    """One thing that says how dangerous a tool is, in words; the highest is the tier of the call."""

    what: str
    source: Source
    tier: Tier


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision and what it was made from. `passed_over` are the rules that are about other calls."""

    decision: Decision
    signals: tuple[SpokenSignal, ...]
    rules: tuple[Weighed, ...]
    passed_over: tuple[str, ...]

    def to_json(self) -> dict[str, JSON]:
        return {
            "decision": {**self.decision.to_json(), "message": self.decision.message},
            "signals": [
                {"what": s.what, "source": s.source.value, "tier": s.tier.value}
                for s in self.signals
            ],
            "rules": [weighed.to_json() for weighed in self.rules],
            "passed_over": list(self.passed_over),
        }


@dataclass(frozen=True, slots=True)
class _Compiled:
    part: Part
    program: Program
    parts: "tuple[_Compiled, ...]"


@dataclass(frozen=True, slots=True)
class Dissected:
    """A policy set whose conditions are compiled part by part, once for many explanations."""

    policies: PolicySet
    conditions: Mapping[str, _Compiled]


def dissect(policies: PolicySet) -> Dissected:
    """Compile every part of every condition."""
    conditions = {
        rule.name: _compile(policies.evaluator, split(rule.when_text.text))
        for rule in policies.rules
        if rule.when_text is not None
    }
    return Dissected(policies, conditions)


def where(rule: Rule) -> dict[str, JSON]:
    """File and line of a rule."""
    return {} if rule.id is None else {"file": rule.id.file, "line": rule.id.line}


def explain(policies: PolicySet, inputs: Mapping[str, JSON]) -> Explanation:
    """Explain the decision that `policies` make of `inputs`. Never raises."""
    return explain_with(dissect(policies), inputs)


def explain_with(dissected: Dissected, inputs: Mapping[str, JSON]) -> Explanation:
    """As `explain`, for many inputs of one set."""
    policies = dissected.policies
    decision = decide(policies, inputs)
    call = read_call(inputs)
    if call is None or "input-rejected" in decision.reasons:
        return Explanation(decision, (), (), tuple(rule.name for rule in policies.rules))
    activation = policies.evaluator.bind(inputs)
    candidates = sorted(policies.candidates(call), key=_order)
    weighed = tuple(_weigh(dissected, rule, activation, decision) for rule in candidates)
    named = {rule.name for rule in candidates}
    others = tuple(rule.name for rule in policies.rules if rule.name not in named)
    return Explanation(decision, _spoken(inputs), weighed, others)


_STRENGTH: Final[Sequence[Effect]] = (Effect.DENY, Effect.REQUIRE_APPROVAL, Effect.ALLOW)


def _order(rule: Rule) -> tuple[int, str]:
    return _STRENGTH.index(rule.effect), rule.name


def _compile(engine: Engine, part: Part) -> _Compiled:
    parts = tuple(_compile(engine, inner) for inner in part.parts)
    return _Compiled(part, engine.compile(part.text), parts)


def _weigh(dissected: Dissected, rule: Rule, activation: Activation, decision: Decision) -> Weighed:
    value, steps = (True, 0) if rule.when is None else _ask(rule.when, activation)
    compiled = dissected.conditions.get(rule.name)
    return Weighed(
        rule=rule,
        value=value,
        binds=rule.effect is not Effect.ALLOW if isinstance(value, FailureKind) else value,
        determines=rule.name in decision.rules,
        steps=steps,
        condition=None if compiled is None else _evaluate(compiled, activation),
    )


def _evaluate(compiled: _Compiled, activation: Activation) -> Clause:
    parts = tuple(_evaluate(inner, activation) for inner in compiled.parts)
    value, _ = _ask(compiled.program, activation)
    return Clause(compiled.part.text, value, compiled.part.form, parts)


def _ask(program: Program, activation: Activation) -> tuple[Value, int]:
    outcome = program.evaluate(activation, CONDITION_STEPS_MAX)
    value = outcome.value.kind if isinstance(outcome.value, CelFailure) else outcome.value
    return value, outcome.steps


def _plain(value: Value) -> JSON:
    return value.value if isinstance(value, FailureKind) else value


def _spoken(inputs: Mapping[str, JSON]) -> tuple[SpokenSignal, ...]:
    tool = cast("Mapping[str, Any]", inputs["tool"])
    verb = str(tool["verb"]).upper()
    phrases: Mapping[Source, str] = {
        Source.DECLARED: f"declared as {tool.get('declared_tier')}",
        Source.VERB: f"verb {verb}",
        Source.UNKNOWN_VERB: f"verb {verb}, which is none we know",
        Source.UNPROFILED: "nothing is declared about the tool",
        Source.BARE_EFFECT: "a side effect, and nothing else is declared",
        Source.HARMLESS: "declared to have no side effect",
        Source.INPUT: "as the input says",
    }
    return tuple(SpokenSignal(phrases[source], source, tier) for source, tier in signals(tool))
