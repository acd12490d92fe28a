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

Facts: TypeAlias = tuple[object, ...]
"""The facts of a call as recorded: what an index looks up."""


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
    *("name", "verb", "risk_tier", "reversibility", "blast_radius", "cost_class")
)
_TEXT: Final = {str}


def read_facts(inputs: Mapping[str, JSON]) -> Facts | None:
    """Take the facts of a decision input. None when one is missing; `look_up` says whether they are any."""
    try:
        tool: Any = inputs["tool"]
        agent: Any = inputs["agent"]
        env: Any = inputs["env"]
        scopes: object = tool["scopes"]
        side_effect: object = tool["side_effect"]
        # To Python 1 is True. No other fact of a wrong type equals a text, so none is found by mistake.
        if type(scopes) is not list or type(side_effect) is not bool:
            return None
        of_tool: tuple[object, ...] = _OF_TOOL(tool)
        more = cast("list[object]", scopes)
        return (side_effect, *of_tool, agent["id"], env["name"], *more)
    except (KeyError, TypeError):
        return None


def read_call(inputs: Mapping[str, JSON]) -> Call | None:
    """Take what match blocks look at. None when the input is not what it should be."""
    facts = read_facts(inputs)
    return None if facts is None else _call(facts)


def _call(facts: Facts) -> Call | None:
    side_effect, *texts = facts
    if set(map(type, texts)) != _TEXT:
        return None
    tool, verb, tier, reversibility, blast_radius, cost_class, *rest = cast("list[str]", texts)
    agent, environment, *scopes = rest
    try:
        effective = Tier(tier)
    except ValueError:
        return None
    return Call(
        tool=tool,
        verb=verb.upper(),
        tier=effective,
        side_effect=side_effect is True,
        reversibility=reversibility,
        blast_radius=blast_radius,
        cost_class=cost_class,
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
        """What is known of this kind of call; None when a fact is no text, or the tier is none."""
        try:
            known = self._known.get(facts)
        except TypeError:  # a list, or an object, where a text belongs
            return None
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
