"""What goes back and forth between people, models and tools. Frozen; read and written as plain JSON."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

__all__ = [
    "AIMessage",
    "Message",
    "SystemMessage",
    "ToolCall",
    "ToolMessage",
    "Usage",
    "UserMessage",
    "dump_message",
    "load_message",
    "to_messages",
]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolCall(_Frozen):
    """One call as the model proposed it. `arguments` is its text, unread; `id` is the provider's and
    identifies nothing here."""

    id: str
    name: str
    arguments: str


class Usage(_Frozen):
    """Tokens of one model turn, as the provider counted them; 0 where it said nothing."""

    input: int = 0
    output: int = 0


class SystemMessage(_Frozen):
    role: Literal["system"] = "system"
    content: str


class UserMessage(_Frozen):
    role: Literal["user"] = "user"
    content: str


class AIMessage(_Frozen):
    """A model's turn: text, calls, or both. `stop` is the provider's reason for ending it."""

    role: Literal["assistant"] = "assistant"
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    stop: str = ""
    usage: Usage = Usage()

    @property
    def text(self) -> str:
        return self.content


class ToolMessage(_Frozen):
    """The one answer to one call. `status` is `error` for refusals and failures alike."""

    role: Literal["tool"] = "tool"
    tool_call_id: str
    name: str
    content: str
    status: Literal["ok", "error"] = "ok"


Message: TypeAlias = Annotated[
    SystemMessage | UserMessage | AIMessage | ToolMessage, Field(discriminator="role")
]
_MESSAGE: TypeAdapter[SystemMessage | UserMessage | AIMessage | ToolMessage] = TypeAdapter(Message)


def dump_message(message: Message) -> dict[str, Any]:
    """Write a message as JSON, leaving out what is at its default."""
    return {"role": message.role} | message.model_dump(mode="json", exclude_defaults=True)


def load_message(value: object) -> Message:
    """Read what `dump_message` wrote. Raises pydantic.ValidationError."""
    return _MESSAGE.validate_python(value)


def to_messages(given: "str | Message | Sequence[Message]") -> tuple[Message, ...]:
    """Take what people pass to an agent: a text is one message of the user's."""
    if isinstance(given, str):
        return (UserMessage(content=given),)
    if isinstance(given, BaseModel):
        return (given,)
    return tuple(given)
