"""What a model must be able to do for an agent, and how it may fail.

    ModelError(UnavailableError)       nothing was decided by the model; asking again may help
    ModelRefusedError(RefusedError)    the provider understood and said no; change something first

An error's text never holds the key.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from agent.messages import AIMessage, Message
from governance.errors import RefusedError, UnavailableError

__all__ = ["FailureCode", "Model", "ModelError", "ModelRefusedError", "RefusalCode"]

FailureCode: TypeAlias = Literal[
    "rate-limited", "timeout", "unreachable", "server-error", "bad-response"
]
RefusalCode: TypeAlias = Literal["unauthorised", "bad-request", "not-found"]


class Model(Protocol):
    @property
    def name(self) -> str:
        """The model's name as its provider knows it."""
        ...

    async def respond(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AIMessage:
        """Ask for the next turn. `tools` are function tools in OpenAI's form.

        What the model sent is handed on unread: argument text that is no JSON, ids that are empty or
        repeated. Callable from one event loop after another, and many times at once.
        Raises ModelError, ModelRefusedError.
        """
        ...


class ModelError(UnavailableError):
    """No usable answer came. `retryable`: the same request may well succeed a little later."""

    def __init__(
        self, message: str, *, code: FailureCode, retryable: bool = True, hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.code: FailureCode = code
        self.retryable = retryable


class ModelRefusedError(RefusedError):
    """The provider will not answer this request, however often it is asked."""

    def __init__(self, message: str, *, code: RefusalCode, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code: RefusalCode = code
