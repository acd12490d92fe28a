"""What a scripted model says turn by turn, and how that is written down.

    model: refund-desk              # the one name it answers to; absent: any
    api_key: sk-demo                # the one key it accepts; absent: any or none
    turns:                          # what it says, in order, counted from the last user message
      - say: I look at the order first.
        calls:
          - {tool: look_up_order, args: {order_id: A-17}}
          - {tool: refund, args: {cents: 500}, id: dup}    # an id of your own: empty, repeated, …
          - {tool: refund, raw: "{not json"}               # argument text as it is
      - fault: {status: 429, times: 2, retry_after: 0}     # strikes twice, then the next turn is said
      - when:                       # by what the tools answered to the turn before; first match wins
          - if: {tool: refund, contains: denied}           # and/or `matches:`, a regular expression
            say: That is not allowed.
          - else: true              # always there, always last
            say: "Done: {{result.refund}}"                 # the last result of that tool
      - calls: [{tool: poll}]
        loop: true                  # said again for ever; nothing may follow
    conversations:                  # instead of `turns`, or before it
      - user: delete                # begins at the last user message that holds this text
        turns: [{say: No.}]

After its last turn the model says nothing, with stop `stop`. Faults, each with `times` (absent: always):
`{status: 500, body: text?, retry_after: seconds?}`, `{kind: timeout, seconds: 30}` (waits, then 504),
`{kind: garbage}` (half a JSON document), `{kind: disconnect}` (half a response).

Reading is strict: unknown and repeated keys, and values that JSON cannot say, are errors with a path.
"""

import difflib
import re
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

import yaml

from governance.canonical import payload_bytes
from governance.errors import InvalidInputError

__all__ = [
    "Branch",
    "Call",
    "Condition",
    "Conversation",
    "Delay",
    "Disconnect",
    "Fault",
    "Garbage",
    "Script",
    "Status",
    "Strike",
    "Turn",
    "load_script",
]

SCRIPT_CHARS_MAX: Final = 1024 * 1024
DELAY_S_MAX: Final = 600
PLACEHOLDER: Final = re.compile(r"\{\{result\.([A-Za-z0-9_./-]+)\}\}")


@dataclass(frozen=True, slots=True)
class Call:
    """A proposed call. `id` None: the player gives one that is unique in the conversation."""

    tool: str
    arguments: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """Met when one result of the turn before fits everything that is set here."""

    tool: str | None = None
    contains: str | None = None
    matches: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """Something to say. `condition` None always holds."""

    condition: Condition | None
    say: str = ""
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True, slots=True)
class Status:
    """An HTTP error, or any body under any status. `retry_after_s` becomes a header."""

    status: int
    body: str | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Delay:
    seconds: float


@dataclass(frozen=True, slots=True)
class Garbage:
    pass


@dataclass(frozen=True, slots=True)
class Disconnect:
    pass


