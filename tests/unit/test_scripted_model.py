"""The scripted model over real sockets, with the real client."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import anyio.from_thread
import httpx2
import openai
import pytest

from agent.messages import AIMessage, Message, ToolMessage, UserMessage
from agent.models import (
    ModelError,
    ModelRefusedError,
    OpenAIChat,
    ScriptedModelServer,
    load_script,
    serve_script,
)
from governance.errors import InvalidInputError, UnavailableError

KEY = "sk-very-secret-key"
USER = UserMessage(content="refund A-17")
TOOL = {"type": "function", "function": {"name": "refund", "parameters": {"type": "object"}}}


@contextmanager
def playing(text: str) -> Iterator[ScriptedModelServer]:
    with ScriptedModelServer(load_script(dedent(text))) as server:
        yield server


def chat(server: ScriptedModelServer, *, retries: int = 0, timeout: float = 20) -> OpenAIChat:
    client = openai.AsyncOpenAI(
        base_url=server.base_url, api_key=KEY, max_retries=retries, timeout=timeout
    )
    return OpenAIChat("desk", client=client)


def ask(model: OpenAIChat, *messages: Message) -> AIMessage:
    return asyncio.run(model.respond(messages or (USER,), [TOOL]))


def test_a_plain_answer_and_then_silence():
    with playing("turns: [{say: All done.}]") as server:
        model = OpenAIChat("desk", base_url=server.base_url)
        answer = ask(model)
        assert (answer.content, answer.stop, answer.tool_calls) == ("All done.", "stop", ())
        assert answer.usage.input > 0
        assert answer.usage.output > 0
        end = ask(model, USER, answer)
        assert (end.content, end.stop) == ("", "stop")
        assert server.requests[0]["messages"] == [{"role": "user", "content": "refund A-17"}]
        assert server.requests[0]["tools"] == [TOOL]


SEVERAL = """
    turns:
      - say: I look first.
        calls:
          - {tool: look_up, args: {order: A-17}}
          - {tool: refund, args: {}, id: dup}
          - {tool: refund, raw: "{not json", id: dup}
          - {tool: refund, id: ""}
