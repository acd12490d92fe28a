"""Do the tests see every rule and every clause both ways? What no case has seen is not known to be right.

Counted for each rule: that a decision named it (for a shadow rule: that its condition held), and, where it
has a condition, that some call it is about did not bind it. Counted for each clause: seen true, and seen
false. A failure is neither. A clause that reads no input, like `true`, can come out one way only and is
not counted.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from governance.canonical import JSON
from governance.policy.explain import Clause, Weighed, dissect, explain_with, where
from governance.policy.rules import Mode, PolicySet, Rule
from governance.policy.working import clauses_of

__all__ = ["Coverage", "RuleCoverage", "cover"]

PERCENT: Final = 100


@dataclass(slots=True)
class RuleCoverage:
    """What was seen of one rule. `clauses` holds, by text, the values it was seen with."""

    rule: Rule
    clauses: Mapping[str, set[bool]]
    bound: set[bool] = field(default_factory=set[bool])

    @property
    def goals(self) -> int:
        return (1 if self.rule.when is None else 2) + 2 * len(self.clauses)

    @property
    def missing(self) -> tuple[str, ...]:
        """What was not seen, in words."""
        return tuple(self._missing())

    def _missing(self) -> Iterator[str]:
        if True not in self.bound:
            yield "it never bound"
        if self.rule.when is not None and False not in self.bound:
            yield "it always bound"
        for text, seen in self.clauses.items():
            for value in (True, False):
                if value not in seen:
                    yield f"never {str(value).lower()}: {text}"

    def see(self, weighed: Weighed) -> None:
        shadow = weighed.rule.mode is Mode.SHADOW
        if weighed.binds if shadow else weighed.determines:
            self.bound.add(True)
        elif not weighed.binds:
            self.bound.add(False)
        if weighed.condition is not None:
            self._look(weighed.condition)

    def _look(self, clause: Clause) -> None:
        if clause.text in self.clauses and isinstance(clause.value, bool):
            self.clauses[clause.text].add(clause.value)
        for part in clause.parts:
            self._look(part)


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the cases have seen of a policy set."""

    rules: tuple[RuleCoverage, ...]

    @property
    def goals(self) -> int:
        return sum(rule.goals for rule in self.rules)

    @property
    def seen(self) -> int:
        return self.goals - sum(len(rule.missing) for rule in self.rules)

    @property
    def percent(self) -> int:
        """Rounded down: only everything is 100."""
        return PERCENT * self.seen // self.goals if self.goals else PERCENT

    def to_json(self) -> dict[str, JSON]:
        return {
            "percent": self.percent,
            "seen": self.seen,
            "goals": self.goals,
            "missing": [
                {"rule": seen.rule.name, **where(seen.rule), "missing": list(seen.missing)}
                for seen in self.rules
                if seen.missing
            ],
        }


def cover(policies: PolicySet, cases: Iterable[Mapping[str, JSON]]) -> Coverage:
    """Decide every input of `cases`, and count what was seen."""
    dissected = dissect(policies)
    engine = policies.evaluator
    rules = {
        rule.name: RuleCoverage(rule, {text: set() for text, _ in clauses_of(engine, rule)})
        for rule in policies.rules
    }
    for inputs in cases:
        for weighed in explain_with(dissected, inputs).rules:
            rules[weighed.rule.name].see(weighed)
    return Coverage(tuple(rules.values()))
