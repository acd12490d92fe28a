"""What does a policy file say, and on which line? YAML read strictly, every value with its place.

A subset, so that a text has one meaning: one document, no anchors, aliases, tags or repeated keys; keys
are text; unquoted `true`, `false`, `null`, whole and decimal numbers are what they look like, everything
else is text. Words that YAML 1.1 takes for booleans (`yes`, `off`) and its other numbers (`010`, `1_000`)
must be quoted.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, cast

import yaml

from governance.canonical import JSON
from governance.errors import InvalidInputError
from governance.policy.cel import did_you_mean

__all__ = ["POLICY_BYTES_MAX", "Node", "PolicyError", "need", "place_in", "read_yaml"]

POLICY_BYTES_MAX: Final = 256 * 1024
YAML_DEPTH_MAX: Final = 64


class PolicyError(InvalidInputError):
    """A policy file that cannot be used as it is. `line` counts from 1."""

    def __init__(self, problem: str, *, file: str, line: int, hint: str = "") -> None:
        super().__init__(f"{file}:{line}: {problem}", hint=hint)
        self.file = file
        self.line = line


Value: TypeAlias = "bool | int | float | str | tuple[Node, ...] | Mapping[str, Node] | None"


@dataclass(frozen=True, slots=True)
class Node:
    """One value of a file. `line` is where it is named, `text_line` and `column` where its text begins."""

    value: Value
    file: str
    line: int
    text_line: int
    column: int = 1

    def wrong(self, problem: str, hint: str = "") -> PolicyError:
        return PolicyError(problem, file=self.file, line=self.line, hint=hint)

    def fields(self, what: str, known: Iterable[str]) -> Mapping[str, "Node"]:
        """Read as an object with none but `known` fields."""
        if not isinstance(self.value, Mapping):
            raise self.wrong(f"{what} is not a mapping", "write `name: value` lines")
        names = tuple(known)
        for name, node in self.value.items():
            if name not in names:
                raise node.wrong(
                    f"unknown field `{name[:80]}` in {what}", did_you_mean(name, names)
                )
        return self.value

    def named(self, what: str) -> Mapping[str, "Node"]:
        """Read as an object with any fields."""
        return self.fields(what, self.value if isinstance(self.value, Mapping) else ())

    def items(self, what: str) -> tuple["Node", ...]:
        """Read as a list. An empty one says nothing, and nothing means no."""
        if not isinstance(self.value, tuple):
            raise self.wrong(f"{what} is not a list", "write `[a, b]`")
        if not self.value:
            raise self.wrong(f"{what} is empty", "leave it out or name something")
        return self.value

    def text(self, what: str, pattern: "re.Pattern[str] | None" = None, hint: str = "") -> str:
        if not isinstance(self.value, str):
            raise self.wrong(f"{what} is not text", "put it in quotes")
        if pattern is not None and not pattern.fullmatch(self.value):
            raise self.wrong(f"{what} is malformed: `{self.value[:80]}`", hint)
        return self.value

    def whole(self, what: str, low: int, high: int) -> int:
        if type(self.value) is not int or not low <= self.value <= high:
            raise self.wrong(f"{what} is not a whole number from {low} to {high}")
        return self.value

    def truth(self, what: str) -> bool:
        if type(self.value) is not bool:
            raise self.wrong(f"{what} is neither true nor false")
        return self.value

    def plain(self) -> JSON:
        """The value as JSON, without places."""
        if isinstance(self.value, Mapping):
            return {name: node.plain() for name, node in self.value.items()}
        if isinstance(self.value, tuple):
            return [node.plain() for node in self.value]
        return self.value


def need(fields: Mapping[str, Node], name: str, of: Node, what: str) -> Node:
    """Take a field that must be there."""
    if name not in fields:
        raise of.wrong(f"{what} has no `{name}`")
    return fields[name]


def read_yaml(text: str, file: str) -> Node:
    """Read `text` strictly. Raises PolicyError naming `file` and the line."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise PolicyError("text holds a lone surrogate", file=file, line=1) from None
    if size > POLICY_BYTES_MAX:
        raise PolicyError(f"{size} bytes exceed {POLICY_BYTES_MAX}", file=file, line=1)
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Reader(file, cast("Any", yaml).parse(text, Loader=loader)).document()
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        problem = f"not YAML: {exc.problem or exc.context or 'unreadable'}"
        raise PolicyError(problem, file=file, line=mark.line + 1 if mark else 1) from None
    except yaml.YAMLError:
        raise PolicyError("not YAML: forbidden characters", file=file, line=1) from None