"""


def test_several_calls_arrive_with_the_ids_and_text_of_the_script():
    with playing(SEVERAL) as server:
        answer = ask(chat(server))
    assert (answer.content, answer.stop) == ("I look first.", "tool_calls")
    assert [(c.name, c.arguments) for c in answer.tool_calls] == [
        ("look_up", '{"order":"A-17"}'),
        ("refund", "{}"),
        ("refund", "{not json"),
        ("refund", "{}"),
    ]
    assert [c.id for c in answer.tool_calls][1:] == ["dup", "dup", ""]


def test_ids_sent_back_as_they_came_are_refused_when_they_merge_calls():
    with playing(SEVERAL) as server:
        model = chat(server)
        answer = ask(model)
        results = [
            ToolMessage(tool_call_id=c.id, name=c.name, content="ok") for c in answer.tool_calls
        ]
        with pytest.raises(ModelRefusedError, match="repeats 'dup'") as caught:
            ask(model, USER, answer, *results)
    assert caught.value.code == "bad-request"


def test_a_call_without_a_result_is_refused():
    with playing("turns: [{calls: [{tool: refund}]}]") as server:
        model = chat(server)
        with pytest.raises(ModelRefusedError, match="has no result"):
            ask(model, USER, ask(model))


def test_it_reacts_to_what_the_tool_really_said_and_says_it_again_when_asked_again():
    script = """
        turns:
          - calls: [{tool: refund}]
          - when:
              - {if: {tool: refund, contains: denied}, say: "no: {{result.refund}}"}
              - {else: true, say: paid}
    """
    with playing(script) as server:
        model = chat(server)
        first = ask(model)
        assert ask(model) == first
        call = first.tool_calls[0]
        for result, expected in (("denied by rule", "no: denied by rule"), ("ok", "paid")):
            told = ToolMessage(tool_call_id=call.id, name=call.name, content=result)
            assert ask(model, USER, first, told).content == expected
            assert ask(model, USER, first, told).content == expected


def test_two_429_are_retried_by_the_client_and_then_it_is_fine():
    script = "turns: [{fault: {status: 429, times: 2, retry_after: 0}}, {say: at last}]"
    with playing(script) as server:
        began = time.monotonic()
        assert ask(chat(server, retries=2)).content == "at last"
        assert time.monotonic() - began < 5
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("fault", "code", "retryable"),
    [
        ("{status: 429, retry_after: 0}", "rate-limited", True),
        ("{status: 500}", "server-error", True),
        ("{kind: garbage}", "bad-response", False),
        ('{status: 200, body: "<html>welcome</html>"}', "bad-response", False),
        ('{status: 200, body: "{\\"choices\\": []}"}', "bad-response", False),
        ("{kind: disconnect}", "unreachable", True),
        ("{kind: timeout, seconds: 0}", "server-error", True),
    ],
)
def test_faults_surface_as_typed_errors(fault: str, code: str, retryable: bool):
    with playing(f"turns: [{{fault: {fault}}}]") as server:
        model = chat(server)
        with pytest.raises(ModelError) as caught:
            ask(model)
    assert (caught.value.code, caught.value.retryable) == (code, retryable)


def test_a_slow_model_runs_into_the_client_s_timeout_and_stopping_does_not_wait_for_it():
    began = time.monotonic()
    with playing("turns: [{fault: {kind: timeout, seconds: 30, times: 1}}, {say: fast}]") as server:
        model = chat(server, timeout=0.2)
        with pytest.raises(ModelError) as caught:
            ask(model)
        assert caught.value.code == "timeout"
        assert ask(chat(server)).content == "fast"
    assert time.monotonic() - began < 10


def test_a_wrong_key_is_refused_and_never_shown():
    with playing("api_key: sk-right\nturns: [{say: hi}]") as server:
        model = chat(server)
        with pytest.raises(ModelRefusedError) as caught:
            ask(model)
        assert caught.value.code == "unauthorised"
        assert "sk-" not in "".join(traceback.format_exception(caught.value))
        right = OpenAIChat("desk", base_url=server.base_url, api_key="sk-right")
        assert ask(right).content == "hi"


def test_another_model_s_name_is_not_found():
    with playing("model: other\nturns: [{say: hi}]") as server:
        with pytest.raises(ModelRefusedError) as caught:
            ask(chat(server))
        assert caught.value.code == "not-found"


def test_nobody_listening_is_unreachable():
    with playing("turns: []") as server:
        model = chat(server)
    with pytest.raises(ModelError, match=r"no connection to `127\.0\.0\.1`") as caught:
        ask(model)
    assert caught.value.code == "unreachable"


@pytest.mark.parametrize("own", [True, False])
def test_one_model_serves_one_event_loop_after_another(own: bool):
    with playing("turns: [{say: hi}]") as server:
        model = OpenAIChat("desk", base_url=server.base_url) if own else chat(server)

        async def at_once() -> list[str]:
            answers = [model.respond([USER], []) for _ in range(5)]
            return [answer.content for answer in await asyncio.gather(*answers)]

        for _ in range(3):
            assert asyncio.run(at_once()) == ["hi"] * 5
        with anyio.from_thread.start_blocking_portal() as portal:
            assert portal.call(model.respond, [USER], []).content == "hi"
        gc.collect()  # an open connection would warn here, and warnings are errors


def post(url: str, **what: Any) -> httpx2.Response:
    with httpx2.Client(trust_env=False) as client:
        return client.post(f"{url}/chat/completions", **what)


def test_what_is_no_request_is_answered_400():
    messages = [{"role": "user", "content": "x"}]
    with playing("turns: [{say: hi}]") as server:
        for body in (
            {"content": b"{not json"},
            {"content": b'{"model": "m", "model": "n"}'},
            {"json": {"model": "m", "messages": messages, "stream": True}},
        ):
            answer = post(server.base_url, **body)
            assert answer.status_code == 400
            assert answer.json()["error"]["message"]
        assert "streaming is not played" in answer.json()["error"]["message"]
        assert len(server.requests) == 1


def test_models_are_listed():
    with (
        playing("model: refund-desk\napi_key: k\nturns: []") as server,
        openai.OpenAI(base_url=server.base_url, api_key="k") as client,
    ):
        assert [model.id for model in client.models.list()] == ["refund-desk"]
        with pytest.raises(openai.AuthenticationError):
            client.with_options(api_key="x").models.list()


SERVE = """
import sys
from pathlib import Path
from agent.models import serve_script
serve_script(Path(sys.argv[1]), ready=lambda url: print(url, flush=True))
print("closed", flush=True)
"""


def test_a_script_is_served_until_interrupted(tmp_path: Path):
    path = tmp_path / "script.yaml"
    path.write_text("turns: [{say: hi}]")
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, str(path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        url = child.stdout.readline().strip()
        assert ask(OpenAIChat("desk", base_url=url)).content == "hi"
        os.kill(child.pid, signal.SIGINT)
        assert child.stdout.read() == "closed\n"
    assert child.returncode == 0


def test_what_cannot_be_served_says_so(tmp_path: Path):
    def never(url: str) -> None:
        raise AssertionError(url)

    with pytest.raises(InvalidInputError, match="cannot be read"):
        serve_script(tmp_path / "absent.yaml", ready=never)
    path = tmp_path / "script.yaml"
    path.write_text("turns: []")
    with playing("turns: []") as server:
        port = int(server.base_url.rsplit(":", 1)[1].removesuffix("/v1"))
        with pytest.raises(UnavailableError, match=f"port `{port}`"):
            serve_script(path, port=port, ready=never)
    with pytest.raises(InvalidInputError, match="`65536` is no port"):
        serve_script(path, port=65_536, ready=never)
