"""How an agent asks a model that speaks OpenAI's chat completions.

It asks through the official client, whose retries and timeouts these are. The answer's body is read by
`wire`, since the client itself would hand on any shape. Every request asks for its connection to be
closed afterwards: a pooled connection belongs to one event loop, and the synchronous API starts a new
loop each time. A handshake per turn is the price; next to a model's answer it does not show.
"""

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from agent.messages import AIMessage, Message
from agent.models.port import ModelError, ModelRefusedError
from agent.models.wire import from_wire, quote, to_wire
from governance.errors import GovernanceError, InvalidInputError

if TYPE_CHECKING:
    import openai

__all__ = ["OpenAIChat"]

PLACEHOLDER_KEY: Final = "unused"
"""What a server on this machine is given when there is no key; the client insists on one."""

_RESUME: Final = "wait a little, then resume the run or ask again"


class OpenAIChat:
    """A `Model` behind OpenAI's API or a compatible one.

    Without `base_url` and `api_key` the client finds both in its environment. A `client` that was given
    stays the caller's: its key, address, retries and timeouts are used, and `aclose` leaves it open.
    Raises InvalidInputError for an address that is none, ModelRefusedError when there is no key.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        client: "openai.AsyncOpenAI | None" = None,
    ) -> None:
        if client is not None and (base_url is not None or api_key is not None):
            raise InvalidInputError(
                "a client was given together with `base_url` or `api_key`",
                hint="build the client with them",
            )
        self.name = model
        self._owns_client = client is None
        self._client = client if client is not None else _open_client(base_url, api_key)

    async def respond(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AIMessage:
        import openai

        request: dict[str, Any] = {"model": self.name, "messages": to_wire(messages)}
        if tools:
            request["tools"] = list(tools)
        try:
            answer = await self._client.chat.completions.with_raw_response.create(
                **request, extra_headers={"Connection": "close"}
            )
        except openai.OpenAIError as exc:
            # `from None`: the provider's own text may repeat the key, and a traceback would print it.
            raise self._failure(exc) from None
        try:
            return from_wire(answer.content)
        except InvalidInputError as exc:
            raise self._unreadable(exc.message) from None

    async def aclose(self) -> None:
        """Let go of the client, unless it was given. No request may follow."""
        if self._owns_client:
            await self._client.close()

    def _failure(self, exc: "openai.OpenAIError") -> GovernanceError:
        import openai

        match exc:
            case openai.APITimeoutError() | openai.APIStatusError(status_code=408):
                return ModelError(
                    f"model `{self.name}` did not answer in time", code="timeout", hint=_RESUME
                )
            case openai.APIConnectionError():
                return ModelError(
                    f"no answer from model `{self.name}`: no connection to `{self._client.base_url.host}`",
                    code="unreachable",
                    hint="check the address and the network, then resume the run or ask again",
                )
            case openai.APIStatusError(status_code=429):
                spent = exc.code == "insufficient_quota"
                return ModelError(
                    f"model `{self.name}` answered 429, too many requests{self._said(exc.body)}",
                    code="rate-limited",
                    retryable=not spent,
                    hint="raise the account's quota, then resume the run" if spent else _RESUME,
                )
            case openai.APIStatusError():
                return self._answered(exc.status_code, self._said(exc.body))
            case _:
                return self._unreadable(f"`{type(exc).__name__}`")

    def _answered(self, status: int, said: str) -> GovernanceError:
        match status:
            case 401 | 402 | 403:  # what was said is left out: providers repeat parts of the key
                return ModelRefusedError(
                    f"model `{self.name}` refused the key with status {status}",
                    code="unauthorised",
                    hint="check the key, its rights and the account behind it",
                )
            case 404:
                return ModelRefusedError(
                    f"model `{self.name}` is not known at `{self._client.base_url.host}`{said}",
                    code="not-found",
                    hint="check the model's name and `base_url`",
                )
            case _ if status == 409 or status >= 500:  # noqa: PLR2004 - HTTP's own numbers
                return ModelError(
                    f"model `{self.name}` answered {status}{said}",
                    code="server-error",
                    hint=_RESUME,
                )
            case _ if status >= 400:  # noqa: PLR2004
                return ModelRefusedError(
                    f"model `{self.name}` refused the request with status {status}{said}",
                    code="bad-request",
                    hint="correct the messages or the tool schemas",
                )
            case _:
                return self._unreadable(f"status {status}")

    def _said(self, body: object) -> str:
        text = cast("dict[str, object]", body).get("message") if isinstance(body, dict) else None
        if not isinstance(text, str):
            return ""
        return f": `{quote(self._without_key(text))}`"

    def _without_key(self, text: str) -> str:
        key = self._client.api_key
        return text.replace(key, "***") if key and key != PLACEHOLDER_KEY else text

    def _unreadable(self, problem: str) -> ModelError:
        return ModelError(
            f"model `{self.name}` sent an answer that cannot be read: {self._without_key(problem)}",
            code="bad-response",
            retryable=False,
            hint="check that `base_url` is the address of a chat completions API",
        )


def _open_client(base_url: str | None, api_key: str | None) -> "openai.AsyncOpenAI":
    import openai

    if base_url is not None and _is_loopback(_host_of(base_url)) and api_key is None:
        api_key = PLACEHOLDER_KEY
    try:
        client = openai.AsyncOpenAI(base_url=base_url, api_key=api_key)
    except openai.OpenAIError:
        raise _no_key("OPENAI_API_KEY is not set") from None
    if not client.api_key:  # an administrator's key alone satisfies the client, and no model
        raise _no_key("OPENAI_API_KEY is empty")
    if not client.api_key.isascii() or not client.api_key.isprintable() or " " in client.api_key:
        raise _no_key("OPENAI_API_KEY or `api_key` holds line breaks, spaces or odd letters")
    return client


def _no_key(problem: str) -> ModelRefusedError:
    return ModelRefusedError(
        f"no usable key for the model: {problem}",
        code="unauthorised",
        hint="set OPENAI_API_KEY or give `api_key`",
    )


def _host_of(base_url: str) -> str:
    try:
        parts = urlsplit(base_url)
        if parts.scheme in {"http", "https"} and parts.hostname:
            return parts.hostname
    except ValueError:
        pass  # brackets that do not match
    raise InvalidInputError(
        f"`{quote(base_url.rpartition('@')[2])}` is not the address of a model",
        hint="give one like `https://host/v1`",
    )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
