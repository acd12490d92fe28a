"""Tools that are objects: anything with a name, a description, a schema and `execute`."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from agent.tools import (
    BaseTool,
    CallContext,
    RegisteredTool,
    Tool,
    ToolArgumentsError,
    ToolError,
    ToolRegistry,
    ToolResult,
    ToolSchema,
    tool,
)
from governance.canonical import thaw
from governance.errors import InvalidInputError
from governance.policy.model import RiskProfile, Tier

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 1, "default": 3},
        "unit": {"enum": ["C", "F"]},
        "places": {"type": "array", "items": {"$ref": "#/$defs/place"}},
    },
    "required": ["city"],
    "$defs": {"place": {"type": "object", "additionalProperties": False, "required": ["id"],
                        "properties": {"id": {"type": "integer"}}}},
}  # fmt: skip


class Forecast:
    """Only what a tool must have, and no base class."""

    name = "forecast"
    description = "Forecast."

    def __init__(self, parameters: Any = None, **attributes: Any) -> None:
        self.parameters = PARAMETERS if parameters is None else parameters
        self.strict = False
        for key, value in attributes.items():
            setattr(self, key, value)

    def schema(self) -> ToolSchema:
        return ToolSchema("forecast", "Forecast.", self.parameters, self.strict)

    def execute(self, args: dict[str, Any]) -> Any:
        return args


def registered(given: Any) -> RegisteredTool:
    (made,) = ToolRegistry([given])
    return made


def run(given: Any, arguments: Any) -> ToolResult:
    made = registered(given)
    return anyio.run(made.run, made.validate(arguments), CallContext())


def test_an_object_with_execute_alone_works() -> None:
    assert not isinstance(Forecast(), Tool)
    assert run(Forecast(), {"city": "Rome"}).content == {"city": "Rome", "days": 3}


def test_function_tools_and_base_tools_follow_the_protocol() -> None:
    @tool
    def f(x: int) -> int:
        return x

    class Small(BaseTool):
        name = "small"

        def schema(self) -> ToolSchema:
            return ToolSchema(self.name, self.description, {"type": "object"})

        def execute(self, args: dict[str, Any], /) -> Any:
            return 1

    assert isinstance(f, Tool)
    small: Tool = Small()
    assert isinstance(small, Tool)
    assert small.execute_structured({}) == ToolResult.ok(1)
    assert run(small, {}) == ToolResult.ok(1)


def test_base_tool_wraps_async_execute_too() -> None:
    class Slow(BaseTool):
        name = "slow"

        def schema(self) -> ToolSchema:
            return ToolSchema("slow", "", {"type": "object"})

        async def execute(self, args: dict[str, Any], /) -> Any:
            await anyio.lowlevel.checkpoint()
            return b"no json"

    result = run(Slow(), {})
    assert result.is_error
    assert "a bytes is not a JSON value" in result.text


def test_structured_answers_are_preferred() -> None:
    class Rich(Forecast):
        async def execute_structured(self, args: dict[str, Any]) -> ToolResult:
            return ToolResult(args["city"], {"source": "sky", "count": 1})

    assert run(Rich(), {"city": "Rome"}) == ToolResult("Rome", {"source": "sky", "count": 1})


def test_optional_attributes_become_part_of_the_definition() -> None:
    profile = RiskProfile(verb="READ", risk_tier=Tier.LOW)
    made = registered(Forecast(profile=profile, timeout=2, display="weather in {city} as {unit}"))
    assert (made.definition.profile, made.definition.timeout) == (profile, 2.0)
    assert made.render(b'{"city":"Rome","unit":"C"}') == "weather in Rome as C"
    assert made.render(b'{"city":"Rome"}') == 'forecast {"city":"Rome"}'
    assert made.definition.digest != registered(Forecast()).definition.digest
    assert not registered(Forecast()).definition.profile.profiled


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"city": 3}, "city: should be a text, got the number 3"),
        ({"days": True}, "days: should be an integer, got true"),
        ({"days": "3"}, 'days: should be an integer, got the text "3"'),
        ({"days": 0}, "days: does not meet `minimum: 1`, got the number 0"),
        ({"unit": "K"}, 'unit: does not meet `enum: ["C","F"]`, got the text "K"'),
        ({"country": "IT"}, "unknown argument `country`; known: city, days, unit, places"),
        ({"places": [{}]}, "places[0].id: is missing"),
        ({"places": [{"id": 1, "x": 2}]}, "unknown argument `places[0].x`; known: id"),
    ],
)
def test_arguments_are_checked_against_the_schema(change: Any, problem: str) -> None:
    with pytest.raises(ToolArgumentsError) as refused:
        registered(Forecast()).validate({"city": "Rome"} | change)
    assert refused.value.problems == (problem,)


def test_a_missing_argument_is_named() -> None:
    with pytest.raises(ValueError, match="city: is missing"):
        registered(Forecast()).validate("{}")


def test_extra_arguments_pass_only_where_the_schema_says_so() -> None:
    free = registered(Forecast(PARAMETERS | {"additionalProperties": True}))
    assert thaw(free.validate({"city": "a", "x": 1})) == {"city": "a", "days": 3, "x": 1}
    assert registered(Forecast()).schema.parameters["additionalProperties"] is False
    named = registered(
        Forecast({"type": "object", "patternProperties": {"^x_": {"type": "integer"}}})
    )
    assert named.validate({"x_a": 1}) == b'{"x_a":1}'
    for wrong in ({"y": 1}, {"x_a": "1"}):
        with pytest.raises(ToolArgumentsError):
            named.validate(wrong)


def test_the_object_gets_a_copy_of_its_own() -> None:
    class Greedy(Forecast):
        def execute(self, args: dict[str, Any]) -> Any:
            args["places"].clear()
            return "done"

    made = registered(Greedy())
    frozen = made.validate({"city": "a", "places": [{"id": 1}]})
    anyio.run(made.run, frozen, CallContext())
    assert thaw(frozen)["places"] == [{"id": 1}]


def test_an_object_that_raises_gives_an_error_result() -> None:
    class Broken(Forecast):
        def execute(self, args: dict[str, Any]) -> Any:
            raise RuntimeError("password=hunter2")

    class Talking(Forecast):
        def execute(self, args: dict[str, Any]) -> Any:
            raise ToolError("no such city")

    assert run(Broken(), {"city": "a"}).text == "tool failed: RuntimeError"
    assert run(Talking(), {"city": "a"}).text == "tool failed: ToolError: no such city"


def test_strict_objects_take_null_for_a_default() -> None:
    made = registered(Forecast({
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}},
        "required": ["city"],
    }, strict=True))  # fmt: skip
    assert made.schema.to_openai()["function"]["parameters"]["required"] == ["city", "days"]
    assert made.validate({"city": "a", "days": None}) == b'{"city":"a","days":3}'


def ref(target: str) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"$ref": target}}}


@pytest.mark.attack
@pytest.mark.parametrize(
    "target", ["http://127.0.0.1:1/x.json", "file:///etc/passwd", "other.json#/a"]
)
def test_a_schema_fetches_nothing(target: str) -> None:
    with pytest.raises(InvalidInputError, match="refers to what it does not hold"):
        ToolRegistry([Forecast(ref(target))])


def test_a_reference_to_nowhere_is_refused() -> None:
    with pytest.raises(
        InvalidInputError, match="refers to what it does not hold: `#/\\$defs/none`"
    ):
        ToolRegistry([Forecast(ref("#/$defs/none"))])


def test_a_reference_that_never_ends_is_a_no() -> None:
    endless = ref("#/$defs/a") | {"$defs": {"a": {"$ref": "#/$defs/a"}}}
    with pytest.raises(ToolArgumentsError, match="arguments cannot be checked: RecursionError"):
        registered(Forecast(endless)).validate({"a": 1})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Forecast({"type": "object", "properties": []}), "is no JSON Schema"),
        (Forecast({"type": "object", "required": "city"}), "is no JSON Schema"),
        (Forecast({"type": "array"}), "does not describe an object"),
        (Forecast(name="other"), "tool `forecast` and its schema differ in name or description"),
        (Forecast(description="other"), "differ in name or description"),
        (Forecast(profile={"verb": "READ"}), "profile of tool `forecast` is not a risk profile"),
        (Forecast(timeout=0), "malformed tool timeout"),
        (Forecast(display="{city.x}"), "holds more than a name"),
        (Forecast(display=3), "display template is not text"),
        (Forecast(execute=None), "tool `forecast` cannot be executed; give it a method"),
        (Forecast(schema=None), "a Forecast is not a tool; give it `name`"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_object_that_is_no_proper_tool_is_refused(given: Any, message: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        ToolRegistry([given])
    assert message in str(refused.value)
