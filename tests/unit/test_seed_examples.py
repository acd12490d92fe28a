"""The examples of the pages this project started from define and run with nothing but other imports."""

import sys
import textwrap
import types
from typing import Any, Self

import anyio
import anyio.lowlevel
import pytest

from agent.models import ScriptedModelServer, load_script
from agent.tools import BaseTool, CallContext, FunctionTool, ToolRegistry, ToolResult, ToolSchema
from governance.policy.model import RiskProfile, Tier

WEATHER = '''
    from agent.tools import tool

    @tool
    def get_weather(city: str) -> str:
        """Return the current weather for a city."""
        return f"{city}: 17C, clear"
'''

TITLE = '''
    import httpx
    from agent.tools import tool

    @tool
    async def fetch_title(url: str) -> str:
        """Fetch a URL and return its HTML <title>."""
        async with httpx.AsyncClient() as client:
            resp = await client.get(url)
        return resp.text.split("<title>")[1].split("</title>")[0]
'''

DEPLOY = '''
    from agent.tools import tool

    @tool(verb="EXECUTE", risk_tier="high", side_effect=True)
    def deploy(service: str) -> str:
        """Deploy a service to production."""
        ...
'''


def defined(source: str, name: str) -> FunctionTool[..., Any]:
    namespace: dict[str, Any] = {"__name__": "example"}
    exec(compile(textwrap.dedent(source), "example", "exec"), namespace)
    made = namespace[name]
    assert isinstance(made, FunctionTool)
    return made


def run(given: Any, arguments: Any) -> ToolResult:
    (made,) = ToolRegistry([given])
    return anyio.run(made.run, made.validate(arguments), CallContext())


def test_define_a_tool() -> None:
    made = defined(WEATHER, "get_weather")
    assert made.name == "get_weather"
    assert made.description == "Return the current weather for a city."
    assert made.schema().parameters["properties"] == {"city": {"type": "string"}}
    assert made.schema().parameters["required"] == ["city"]
    assert made.invoke({"city": "Boston"}) == "Boston: 17C, clear"
    assert run(made, '{"city": "Boston"}').text == "Boston: 17C, clear"
    with pytest.raises(ValueError, match="city: is missing"):
        made.invoke("{}")


def test_async_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Client:
        async def __aenter__(self) -> Self:
            return self

        async def __aexit__(self, *_: object) -> None: ...

        async def get(self, url: str) -> Any:
            await anyio.lowlevel.checkpoint()
            asked.append(url)
            return types.SimpleNamespace(text="<html><title>Hello</title></html>")

    stub = types.ModuleType("httpx")
    stub.AsyncClient = Client  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "httpx", stub)
    made = defined(TITLE, "fetch_title")
    assert made.description == "Fetch a URL and return its HTML <title>."
    assert run(made, {"url": "https://example.org"}).text == "Hello"
    assert asked == ["https://example.org"]


def test_governance_metadata() -> None:
    made = defined(DEPLOY, "deploy")
    assert made.profile == RiskProfile(verb="EXECUTE", risk_tier=Tier.HIGH, side_effect=True)
    assert made.invoke({"service": "web"}) is None
    assert run(made, {"service": "web"}).text == "null"


class WeatherTool(BaseTool):
    """The trait's example, in Python."""

    name = "get_weather"
    description = "Get current weather for a city"

    def schema(self) -> ToolSchema:
        return ToolSchema(
            name="get_weather",
            description="Get current weather for a city",
            parameters={
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
            strict=False,
        )

    async def execute(self, args: dict[str, Any], /) -> Any:
        return {"temp": 72, "unit": "F"}


def test_a_tool_that_is_an_object() -> None:
    assert run(WeatherTool(), {"city": "Boston"}) == ToolResult.ok({"temp": 72, "unit": "F"})
    assert run(WeatherTool(), '{"city": "Boston"}').text == '{"temp":72,"unit":"F"}'


AGENT = '''
    from agent import create_agent, tool
    from agent.models import OpenAIChat

    model = OpenAIChat("gpt-4o")

    @tool
    def get_weather(city: str) -> str:
        """Return the current weather for a city."""
        return f"{city}: 17C, clear"

    agent = create_agent(model, tools=[get_weather])
    result = agent("What's the weather in Boston?")

    print(result.response.text)
    print(result.iterations, result.tool_calls_made)
'''

TWO_WAYS = """
    from agent import create_agent

    agent = create_agent(model, tools=[get_weather])
    result = agent("What's the weather in Boston?")
    print(result.response.text)

    from agent import create_async_agent

    async def main():
        agent = create_async_agent(model, tools=[get_weather])
        result = await agent("What's the weather in Boston?")
        print(result.response.text)
"""

SCRIPT = """
turns:
  - calls: [{tool: get_weather, args: {city: Boston}}]
  - say: "It is {{result.get_weather}}."
"""


def test_run_an_agent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """As on the page, but that the key and the model's address come from the environment."""
    with ScriptedModelServer(load_script(SCRIPT)) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        names: dict[str, Any] = {"__name__": "example"}
        exec(compile(textwrap.dedent(AGENT), "example", "exec"), names)
        assert capsys.readouterr().out == "It is Boston: 17C, clear.\n2 1\n"
        exec(compile(textwrap.dedent(TWO_WAYS), "example", "exec"), names)
        anyio.run(names["main"])
        assert capsys.readouterr().out == "It is Boston: 17C, clear.\n" * 2
    result = names["result"]
    assert [m.role for m in result.messages] == ["user", "assistant", "tool", "assistant"]
    assert (result.status, result.pending_approvals, result.run_id) == ("completed", (), None)
