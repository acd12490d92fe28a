"""Secret parameters: the tool gets them, and nobody else ever does."""

import base64
import json
import urllib.parse
from typing import Annotated

import pytest
from agents import Plays, call, calls, person, say, vote
from hypothesis import given, settings
from hypothesis import strategies as st
from traces import files_with, holds, spellings

from agent import DurableAgent, Secret, ToolError, create_agent, tool
from agent.tools import CallContext, Injected, ToolRegistry, ToolResult
from agent.tools.secrets import Veil
from governance import Governance
from governance.assemble import init
from governance.config import Home, environment_secret
from governance.errors import InvalidInputError
from governance.ids import Origin

KEY = 'sk-live "Ünder/cover+7f3k9q'
got: list[str] = []

RULES = """
policy: desk
version: 1
rules:
  - id: all
    match: {tools: ["*"]}
    effect: require_approval
    approval: {quorum: [{role: approver, count: 1}], decide_by: 4h, use_by: 1h}
"""


@pytest.fixture(autouse=True)
def fresh():
    got.clear()


@tool(verb="FINANCIAL", side_effect=True, display="pay {to}")
def pay(to: str, api_key: Annotated[str, Secret()]) -> dict:
    """Pay."""
    got.append(api_key)
    return {"to": to, "sent": f"Bearer {api_key}", api_key: [api_key, {"nested": api_key}]}


def run(given_tool, arguments, secrets):
    import asyncio

    (made,) = ToolRegistry([given_tool], secrets=secrets)
    return asyncio.run(made.run(made.validate(arguments), CallContext()))


def test_the_tool_gets_it_and_the_schema_does_not():
    result = run(pay, {"to": "bob"}, {"api_key": KEY})
    assert got == [KEY]
    assert "api_key" not in json.dumps(pay.schema().to_openai())
    hidden = "[secret api_key]"
    assert result.content == {
        "to": "bob",
        "sent": f"Bearer {hidden}",
        hidden: [hidden, {"nested": hidden}],
    }
    assert KEY not in repr(pay)


def test_a_secret_may_have_a_name_and_is_asked_for_at_each_call():
    keys = iter(["first-key-1", "second-key-2"])

    @tool
    def fetch(token: Annotated[str, Secret("crm")], id: int) -> str:
        """Fetch."""
        return f"{id} {token}"

    def provider(name: str) -> str:
        assert name == "crm"
        return next(keys)

    (made,) = ToolRegistry([fetch], secrets=provider)
    import asyncio

    frozen = made.validate({"id": 1})
    for _ in range(2):
        assert asyncio.run(made.run(frozen, CallContext())).content == "1 [secret crm]"


def test_what_a_tool_raises_is_read_too():
    def fails(how):
        @tool
        def charge(api_key: Annotated[str, Secret()]) -> str:
            """Charge."""
            raise how(api_key)

        return run(charge, {}, {"api_key": KEY}).content

    assert fails(ToolError) == "tool failed: ToolError: [secret api_key]"
    assert fails(lambda key: ToolError("x" * 1_990 + key)).endswith(
        "x[secret ap"
    )  # cut after hiding
    assert fails(ValueError) == "tool failed: ValueError"
    assert not holds(fails(lambda key: type(f"Bad{key}", (Exception,), {})()), KEY)


def test_a_result_that_is_no_json_does_not_quote_it():
    @tool
    def odd(api_key: Annotated[str, Secret()]) -> object:
        """Odd."""
        return {"a": object(), api_key: float("nan")}

    result = run(odd, {}, {"api_key": KEY})
    assert result.is_error
    assert not holds(result.text, KEY)


def test_structured_results_and_injected_values_and_async_tools():
    @tool
    async def later(api_key: Annotated[str, Secret()], db: Injected[str]) -> ToolResult:
        """Later."""
        return ToolResult(api_key, {"source": f"{db}?key={api_key}"}, is_error=True)

    result = run(later.bind(db="db"), {}, {"api_key": KEY})
    assert result.content == "[secret api_key]"
    assert result.metadata == {"source": "db?key=[secret api_key]"}
    assert result.is_error


@pytest.mark.parametrize(
    "spelled",
    [
        lambda key: key,
        lambda key: json.dumps({"k": key}),
        lambda key: json.dumps({"k": key}, ensure_ascii=False),
        repr,
        lambda key: f"https://api.example/?key={urllib.parse.quote_plus(key)}&x",
        lambda key: urllib.parse.quote(key, safe=""),
        lambda key: key.encode().hex(),
        lambda key: base64.b64encode(key.encode()).decode(),
        lambda key: "Basic " + base64.b64encode(f"u:{key}".encode()).decode(),
        lambda key: "Basic " + base64.b64encode(f"us:{key}".encode()).decode(),
        lambda key: "Basic " + base64.b64encode(f"user:{key}:more".encode()).decode(),
        lambda key: base64.urlsafe_b64encode(f"u:{key}".encode()).decode(),
    ],
)
def test_it_is_hidden_in_the_spellings_in_which_it_travels(spelled):
    said = Veil({"api_key": KEY}).text(f"before {spelled(KEY)} after")
    assert said.startswith("before ")
    assert said.endswith(" after")
    assert "[secret api_key]" in said
    assert not holds(said, KEY)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.text(min_size=8, max_size=40), st.binary(max_size=5), st.binary(max_size=5))