class _Reader:
    """Turns YAML events into nodes, refusing what the subset lacks as soon as it appears."""

    def __init__(self, file: str, events: Iterator[Any]) -> None:
        self._file = file
        self._events = events

    def document(self) -> Node:
        next(self._events)  # the stream begins
        if isinstance(next(self._events), yaml.StreamEndEvent):
            raise PolicyError("nothing in it", file=self._file, line=1)
        node = self._node(next(self._events), 0)
        next(self._events)  # the document ends
        extra = next(self._events)
        if not isinstance(extra, yaml.StreamEndEvent):
            raise self._wrong(extra, "more than one document")
        return node

    def _node(self, event: Any, depth: int) -> Node:
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise self._wrong(event, "anchors and aliases are not allowed", "write it out")
        if event.tag is not None:
            raise self._wrong(event, f"tag `{str(event.tag)[:80]}` is not allowed")
        if depth >= YAML_DEPTH_MAX and isinstance(event, yaml.CollectionStartEvent):
            raise self._wrong(event, f"nests deeper than {YAML_DEPTH_MAX} levels")
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if isinstance(event, yaml.ScalarEvent):
            block = event.style in ("|", ">")
            value = self._scalar(event)
            if block:
                return Node(value, self._file, line, line + 1)
            return Node(value, self._file, line, line, column)
        if isinstance(event, yaml.SequenceStartEvent):
            return Node(tuple(self._elements(depth)), self._file, line, line, column)
        return Node(self._members(depth), self._file, line, line, column)

    def _elements(self, depth: int) -> Iterator[Node]:
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            yield self._node(event, depth + 1)

    def _members(self, depth: int) -> Mapping[str, Node]:
        members: dict[str, Node] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._node(event, depth + 1)
            if not isinstance(key.value, str):
                raise key.wrong("a key is not text", "put it in quotes")
            if key.value in members:
                raise key.wrong(f"duplicate key `{key.value[:80]}`")
            if key.value == "<<":
                raise key.wrong("merge keys are not allowed", "write it out")
            value = self._node(next(self._events), depth + 1)
            members[key.value] = replace(value, line=key.line)
        return members

    def _scalar(self, event: Any) -> "bool | int | float | str | None":
        text: str = event.value
        if event.style not in (None, ""):
            return text
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.fullmatch(text):
            return int(text)
        if _FRACTION.fullmatch(text):
            return float(text)
        if _AMBIGUOUS.fullmatch(text):
            raise self._wrong(
                event, f"`{text[:80]}` is ambiguous", "put it in quotes, or write true or false"
            )
        return text

    def _wrong(self, event: Any, problem: str, hint: str = "") -> PolicyError:
        return PolicyError(problem, file=self._file, line=event.start_mark.line + 1, hint=hint)


_WORDS: Final[Mapping[str, bool | None]] = {
    "true": True,
    "false": False,
    "null": None,
    "~": None,
    "": None,
}
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
_FRACTION: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,18})\.[0-9]{1,20}(?:[eE][+-]?[0-9]{1,3})?")
_AMBIGUOUS: Final = re.compile(
    r"(?i:yes|no|on|off|true|false|null)|[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]*)?"
    r"|[-+]?0[xob][0-9a-fA-F_]+|[-+]?\.(?:[0-9]+|(?i:inf|nan))|[-+]?[0-9]+(?::[0-9]+)+"
)


def place_in(raw: str, line: int, column: int, before: str) -> tuple[int, int]:
    """Find where a text goes on, after `before` of it: line and column in the file `raw`.

    The text begins at `line` and `column`. Quotes, escapes and folded lines are walked over; where that
    cannot be followed, the place is where the text begins.
    """
    at = _offset(raw, line, column)
    quote = raw[at : at + 1] if raw[at : at + 1] in ("'", '"') else ""
    at += len(quote)
    for char in before:
        if char.isspace():
            continue
        at = _next(raw, at)
        escape = "\\" if quote == '"' else quote
        at += bool(escape) and raw[at : at + 1] == escape  # `\\"`, or a doubled quote
        if raw[at : at + 1] != char:
            return line, column
        at += 1
    at = _next(raw, at)
    return raw.count("\n", 0, at) + 1, at - raw.rfind("\n", 0, at)


def _offset(raw: str, line: int, column: int) -> int:
    start = 0
    for _ in range(line - 1):
        start = raw.find("\n", start) + 1
    return start + column - 1


def _next(raw: str, at: int) -> int:
    while at < len(raw) and raw[at].isspace():
        at += 1
    return at
