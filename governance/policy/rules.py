"""Which rules are there, and which of them are about this call? The immutable form that decisions read.

A `PolicySet` never changes: it is built whole by `load_policies`, and swapped by one assignment. Its rules
are in one order, by name, so that neither the order of files nor the order in a file can matter.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from governance.errors import RefusedError
from governance.ids import Digest
from governance.policy.cel import Engine, Program
from governance.policy.model import Demands, Effect, Seat, Tier

__all__ = [
    "APPROVER",
    "DECIDE_BY_S",
    "USE_BY_S",
    "Call",
    "Glob",
    "Match",
    "Mode",
    "PolicySet",
    "Rule",
    "default_demands",
    "refuse_rollback",
]

APPROVER: Final = "approver"
"""The role that is asked where no rule names one."""
DECIDE_BY_S: Final = 24 * 60 * 60
USE_BY_S: Final = 60 * 60


def default_demands(count: int = 1) -> Demands:
    """What an approval takes where no rule says more: `count` people of the role `approver`."""
    return Demands((Seat(APPROVER, count),), decide_by_s=DECIDE_BY_S, use_by_s=USE_BY_S)


class Mode(StrEnum):
    """`shadow` rules are evaluated and recorded, and never change what happens."""

    ENFORCE = "enforce"
    SHADOW = "shadow"


@dataclass(frozen=True, slots=True)
class Call:
    """What a match block looks at: the facts of a call that are known without its arguments."""

    tool: str
    verb: str
    tier: Tier
    side_effect: bool
    reversibility: str
    blast_radius: str
    cost_class: str
    scopes: frozenset[str]
    agent: str
    environment: str


@dataclass(frozen=True, slots=True)
class Glob:
    """A tool name in which `*` stands for any text. Upper and lower case differ. Linear in the name."""

    pattern: str

    def matches(self, name: str) -> bool:
        head, *rest = self.pattern.split("*")
        if not rest:
            return name == head
        *middle, tail = rest
        if len(name) < len(head) + len(tail) or not name.startswith(head):
            return False
        position, end = len(head), len(name) - len(tail)
        for part in middle:
            found = name.find(part, position, end)
            if found < 0:
                return False
            position = found + len(part)
        return name.endswith(tail)


@dataclass(frozen=True, slots=True)
class Match:
    """The part of a rule that is checked before any condition: every kind given must hold.

    `tools` are globs, any of which may match; of `scopes` the tool needs any; `among` says which values
    the other facts may have, by the name of the fact in `Call`. Nothing given matches every tool.
    """

    tools: tuple[Glob, ...] = ()
    scopes: frozenset[str] = frozenset()
    among: tuple[tuple[str, frozenset[str | bool]], ...] = ()

    def hits(self, call: Call) -> bool:
        if self.tools and not any(glob.matches(call.tool) for glob in self.tools):
            return False
        if self.scopes and self.scopes.isdisjoint(call.scopes):
            return False
        return all(getattr(call, fact) in values for fact, values in self.among)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, compiled. `name` is `policy/id`; a rule without `when` applies whenever it matches."""

    name: str
    effect: Effect
    match: Match
    when: Program | None = None
    demands: Demands | None = None
    allow_tier: Tier | None = None
    message: Program | None = None
    mode: Mode = Mode.ENFORCE
    description: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class PolicySet:
    """All rules in force, by name, and what identifies them.

    `digest` covers the texts and the engine's name and version; `files` holds the texts by file name.
    """

    rules: tuple[Rule, ...]
    digest: Digest
    versions: Mapping[str, int]
    files: Mapping[str, str]
    evaluator: Engine

    def __post_init__(self) -> None:
        object.__setattr__(self, "versions", MappingProxyType(dict(self.versions)))
        object.__setattr__(self, "files", MappingProxyType(dict(self.files)))

    @property
    def engine(self) -> str:
        """The engine as it stands in `policy.activated`: `celpy 0.5.0-1`."""
        return f"{self.evaluator.name} {self.evaluator.version}"

    def candidates(self, call: Call) -> tuple[Rule, ...]:
        """The rules whose match block is about `call`."""
        return tuple(rule for rule in self.rules if rule.match.hits(call))


def refuse_rollback(old: Mapping[str, int], new: Mapping[str, int]) -> None:
    """Raise RefusedError if a policy stands in `new` with a lower version than in `old`."""
    for name, version in sorted(old.items()):
        offered = new.get(name, version)
        if offered < version:
            raise RefusedError(
                f"policy `{name}` is in force in version {version}, and {offered} was offered",
                hint=f"give it a version above {version}",
            )
