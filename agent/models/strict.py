"""Whether a strict provider would take a chat completion request.

The rules are those that real ones answer 400 to: every call of an assistant's message has exactly one
result, before anybody else speaks; ids are unique within the message and have 1 to 40 characters; tools
have unique names of letters, digits, `_` and `-`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from governance.errors import InvalidInputError

__all__ = ["check_request"]

CALL_ID_CHARS_MAX: Final = 40
_TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SPEAKERS: Final = frozenset({"system", "developer", "user", "assistant", "tool"})


def check_request(request: object) -> Mapping[str, Any]:
    """Hand the request back if it is one. Raises InvalidInputError naming the first broken rule."""
    body = _object(request, "the request")
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise InvalidInputError("`model` is missing")
    if body.get("stream"):
        raise InvalidInputError("streaming is not played: `stream` must be false or absent")
    _check_tools(_objects(body.get("tools", []), "tools"))
    messages = _objects(body.get("messages"), "messages")
    if not messages:
        raise InvalidInputError("`messages` is empty")
    _check_conversation(messages)
    return body


def _check_conversation(messages: Sequence[Mapping[str, Any]]) -> None:
    open_calls: list[str] = []  # ids of the last assistant's message that have no result yet
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        role = message.get("role")
        if not isinstance(role, str) or role not in _SPEAKERS:
            raise InvalidInputError(f"`{where}.role` is none of {', '.join(sorted(_SPEAKERS))}")
        if role == "tool":
            _take_result(message, open_calls, where)
            continue
        if open_calls:
            raise InvalidInputError(f"`{where}` comes before a result of call `{open_calls[0]}`")
        if role == "assistant":
            open_calls = _read_calls(message, where)
        elif not isinstance(message.get("content"), str | list):
            raise InvalidInputError(f"`{where}.content` is missing")
    if open_calls:
        raise InvalidInputError(f"call `{open_calls[0]}` has no result")


def _take_result(message: Mapping[str, Any], open_calls: list[str], where: str) -> None:
    id_ = message.get("tool_call_id")
    if id_ not in open_calls:
        shown = str(id_)[:80]
        raise InvalidInputError(f"`{where}` answers `{shown}`, which is no open call")
    if not isinstance(message.get("content"), str):
        raise InvalidInputError(f"`{where}.content` is not text")
    open_calls.remove(id_)


def _read_calls(message: Mapping[str, Any], where: str) -> list[str]:
    calls = message.get("tool_calls")
    if calls is None:
        if not isinstance(message.get("content"), str):
            raise InvalidInputError(f"`{where}` has neither content nor tool calls")
        return []
    ids: list[str] = []
    for index, call in enumerate(_objects(calls, f"{where}.tool_calls")):
        place = f"{where}.tool_calls[{index}]"
        id_ = call.get("id")
        if not isinstance(id_, str) or not 1 <= len(id_) <= CALL_ID_CHARS_MAX:
            raise InvalidInputError(f"`{place}.id` has not 1 to {CALL_ID_CHARS_MAX} characters")
        if id_ in ids:
            raise InvalidInputError(f"`{place}.id` repeats `{id_}`")
        function = _object(call.get("function"), f"`{place}.function`")
        if call.get("type") != "function" or not function.get("name"):
            raise InvalidInputError(f"`{place}` is no call of a named function")
        if not isinstance(function.get("arguments"), str):
            raise InvalidInputError(f"`{place}.function.arguments` is not text")
        ids.append(id_)
    if not ids:
        raise InvalidInputError(f"`{where}.tool_calls` is empty")
    return ids


def _check_tools(tools: Sequence[Mapping[str, Any]]) -> None:
    names: set[str] = set()
    for index, tool in enumerate(tools):
        where = f"tools[{index}]"
        function = _object(tool.get("function"), f"`{where}.function`")
        name = function.get("name")
        if tool.get("type") != "function":
            raise InvalidInputError(f"`{where}.type` is not `function`")
        if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
            raise InvalidInputError(f"`{where}.function.name` does not match {_TOOL_NAME.pattern}")
        if name in names:
            raise InvalidInputError(f"`{where}.function.name` repeats `{name}`")
        _object(function.get("parameters", {}), f"`{where}.function.parameters`")
        names.add(name)


def _object(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInputError(f"{what} is not an object")
    return cast("Mapping[str, Any]", value)


def _objects(value: object, what: str) -> list[Mapping[str, Any]]:
    if not isinstance(value, list):
        raise InvalidInputError(f"`{what}` is not a list")
    items = cast("list[object]", value)
    return [_object(item, f"`{what}[{index}]`") for index, item in enumerate(items)]
