"""The adapter over the official client: every outcome is an answer or a typed error, and no key leaks."""

import asyncio
import subprocess
import sys
import traceback
from typing import Any

import httpx2
import openai
import pytest

from agent.messages import AIMessage, UserMessage
from agent.models import Model, ModelError, ModelRefusedError, OpenAIChat
from governance.errors import GovernanceError, InvalidInputError

KEY = "sk-very-secret-key"
ASK = [UserMessage(content="hello")]
TOOL = {"type": "function", "function": {"name": "refund", "parameters": {"type": "object"}}}
FINE = {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}


def chat(respond: Any) -> OpenAIChat:
    """An adapter whose client talks to `respond` instead of a network."""
    client = openai.AsyncOpenAI(
        base_url="https://models.example/v1",
        api_key=KEY,
        max_retries=0,
        http_client=httpx2.AsyncClient(transport=httpx2.MockTransport(respond)),
    )
    return OpenAIChat("desk", client=client)


def ask(model: Model) -> AIMessage:
    return asyncio.run(model.respond(ASK, [TOOL]))


def failing(respond: Any) -> GovernanceError:
    with pytest.raises(GovernanceError) as caught:
        ask(chat(respond))
    assert KEY not in "".join(traceback.format_exception(caught.value))
    return caught.value


def test_importing_the_room_loads_no_client_and_no_server():
    code = (
        "import sys, agent.models\n"
        "print([m for m in ('openai', 'httpx2', 'fastapi', 'uvicorn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_request_carries_model_messages_and_tools():
    seen: list[httpx2.Request] = []

    def respond(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, json=FINE)

    model = chat(respond)
    assert model.name == "desk"
    assert ask(model).content == "hi"
    asyncio.run(model.respond(ASK, []))
    first, second = (httpx2.Response(200, content=r.content).json() for r in seen)
    assert first == {
        "model": "desk",
        "messages": [{"role": "user", "content": "hello"}],
        "tools": [TOOL],
    }
    assert "tools" not in second
    assert seen[0].headers["connection"] == "close"


@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [
        (408, "timeout", True),
        (409, "server-error", True),
        (429, "rate-limited", True),
        (500, "server-error", True),
        (503, "server-error", True),
        (300, "bad-response", False),
    ],
)
def test_a_failure_of_the_provider_may_be_tried_again(status: int, code: str, retryable: bool):
    error = failing(lambda _: httpx2.Response(status, json={"error": {"message": f"no, {KEY}"}}))
    assert isinstance(error, ModelError)
    assert (error.code, error.retryable) == (code, retryable)
    assert "`desk`" in error.message
    assert error.hint


def test_a_spent_quota_is_not_tried_again():
    body = {"error": {"message": "pay first", "code": "insufficient_quota"}}
    error = failing(lambda _: httpx2.Response(429, json=body))
    assert isinstance(error, ModelError)
    assert (error.code, error.retryable) == ("rate-limited", False)
    assert "quota" in error.hint


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "bad-request"),
        (401, "unauthorised"),
        (402, "unauthorised"),
        (403, "unauthorised"),
        (404, "not-found"),
        (413, "bad-request"),
        (422, "bad-request"),
    ],
)
def test_a_refusal_of_the_provider_is_final(status: int, code: str):
    error = failing(lambda _: httpx2.Response(status, json={"error": {"message": f"no, {KEY}"}}))
    assert isinstance(error, ModelRefusedError)
    assert error.code == code
    assert error.hint


def test_what_the_provider_said_is_told_on_one_line_without_the_key():
    said = f"bad `tools`\n\x1b[31m for {KEY}"
    error = failing(lambda _: httpx2.Response(400, json={"error": {"message": said}}))
    assert error.message == (
        "model `desk` refused the request with status 400: `bad 'tools' \ufffd[31m for ***`"
    )