Fault: TypeAlias = Status | Delay | Garbage | Disconnect


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault at a place of the script. `times` None strikes always."""

    place: str
    fault: Fault
    times: int | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: the faults to get past, then the first branch that holds; the last one always does."""

    strikes: tuple[Strike, ...]
    branches: tuple[Branch, ...]


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns in order. The last one is said for ever."""

    user: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Script:
    conversations: tuple[Conversation, ...]
    model: str | None = None
    api_key: str | None = None


def load_script(text: str) -> Script:
    """Read a script. Raises InvalidInputError with the path of what is wrong."""
    if len(text) > SCRIPT_CHARS_MAX:
        raise InvalidInputError(f"script of {len(text)} characters exceeds {SCRIPT_CHARS_MAX}")
    document = _read_yaml(text)
    payload_bytes(document)  # from here on every value is plain JSON
    top = _mapping(document, "$", ("model", "api_key", "turns", "conversations"))
    conversations = [
        _conversation(item, f"$.conversations[{index}]")
        for index, item in enumerate(_list(top.get("conversations", []), "$.conversations"))
    ]
    if "turns" in top:
        conversations.append(Conversation(user="", turns=_turns(top["turns"], "$.turns")))
    if not conversations:
        raise _bad("$", "a script needs `turns` or `conversations`")
    return Script(
        conversations=tuple(conversations),
        model=_optional_text(top, "model", "$"),
        api_key=_optional_text(top, "api_key", "$"),
    )


def _conversation(value: object, path: str) -> Conversation:
    item = _mapping(value, path, ("user", "turns"), required=("user", "turns"))
    return Conversation(
        user=_text(item["user"], f"{path}.user"), turns=_turns(item["turns"], f"{path}.turns")
    )


def _turns(value: object, path: str) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    strikes: list[Strike] = []
    items = _list(value, path)
    for index, value_ in enumerate(items):
        where = f"{path}[{index}]"
        item = _mapping(value_, where, ("say", "calls", "when", "fault", "loop"))
        if "fault" in item:
            _alone(item, "fault", (), where)
            strikes.append(_strike(item["fault"], f"{where}.fault"))
            continue
        turns.append(Turn(tuple(strikes), _branches(item, where)))
        strikes.clear()
        if _flag(item, "loop", where):
            if index + 1 < len(items):
                raise _bad(f"{path}[{index + 1}]", "nothing is said after a turn with `loop`")
            return tuple(turns)
    return (*turns, Turn(tuple(strikes), (Branch(None),)))


def _branches(item: dict[str, Any], path: str) -> tuple[Branch, ...]:
    if "when" not in item:
        return (_branch(item, path, None),)
    _alone(item, "when", ("loop",), path)
    branches = _list(item["when"], f"{path}.when")
    read = tuple(
        _choice(value, f"{path}.when[{index}]", last=index + 1 == len(branches))
        for index, value in enumerate(branches)
    )
    if not read:
        raise _bad(f"{path}.when", "there are no branches")
    return read


def _choice(value: object, path: str, *, last: bool) -> Branch:
    item = _mapping(value, path, ("if", "else", "say", "calls"))
    if not last:
        if "if" not in item or "else" in item:
            raise _bad(path, "every branch but the last needs `if` and no `else`")
        return _branch(item, path, _condition(item["if"], f"{path}.if"))
    if "if" in item or not _flag(item, "else", path):
        raise _bad(path, "the last branch needs `else: true` and no `if`")
    return _branch(item, path, None)


def _branch(item: dict[str, Any], path: str, condition: Condition | None) -> Branch:
    if "say" not in item and "calls" not in item:
        raise _bad(path, "a turn needs `say`, `calls`, `when` or `fault`")
    say = _optional_text(item, "say", path, empty=True) or ""
    if "{{" in PLACEHOLDER.sub("", say):
        raise _bad(f"{path}.say", "the only placeholder is `{{result.TOOL}}`")
    calls = _list(item.get("calls", []), f"{path}.calls")
    return Branch(
        condition,
        say,
        tuple(_call(call, f"{path}.calls[{index}]") for index, call in enumerate(calls)),
    )


def _call(value: object, path: str) -> Call:
    item = _mapping(value, path, ("tool", "args", "raw", "id"), required=("tool",))
    if "args" in item and "raw" in item:
        raise _bad(path, "give `args` or `raw`, not both")
    raw = _optional_text(item, "raw", path)
    if raw is None:
        args = item.get("args", {})
        if not isinstance(args, dict):
            raise _bad(f"{path}.args", "this is not a mapping; other arguments go into `raw`")
        raw = payload_bytes(args).decode()
    return Call(
        _text(item["tool"], f"{path}.tool"), raw, _optional_text(item, "id", path, empty=True)
    )


def _condition(value: object, path: str) -> Condition:
    item = _mapping(value, path, ("tool", "contains", "matches"))
    if not item:
        raise _bad(path, "a condition needs `tool`, `contains` or `matches`")
    matches = _optional_text(item, "matches", path)
    try:
        pattern = None if matches is None else re.compile(matches)
    except re.error as exc:
        raise _bad(f"{path}.matches", f"this is no regular expression: {exc}") from exc
    return Condition(
        _optional_text(item, "tool", path), _optional_text(item, "contains", path), pattern
    )


_FAULT_KEYS: Final = {
    None: ("status", "body", "retry_after", "times"),
    "timeout": ("kind", "seconds", "times"),
    "garbage": ("kind", "times"),
    "disconnect": ("kind", "times"),
}


def _strike(value: object, path: str) -> Strike:
    kind = cast("dict[str, object]", value).get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str | None) or kind not in _FAULT_KEYS:
        kinds = ", ".join(f"`{known}`" for known in _FAULT_KEYS if known)
        raise _bad(f"{path}.kind", f"`{str(kind)[:80]}` is no kind of fault; there are {kinds}")
    item = _mapping(value, path, _FAULT_KEYS[kind])
    times = item.get("times")
    if times is not None:
        times = int(_number(times, f"{path}.times", 1, 1000, whole=True))
    return Strike(path, _fault(kind, item, path), times)


def _fault(kind: str | None, item: dict[str, Any], path: str) -> Fault:
    match kind:
        case "timeout":
            seconds = item.get("seconds", DELAY_S_MAX)
            return Delay(_number(seconds, f"{path}.seconds", 0, DELAY_S_MAX))
        case "garbage":
            return Garbage()
        case "disconnect":
            return Disconnect()
        case _:
            status = _number(item.get("status"), f"{path}.status", 200, 599, whole=True)
            after = item.get("retry_after")
            if after is not None:
                after = _number(after, f"{path}.retry_after", 0, DELAY_S_MAX)
            return Status(int(status), _optional_text(item, "body", path, empty=True), after)


class _StrictLoader(yaml.SafeLoader):
    """Plain YAML values, and no key twice (YAML 1.2 section 3.2.1.1; PyYAML keeps the last one)."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue  # refused by the constructor
            if key.value in seen:
                line = key.start_mark.line + 1
                raise _bad(f"line {line}", f"the key `{key.value[:80]}` stands here twice")
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def _read_yaml(text: str) -> object:
    loader = None
    try:
        loader = _StrictLoader(text)
        return loader.get_single_data()
    except (yaml.YAMLError, RecursionError, ValueError) as exc:
        mark = getattr(exc, "problem_mark", None)
        where = f"line {mark.line + 1}" if mark is not None else "$"
        raise _bad(where, f"this is no YAML: {getattr(exc, 'problem', None) or exc}") from exc
    finally:
        if loader is not None:
            loader.dispose()


