"""What a model is told about a function's arguments. Every annotation in this file is postponed."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, Union

import pytest
import typing_extensions
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ConfigDict, Field

from agent.tools import Injected, ToolSchema, tool
from governance.canonical import CanonicalError
from governance.errors import InvalidInputError

if TYPE_CHECKING:
    from somewhere_else import Ghost


class Currency(StrEnum):
    EUR = "EUR"
    USD = "USD"


class Item(BaseModel):
    """One line of an order."""

    sku: str
    title: str = "unnamed"
    tags: list[str] = Field(default_factory=list)


class Node(BaseModel):
    value: int
    children: list[Node] = []


@dataclass
class Address:
    street: str
    zip_code: str | None = None
    lines: list[Item] = field(default_factory=list)


class Filters(typing_extensions.TypedDict):
    status: Literal["open", "closed"]
    page: typing_extensions.NotRequired[int]


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


def parameters(function: Any) -> dict[str, Any]:
    schema = dict(tool(function).schema().parameters)
    Draft202012Validator.check_schema(schema)
    return schema


def one(function: Any) -> Any:
    """The schema of the only argument."""
    (sub,) = parameters(function)["properties"].values()
    return sub


def test_name_description_and_order_come_from_the_function() -> None:
    @tool
    def transfer(to: str, amount: int, memo: str = "") -> None:
        """Send money.

        Only to known accounts.
        """

    schema = transfer.schema()
    assert (schema.name, schema.strict) == ("transfer", False)
    assert schema.description == "Send money.\n\nOnly to known accounts."
    assert list(schema.parameters["properties"]) == ["to", "amount", "memo"]
    assert schema.parameters == {
        "type": "object",
        "properties": {
            "to": {"type": "string"},
            "amount": {"type": "integer"},
            "memo": {"type": "string", "default": ""},
        },
        "required": ["to", "amount"],
        "additionalProperties": False,
    }


def takes_str(x: str): ...
def takes_int(x: int): ...
def takes_float(x: float): ...
def takes_bool(x: bool): ...
def takes_list(x: list): ...
def takes_dict(x: dict): ...
def takes_texts(x: list[str]): ...
def takes_counts(x: dict[str, int]): ...
def takes_optional(x: Optional[int]): ...  # noqa: UP045
def takes_union(x: Union[int, str]): ...  # noqa: UP007
def takes_bar(x: int | None): ...
def takes_literal(x: Literal["a", "b"]): ...
def takes_limited(x: Annotated[int, Field(ge=0, le=9, description="a digit")]): ...
def takes_any(x: Any): ...
def takes_untyped(x): ...


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (takes_str, {"type": "string"}),
        (takes_int, {"type": "integer"}),
        (takes_float, {"type": "number"}),
        (takes_bool, {"type": "boolean"}),
        (takes_list, {"type": "array", "items": {}}),
        (takes_dict, {"type": "object", "additionalProperties": True}),
        (takes_texts, {"type": "array", "items": {"type": "string"}}),
        (takes_counts, {"type": "object", "additionalProperties": {"type": "integer"}}),
        (takes_optional, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (takes_union, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (takes_bar, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (takes_literal, {"type": "string", "enum": ["a", "b"]}),
        (takes_limited, {"type": "integer", "minimum": 0, "maximum": 9, "description": "a digit"}),
        (takes_any, {}),
        (takes_untyped, {}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_annotations_become_json_schema(function: Any, expected: Any) -> None:
    assert one(function) == expected
    assert parameters(function)["required"] == ["x"]


def test_models_enums_dataclasses_and_typed_dicts_are_described_and_closed() -> None:
    def order(item: Item, to: Address, currency: Currency, filters: Filters): ...

    schema = parameters(order)
    defs = schema["$defs"]
    assert schema["properties"]["item"] == {"$ref": "#/$defs/Item"}
    assert defs["Item"]["description"] == "One line of an order."
    assert defs["Item"]["properties"]["title"] == {"type": "string", "default": "unnamed"}
    assert defs["Currency"] == {"type": "string", "enum": ["EUR", "USD"]}
    assert defs["Filters"]["required"] == ["status"]
    for name in ("Item", "Address", "Filters"):
        assert defs[name]["additionalProperties"] is False, name


def test_no_pydantic_titles_but_a_field_called_title_stays() -> None:
    def order(item: Item, title: str): ...

    schema = parameters(order)
    assert "title" not in schema
    assert "title" not in schema["$defs"]["Item"]
    assert "title" in schema["$defs"]["Item"]["properties"]
    assert schema["properties"]["title"] == {"type": "string"}


def test_a_type_may_contain_itself() -> None:
    @tool
    def walk(tree: Node) -> int:
        return len(tree.children)

    assert walk.invoke({"tree": {"value": 1, "children": [{"value": 2}, {"value": 3}]}}) == 2


def test_defaults_are_recorded_in_json_form() -> None:
    def search(  # noqa: PLR0917
        query: str,
        limit: int = 10,
        near: Address = Address("here"),  # noqa: B008
        currency: Currency = Currency.EUR,
        since: str | None = None,
        tags: list[str] = [],  # noqa: B006
    ): ...

    schema = parameters(search)
    defaults = {k: v["default"] for k, v in schema["properties"].items() if "default" in v}
    assert defaults == {
        "limit": 10,
        "near": {"street": "here", "zip_code": None, "lines": []},
        "currency": "EUR",
        "since": None,
        "tags": [],
    }
    assert schema["required"] == ["query"]


def test_names_local_to_a_function_are_found() -> None:
    class Local(BaseModel):
        n: int

    @tool
    def bare(x: Local) -> int:
        return x.n

    @tool(verb="READ")
    def profiled(x: Local) -> int:
        return x.n

    assert bare.invoke({"x": {"n": 4}}) == profiled.invoke({"x": {"n": 4}}) == 4


def test_names_local_to_a_class_are_found() -> None:
    class Desk:
        class Ticket(BaseModel):
            id: int

        @tool
        def close(self, ticket: Ticket) -> int:
            return ticket.id

    assert Desk().close.invoke({"ticket": {"id": 7}}) == 7


def test_a_return_annotation_may_name_anything() -> None:
    @tool
    def haunt(x: int) -> Ghost:
        return x

    assert haunt.invoke({"x": 1}) == 1


def test_a_wrapped_function_keeps_its_own_signature() -> None:
    def logged(function):
        @functools.wraps(function)
        def inner(*args, **kwargs):
            return function(*args, **kwargs)

        return inner

    @tool
    @logged
    def lookup(item: Item, n: int = 2) -> str:
        """Look up."""
        return item.sku * n

    assert lookup.name == "lookup"
    assert lookup.description == "Look up."
    assert lookup.invoke({"item": {"sku": "a"}}) == "aa"


def takes_ghost(x: Ghost): ...
def takes_rest(*args: int): ...
def takes_options(**kwargs: int): ...
def takes_positional(x: int, /): ...
def takes_object(x: Item | Draft202012Validator): ...
def takes_set(x: set[int]): ...
def takes_open(x: Open): ...
def takes_bad_default(x: int = "no"): ...
def takes_implicit_none(x: int = None): ...  # noqa: RUF013
def takes_sentinel(x: Any = object()): ...  # noqa: B008
def takes_nan(x: float = float("nan")): ...
def takes_hidden_default(x: Annotated[int, Field(default=3)]): ...
def takes_alias(x: Annotated[int, Field(alias="y")]): ...
def takes_nested_injection(x: list[Injected[int]]): ...
def takes_syntax_error(x: "1 +"): ...  # noqa: F722


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            takes_ghost,
            "annotation of parameter `x` of tool `takes_ghost` cannot be resolved: `Ghost`",
        ),
        (takes_rest, "parameter `args` of tool `takes_rest` takes anything"),
        (takes_options, "parameter `kwargs` of tool `takes_options` takes anything"),
        (takes_positional, "parameter `x` of tool `takes_positional` is positional only"),
        (takes_object, "annotation of parameter `x` of tool `takes_object` has no schema"),
        (takes_set, "parameter `x` of tool `takes_set`: a set has no order to freeze"),
        (takes_open, "parameter `x` of tool `takes_open`: a model lets fields pass"),
        (takes_bad_default, "default of parameter `x` of tool `takes_bad_default` does not fit"),
        (takes_implicit_none, "write `X | None` for a default of None"),
        (takes_sentinel, "default of parameter `x` of tool `takes_sentinel` does not fit"),
        (takes_nan, "default of parameter `x` of tool `takes_nan` does not fit"),
        (
            takes_hidden_default,
            "parameter `x` of tool `takes_hidden_default` hides an alias or a default in `Field`",
        ),
        (takes_alias, "parameter `x` of tool `takes_alias` hides an alias or a default in `Field`"),
        (takes_nested_injection, "`Injected` stands inside another type"),
        (takes_syntax_error, "cannot be resolved"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_no_schema_can_say_is_refused_at_decoration(function: Any, message: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        tool(function)
    assert message in str(refused.value)


def test_openai_form() -> None:
    @tool
    def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    assert add.schema().to_openai() == {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add.",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 1}},
                "required": ["a"],
                "additionalProperties": False,
            },
        },
    }


def test_strict_form_requires_everything_and_lets_null_stand_for_a_default() -> None:
    class Where(BaseModel):
        city: str
        country: str | None = None

    @tool(strict=True)
    def weather(
        where: Annotated[Where, Field(description="the place")],
        days: Annotated[int, Field(description="how many", ge=1)] = 3,
        unit: Literal["C", "F"] | None = None,
    ) -> int:
        """Forecast."""
        return days

    function = weather.schema().to_openai()["function"]
    assert function["strict"] is True
    assert function["parameters"] == {
        "type": "object",
        "properties": {
            "where": {"anyOf": [{"$ref": "#/$defs/Where"}], "description": "the place"},
            "days": {
                "anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}],
                "description": "how many (null: 3)",
            },
            "unit": {"anyOf": [{"type": "string", "enum": ["C", "F"]}, {"type": "null"}]},
        },
        "required": ["where", "days", "unit"],
        "additionalProperties": False,
        "$defs": {
            "Where": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "country": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                },
                "required": ["city", "country"],
                "additionalProperties": False,
            }
        },
    }
    given = {"where": {"city": "Rome", "country": None}, "days": None, "unit": None}
    assert weather.validate(given) == (
        b'{"days":3,"unit":null,"where":{"city":"Rome","country":null}}'
    )
    assert weather.schema().parameters["required"] == ["where"]  # the natural form stays for policy


class Hurried(BaseModel):
    speed: int = 3


def free_object(x: dict[str, int]): ...
def untyped(x): ...
def short_text(x: Annotated[str, Field(max_length=3)]): ...
def address(x: Annotated[str, Field(json_schema_extra={"format": "uri"})]): ...
def tuple_of_two(x: tuple[int, str]): ...
def nested_default(x: Hurried): ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (free_object, "an object with free keys is not supported"),
        (untyped, "a value without a type is not supported"),
        (short_text, "keyword `maxLength` is not supported"),
        (address, "format `uri` is not supported"),
        (tuple_of_two, "keyword `prefixItems` is not supported"),
        (nested_default, "nested field `speed` is optional but not nullable"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_strict_refuses_what_a_provider_would_not_enforce(function: Any, message: str) -> None:
    tool(function)
    with pytest.raises(InvalidInputError, match="has no strict schema") as refused:
        tool(strict=True)(function)
    assert message in str(refused.value)


def test_a_schema_belongs_to_nobody_else() -> None:
    given: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
    schema = ToolSchema("t", "", given)
    given["properties"]["a"]["type"] = "integer"
    schema.to_openai()["function"]["parameters"]["properties"].clear()
    assert schema.parameters["properties"] == {"a": {"type": "string"}}


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "a/b", "a\n", "ä", None, 3])
def test_a_name_no_provider_takes_is_refused(name: Any) -> None:
    with pytest.raises(InvalidInputError, match="malformed tool name"):
        ToolSchema(name, "", {"type": "object"})


def test_a_schema_is_json_and_describes_an_object() -> None:
    with pytest.raises(InvalidInputError, match="does not describe an object"):
        ToolSchema("t", "", {"type": "string"})
    with pytest.raises(CanonicalError):
        ToolSchema("t", "", {"type": "object", "default": float("inf")})


def test_an_enum_of_numbers_reads_back() -> None:
    class Level(Enum):
        LOW = 1
        HIGH = 2.5

    @tool
    def set_level(level: Level) -> Level:
        return level

    assert set_level.invoke({"level": 2.5}) is Level.HIGH


def test_a_signature_that_cannot_be_read_is_refused() -> None:
    def odd(x: int): ...

    odd.__signature__ = 3  # type: ignore[attr-defined]
    with pytest.raises(InvalidInputError, match="signature of tool `odd` cannot be read"):
        tool(odd)


def test_the_number_of_parameters_is_bounded() -> None:
    def wide(count: int) -> Any:
        namespace: dict[str, Any] = {}
        names = ", ".join(f"p{i}: int" for i in range(count))
        exec(f"def wide({names}): ...", namespace)
        return namespace["wide"]

    assert len(parameters(wide(128))["properties"]) == 128
    with pytest.raises(InvalidInputError, match="takes more than 128 parameters"):
        tool(wide(129))
