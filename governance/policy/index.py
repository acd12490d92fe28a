"""What kind of call is this, and which rules are about that kind? Found out at its first call, then kept.

A match block reads only facts that are known without arguments and the same for every call of one tool by one
agent in one environment. So the rules that are about a kind of call are found once, whatever their
number, and a decision costs what its candidates cost.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

from governance.canonical import JSON
from governance.policy.model import Tier

__all__ = ["KINDS_MAX", "Call", "Facts", "Glob", "Index", "Match", "read_call", "read_facts"]

KINDS_MAX: Final = 4096
"""Kinds of calls that one index keeps; a log that names more than that begins it anew."""

V = TypeVar("V")

Facts: TypeAlias = tuple[bool | str, ...]
"""The facts of a call as recorded, each of its exact type: what an index looks up."""


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


_OF_TOOL: Final = itemgetter(
    *("side_effect", "name", "verb", "risk_tier", "reversibility", "blast_radius", "cost_class")
)
_TEXT: Final = {str}


def read_facts(inputs: Mapping[str, JSON]) -> Facts | None:
    """Take the facts of a decision input. None when one is missing or of another type."""
    try:
        tool: Any = inputs["tool"]
        agent: Any = inputs["agent"]
        env: Any = inputs["env"]
        scopes = tool["scopes"]
        facts: Facts = (*_OF_TOOL(tool), agent["id"], env["name"], *scopes)
    except (KeyError, TypeError):
        return None
    # Exact types: to Python 1 is True, and a fact of another type is no fact.
    exact = (
        type(scopes) is list
        and type(cast("object", facts[0])) is bool
        and set(map(type, facts[1:])) == _TEXT
    )
    return facts if exact else None


def read_call(inputs: Mapping[str, JSON]) -> Call | None:
    """Take what match blocks look at. None when the input is not what it should be."""
    facts = read_facts(inputs)
    return None if facts is None else _call(facts)


def _call(facts: Facts) -> Call | None:
    side_effect, tool, verb, tier, reversibility, blast_radius, cost_class, *rest = facts
    agent, environment, *scopes = cast("list[str]", rest)
    try:
        effective = Tier(cast("str", tier))
    except ValueError:
        return None
    return Call(
        tool=cast("str", tool),
        verb=cast("str", verb).upper(),
        tier=effective,
        side_effect=cast("bool", side_effect),
        reversibility=cast("str", reversibility),
        blast_radius=cast("str", blast_radius),
        cost_class=cast("str", cost_class),
        scopes=frozenset(scopes),
        agent=agent,
        environment=environment,
    )


class Index(Generic[V]):
    """What `find` says of each kind of call, asked once a kind. Any number of threads may look up:
    two that meet a new kind at the same moment find the same."""

    __slots__ = ("_find", "_known")

    def __init__(self, find: Callable[[Call], V]) -> None:
        self._find = find
        self._known: dict[Facts, V] = {}

    def look_up(self, facts: Facts) -> V | None:
        """What is known of this kind of call; None when its tier is none."""
        known = self._known.get(facts)
        return self._add(facts) if known is None else known

    def _add(self, facts: Facts) -> V | None:
        call = _call(facts)
        if call is None:
            return None
        found = self._find(call)
        if len(self._known) >= KINDS_MAX:
            self._known.clear()
        self._known[facts] = found
        return found
