"""What a scripted model answers to a request.

Which turn comes next is read from the request alone: the assistant's messages since the last user
message that begins the conversation. So a request that is repeated or resumed gets the same answer. Only
how often each fault has struck is the server's memory, and an argument here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from agent.messages import ToolCall
from agent.models.script import (
    PLACEHOLDER,
    Branch,
    Condition,
    Conversation,
    Script,
    Strike,
    Turn,
)
from agent.models.strict import check_request
from governance.canonical import payload_bytes
from governance.errors import InvalidInputError

__all__ = ["Answer", "Refusal", "Reply", "respond"]

CHARS_PER_TOKEN: Final = 4


@dataclass(frozen=True, slots=True)
class Answer:
    """A turn as it is said. `turn` is its position among all the assistant's turns."""

    model: str
    turn: int
    say: str
    calls: tuple[ToolCall, ...]
    prompt_tokens: int

    def to_json(self) -> dict[str, Any]:
        """The answer as a chat completion."""
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in self.calls
        ]
        said = len(self.say) + sum(len(call.name) + len(call.arguments) for call in self.calls)
        tokens = _tokens(said)
        message = {"role": "assistant", "content": self.say or (None if calls else "")}
        return {
            "id": f"scripted-{self.turn}",
            "object": "chat.completion",
            "created": 0,
            "model": self.model,
            "choices": [
                {
                    "index": 0,
                    "message": message | ({"tool_calls": calls} if calls else {}),
                    "finish_reason": "tool_calls" if calls else "stop",
                }
            ],
            "usage": {
                "prompt_tokens": self.prompt_tokens,
                "completion_tokens": tokens,
                "total_tokens": self.prompt_tokens + tokens,
            },
        }


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a strict provider says to a request that breaks its rules."""

    status: int
    code: str
    message: str


Reply: TypeAlias = Answer | Strike | Refusal


@dataclass(frozen=True, slots=True)
class _Heard:
    """What the tools said: to the turn before, and last of all each."""

    recent: tuple[tuple[str, str], ...]
    latest: Mapping[str, str]


def respond(script: Script, request: object, struck: Mapping[str, int]) -> Reply:
    """Answer a chat completion request. `struck` counts by place the faults that have struck."""
    try:
        body = check_request(request)
    except InvalidInputError as exc:
        return Refusal(400, "invalid_request", exc.message)
    if script.model not in {None, body["model"]}:
        return Refusal(404, "model_not_found", f"there is no model `{body['model'][:80]}` here")
    messages: Sequence[Mapping[str, Any]] = body["messages"]
    found = _locate(script, messages)
    if found is None:
        return Refusal(400, "no_conversation", "no conversation of the script begins like this")
    conversation, start = found
    since = messages[start:]
    turn = _turn(conversation, since)
    for strike in turn.strikes:
        if strike.times is None or struck.get(strike.place, 0) < strike.times:
            return strike
    heard = _listen(since)
    branch = next(b for b in turn.branches if b.condition is None or _holds(b.condition, heard))
    number = sum(message["role"] == "assistant" for message in messages)
    return Answer(
        model=body["model"],
        turn=number,
        say=_fill(branch.say, heard),
        calls=_calls(branch, number),
        prompt_tokens=_tokens(len(payload_bytes(messages))),
    )


def _locate(
    script: Script, messages: Sequence[Mapping[str, Any]]
) -> tuple[Conversation, int] | None:
    for index in range(len(messages) - 1, -1, -1):
        if messages[index]["role"] != "user":
            continue
        text = _content(messages[index])
        for conversation in script.conversations:
            if conversation.user in text:
                return conversation, index
    return None


def _turn(conversation: Conversation, since: Sequence[Mapping[str, Any]]) -> Turn:
    said: int = sum(message["role"] == "assistant" for message in since)
    return conversation.turns[min(said, len(conversation.turns) - 1)]


def _listen(since: Sequence[Mapping[str, Any]]) -> _Heard:
    names: dict[str, str] = {}
    recent: list[tuple[str, str]] = []
    latest: dict[str, str] = {}
    for message in since:
        if message["role"] == "assistant":
            recent = []
            names = {c["id"]: c["function"]["name"] for c in message.get("tool_calls") or ()}
        elif message["role"] == "tool":
            result = (names[message["tool_call_id"]], message["content"])
            recent.append(result)
            latest |= [result]
    return _Heard(tuple(recent), latest)


def _holds(condition: Condition, heard: _Heard) -> bool:
    return any(
        condition.tool in {None, tool}
        and (condition.contains is None or condition.contains in text)
        and (condition.matches is None or condition.matches.search(text) is not None)
        for tool, text in heard.recent
    )


def _fill(say: str, heard: _Heard) -> str:
    """One pass, so that a tool's text is never read as a placeholder itself."""
    return PLACEHOLDER.sub(
        lambda found: heard.latest.get(found[1], f"(no result of {found[1]})"), say
    )


def _calls(branch: Branch, turn: int) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(
            id=f"call-{turn}-{position}" if call.id is None else call.id,
            name=call.tool,
            arguments=call.arguments,
        )
        for position, call in enumerate(branch.calls)
    )


def _content(message: Mapping[str, Any]) -> str:
    """The text of a user's message, whose content may also be a list of parts."""
    content = message["content"]
    if isinstance(content, str):
        return content
    texts = (part.get("text") for part in content if isinstance(part, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


def _tokens(chars: int) -> int:
    return -(-chars // CHARS_PER_TOKEN)