def _bad(path: str, problem: str, hint: str = "") -> InvalidInputError:
    return InvalidInputError(f"script at `{path}`: {problem}", hint=hint)


def _mapping(
    value: object, path: str, allowed: Collection[str], required: Sequence[str] = ()
) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _bad(path, "this is not a mapping")
    item = cast("dict[str, Any]", value)
    for key in item:
        if key not in allowed:
            near = difflib.get_close_matches(key, allowed, n=1, cutoff=0.5)
            hint = f"did you mean `{near[0]}`" if near else f"use {', '.join(allowed)}"
            raise _bad(path, f"unknown key `{key[:80]}`", hint)
    for key in required:
        if key not in item:
            raise _bad(path, f"`{key}` is missing")
    return item


def _alone(item: dict[str, Any], key: str, beside: Collection[str], path: str) -> None:
    others = [name for name in item if name != key and name not in beside]
    if others:
        raise _bad(path, f"`{others[0]}` cannot stand beside `{key}`")


def _list(value: object, path: str) -> list[object]:
    if not isinstance(value, list):
        raise _bad(path, "this is not a list")
    return cast("list[object]", value)


def _text(value: object, path: str, *, empty: bool = False) -> str:
    if not isinstance(value, str):
        raise _bad(path, "this is not text", "put it in quotes")
    if not value and not empty:
        raise _bad(path, "this is empty")
    return value


def _optional_text(item: dict[str, Any], key: str, path: str, *, empty: bool = False) -> str | None:
    return _text(item[key], f"{path}.{key}", empty=empty) if key in item else None


def _flag(item: dict[str, Any], key: str, path: str) -> bool:
    value = item.get(key, False)
    if not isinstance(value, bool):
        raise _bad(f"{path}.{key}", "this is not true or false")
    return value


def _number(value: object, path: str, least: float, most: float, *, whole: bool = False) -> float:
    fits = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not fits or not least <= cast("float", value) <= most:
        kind = "whole number" if whole else "number"
        raise _bad(path, f"this is not a {kind} from {least} to {most}")
    return cast("float", value)
