"""Which rules are there, and which of them are about this call? The immutable form that decisions read.

A `PolicySet` never changes: it is built whole by `load_policies`, and swapped by one assignment. Its rules
are in one order, by name, so that neither the order of files nor the order in a file can matter. What its
index has found out about a kind of call is a consequence of the rules, and kept beside them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from governance.errors import RefusedError
from governance.ids import Digest
from governance.policy.cel import Activation, Engine, Evaluate, Outcome, Program
from governance.policy.index import Call, Facts, Glob, Index, Match
from governance.policy.model import Decision, Demands, Effect, Seat, Tier

__all__ = [
    "APPROVER",
    "DECIDE_BY_S",
    "USE_BY_S",
    "Call",
    "Candidates",
    "Conclusion",
    "Glob",
    "Match",
    "Mode",
    "PolicySet",
    "Rule",
    "Signature",
    "Written",
    "default_demands",
    "evaluation",
    "refuse_rewrite",
    "refuse_rollback",
]

APPROVER: Final = "approver"
"""The role that is asked where no rule names one."""
DECIDE_BY_S: Final = 24 * 60 * 60
USE_BY_S: Final = 60 * 60
CONCLUSIONS_MAX: Final = 64
"""Conclusions kept for one kind of call; more than that begin anew."""


def default_demands(count: int = 1) -> Demands:
    """What an approval takes where no rule says more: `count` people of the role `approver`."""
    return Demands((Seat(APPROVER, count),), decide_by_s=DECIDE_BY_S, use_by_s=USE_BY_S)


class Mode(StrEnum):
    """`shadow` rules are evaluated and recorded, and never change what happens."""

    ENFORCE = "enforce"
    SHADOW = "shadow"


@dataclass(frozen=True, slots=True)
class Written:
    """A piece of a policy file: its text as read, and where that begins, both counted from 1."""

    text: str
    file: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, compiled. `name` is `policy/id`; a rule without `when` applies whenever it matches.

    `id`, `when_text` and `message_text` are the same as they are written, for whoever tells about them.
    """

    name: str
    effect: Effect
    match: Match
    when: Program | None = None
    demands: Demands | None = None
    allow_tier: Tier | None = None
    message: Program | None = None
    mode: Mode = Mode.ENFORCE
    description: str = ""
    id: Written | None = None
    when_text: Written | None = None
    message_text: Written | None = None


def evaluation(rule: Rule) -> Evaluate:
    """The condition of `rule`; one that has none holds, and costs nothing."""
    return _holds if rule.when is None else rule.when.evaluate


_TRUE: Final = Outcome(value=True, steps=0)


def _holds(_activation: Activation, _budget: int) -> Outcome[bool]:
    return _TRUE


class Conclusion(NamedTuple):
    """A decision but for what is said about it, which `programs` say, and what shadow rules say."""

    decision: Decision
    programs: tuple[Program, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The rules that are about one kind of call, by what they would do, each in the order of names.

    `stages` are the conditions of those that are enforced, in the order in which effects are weighed.
    `concluded` is what followed from their outcomes before: nothing else decides. Any number of threads
    may look it up and keep; two that conclude at once conclude the same.
    """

    tier: Tier
    denials: tuple[Rule, ...]
    holds: tuple[Rule, ...]
    allows: tuple[Rule, ...]
    shadows: tuple[Rule, ...]
    stages: tuple[tuple[Evaluate, ...], ...] = field(init=False, repr=False)
    concluded: dict[tuple[Outcome[bool], ...], Conclusion] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        ordered = (self.denials, self.holds, self.allows)
        stages = tuple(tuple(map(evaluation, rules)) for rules in ordered)
        object.__setattr__(self, "stages", stages)
        object.__setattr__(self, "concluded", {})

    def keep(self, outcomes: tuple[Outcome[bool], ...], conclusion: Conclusion) -> None:
        if len(self.concluded) >= CONCLUSIONS_MAX:
            self.concluded.clear()
        self.concluded[outcomes] = conclusion


@dataclass(frozen=True, slots=True)
class Signature:
    """Who vouches for a set: the key that was asked for, in one line, and what it signed, as it was read."""

    key: str
    signed: str


@dataclass(frozen=True, slots=True, eq=False)
class PolicySet:
    """All rules in force, by name, and what identifies them.

    `digest` covers the texts and the engine's name and version; `files` holds the texts by file name.
    `signature` is set by whoever verified it, and None where no key is configured.
    `inputs` are the parts of a decision input that any condition or message reads.
    """

    rules: tuple[Rule, ...]
    digest: Digest
    versions: Mapping[str, int]
    files: Mapping[str, str]
    evaluator: Engine
    signature: Signature | None = None
    inputs: frozenset[str] = field(init=False)
    _index: Index[Candidates] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "versions", MappingProxyType(dict(self.versions)))
        object.__setattr__(self, "files", MappingProxyType(dict(self.files)))
        object.__setattr__(self, "inputs", frozenset(_inputs(self.rules)))
        object.__setattr__(self, "_index", Index(self._arranged))

    @property
    def engine(self) -> str:
        """The engine as it stands in `policy.activated`: `closure 0.5.0-1`."""
        return f"{self.evaluator.name} {self.evaluator.version}"

    @property
    def texts(self) -> Mapping[str, str]:
        """The text of each policy, by the policy's name."""
        # A policy has at least one rule, and a rule that was read knows its file.
        homes = {rule.name.partition("/")[0]: rule.id.file for rule in self.rules if rule.id}
        return {name: self.files[file] for name, file in homes.items()}

    def candidates(self, call: Call) -> tuple[Rule, ...]:
        """The rules whose match block is about `call`, found by asking each."""
        return tuple(rule for rule in self.rules if rule.match.hits(call))

    def about(self, facts: Facts) -> Candidates | None:
        """The same, looked up and set apart. None when the facts are of no call."""
        return self._index.look_up(facts)

    def _arranged(self, call: Call) -> Candidates:
        candidates = self.candidates(call)
        enforced = [rule for rule in candidates if rule.mode is Mode.ENFORCE]
        denials, holds, allows = (
            tuple(rule for rule in enforced if rule.effect is effect)
            for effect in (Effect.DENY, Effect.REQUIRE_APPROVAL, Effect.ALLOW)
        )
        shadows = tuple(rule for rule in candidates if rule.mode is Mode.SHADOW)
        return Candidates(call.tier, denials, holds, allows, shadows)


def _inputs(rules: Iterable[Rule]) -> Iterator[str]:
    for rule in rules:
        for program in (rule.when, rule.message):
            for name in () if program is None else program.references:
                yield name.partition(".")[0]


def refuse_rollback(old: Mapping[str, int], new: Mapping[str, int]) -> None:
    """Raise RefusedError if a policy stands in `new` with a lower version than in `old`."""
    for name, version in sorted(old.items()):
        offered = new.get(name, version)
        if offered < version:
            raise RefusedError(
                f"policy `{name}` is in force in version {version}, and {offered} was offered",
                hint=f"give it a version above {version}",
            )


def refuse_rewrite(old: PolicySet, new: PolicySet) -> None:
    """Raise RefusedError if a policy has another text in the version that is in force."""
    before, after = old.texts, new.texts
    for name in sorted(before.keys() & after.keys()):
        version = old.versions[name]
        if new.versions[name] == version and after[name] != before[name]:
            raise RefusedError(
                f"policy `{name}` is in force in version {version} with another text",
                hint=f"give it version {version + 1}",
            )
