"""The working of a decision: where its tier comes from, and what each clause of each weighed rule came to.

It is recorded beside the decision, so that whoever holds the ledger reads why without an engine, and so that
what an evaluation saw then can be held against what one sees now. It decides nothing: every clause
is evaluated by itself after the decision is made, so a clause may show a failure that its condition
absorbed. All clauses of a decision share one budget of steps of their own.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final, cast

from governance.canonical import JSON
from governance.policy.cel import CONDITION_STEPS_MAX, CelFailure, Engine, Program
from governance.policy.clauses import Part, split
from governance.policy.decide import DECISION_STEPS_MAX
from governance.policy.index import read_facts
from governance.policy.model import Decision
from governance.policy.risk import signals
from governance.policy.rules import Candidates, PolicySet, Rule

__all__ = ["CLAUSES_MAX", "CLAUSE_CHARS_MAX", "clauses_of", "working"]

CLAUSES_MAX: Final = 200
"""Clauses told of one decision, so that they fit an entry's payload; `more` tells of the rest."""
CLAUSE_CHARS_MAX: Final = 200
CONDITIONS_KEPT: Final = 4096


def working(
    policies: PolicySet, inputs: Mapping[str, JSON], decision: Decision
) -> dict[str, JSON] | None:
    """Tell what `decision`, which `policies` made of `inputs`, rests on. None where no rule was asked.

    `{"engine": …, "tier": [[source, tier]…], "clauses": {rule: [[text, value]…]}, "more"?: true}`: what
    made it; the signals of danger, the highest first; and of every rule whose effect was weighed the
    parts of its condition that can come out either way: true, false or the kind of failure.
    """
    facts = read_facts(inputs)
    candidates = None if facts is None else policies.about(facts)
    if candidates is None or "input-rejected" in decision.reasons:
        return None
    tool = cast("Mapping[str, Any]", inputs["tool"])
    told: dict[str, JSON] = {
        "engine": policies.engine,
        "tier": [[source.value, tier.value] for source, tier in signals(tool)],
    }
    clauses: dict[str, list[JSON]] = {}
    activation, left = policies.evaluator.bind(inputs), DECISION_STEPS_MAX
    asked = _asked(policies.evaluator, _weighed(candidates, decision))
    for rule, text, program in islice(asked, CLAUSES_MAX):
        value, steps = program.evaluate(activation, min(left, CONDITION_STEPS_MAX))
        left -= steps
        answer = value.kind.value if isinstance(value, CelFailure) else value
        clauses.setdefault(rule, []).append([_cut(text), answer])
    told["clauses"] = cast("JSON", clauses)
    if next(asked, None) is not None:
        told["more"] = True
    return told


def _weighed(candidates: Candidates, decision: Decision) -> Iterator[Rule]:
    """The rules of each effect that was weighed: up to the one that determined the decision."""
    for rules in (candidates.denials, candidates.holds, candidates.allows):
        yield from rules
        if any(rule.name in decision.rules for rule in rules):
            return


def _asked(engine: Engine, rules: Iterable[Rule]) -> Iterator[tuple[str, str, Program]]:
    for rule in rules:
        for text, program in clauses_of(engine, rule):
            yield rule.name, text, program


def clauses_of(engine: Engine, rule: Rule) -> tuple[tuple[str, Program], ...]:
    """The clauses of a rule's condition as written, each once.

    What reads no input comes out one way only, and is no clause.
    """
    return () if rule.when_text is None else _compiled(engine, rule.when_text.text)


@lru_cache(maxsize=CONDITIONS_KEPT)
def _compiled(engine: Engine, condition: str) -> tuple[tuple[str, Program], ...]:
    programs = {text: engine.compile(text) for text in _texts(split(condition))}
    return tuple((text, program) for text, program in programs.items() if program.references)


def _texts(part: Part) -> Iterator[str]:
    if not part.parts:
        yield part.text
    for inner in part.parts:
        yield from _texts(inner)


def _cut(text: str) -> str:
    return text if len(text) <= CLAUSE_CHARS_MAX else text[: CLAUSE_CHARS_MAX - 1] + "…"
