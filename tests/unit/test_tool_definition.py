"""`@tool`, its options, the digest of a definition and the words for people."""

import dataclasses
import inspect
from typing import Any

import pytest

from agent.tools import Definition, FunctionTool, ToolArgumentsError, ToolSchema, tool
from governance.errors import InvalidInputError
from governance.policy.model import RiskProfile, Tier


def pay(to: str, cents: int, tags: list[str] = []) -> str:  # noqa: B006
    """Pay somebody."""
    return f"{to}:{cents}:{tags}"


def test_every_option_reaches_the_definition() -> None:
    made = tool(
        name="pay_out",
        risk_tier="critical",
        verb="FINANCIAL",
        reversibility="irreversible",
        blast_radius="customer",
        cost_class="high",
        side_effect=True,
        scopes=["payments:write"],
        idempotent=True,
        untrusted_output=True,
        timeout=2,
        display="pay {cents} cents to {to}",
        strict=True,
    )(pay)
    assert made.name == "pay_out"
    assert made.profile == RiskProfile(
        verb="FINANCIAL",
        risk_tier=Tier.CRITICAL,
        side_effect=True,
        reversibility="irreversible",
        blast_radius="customer",
        cost_class="high",
        scopes=("payments:write",),
        idempotent=True,
        untrusted_output=True,
    )
    assert made.definition.timeout == 2.0
    assert made.definition.strict


def test_a_bare_tool_is_unprofiled_and_still_the_function() -> None:
    made = tool(pay)
    assert isinstance(made, FunctionTool)
    assert not made.profile.profiled
    assert made("bob", 3, tags=["x"]) == "bob:3:['x']"
    assert made.__name__ == "pay"
    assert inspect.signature(made) == inspect.signature(pay)
    assert tool(pay, verb="READ").profile.verb == "READ"


def test_side_effect_false_is_declared_and_absent_is_not() -> None:
    assert tool(side_effect=False)(pay).profile.side_effect is False
    assert tool(pay).profile.side_effect is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"risk_tier": "extreme"},
            "unknown risk tier `extreme`; use one of: low, medium, high, crit",
        ),
        ({"risk_tier": "HIGH"}, "unknown risk tier `HIGH`"),
        ({"risk_tier": ["low"]}, "unknown risk tier"),
        ({"name": ""}, "malformed tool name: ``"),
        ({"name": "re fund"}, "malformed tool name: `re fund`"),
        ({"name": "a" * 65}, "malformed tool name"),
        ({"name": None}, "malformed tool name"),
        ({"verb": ""}, "tool option `verb` is not a word"),
        ({"verb": 3}, "tool option `verb` is not a word: `3`"),
        ({"blast_radius": b"x"}, "tool option `blast_radius` is not a word"),
        ({"scopes": "payments"}, "tool option `scopes` is not a list"),
        ({"scopes": {"a"}}, "tool option `scopes` is not a list"),
        ({"scopes": ["a", 1]}, "scope is not text: `1`"),
        ({"scopes": [" "]}, "scope is not text"),
        ({"timeout": 0}, "malformed tool timeout: `0`"),
        ({"timeout": -1.5}, "malformed tool timeout"),
        ({"timeout": float("nan")}, "malformed tool timeout"),
        ({"timeout": float("inf")}, "malformed tool timeout"),
        ({"timeout": True}, "malformed tool timeout"),
        ({"timeout": "5"}, "malformed tool timeout"),
        ({"side_effect": "no"}, "tool option `side_effect` is not a yes or no: `no`"),
        ({"side_effect": None}, "tool option `side_effect` is not a yes or no"),
        ({"idempotent": 1}, "tool option `idempotent` is not a yes or no"),
        ({"strict": "yes"}, "tool option `strict` is not a yes or no"),
        ({"display": 5}, "tool option `display` is not text"),
        ({"risk_teir": "low"}, "unknown tool option `risk_teir`; did you mean `risk_tier`"),
        ({"colour": "red"}, "unknown tool option `colour`; use one of: name, risk_tier"),
    ],
    ids=str,
)
def test_a_bad_option_is_refused_at_decoration(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        tool(**options)(pay)
    assert message in str(refused.value)


@pytest.mark.parametrize("given", [len, int, "pay", 3, object()], ids=lambda v: type(v).__name__)
def test_only_functions_are_decorated(given: Any) -> None:
    with pytest.raises(InvalidInputError, match="cannot be made a tool by `@tool`"):
        tool(given)


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(InvalidInputError, match="malformed tool name: `<lambda>`"):
        tool(lambda x: x)
    assert tool(lambda x: x, name="same").invoke({"x": 1}) == 1


def test_invoke_takes_an_object_or_json_text() -> None:
    made = tool(pay)
    assert made.invoke({"to": "bob", "cents": 3}) == "bob:3:[]"
    assert made.invoke('{"to": "bob", "cents": 3}') == "bob:3:[]"
    assert made.execute({"to": "bob", "cents": 3}) == "bob:3:[]"
    with pytest.raises(ToolArgumentsError):
        made.invoke('{"to": "bob"}')


def test_a_default_is_never_shared_between_calls() -> None:
    @tool
    def collect(item: str, into: list[str] = []) -> list[str]:  # noqa: B006
        into.append(item)
        return into

    assert collect.invoke({"item": "a"}) == ["a"]
    assert collect.invoke({"item": "b"}) == ["b"]


def definition(**changes: Any) -> Definition:
    start = Definition(
        name="pay",
        description="Pay.",
        parameters={"type": "object", "properties": {"to": {"type": "string"}}},
        profile=RiskProfile(verb="FINANCIAL", scopes=("a", "b")),
        timeout=5.0,
        display="pay {to}",
    )
    return dataclasses.replace(start, **changes)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "pay2"},
        {"description": "Pay!"},
        {"parameters": {"type": "object", "properties": {"to": {"type": "integer"}}}},
        {"profile": RiskProfile(verb="FINANCIAL", scopes=("a",))},
        {"profile": RiskProfile(verb="READ", scopes=("a", "b"))},
        {"profile": RiskProfile(verb="FINANCIAL", scopes=("a", "b"), side_effect=False)},
        {"timeout": None},
        {"timeout": 6.0},
        {"display": "pay"},
        {"display": None},
        {"strict": True},
    ],
    ids=str,
)
def test_the_digest_changes_with_every_part(change: dict[str, Any]) -> None:
    assert definition().digest == definition().digest
    assert definition(**change).digest != definition().digest


