"""Of which type is what a condition reads? The declared inputs, and the arguments of the tools at hand.

A type here is the set of kinds that a value may be of, and what is known of its parts. It never says less
than may happen: what a JSON Schema leaves open, or says in a way that is not followed, may be anything.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import reduce
from typing import Any, Final, cast

from governance.canonical import JSON
from governance.ids import Digest
from governance.policy.model import WINDOWS, RiskProfile, Tier
from governance.policy.risk import tool_input

__all__ = [
    "ANY",
    "ARGUMENTS",
    "BOOL",
    "INT",
    "LIST_OF_TEXT",
    "NUMBERS",
    "ORIGINS",
    "TEXT",
    "TIERS",
    "Kind",
    "Member",
    "ToolShape",
    "Type",
    "Words",
    "declared_inputs",
    "join",
    "kinds",
    "schema_type",
]

SCHEMA_DEPTH_MAX: Final = 16
"""Levels of a schema that are followed, references included."""


class Kind(StrEnum):
    """The kinds of values there are, as messages name them."""

    BOOL = "bool"
    INT = "int"
    UINT = "uint"
    DOUBLE = "double"
    TEXT = "text"
    BYTES = "bytes"
    NULL = "null"
    LIST = "list"
    MAP = "map"
    TIMESTAMP = "timestamp"
    DURATION = "duration"
    TYPE = "type"


NUMBERS: Final = frozenset({Kind.INT, Kind.UINT, Kind.DOUBLE})


@dataclass(frozen=True, slots=True)
class ToolShape:
    """What there is to know of a registered tool before it is called."""

    profile: RiskProfile
    parameters: Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class Words:
    """The texts that a value, or a key, can be. `fixed`: by definition, not by the tools at hand."""

    among: frozenset[str]
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Member:
    """A field of a map; `always`: it is there in every call."""

    type: "Type"
    always: bool = True


@dataclass(frozen=True, slots=True)
class Type:
    """What a value may be. Of a map: `members`, the type of the `rest` where other keys may stand, which
    `keys` these can be; it is `open` when anything may be in it. Of a list: the `items`."""

    kinds: frozenset[Kind]
    members: Mapping[str, Member] = field(default_factory=dict[str, Member])
    rest: "Type | None" = None
    open: bool = False
    keys: Words | None = None
    items: "Type | None" = None
    words: Words | None = None

    def only(self, *among: Kind) -> bool:
        return self.kinds <= set(among)

    def member(self, name: str) -> Member | None:
        """The field `name`; None when this map can have none of that name."""
        if name in self.members:
            return self.members[name]
        if self.open:
            return Member(ANY, always=False)
        return None if self.rest is None else Member(self.rest, always=False)

    def item(self) -> "Type":
        return ANY if self.items is None else self.items


def kinds(*among: Kind) -> Type:
    """A value of one of these kinds, and nothing more is known of it."""
    return Type(frozenset(among), open=Kind.MAP in among)


ANY: Final = Type(frozenset(Kind), open=True)
BOOL: Final = kinds(Kind.BOOL)
INT: Final = kinds(Kind.INT)
TEXT: Final = kinds(Kind.TEXT)
LIST_OF_TEXT: Final = Type(frozenset({Kind.LIST}), items=TEXT)
TIERS: Final = Words(frozenset(map(str, Tier)), fixed=True)
ORIGINS: Final = Words(frozenset({"user", "trusted", "untrusted", "unknown"}), fixed=True)
ARGUMENTS: Final = Type(frozenset({Kind.MAP}), open=True)
"""The arguments of a tool that nothing is known of."""


def _word(words: Words | None) -> Type:
    return Type(frozenset({Kind.TEXT}), words=words)


def _fields(**types: Type) -> Type:
    return Type(frozenset({Kind.MAP}), {name: Member(type_) for name, type_ in types.items()})


def _map_of(rest: Type, keys: Words | None = None) -> Type:
    return Type(frozenset({Kind.MAP}), rest=rest, keys=keys)


def declared_inputs(
    about: Mapping[str, ToolShape] | None, tools: Mapping[str, ToolShape] | None
) -> Mapping[str, Type]:
    """The inputs of a condition of a rule that is `about` some of the `tools` at hand; None: not known."""
    names = None if tools is None else Words(frozenset(tools))
    sums = None if tools is None else Words(frozenset(_sums(tools)))
    return {
        "tool": _tool(about),
        "args": _arguments(about),
        "args_origin": _map_of(_word(ORIGINS)),
        "principal": _fields(id=TEXT, roles=LIST_OF_TEXT, tenant=TEXT),
        "agent": _fields(id=TEXT, path=LIST_OF_TEXT, model=TEXT),
        "run": _fields(
            id=TEXT,
            step=INT,
            calls=_map_of(INT, names),
            sums=_map_of(INT, sums),
            failures=INT,
            rejected=INT,
            last=_map_of(INT, names),
            approved=_map_of(INT, names),
            turn_refused=INT,
            tokens=INT,
            elapsed_s=INT,
            untrusted=BOOL,
            untrusted_sources=LIST_OF_TEXT,
        ),
        # Not only this agent's tools: whatever was started on behalf of the same principal counts.
        "window": _fields(**dict.fromkeys(WINDOWS, _map_of(INT))),
        "env": _fields(name=TEXT, labels=_map_of(TEXT)),
        "now": kinds(Kind.TIMESTAMP),
    }


def _tool(about: Mapping[str, ToolShape] | None) -> Type:
    """A field of `tool` is one of what the tools declare; it is `""` where one declares nothing."""
    given = [tool_input(name, Digest(bytes(32)), s.profile) for name, s in (about or {}).items()]

    def words(name: str) -> Words | None:
        return Words(frozenset(str(tool[name]) for tool in given)) if given else None

    scopes = frozenset(str(s) for shape in (about or {}).values() for s in shape.profile.scopes)
    return _fields(
        name=_word(words("name")),
        verb=_word(words("verb")),
        risk_tier=_word(TIERS),
        declared_tier=_word(Words(TIERS.among | {""}, fixed=True)),
        side_effect=BOOL,
        reversibility=_word(words("reversibility")),
        blast_radius=_word(words("blast_radius")),
        cost_class=_word(words("cost_class")),
        scopes=Type(
            frozenset({Kind.LIST}), items=_word(Words(scopes) if given and scopes else None)
        ),
        idempotent=BOOL,
        untrusted_output=BOOL,
        profiled=BOOL,
        definition=TEXT,
    )


def _arguments(about: Mapping[str, ToolShape] | None) -> Type:
    return join([_parameters(shape) for shape in about.values()]) if about else ARGUMENTS


def _parameters(shape: ToolShape) -> Type:
    """The arguments of one tool. Defaults are filled in before anybody decides, so they are always there."""
    found = schema_type(shape.parameters)
    if Kind.MAP not in found.kinds:
        return ARGUMENTS
    properties: Mapping[str, Any] = cast("Any", shape.parameters.get("properties", {}))
    members = {
        name: Member(m.type, m.always or _has_default(properties.get(name)))
        for name, m in found.members.items()
    }
    return Type(frozenset({Kind.MAP}), members, found.rest, found.open)


def _has_default(schema: object) -> bool:
    return isinstance(schema, Mapping) and "default" in schema


def _sums(tools: Mapping[str, ToolShape]) -> Iterable[str]:
    for name, shape in tools.items():
        for argument, member in _parameters(shape).members.items():
            if Kind.INT in member.type.kinds:
                yield f"{name}.{argument}"


def join(types: Iterable[Type]) -> Type:
    """What a value may be that is of one of these types."""
    return reduce(_join, types)


def _join(one: Type, other: Type) -> Type:
    if one is other:
        return one
    maps = [type_ for type_ in (one, other) if Kind.MAP in type_.kinds]
    lists = [type_ for type_ in (one, other) if Kind.LIST in type_.kinds]
    texts = [type_.words for type_ in (one, other) if Kind.TEXT in type_.kinds]
    rests = [type_.rest for type_ in maps if type_.rest is not None]
    return Type(
        one.kinds | other.kinds,
        members=_joined_members(maps),
        rest=join(rests) if rests else None,
        open=any(type_.open for type_ in maps),
        items=join([type_.item() for type_ in lists]) if lists else None,
        words=_joined_words(texts),
    )


def _joined_members(maps: list[Type]) -> Mapping[str, Member]:
    members: dict[str, Member] = {}
    for name in {name: None for type_ in maps for name in type_.members}:
        found = [type_.member(name) for type_ in maps]
        there = [member for member in found if member is not None]
        always = all(member is not None and member.always for member in found)
        members[name] = Member(join([member.type for member in there]), always)
    return members


def _joined_words(texts: list[Words | None]) -> Words | None:
    known = [words for words in texts if words is not None]
    if not known or len(known) < len(texts):
        return None
    among = frozenset(word for words in known for word in words.among)
    return Words(among, all(words.fixed for words in known))


_KINDS: Final[Mapping[str, frozenset[Kind]]] = {
    "boolean": frozenset({Kind.BOOL}),
    "integer": frozenset({Kind.INT}),
    "number": frozenset({Kind.INT, Kind.DOUBLE}),
    "string": frozenset({Kind.TEXT}),
    "null": frozenset({Kind.NULL}),
    "array": frozenset({Kind.LIST}),
    "object": frozenset({Kind.MAP}),
}


def schema_type(schema: object) -> Type:
    """The type of what a JSON Schema admits. What it says in other ways than these may be anything."""
    return _Schema(schema).type_of(schema, 0)


class _Schema:
    """One schema, with the definitions it refers to."""

    def __init__(self, root: object) -> None:
        self._root = root

    def type_of(self, schema: object, depth: int) -> Type:
        if not isinstance(schema, Mapping) or depth > SCHEMA_DEPTH_MAX:
            return ANY
        said = cast("Mapping[str, Any]", schema)
        if "$ref" in said:
            return self.type_of(self._referred(said["$ref"]), depth + 1)
        if "const" in said or "enum" in said:
            return _of_values(said["enum"] if "enum" in said else [said["const"]])
        if "type" in said:
            return self._of_kinds(said, depth)
        branches = said.get("anyOf", said.get("oneOf"))
        if isinstance(branches, list) and branches:
            return join([self.type_of(b, depth + 1) for b in cast("list[object]", branches)])
        return ANY

    def _of_kinds(self, said: Mapping[str, Any], depth: int) -> Type:
        kind: Any = said["type"]
        names: list[Any] = kind if isinstance(kind, list) else [kind]  # pyright: ignore[reportUnknownVariableType]
        try:
            found = frozenset[Kind]().union(*(_KINDS[name] for name in names))
        except (KeyError, TypeError):
            return ANY
        items = self.type_of(said["items"], depth + 1) if "items" in said else None
        if Kind.MAP not in found:
            return Type(found, items=items)
        required: Any = said.get("required", ())
        more = said.get("additionalProperties", True)
        closed = more is False and "patternProperties" not in said
        typed = isinstance(more, Mapping) and "patternProperties" not in said
        members = {
            name: Member(self.type_of(inner, depth + 1), name in required)
            for name, inner in dict[str, Any](said.get("properties", {})).items()
        }
        return Type(
            found,
            members,
            rest=self.type_of(cast("object", more), depth + 1) if typed else None,
            open=not closed and not typed,
            items=items,
        )

    def _referred(self, reference: object) -> object:
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        found: Any = self._root
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            found = cast("Any", found).get(name) if isinstance(found, Mapping) else None
        return found


def _of_values(values: object) -> Type:
    if not isinstance(values, list) or not values:
        return ANY
    given = cast("list[object]", values)
    texts = frozenset(value for value in given if isinstance(value, str))
    found = frozenset[Kind]().union(*map(_kinds_of, given))
    return Type(found, open=Kind.MAP in found, words=Words(texts, fixed=True) if texts else None)


def _kinds_of(value: object) -> frozenset[Kind]:
    if value is None or isinstance(value, bool):
        return frozenset({Kind.NULL if value is None else Kind.BOOL})
    if isinstance(value, int | float):
        return frozenset({Kind.INT, Kind.DOUBLE})
    if isinstance(value, str):
        return frozenset({Kind.TEXT})
    return frozenset({Kind.LIST if isinstance(value, list) else Kind.MAP})