@pytest.mark.parametrize("status", [401, 403])
def test_a_part_of_the_key_is_not_told_either(status: int):
    said = {"error": {"message": "incorrect API key provided: sk-very-****"}}
    assert "sk-very" not in str(failing(lambda _: httpx2.Response(status, json=said)))


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b'{"error": "text"}', b'{"error": {"message": 1}}']
)
def test_an_error_may_say_nothing_readable(body: bytes):
    error = failing(lambda _: httpx2.Response(500, content=body))
    assert error.message == "model `desk` answered 500"


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>welcome</html>", b'{"choices": []}', b'{"choices": [{"message": 1}]}', b"null"],
)
def test_an_answer_that_is_none_is_an_error(body: bytes):
    error = failing(lambda _: httpx2.Response(200, content=body))
    assert isinstance(error, ModelError)
    assert (error.code, error.retryable) == ("bad-response", False)
    assert "cannot be read" in error.message


def test_an_error_that_comes_as_an_answer_is_told_without_the_key():
    said = {"error": {"message": f"no such model for {KEY}"}}
    error = failing(lambda _: httpx2.Response(200, json=said))
    assert "no choices: `no such model for ***`" in error.message


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (httpx2.ReadTimeout("late"), "timeout"),
        (httpx2.ConnectError(KEY), "unreachable"),
        (httpx2.RemoteProtocolError("cut"), "unreachable"),
    ],
)
def test_a_broken_network_is_an_error(raised: Exception, code: str):
    def respond(_: httpx2.Request) -> httpx2.Response:
        raise raised

    error = failing(respond)
    assert isinstance(error, ModelError)
    assert (error.code, error.retryable) == (code, True)


def test_cancelling_is_not_turned_into_an_error():
    async def hang(_: httpx2.Request) -> httpx2.Response:
        await asyncio.sleep(60)
        raise AssertionError

    async def main() -> None:
        await asyncio.wait_for(chat(hang).respond(ASK, []), 0.05)

    with pytest.raises(TimeoutError):
        asyncio.run(main())


@pytest.fixture
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_key")
@pytest.mark.parametrize(
    "base_url", [None, "https://models.example/v1", "http://127.evil.example/v1"]
)
def test_without_a_key_nothing_is_sent(base_url: str | None):
    with pytest.raises(ModelRefusedError, match="OPENAI_API_KEY") as caught:
        OpenAIChat("desk", base_url=base_url)
    assert caught.value.code == "unauthorised"


@pytest.mark.usefixtures("no_key")
@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1:1", "127.8.9.1", "[::1]:1"])
def test_a_server_on_this_machine_needs_no_key(host: str):
    OpenAIChat("desk", base_url=f"http://{host}/v1")


def test_a_server_on_this_machine_is_not_sent_the_key_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert OpenAIChat("desk", base_url="http://localhost/v1")._client.api_key == "unused"
    assert OpenAIChat("desk")._client.api_key == KEY


@pytest.mark.usefixtures("no_key")
def test_an_administrator_s_key_is_no_key(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_ADMIN_KEY", KEY)
    with pytest.raises(ModelRefusedError, match="OPENAI_API_KEY"):
        OpenAIChat("desk")


@pytest.mark.parametrize("key", [KEY + "\n", KEY + " x", KEY + "é", ""])
@pytest.mark.usefixtures("no_key")
def test_a_key_that_no_header_can_carry_is_refused_unshown(key: str):
    with pytest.raises(ModelRefusedError) as caught:
        OpenAIChat("desk", api_key=key)
    assert "sk-" not in str(caught.value)


@pytest.mark.parametrize(
    "base_url", ["localhost:80/v1", "ftp://host/v1", "http://[::1/v1", "https:///v1", ""]
)
def test_an_address_that_is_none_is_refused(base_url: str):
    with pytest.raises(InvalidInputError, match="is not the address of a model"):
        OpenAIChat("desk", base_url=base_url, api_key=KEY)


def test_a_client_comes_with_its_own_key_and_address():
    client = openai.AsyncOpenAI(api_key=KEY)
    with pytest.raises(InvalidInputError, match="together with"):
        OpenAIChat("desk", client=client, api_key=KEY)


def test_closing_leaves_a_given_client_open():
    given = chat(lambda _: httpx2.Response(200, json=FINE))
    asyncio.run(given.aclose())
    assert ask(given).content == "hi"
    own = OpenAIChat("desk", api_key=KEY)
    asyncio.run(own.aclose())
    assert own._client.is_closed()
