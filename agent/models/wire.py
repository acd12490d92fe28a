"""How our messages look as chat completions, and what a provider's answer says.

Writing keeps ids and argument text as they are. Reading is strict about form, since a provider's client
library builds its objects without checking them: strict JSON, one choice at least, function calls only.
"""

from collections.abc import Sequence
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

from agent.messages import (
    AIMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from governance.canonical import PAYLOAD_BYTES_MAX, parse_json
from governance.errors import InvalidInputError

__all__ = ["from_wire", "quote", "to_wire"]

QUOTE_CHARS_MAX: Final = 300


def to_wire(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Write a conversation as the `messages` of a chat completion request."""
    return [_message_to_wire(message) for message in messages]


def from_wire(raw: bytes) -> AIMessage:
    """Read the body of a chat completion. Raises InvalidInputError saying what is wrong with it."""
    try:
        completion = _Completion.model_validate(parse_json(raw, limit=PAYLOAD_BYTES_MAX))
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "$"
        raise InvalidInputError(f"`{quote(where)}`: {first['msg'].lower()}") from None
    if not completion.choices:
        said = completion.error.get("message") if isinstance(completion.error, dict) else None
        detail = f": `{quote(said)}`" if isinstance(said, str) else ""
        raise InvalidInputError(f"no choices{detail}")
    return _read_choice(completion.choices[0], completion.usage or _Usage())


def quote(text: str) -> str:
    """Make a stranger's text fit for one line of an error message, between backticks."""
    line = " ".join(text.split()).replace("`", "'")
    shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line)
    return shown if len(shown) <= QUOTE_CHARS_MAX else shown[: QUOTE_CHARS_MAX - 1] + "…"


def _message_to_wire(message: Message) -> dict[str, Any]:
    match message:
        case SystemMessage() | UserMessage():
            return {"role": message.role, "content": message.content}
        case ToolMessage():
            return {
                "role": "tool",
                "tool_call_id": message.tool_call_id,
                "content": message.content,
            }
        case AIMessage(tool_calls=()):
            return {"role": "assistant", "content": message.content}
        case AIMessage():
            calls = [_call_to_wire(call) for call in message.tool_calls]
            return {
                "role": "assistant",
                "content": message.content or None,
                "tool_calls": calls,
            }


def _call_to_wire(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


class _Sent(BaseModel):
    """A part of an answer. Providers add fields of their own; those are theirs."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _Function(_Sent):
    name: str = Field(min_length=1)
    arguments: str


class _Call(_Sent):
    id: str | None = None
    type: str | None = None
    function: _Function | None = None


class _Message(_Sent):
    content: str | None = None
    refusal: str | None = None
    tool_calls: tuple[_Call, ...] | None = None
    function_call: _Function | None = None


class _Choice(_Sent):
    finish_reason: str | None = None
    message: _Message


class _Usage(_Sent):
    prompt_tokens: NonNegativeInt | None = None
    completion_tokens: NonNegativeInt | None = None


class _Completion(_Sent):
    choices: tuple[_Choice, ...] = ()
    usage: _Usage | None = None
    error: Any = None


def _read_choice(choice: _Choice, usage: _Usage) -> AIMessage:
    message = choice.message
    calls = [_read_call(call) for call in message.tool_calls or ()]
    stop = choice.finish_reason or ""
    if message.function_call is not None:  # the form before `tool_calls`, which had no ids
        calls.append(
            ToolCall(
                id="",
                name=message.function_call.name,
                arguments=message.function_call.arguments,
            )
        )
    if stop == "function_call":
        stop = "tool_calls"
    if message.refusal and not message.content:
        stop = "refusal"
    return AIMessage(
        content=message.content or message.refusal or "",
        tool_calls=tuple(calls),
        stop=stop,
        usage=Usage(input=usage.prompt_tokens or 0, output=usage.completion_tokens or 0),
    )


def _read_call(call: _Call) -> ToolCall:
    if call.type not in {None, "function"} or call.function is None:
        raise InvalidInputError(f"tool call of type `{quote(call.type or '')}`")
    return ToolCall(id=call.id or "", name=call.function.name, arguments=call.function.arguments)