def test_the_digest_does_not_depend_on_where_a_tool_was_made() -> None:
    def other(to: str, cents: int, tags: list[str] = []) -> str:  # noqa: B006
        """Pay somebody."""
        raise NotImplementedError

    assert tool(name="pay")(other).definition == tool(pay).definition


def test_a_definition_cannot_be_changed_from_outside() -> None:
    given: dict[str, Any] = {"type": "object", "properties": {}}
    made = Definition("t", "", given)
    given["properties"]["x"] = {}
    assert made.parameters == {"type": "object", "properties": {}}
    assert made.schema() == ToolSchema("t", "", {"type": "object", "properties": {}})
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.name = "u"  # type: ignore[misc]


def render(display: str | None, arguments: dict[str, Any]) -> str:
    made = tool(display=display)(pay)
    return made.definition.render(made.validate(arguments))


def test_a_call_is_said_in_the_words_of_its_template() -> None:
    given = {"to": "Ada {cents}", "cents": 500, "tags": ["a", "b"]}
    assert render("{{pay}} {cents} cents to {to} {tags}", given) == (
        '{pay} 500 cents to Ada {cents} ["a","b"]'
    )
    assert render("", given) == ""
    assert render(None, given) == 'pay {"cents":500,"tags":["a","b"],"to":"Ada {cents}"}'


def test_a_template_that_lacks_an_argument_falls_back_to_name_and_raw_arguments() -> None:
    assert definition().render(b'{"from":"x"}') == 'pay {"from":"x"}'


@pytest.mark.attack
@pytest.mark.parametrize(
    ("display", "message"),
    [
        ("{to.__class__}", "display template holds more than a name: `to.__class__`"),
        ("{tags[0]}", "holds more than a name"),
        ("{to!r}", "holds more than a name"),
        ("{cents:>1000000000}", "holds more than a name"),
        ("{to:{cents}}", "holds more than a name"),
        ("{}", "holds more than a name"),
        ("{0}", "holds more than a name"),
        ("{to", "malformed display template"),
        ("to}", "malformed display template"),
        ("{amount}", "names no argument of the tool: `amount`; use one of: to, cents, tags"),
    ],
)
def test_a_template_is_text_and_names_nothing_else(display: str, message: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        tool(display=display)(pay)
    assert message in str(refused.value)