def test_no_whole_secret_passes_the_veil(secret, before, after):
    veil = Veil({"k": secret})
    raw = secret.encode("utf-8", "replace")
    coded = base64.b64encode(before + raw + after).decode()
    hidden = veil.text(coded)
    assert coded not in hidden
    assert "[secret k]" in hidden
    assert secret not in veil.text(f"x{secret}y") or secret in "[secret k]"


def test_numbers_that_spell_it_are_hidden():
    assert Veil({"pin": "12345678"}).result(
        ToolResult({"n": 12345678, "m": 7, "b": True})
    ).content == {
        "n": "[secret pin]",
        "m": 7,
        "b": True,
    }


@pytest.mark.parametrize(
    ("secrets", "problem"),
    [
        ({}, "there is no secret `api_key`; give it with `secrets=`"),
        ({"api_key": "short"}, "no text of 8 characters or more"),
        ({"api_key": 12345678}, "no text of 8 characters or more"),
        ({"api_key": None}, "there is no secret"),
    ],
)
def test_a_secret_that_is_missing_is_found_when_the_agent_is_built(secrets, problem):
    with pytest.raises(InvalidInputError, match=problem):
        create_agent(Plays(say()), [pay], secrets=secrets)
    if not secrets:
        with pytest.raises(InvalidInputError, match=problem):
            create_agent(Plays(say()), [pay])


def test_a_provider_that_fails_refuses_the_call_and_is_not_quoted():
    def provider(name: str) -> str:
        raise RuntimeError(f"vault said {KEY}")

    result = run(pay, {"to": "bob"}, provider)
    assert result.is_error
    assert result.content == "secret `api_key` could not be had: RuntimeError"
    assert got == []


@pytest.mark.parametrize("annotation", [int, bytes, "list[str]"], ids=str)
def test_a_secret_is_text(annotation):
    with pytest.raises(InvalidInputError, match="is secret and no `str`"):

        @tool
        def bad(key: Annotated[annotation, Secret()]) -> str:
            """Bad."""
            return ""


def test_a_secret_inside_another_type_is_refused():
    with pytest.raises(InvalidInputError, match="stands inside another type"):

        @tool
        def bad(keys: list[Annotated[str, Secret()]]) -> str:
            """Bad."""
            return ""


def test_called_by_hand_it_is_bound():
    with pytest.raises(InvalidInputError, match="secret `api_key` of tool `pay` is not given"):
        pay.invoke({"to": "bob"})
    assert pay.bind(api_key=KEY).invoke({"to": "bob"})["to"] == "bob"


def test_the_environment_may_hold_it(monkeypatch):
    monkeypatch.setenv("GOVERNANCE_SECRET_API_KEY", KEY)
    assert run(pay, {"to": "bob"}, environment_secret).content["to"] == "bob"
    assert got == [KEY]
    monkeypatch.delenv("GOVERNANCE_SECRET_API_KEY")
    assert run(pay, {"to": "bob"}, environment_secret).content.startswith("there is no secret")


def test_a_model_that_sends_one_is_refused_and_what_it_sent_is_not_repeated():
    sent = "sk-invented-by-the-model"
    model = Plays(calls(call("pay", to="bob", api_key=sent)), say())
    result = create_agent(model, [pay], secrets={"api_key": KEY})("go")
    assert result.status == "completed"
    (told,) = model.results()
    assert "unknown argument `api_key`; known: to" in told
    assert sent not in told
    assert got == []


def test_a_secret_is_nowhere_in_a_governed_run(tmp_path):
    """No entry, no payload, no card, no export, no file, nothing the model reads."""
    home = tmp_path / "home"
    init(Home(home, home / "checkpoint"), Origin("test/secrets"))
    model = Plays(calls(call("pay", to="bob")), say("done"))
    with Governance.open(home, policies={"desk.yaml": RULES}) as gov:
        agent = DurableAgent(model, [pay], governance=gov, name="desk", secrets={"api_key": KEY})
        (held,) = agent.run("go", run_id="r").pending_approvals
        assert "api_key" not in held.arguments
        vote(gov, person(gov), held.request)
        assert agent.resume("r").status == "completed"
        assert got == [KEY]
        records = gov.store.read(lambda reader: reader.records())
        content = b"".join(p.content for r in records for p in r.payloads.values())
        content += b"".join(r.entry.raw for r in records)
    assert b"[secret api_key]" in content
    assert not holds(content, KEY)
    assert not holds(repr(model.asked) + repr(model.tools), KEY)
    assert files_with(tmp_path, KEY) == []
    assert all(len(form) >= 8 for form in spellings(KEY))
